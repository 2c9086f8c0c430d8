package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxResponse is the size of the largest response that is read into memory.
const maxResponse = 64 << 20

// Request is one API request. Use it with Client.Call or Client.Events for operations without a
// method.
type Request struct {
	// HTTP method.
	Method string
	// Path of the operation, such as /api/agents.
	Path string
	// Query parameters; may be nil.
	Query url.Values
	// Headers in addition to those of the client; may be nil.
	Header map[string]string
	Body   any  // []byte is sent unchanged, and any other value as JSON; nil: no body
	Keyed  bool // whether the request has an idempotency key, so that it is safe to repeat

	lost func() // if not nil, called before a retry of an attempt that the service may have executed
}

// safeToRetry reports whether the request is safe to retry even if it was executed. Other requests
// are retried only if they were not executed.
func (r Request) safeToRetry() bool { return r.Method == http.MethodGet || r.Keyed }

// Response is the response to a request. The body was read completely.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the JSON body. The argument value must be a pointer. The error does not contain the
// body.
func (a *Response) Into(value any) error {
	if err := json.Unmarshal(a.Body, value); err != nil {
		return fmt.Errorf("reading the service's response: %w", err)
	}
	return nil
}

// Get requests a resource and decodes it. If into is nil, the body is not decoded.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) (*Response, error) {
	answer, err := c.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil || into == nil {
		return answer, err
	}
	return answer, answer.Into(into)
}

// Call sends a request with retries. An error response becomes an *APIError. Call waits between
// attempts; see Options. The error is an *APIError, a *ConnectionError, a *TextError, or the cause
// of ctx. Responses of more than 64 MiB are an error, too.
func (c *Client) Call(ctx context.Context, request Request) (*Response, error) {
	for failures := 0; ; failures++ {
		answer, err := c.once(ctx, request)
		if err == nil {
			return answer, nil
		}

		// The service may have executed the request before the connection was lost.
		if request.lost != nil && errors.Is(err, ErrUnreachable) {
			request.lost()
		}

		if err := c.backOff(ctx, request, err, failures); err != nil {
			return nil, err
		}
	}
}

// once sends a request once and reads its whole response. It returns the errors of send. It also
// returns an error if the connection is lost while the body is read, or if the response has more
// than 64 MiB.
func (c *Client) once(ctx context.Context, request Request) (*Response, error) {
	response, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // an error does not matter: the body was read to the end or is no longer needed

	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return nil, c.unreachable(err)
	}
	if len(body) > maxResponse {
		return nil, errors.New("the service's response is larger than 64 MiB")
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// send returns a successful response, whose body the caller closes. An error response becomes an
// *APIError. Any response means that the service was reached; see Options.Dials.
func (c *Client) send(ctx context.Context, request Request) (*http.Response, error) {
	req, err := c.build(ctx, request)
	if err != nil {
		return nil, err
	}

	response, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}

	c.reached.Store(true)
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // an error does not matter, because the body was read as far as needed

	// A problem document is small, so a longer body is truncated.
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return nil, apiErrorFor(response, body)
}

// build returns the HTTP request with its body, headers and credential. It returns a *TextError for
// a body that contains invalid UTF-8. Headers of the client take precedence over those of the
// request, so a request cannot replace the credential.
func (c *Client) build(ctx context.Context, request Request) (*http.Request, error) {
	var payload io.Reader
	switch body := request.Body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(body)
	default:
		if field := notText(reflect.ValueOf(request.Body), ""); field != "" {
			return nil, &TextError{Field: field}
		}
		raw, err := json.Marshal(request.Body)
		if err != nil {
			return nil, fmt.Errorf("encoding request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}

	address := c.base + request.Path
	if len(request.Query) > 0 {
		address += "?" + request.Query.Encode()
	}

	req, err := http.NewRequestWithContext(ctx, request.Method, address, payload)
	if err != nil {
		return nil, fmt.Errorf("creating request: %w", err)
	}

	if request.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range request.Header {
		req.Header.Set(name, value)
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// notText returns the path of the first string in a body that is not valid UTF-8, or "". The JSON
// encoder would silently replace invalid bytes. The argument at is the path of the argument value.
// Unexported fields are ignored, as the encoder ignores them.
func notText(value reflect.Value, at string) string {
	within := func(inner reflect.Value, name string) string {
		return notText(inner, strings.TrimPrefix(at+"."+name, "."))
	}

	switch value.Kind() {
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			return at
		}
	case reflect.Pointer, reflect.Interface:
		return notText(value.Elem(), at)
	case reflect.Map:
		for _, name := range sortedNames(value) {
			if found := within(value.MapIndex(reflect.ValueOf(name).Convert(value.Type().Key())), name); found != "" {
				return found
			}
		}
	case reflect.Slice:
		for i := range value.Len() {
			if found := notText(value.Index(i), fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
	case reflect.Struct:
		for field, inner := range value.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() {
				continue
			}
			if found := within(inner, name); found != "" {
				return found
			}
		}
	default: // other kinds contain no text
	}
	return ""
}

// sortedNames returns the sorted keys of a map with string keys. For other maps, it returns nil.
func sortedNames(value reflect.Value) []string {
	var names []string
	if value.Type().Key().Kind() == reflect.String {
		for _, key := range value.MapKeys() {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
}

// unreachable returns a ConnectionError. It omits the URL's password, which the error of net/http
// may contain. It keeps the cause, so that errors.As finds it.
func (c *Client) unreachable(err error) error {
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err
	}
	return &ConnectionError{URL: Bare(c.base), Err: err}
}

// Bare returns a URL without its user name and password. Use it before a URL is shown or logged.
func Bare(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return "(an invalid address)"
	}
	at.User = nil
	return at.String()
}

// apiErrorFor returns the error for an error response. A body that is no problem document, for
// example from a proxy, gets the code no_problem_document.
func apiErrorFor(response *http.Response, body []byte) *APIError {
	p := &APIError{}
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		p = &APIError{Code: "no_problem_document", Detail: "the response is not from a Parley server"}
		if at := response.Header.Get("Location"); at != "" {
			p.Detail = "redirected to " + Bare(at) + "; the key is sent only to the given URL"
		}
	}

	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
