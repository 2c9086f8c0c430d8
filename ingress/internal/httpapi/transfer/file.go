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

// filePolicy is the Content-Security-Policy of a file. A file with this policy, if shown in a
// browser, cannot run scripts, load resources or access cookies.
const filePolicy = "sandbox; default-src 'none'"

// FileVaries is the Vary header of a response that contains a file.
const FileVaries = "Cookie, Authorization, X-Api-Key, X-Organization-Id"

// SendFile responds with a file or with the requested range of it. The caller must release the slot
// of the download. The reader content must be at its beginning. If reading fails before anything
// was sent, the response is an error. The argument caching is the value of the header
// Cache-Control.
func SendFile(c *gin.Context, file domain.File, caching string, content io.ReadSeeker, from *Slot, permit httpx.SessionCheck) {
	send(c, file, content, from, permit, func(header http.Header) {
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", caching)
		header.Set("Vary", FileVaries)
	})
}

// SendLinked works like SendFile, for a request that needs no credential. Pages of any origin may
// show the file.
func SendLinked(c *gin.Context, file domain.File, caching string, content io.ReadSeeker, from *Slot) {
	send(c, file, content, from, httpx.SessionCheck{}, func(header http.Header) {
		header.Set("Cross-Origin-Resource-Policy", "cross-origin")
		header.Set("Cache-Control", caching)
	})
}

// send responds with a file, or with an error. It supports conditional requests and single ranges.
// The function share sets the headers that determine who may cache and embed the response.
func send(c *gin.Context, file domain.File, content io.ReadSeeker, from *Slot, permit httpx.SessionCheck, share func(http.Header)) {
	header := c.Writer.Header()
	before := header.Clone()
	describe(header, file)
	share(header)

	recorder := &errorRecorder{ReadSeeker: content}
	to := &download{ResponseWriter: c.Writer, from: from, permit: permit}
	http.ServeContent(to, byteRange(c.Request), "", time.Time{}, recorder)

	err := recorder.err
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
	if !c.Writer.Written() { // nothing was sent, so the error response must not have the headers of the file
		clear(header)
		maps.Copy(header, before)
	}

	httpx.Fail(c, err)
}

// fileTypes maps the declared type of a file to the Content-Type of the response and to whether
// browsers may show the file. Files of other types are sent as application/octet-stream.
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

// describe sets the headers that describe a file. The type is the declared type only if it is in
// fileTypes, because a browser could execute code in a file with a wrong type.
func describe(header http.Header, file domain.File) {
	media, _, err := mime.ParseMediaType(file.MIMEType)
	kind, known := fileTypes[media]
	if err != nil || !known {
		kind.sent, kind.inline = "application/octet-stream", false
	}

	header.Set("Content-Type", kind.sent)
	header.Set("Content-Disposition", disposition(kind.inline, file.Name))
	header.Set("Content-Security-Policy", filePolicy)
	header.Set("ETag", `"`+file.SHA256+`"`)
}

// singleRange matches a single range of bytes. It limits the number of digits, because numbers with
// more digits exceed the size of any file.
var singleRange = regexp.MustCompile(`^bytes=([0-9]{1,18}-([0-9]{1,18})?|-0{0,8}[1-9][0-9]{0,17})$`)

// byteRange returns a request that has only the headers that apply to a file: If-None-Match, and a
// single Range with its If-Range. It ignores lists of ranges and malformed ranges, as RFC 9110
// allows; the response is then the whole file. The request has no body and no URL.
func byteRange(req *http.Request) *http.Request {
	header := http.Header{}
	if tags := req.Header.Values("If-None-Match"); len(tags) > 0 {
		header.Set("If-None-Match", strings.Join(tags, ", "))
	}
	ranges, ifRange := req.Header.Values("Range"), req.Header.Values("If-Range")
	if len(ranges) == 1 && len(ifRange) <= 1 && singleRange.MatchString(ranges[0]) {
		header["Range"], header["If-Range"] = ranges, ifRange
	}
	return &http.Request{Method: req.Method, Header: header}
}

// errorRecorder records an error of the reader, because http.ServeContent does not return it.
// io.EOF is no error.
type errorRecorder struct {
	io.ReadSeeker
	err error
}

func (n *errorRecorder) Read(p []byte) (int, error) {
	count, err := n.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return count, err
}

func (n *errorRecorder) Seek(offset int64, whence int) (int64, error) {
	at, err := n.ReadSeeker.Seek(offset, whence)
	if err != nil {
		n.err = err
	}
	return at, err
}
