package httpx

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

// ContentForm is the media type of a form that may hold files.
const ContentForm = "multipart/form-data"

const (
	// MaxBody is how many bytes of JSON are accepted.
	MaxBody = 256 << 10

	// MaxMessageBody is how many bytes of JSON are accepted where a message is sent; see MessageBody.
	MaxMessageBody = 2 << 20

	maxReuse = 64 << 10 // buffers that grew beyond are not kept
)

// Checked is a body that has rules beyond its shape: Check adds what is wrong to p.
type Checked interface{ Check(p *Problems) }

// Bind reads a request's JSON body strictly and checks it. Its error lists every fault of the body.
func Bind[T any](c *gin.Context) (T, error) { return BindUpTo[T](c, MaxBody) }

// BindUpTo is bind for bodies of up to that many bytes.
func BindUpTo[T any](c *gin.Context, maximum int64) (T, error) {
	body, found, err := collectUpTo[T](c, maximum)
	if err == nil {
		err = found.Err()
	}
	return body, err
}

// Collect is bind for handlers that have more to check: problems are handed on, and the error says that
// there is no body to check.
func Collect[T any](c *gin.Context) (T, *Problems, error) { return collectUpTo[T](c, MaxBody) }

func collectUpTo[T any](c *gin.Context, maximum int64) (T, *Problems, error) {
	return collectBy[T](c, maximum, DecodeStrict)
}

// CollectOpen is collect for bodies of others' protocols: see decodeOpen.
func CollectOpen[T any](c *gin.Context, maximum int64) (T, *Problems, error) {
	return collectBy[T](c, maximum, DecodeOpen)
}

func collectBy[T any](c *gin.Context, maximum int64, decode func([]byte, any, *Problems) bool) (T, *Problems, error) {
	var body T
	buf, ok := buffers.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer func() {
		if buf.Cap() <= maxReuse {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if err := ReadBody(c, buf, maximum); err != nil {
		return body, nil, err
	}
	found := &Problems{}
	if !decode(buf.Bytes(), &body, found) || found.Has(BodyPath) {
		return body, nil, found.Err()
	}
	if b, ok := any(&body).(Checked); ok {
		b.Check(found)
	}
	return body, found, nil
}

var buffers sync.Pool // of *bytes.Buffer

// ReadBody reads a body of JSON into buf.
func ReadBody(c *gin.Context, buf *bytes.Buffer, maximum int64) error {
	req := c.Request
	if req.ContentLength == 0 {
		return apierr.Invalid(BodyPath, CodeRequired, "a JSON body is required")
	}
	if !IsJSON(req.Header) {
		return NotJSON()
	}
	if req.ContentLength > maximum {
		return TooLarge(maximum)
	}
	return readInto(c, buf, maximum)
}

// NotJSON is the refusal of a body that is no JSON.
func NotJSON() error {
	return apierr.New(apierr.UnsupportedMediaType,
		"the body must be sent as Content-Type: application/json, in UTF-8 and without a Content-Encoding")
}

// TooLarge is the refusal of a body that has more bytes than it may.
func TooLarge(maximum int64) error {
	return apierr.New(apierr.PayloadTooLarge, "the body must have at most %d bytes", maximum)
}

// IsJSON reports whether a body says of itself that it is JSON in UTF-8, and not compressed.
func IsJSON(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) != 1 || len(header["Content-Encoding"]) > 0 {
		return false
	}
	if values[0] == ContentJSON {
		return true
	}
	media, parameters, err := mime.ParseMediaType(values[0])
	if err != nil || media != ContentJSON {
		return false
	}
	charset, given := parameters["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}

// CheckedBody reports what is wrong with a body that a form made.
func CheckedBody(b Checked) error {
	found := &Problems{}
	b.Check(found)
	return found.Err()
}

// IsForm reports whether a body says of itself that it is a form that may hold files, and not compressed.
func IsForm(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) != 1 || len(header["Content-Encoding"]) > 0 {
		return false
	}
	media, _, err := mime.ParseMediaType(values[0])
	// What comes behind a good type may be broken: that is a bad boundary.
	return media == ContentForm && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// NeitherJSONNorForm is the refusal of a body that is no JSON where a form may stand, too.
func NeitherJSONNorForm() error {
	return apierr.New(apierr.UnsupportedMediaType, "the body must be sent as Content-Type: multipart/form-data, or application/json")
}

// RefuseFields refuses a body with fields on a route that takes no body. An empty body and an empty object are accepted.
func RefuseFields(c *gin.Context) error {
	req := c.Request
	if req.ContentLength < 0 { // chunked: it may be empty
		body := bufio.NewReader(req.Body)
		if _, err := body.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		req.Body = io.NopCloser(body)
	}
	if req.ContentLength == 0 {
		return nil
	}
	_, err := Bind[struct{}](c)
	return err
}
