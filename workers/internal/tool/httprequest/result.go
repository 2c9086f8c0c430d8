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
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

const (
	maxShown  = 40 << 10 // bytes of a body: with its escapes it stays below what any result may have
	maxHeader = 2_048    // bytes of a header's value
)

// answer is what a model sees of an endpoint's answer.
type answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType,omitempty"`
	RetryAfter  string `json:"retryAfter,omitempty"`
	Location    string `json:"location,omitempty"` // of a redirect that was not followed
	Body        any    `json:"body,omitempty"`     // JSON, or a text
	Truncated   bool   `json:"truncated,omitempty"`
	Note        string `json:"note,omitempty"` // what is missing of the body
}

// render makes a result of an answer and of as much of its body as could be read.
func render(ctx context.Context, resp *http.Response, body []byte, readErr error, hide *redact.Redactor) (tool.Result, error) {
	contentType := resp.Header.Get("Content-Type")
	a := answer{
		Status: resp.StatusCode, ContentType: shortHeader(hide, contentType), RetryAfter: shortHeader(hide, resp.Header.Get("Retry-After")),
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		a.Location = shortHeader(hide, resp.Header.Get("Location"))
	}
	text := hide.Text
	if readErr != nil {
		text = hide.Broken
	}
	if v, ok := readJSON(contentType, body); ok && readErr == nil {
		a.showJSON(ctx, v, hide)
	} else {
		a.show(contentType, body, text)
	}
	switch {
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

// showJSON puts a value of JSON in; one that is too long to be shown whole becomes a text.
func (a *answer) showJSON(ctx context.Context, v any, hide *redact.Redactor) {
	v, err := hide.Value(ctx, v)
	if err != nil {
		a.Note = "The body could not be checked for secrets and is not shown."
		return
	}
	shown, err := encode(v)
	switch {
	case err != nil:
		a.Note = "The body cannot be shown."
	case len(shown) <= maxShown:
		a.Body = json.RawMessage(shown)
	default:
		a.Body, a.Truncated = cut(string(shown), maxShown), true
	}
}

// show puts a body in that is a text; clean takes the secrets out.
func (a *answer) show(contentType string, body []byte, clean func(string) string) {
	kind := kindFor(contentType)
	switch {
	case len(body) == 0:
	case isJSON(kind), isText(kind, body):
		text := clean(string(body))
		a.Body, a.Truncated = cut(text, maxShown), len(text) > maxShown
	default:
		a.Note = fmt.Sprintf("The body is not text and is not shown (%d bytes).", len(body))
	}
}

// readJSON reads a body that is one value of JSON.
func readJSON(contentType string, body []byte) (any, bool) {
	if !isJSON(kindFor(contentType)) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, false
	}
	_, err := decoder.Token()
	return v, errors.Is(err, io.EOF)
}

func kindFor(contentType string) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	return strings.ToLower(kind)
}

func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// isText reports whether a body can be shown. Of a body without a type its bytes tell.
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

// cut gives the first part of a long text, without half a character at its end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

func shortHeader(hide *redact.Redactor, value string) string {
	return cut(hide.Text(value), maxHeader)
}
