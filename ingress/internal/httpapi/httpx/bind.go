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

// ContentForm is the media type of a form that may contain files.
const ContentForm = "multipart/form-data"

const (
	// MaxBody is the maximum size of a JSON body in bytes.
	MaxBody = 256 << 10

	// MaxMessageBody is the maximum size of a JSON body that contains a message, in bytes; see
	// MessageBody.
	MaxMessageBody = 2 << 20

	maxReuse = 64 << 10 // the pool keeps no larger buffers
)

// Checked is a body that has further rules in addition to the types of its fields. Check adds a
// problem to p for each rule that the body violates.
type Checked interface{ Check(p *Problems) }

// Bind decodes a request's JSON body strictly and checks it. The error lists every problem of the
// body. The codes of the error are those of ReadBody and invalid_request.
func Bind[T any](c *gin.Context) (T, error) { return BindUpTo[T](c, MaxBody) }

// BindUpTo is Bind for bodies of the given maximum size in bytes.
func BindUpTo[T any](c *gin.Context, maximum int64) (T, error) {
	body, found, err := collectUpTo[T](c, maximum)
	if err == nil {
		err = found.Err()
	}
	return body, err
}

// Collect is like Bind, but returns the problems of the body, so that the handler can add further
// problems. It returns an error only if the body could not be read or decoded.
func Collect[T any](c *gin.Context) (T, *Problems, error) { return collectUpTo[T](c, MaxBody) }

// collectUpTo is Collect for bodies of the given maximum size in bytes.
func collectUpTo[T any](c *gin.Context, maximum int64) (T, *Problems, error) {
	return collectBy[T](c, maximum, DecodeStrict)
}

// CollectOpen is Collect for bodies of other protocols, which may contain unknown names; see
// DecodeOpen.
func CollectOpen[T any](c *gin.Context, maximum int64) (T, *Problems, error) {
	return collectBy[T](c, maximum, DecodeOpen)
}

// collectBy reads, decodes and checks a body. The bytes of the body are in a pooled buffer, so
// decode must copy those that it keeps.
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

	// Check the body even if fields have problems, so that the response lists all problems.
	if b, ok := any(&body).(Checked); ok {
		b.Check(found)
	}
	return body, found, nil
}

// buffers is a pool of buffers for request bodies.
var buffers sync.Pool // contains *bytes.Buffer

// ReadBody reads a JSON body into buf. It returns an API error if the body is missing, is not
// declared as JSON, or has more than maximum bytes. If the body is large, ReadBody may wait for a
// slot; see ReleaseBody.
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

// NotJSON returns the error for a body that is not JSON.
func NotJSON() error {
	return apierr.New(apierr.UnsupportedMediaType,
		"the body must be sent as Content-Type: application/json, in UTF-8 and without a Content-Encoding")
}

// TooLarge returns the error for a body with more bytes than maximum.
func TooLarge(maximum int64) error {
	return apierr.New(apierr.PayloadTooLarge, "the body must have at most %d bytes", maximum)
}

// IsJSON reports whether the headers declare an uncompressed JSON body in UTF-8.
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

	charset, present := parameters["charset"]
	return !present || strings.EqualFold(charset, "utf-8")
}

// CheckedBody checks a body that was built from a form. The error lists all problems.
func CheckedBody(b Checked) error {
	found := &Problems{}
	b.Check(found)
	return found.Err()
}

// IsForm reports whether the headers declare an uncompressed multipart form.
func IsForm(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) != 1 || len(header["Content-Encoding"]) > 0 {
		return false
	}
	media, _, err := mime.ParseMediaType(values[0])
	// Ignore invalid parameters after the media type. Without a valid boundary, the multipart
	// reader returns a more precise error than NeitherJSONNorForm.
	return media == ContentForm && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// NeitherJSONNorForm returns the error for a body that is neither JSON nor a form, on a route that
// accepts both.
func NeitherJSONNorForm() error {
	return apierr.New(apierr.UnsupportedMediaType, "the body must be sent as Content-Type: multipart/form-data, or application/json")
}

// RefuseFields rejects a body with fields on a route that takes no body. It accepts an empty body
// and an empty object.
func RefuseFields(c *gin.Context) error {
	req := c.Request
	if req.ContentLength < 0 { // chunked: possibly empty
		body := bufio.NewReader(req.Body)
		if _, err := body.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		req.Body = io.NopCloser(body)
	}

	if req.ContentLength == 0 {
		return nil
	}

	// Bind reports each field as unknown.
	_, err := Bind[struct{}](c)
	return err
}
