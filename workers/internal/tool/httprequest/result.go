package httprequest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"parley/shared/outbound"
	"parley/shared/truncate"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

const (
	maxShown  = 40 << 10 // bytes of a body that are shown; JSON escapes do not enlarge them beyond the limit of a result
	maxHeader = 2_048    // bytes of a header value
)

// answer is a response as the model sees it.
type answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType,omitempty"`
	RetryAfter  string `json:"retryAfter,omitempty"`
	Location    string `json:"location,omitempty"` // target of a redirect that was not followed
	Body        any    `json:"body,omitempty"`     // JSON value or text
	Truncated   bool   `json:"truncated,omitempty"`
	Note        string `json:"note,omitempty"` // states which part of the body is missing
}

// render returns the result for a response. body is the part of the response's body that could be
// read. readErr is the error that ended the reading, or nil.
func render(ctx context.Context, resp *http.Response, body []byte, readErr error, redactor *redact.Redactor) (tool.Result, error) {
	contentType := resp.Header.Get("Content-Type")
	a := answer{
		Status: resp.StatusCode, ContentType: shortHeader(redactor, contentType),
		RetryAfter: shortHeader(redactor, resp.Header.Get("Retry-After")),
	}
	// The model can follow the redirect if another endpoint covers its address.
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		a.Location = shortHeader(redactor, resp.Header.Get("Location"))
	}

	// A truncated body may end in the middle of a secret. Only the redactor's method Broken removes
	// such a part.
	text := redactor.Text
	if readErr != nil {
		text = redactor.Broken
	}

	// In JSON, each value is redacted separately, because escapes in the JSON text could hide a
	// secret.
	if v, ok := readJSON(contentType, body); ok && readErr == nil {
		a.showJSON(ctx, v, redactor)
	} else {
		a.show(contentType, body, text)
	}

	switch {
	// If the body exceeds maxBody, only its beginning is shown.
	case errors.Is(readErr, outbound.ErrTooLarge):
		a.Truncated = true
	case readErr != nil:
		a.Truncated, a.Note = true, "The body is incomplete: "+outbound.AsError(readErr).Message
	}

	output, err := encode(a)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding answer: %w", err)
	}
	return tool.Result{Output: output}, nil
}

// showJSON adds a JSON body. A value that is too long is shown as truncated text. A value that the
// redactor cannot check is not shown at all.
func (a *answer) showJSON(ctx context.Context, v any, redactor *redact.Redactor) {
	v, err := redactor.Value(ctx, v)
	if err != nil {
		a.Note = "The body could not be checked for secrets and is not shown."
		return
	}
	shown, err := encode(v)
	switch {
	case err != nil:
		a.Note = "The body cannot be shown."
	// A short value stays JSON, so that the model reads it without escapes.
	case len(shown) <= maxShown:
		a.Body = json.RawMessage(shown)
	default:
		a.Body, a.Truncated = truncate.Bytes(string(shown), maxShown), true
	}
}

// show adds a text body to the answer, after clean has removed secrets from the text. For a body
// that is not text, it adds only a note with the size.
func (a *answer) show(contentType string, body []byte, clean func(string) string) {
	kind := kindFor(contentType)
	switch {
	case len(body) == 0:
	case isJSON(kind), isText(kind, body):
		text := clean(string(body))
		a.Body, a.Truncated = truncate.Bytes(text, maxShown), len(text) > maxShown
	default:
		a.Note = fmt.Sprintf("The body is not text and is not shown (%d bytes).", len(body))
	}
}

// readJSON parses a body that is a single JSON value. It returns false for any other body.
func readJSON(contentType string, body []byte) (any, bool) {
	if !isJSON(kindFor(contentType)) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	// A body that is not JSON, in spite of its content type, is shown as text.
	if err := decoder.Decode(&v); err != nil {
		return nil, false
	}
	// A body with several values, for example lines of JSON, is shown as text.
	_, err := decoder.Token()
	return v, errors.Is(err, io.EOF)
}

// kindFor returns the media type without parameters in lower case, or "" if it cannot be parsed.
func kindFor(contentType string) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	return strings.ToLower(kind)
}

// isJSON reports whether a media type is JSON or a type based on JSON.
func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// isText reports whether a body can be shown as text. If the response does not state a type, the
// body must be valid UTF-8 without NUL.
func isText(kind string, body []byte) bool {
	switch kind {
	case "":
		return utf8.Valid(body) && bytes.IndexByte(body, 0) < 0
	case "application/xml", "application/javascript", "application/x-javascript", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/jsonl", "application/graphql", "application/toml", "application/sql", formType:
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml")
}

// shortHeader returns a header value without secrets, truncated to maxHeader bytes. The secrets are
// removed first, because the redactor might not recognize a truncated secret.
func shortHeader(redactor *redact.Redactor, value string) string {
	return truncate.Bytes(redactor.Text(value), maxHeader)
}
