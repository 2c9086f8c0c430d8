package account

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// maxForm is the maximum size of a form's body.
// Forms contain only short texts.
const maxForm = 16 << 10 // bytes

// readForm reads the fields that a browser sends for a form of the service. Each field may occur
// only once. The form must come from a page of the service. The errors are permission_denied,
// unsupported_media_type, payload_too_large, and invalid_request. readForm does not check the
// values of the fields.
func (h *Pages) readForm(c *gin.Context) (url.Values, error) {
	if err := h.Origins.Check(c.Request); err != nil {
		return nil, apierr.Wrap(apierr.PermissionDenied, err, "requests from pages of other origins are not allowed")
	}

	media, _, err := mime.ParseMediaType(c.GetHeader("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" || len(c.Request.Header["Content-Type"]) != 1 {
		return nil, apierr.New(apierr.UnsupportedMediaType, "the body must be a form, sent as application/x-www-form-urlencoded")
	}

	raw, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxForm))
	if _, tooMuch := errors.AsType[*http.MaxBytesError](err); tooMuch {
		return nil, apierr.New(apierr.PayloadTooLarge, "the form must have at most %d bytes", maxForm)
	}
	if err != nil {
		return nil, apierr.Wrap(apierr.InvalidRequest, fmt.Errorf("reading form: %w", err), "the form was not received completely")
	}

	// The body of a form has the format of a query.
	fields, err := httpx.ReadQuery(string(raw))
	if err != nil {
		return nil, err
	}

	for name, values := range fields {
		if len(values) != 1 {
			return nil, apierr.Invalid(name, httpx.CodeDuplicate, "must be given only once")
		}
	}

	return fields, nil
}
