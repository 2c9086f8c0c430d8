package openapitest

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// codeFor returns the code and the status of a problem document. They are zero for any other body.
func codeFor(body []byte) (code string, status int) {
	var p struct {
		Code   string `json:"code"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return "", 0
	}
	return p.Code, p.Status
}

// taken checks that the document allows a request that the service has accepted. It does not check
// query parameters that the service ignores. Rejected requests may contain anything. at is the
// pointer to the operation.
func (c *Contract) taken(at string, operation *openapi3.Operation, e Exchange) error {
	if e.Status >= http.StatusMultipleChoices {
		return nil
	}

	query := e.URL.Query()
	for _, p := range operation.Parameters {
		if p.Value.In == openapi3.ParameterInQuery && p.Value.Required && !query.Has(p.Value.Name) {
			return fmt.Errorf("the service accepted a request without the parameter %s", p.Value.Name)
		}
	}
	return c.requestBody(at, operation, e)
}

// contentForm is the media type of forms with files.
const contentForm = "multipart/form-data"

// isForm reports whether a request has a form.
func isForm(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && media == contentForm
}

// requestBody checks the body of an accepted request against the document. An empty JSON object
// counts as no body.
func (c *Contract) requestBody(at string, operation *openapi3.Operation, e Exchange) error {
	empty := len(e.RequestBody) == 0 || string(e.RequestBody) == "{}"
	switch {
	case empty && (operation.RequestBody == nil || !operation.RequestBody.Value.Required):
		return nil
	case operation.RequestBody == nil:
		return fmt.Errorf("the service accepted a body, but none is documented")
	case isForm(e.RequestHeader):
		if operation.RequestBody.Value.Content[contentForm] == nil {
			return fmt.Errorf("the service accepted a form, but none is documented")
		}
		return nil // other tests check the contents of forms
	case operation.RequestBody.Value.Content["application/octet-stream"] != nil:
		return nil // the body may be any bytes of any type
	}

	if err := c.validJSON(pointer(at, "requestBody", "content", "application/json", "schema"), e.RequestBody); err != nil {
		return fmt.Errorf("the service accepted an undocumented body: %w", err)
	}
	return nil
}
