package httprequest

import (
	"bytes"
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
func render(resp *http.Response, body []byte, readErr error, hide redactor) (tool.Result, error) {
	contentType := resp.Header.Get("Content-Type")
	a := answer{
		Status: resp.StatusCode, ContentType: shortHeader(hide, contentType), RetryAfter: shortHeader(hide, resp.Header.Get("Retry-After")),
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		a.Location = shortHeader(hide, resp.Header.Get("Location"))
	}
	hide.broken = readErr != nil
	a.show(contentType, body, hide)
	switch {
	case errors.Is(readErr, outbound.ErrTooLarge):
		a.Truncated = true
	case readErr != nil:
		a.Truncated, a.Note = true, "The body is not complete: "+outbound.AsError(readErr).Message
	}
	output, err := encode(a)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encoding answer: %w", err)
	}
	return tool.Result{Output: output}, nil
}

// show puts the body in as what it is.
func (a *answer) show(contentType string, body []byte, hide redactor) {
	kind, _, _ := mime.ParseMediaType(contentType)
	kind = strings.ToLower(kind)
	if len(body) == 0 {
		return
	}
	var text string
	switch {
	case isJSON(kind):
		v, ok := readJSON(body)
		if shown, err := encode(hide.value(v)); ok && err == nil {
			if len(shown) <= maxShown {
				a.Body = json.RawMessage(shown)
				return
			}
			text = string(shown)
			break
		}
		text = hide.text(string(body))
	case isText(kind, body):
		text = hide.text(string(body))
	default:
		a.Note = fmt.Sprintf("The body is not text and not shown: %d bytes were read.", len(body))
		return
	}
	a.Body = cut(text)
	a.Truncated = len(text) > maxShown
}

// readJSON reads a body that is one value of JSON.
func readJSON(body []byte) (any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, false
	}
	_, err := decoder.Token()
	return v, errors.Is(err, io.EOF)
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
func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "")
}

func shortHeader(hide redactor, value string) string {
	value = hide.text(value)
	if len(value) > maxHeader {
		return strings.ToValidUTF8(value[:maxHeader], "")
	}
	return value
}
