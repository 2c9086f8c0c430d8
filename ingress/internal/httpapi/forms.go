package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
)

const maxForm = 16 << 10 // bytes

// readForm reads the fields of a form that one of our own pages sends; each may come once.
func (a *api) readForm(c *gin.Context) (url.Values, error) {
	if err := a.origins.Check(c.Request); err != nil {
		return nil, apierr.Wrap(apierr.PermissionDenied, err, "a page of another origin may not send this request")
	}
	media, _, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" || len(c.Request.Header["Content-Type"]) != 1 {
		return nil, apierr.New(apierr.UnsupportedMediaType, "the body must be a form, sent as application/x-www-form-urlencoded")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxForm))
	if _, tooMuch := errors.AsType[*http.MaxBytesError](err); tooMuch {
		return nil, apierr.New(apierr.PayloadTooLarge, "the form may have %d bytes at most", maxForm)
	}
	if err != nil {
		return nil, apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading form: %w", err), "the form did not arrive whole")
	}
	fields, err := readQuery(string(raw))
	if err != nil {
		return nil, err
	}
	for name, values := range fields {
		if len(values) != 1 {
			return nil, apierr.Invalid(name, codeDuplicate, "may be given once")
		}
	}
	return fields, nil
}

// checkedBody reports what is wrong with a body that a form made.
func checkedBody(b checked) error {
	found := &problems{}
	b.Check(found)
	return found.err()
}

// failOn answers a page's request with an error as fail does, but on a page: show gets the status and sentences.
func failOn(c *gin.Context, err error, show func(status int, problem string)) {
	stateOf(c).err = err
	coded := toCoded(c, err)
	kind, known := kinds[coded.Code]
	if !known {
		coded, kind = internal(), kinds[apierr.Internal]
	}
	if kind.status == http.StatusTooManyRequests || kind.status == http.StatusServiceUnavailable {
		c.Header("Retry-After", strconv.Itoa(wholeSeconds(coded.RetryAfter)))
	}
	if len(coded.Fields) == 0 {
		show(kind.status, sentence(coded.Detail))
		return
	}
	all := make([]string, len(coded.Fields))
	for i, f := range coded.Fields {
		all[i] = sentence(f.Field + " " + f.Message)
	}
	show(kind.status, strings.Join(all, " "))
}

// sentence makes one of an error's words.
func sentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + words[size:] + "."
}
