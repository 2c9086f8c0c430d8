package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

const (
	maxBody  = 256 << 10 // bytes of JSON that are accepted
	maxReuse = 64 << 10  // buffers that grew beyond are not kept
)

// checked is a body that has rules beyond its shape: Check adds what is wrong to p.
type checked interface{ Check(p *problems) }

// bind reads a request's JSON body strictly and checks it. Its error tells of everything wrong with it.
func bind[T any](c *gin.Context) (T, error) { return bindUpTo[T](c, maxBody) }

// bindUpTo is bind for bodies of up to that many bytes.
func bindUpTo[T any](c *gin.Context, most int64) (T, error) {
	body, found, err := collectUpTo[T](c, most)
	if err == nil {
		err = found.err()
	}
	return body, err
}

// collect is bind for handlers that have more to check: problems are handed on, and the error says that
// there is no body to check.
func collect[T any](c *gin.Context) (T, *problems, error) { return collectUpTo[T](c, maxBody) }

func collectUpTo[T any](c *gin.Context, most int64) (T, *problems, error) {
	return collectBy[T](c, most, decodeStrict)
}

// collectOpen is collect for bodies of others' protocols: see decodeOpen.
func collectOpen[T any](c *gin.Context, most int64) (T, *problems, error) {
	return collectBy[T](c, most, decodeOpen)
}

func collectBy[T any](c *gin.Context, most int64, decode func([]byte, any, *problems) bool) (T, *problems, error) {
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
	if err := readBody(c, buf, most); err != nil {
		return body, nil, err
	}
	found := &problems{}
	if !decode(buf.Bytes(), &body, found) || found.has(bodyPath) {
		return body, nil, found.err()
	}
	if b, ok := any(&body).(checked); ok {
		b.Check(found)
	}
	return body, found, nil
}

var buffers sync.Pool // of *bytes.Buffer

func readBody(c *gin.Context, buf *bytes.Buffer, most int64) error {
	req := c.Request
	if req.ContentLength == 0 {
		return apierr.Invalid(bodyPath, codeRequired, "a JSON body is required")
	}
	if !isJSON(req.Header) {
		return notJSON()
	}
	if req.ContentLength > most {
		return tooLarge(most)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(c.Writer, req.Body, most))
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &tooMuch):
		return tooLarge(most)
	case err != nil:
		return apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading body: %w", err), "the body did not arrive whole")
	}
	return nil
}

func notJSON() error {
	return apierr.New(apierr.UnsupportedMediaType,
		"the body must be sent as Content-Type: application/json, in UTF-8 and without a Content-Encoding")
}

func tooLarge(most int64) error {
	return apierr.New(apierr.PayloadTooLarge, "the body may have %d bytes at most", most)
}

// isJSON reports whether a body says of itself that it is JSON in UTF-8, and not compressed.
func isJSON(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) != 1 || len(header["Content-Encoding"]) > 0 {
		return false
	}
	if values[0] == contentJSON {
		return true
	}
	media, parameters, err := mime.ParseMediaType(values[0])
	if err != nil || media != contentJSON {
		return false
	}
	charset, given := parameters["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
