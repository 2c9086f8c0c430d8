package transfer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
)

const // What is shown by itself runs nothing, loads nothing and knows no cookie; nobody else's page may show it.
filePolicy = "sandbox; default-src 'none'"

// FileVaries lists the headers on which the answer with a file depends.
const FileVaries = "Cookie, Authorization, X-Api-Key, X-Organization-Id"

// SendFile answers with a file, or with the part of it that was asked for.
func SendFile(c *gin.Context, file domain.File, caching string, content io.ReadSeeker, from *Slot, may httpx.Permit) {
	header := c.Writer.Header()
	before := header.Clone()
	describe(header, file, caching)
	noted := &noting{ReadSeeker: content}
	to := &download{ResponseWriter: c.Writer, from: from, may: may}
	http.ServeContent(to, byteRange(c.Request), "", time.Time{}, noted)
	err := noted.err
	if err == nil {
		err = to.err
	}
	if to.status == http.StatusRequestedRangeNotSatisfiable {
		before.Set("Content-Range", fmt.Sprintf("bytes */%d", file.Bytes))
		err = apierr.New(apierr.RangeNotSatisfiable, "the range is beyond the file's %d bytes", file.Bytes)
	}
	if err == nil {
		return
	}
	if !c.Writer.Written() { // nothing of the file was sent, so nothing is said of it
		clear(header)
		maps.Copy(header, before)
	}
	httpx.Fail(c, err)
}

// fileTypes are the types that files are sent as, by what they say to be; of all others browsers learn nothing but
// that they are bytes. What may be shown in a browser's window is inline.
var fileTypes = map[string]struct {
	sent   string
	inline bool
}{
	"image/png":        {"image/png", true},
	"image/jpeg":       {"image/jpeg", true},
	"image/gif":        {"image/gif", true},
	"image/webp":       {"image/webp", true},
	"text/plain":       {"text/plain; charset=utf-8", false},
	"text/csv":         {"text/csv; charset=utf-8", false},
	"application/json": {"application/json", false},
	"application/pdf":  {"application/pdf", false},
}

// describe writes the headers of a file.
func describe(header http.Header, file domain.File, caching string) {
	media, _, err := mime.ParseMediaType(file.MIMEType)
	kind, known := fileTypes[media]
	if err != nil || !known {
		kind.sent, kind.inline = "application/octet-stream", false
	}
	header.Set("Content-Type", kind.sent)
	header.Set("Content-Disposition", disposition(kind.inline, file.Name))
	header.Set("Content-Security-Policy", filePolicy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", caching)
	header.Set("Vary", FileVaries)
	header.Set("ETag", `"`+file.SHA256+`"`)
}

// oneRange is a range of bytes that there may be. Numbers of more digits are none that a file has.
var oneRange = regexp.MustCompile(`^bytes=([0-9]{1,18}-([0-9]{1,18})?|-0{0,8}[1-9][0-9]{0,17})$`)

// byteRange is what counts of a request for a file: one range of bytes, and which content the reader has already. Lists
// of ranges and what is no range are passed over, as they may be: the answer is the whole file.
func byteRange(req *http.Request) *http.Request {
	header := http.Header{}
	if tags := req.Header.Values("If-None-Match"); len(tags) > 0 {
		header.Set("If-None-Match", strings.Join(tags, ", "))
	}
	ranges, held := req.Header.Values("Range"), req.Header.Values("If-Range")
	if len(ranges) == 1 && len(held) <= 1 && oneRange.MatchString(ranges[0]) {
		header["Range"], header["If-Range"] = ranges, held
	}
	return &http.Request{Method: req.Method, Header: header}
}

// noting notes why content could not be read, which http.ServeContent keeps to itself.
type noting struct {
	io.ReadSeeker
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	count, err := n.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return count, err
}

func (n *noting) Seek(offset int64, whence int) (int64, error) {
	at, err := n.ReadSeeker.Seek(offset, whence)
	if err != nil {
		n.err = err
	}
	return at, err
}
