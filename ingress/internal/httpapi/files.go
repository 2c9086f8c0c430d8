package httpapi

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

	"parley/ingress/internal/stream"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
)

const (
	// For a client to take the next piece of a file. The server's own limit would cut large files on slow lines.
	pieceTime = time.Minute

	// Files that may be on their way at an ingress at once: each holds a part of its content in memory.
	filesPerCredential   = 64
	filesPerOrganization = 128
	filesAtOnce          = 512
	allFiles             = "files" // the seat that every download takes

	// What is shown by itself runs nothing, loads nothing and knows no cookie; nobody else's page may show it.
	filePolicy = "sandbox; default-src 'none'"
	// The content of an id never changes; what may change is who may see it.
	fileCaching = "private, max-age=3600, immutable, no-transform"
	fileVaries  = "Cookie, Authorization, X-Api-Key, X-Organization-Id"
)

// getFile is GET /api/files?id=: the content of a file that a run has made, for whoever may see the run.
func (a *api) getFile(c *gin.Context) {
	fileID, err := requiredID(c, id.File)
	if err != nil {
		fail(c, err)
		return
	}
	seats, err := a.takeDownload(caller(c))
	if err != nil {
		fail(c, err)
		return
	}
	defer a.seats.Leave(seats...)
	file, content, err := a.openFile(c, fileID)
	if err != nil {
		fail(c, err)
		return
	}
	defer func() { _ = content.Close() }() // nothing was written to it
	sendFile(c, file, content, a.permit(c))
}

// takeDownload counts the caller's download, or refuses it. The seats must be left at its end.
func (a *api) takeDownload(who domain.Caller) ([]stream.Seat, error) {
	seats := []stream.Seat{
		{Name: "file credential:" + who.Credential, Most: filesPerCredential},
		{Name: "file organization:" + who.OrganizationID, Most: filesPerOrganization},
		{Name: allFiles, Most: filesAtOnce},
	}
	switch full := a.seats.Take(seats...); {
	case full == nil:
		return seats, nil
	case full.Name == seats[0].Name:
		return nil, rateLimited(seatWait, "this credential is reading too many files at once")
	case full.Name == seats[1].Name:
		return nil, rateLimited(seatWait, "this organization is reading too many files at once")
	}
	busy := apierr.New(apierr.Overloaded, "too many files are being read at once")
	busy.RetryAfter = seatWait
	return nil, busy
}

// openFile opens a file whose run the caller may read. Of others there is none, and none of an erased run.
func (a *api) openFile(c *gin.Context, fileID string) (file domain.File, content io.ReadSeekCloser, err error) {
	file, content, err = a.Store.OpenFile(c.Request.Context(), caller(c).OrganizationID, fileID)
	if err != nil {
		return file, nil, err
	}
	run, err := a.findRun(c, file.RunID)
	if err == nil && run.Erased {
		err = apierr.New(apierr.NotFound, "no such resource")
	}
	if err != nil {
		_ = content.Close() // as above
		return file, nil, err
	}
	return file, content, nil
}

// sendFile answers with a file, or with the part of it that was asked for.
func sendFile(c *gin.Context, file domain.File, content io.ReadSeeker, may permit) {
	header := c.Writer.Header()
	before := header.Clone()
	describe(header, file)
	from := &noting{ReadSeeker: content}
	to := &download{ResponseWriter: c.Writer, out: http.NewResponseController(c.Writer), may: may}
	http.ServeContent(to, rangeOf(c.Request), "", time.Time{}, from)
	err := from.err
	if err == nil {
		err = to.err
	}
	if to.status == http.StatusRequestedRangeNotSatisfiable {
		before.Set("Content-Range", fmt.Sprintf("bytes */%d", file.Bytes))
		err = apierr.New(apierr.RangeNotSatisfiable, "the file has %d bytes: there is nothing in this range", file.Bytes)
	}
	if err == nil {
		return
	}
	if !c.Writer.Written() { // nothing of the file was sent, so nothing is said of it
		clear(header)
		maps.Copy(header, before)
	}
	fail(c, err)
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
func describe(header http.Header, file domain.File) {
	media, _, err := mime.ParseMediaType(file.MIMEType)
	kind, known := fileTypes[media]
	if err != nil || !known {
		kind.sent, kind.inline = "application/octet-stream", false
	}
	header.Set("Content-Type", kind.sent)
	header.Set("Content-Disposition", disposition(kind.inline, file.Name))
	header.Set("Content-Security-Policy", filePolicy)
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", fileCaching)
	header.Set("Vary", fileVaries)
	header.Set("ETag", `"`+file.SHA256+`"`)
}

// oneRange is a range of bytes that there may be. Numbers of more digits are none that a file has.
var oneRange = regexp.MustCompile(`^bytes=([0-9]{1,18}-([0-9]{1,18})?|-0{0,8}[1-9][0-9]{0,17})$`)

// rangeOf is what counts of a request for a file: one range of bytes, and which content the reader has already. Lists
// of ranges and what is no range are passed over, as they may be: the answer is the whole file.
func rangeOf(req *http.Request) *http.Request {
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

// download sends a file piece by piece, for as long as the client takes them and its credential holds. Errors are not
// sent: they are answered as all others are.
type download struct {
	http.ResponseWriter
	out    *http.ResponseController
	may    permit
	status int
	err    error
}

func (d *download) WriteHeader(status int) {
	if d.status = status; status < http.StatusBadRequest {
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d *download) Write(p []byte) (n int, err error) {
	now := time.Now()
	switch {
	case d.status >= http.StatusBadRequest:
		return len(p), nil
	case !d.may.holds(now):
		err = apierr.New(apierr.Unauthenticated, "the credential does not hold any more")
	default:
		_ = d.out.SetWriteDeadline(now.Add(pieceTime)) // tests' recorders have none
		n, err = d.ResponseWriter.Write(p)
	}
	d.err = err
	return n, err
}
