package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"parley/shared/lifecycle"
)

const (
	largestAnswer = 64 << 20
	// headerTimeout is longer than the longest wait that the API accepts.
	headerTimeout = 90 * time.Second
)

// Options select the service, the caller and the retries.
type Options struct {
	BaseURL      string
	Key          string
	Organization string // the organization that a user's key acts in
	Demo         bool   // acts as a demo visitor, without a key

	Dials    int                                        // attempts to reach a service that has not responded yet; 0: as many as Retries
	Retries  int                                        // retries of a request
	Patience time.Duration                              // longest Retry-After that is obeyed
	Waiting  func(cause error, pause time.Duration)     // called before each pause; may be nil
	pause    func(context.Context, time.Duration) error // a timer, except in tests
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	options Options
	base    string
	http    *http.Client
	reached atomic.Bool // the service has responded at least once
}

// New validates the address. It makes no request.
func New(options Options) (*Client, error) {
	at, err := url.Parse(options.BaseURL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("the service's URL must be like http://127.0.0.1:8080, not %q", options.BaseURL)
	}
	if options.pause == nil {
		options.pause = lifecycle.Sleep
	}

	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}

	// A redirect would send the key to a URL that the user did not name.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		options: options, base: strings.TrimRight(options.BaseURL, "/"),
		http: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Request is one API request.
type Request struct {
	Method string
	Path   string
	Query  url.Values
	Header map[string]string
	Body   any  // sent as JSON; nil: no body
	Keyed  bool // has an idempotency key, so that it is safe to retry
}

// safeToRetry reports whether the request is safe to retry even if it was executed.
func (r Request) safeToRetry() bool { return r.Method == http.MethodGet || r.Keyed }

// Answer is the response to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the JSON body.
func (a *Answer) Into(value any) error {
	if err := json.Unmarshal(a.Body, value); err != nil {
		return fmt.Errorf("reading the service's response: %w", err)
	}
	return nil
}

// Get requests a resource and decodes it.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) (*Answer, error) {
	answer, err := c.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil || into == nil {
		return answer, err
	}
	return answer, answer.Into(into)
}

// Call sends a request with retries. An error response becomes a *ProblemError.
func (c *Client) Call(ctx context.Context, request Request) (*Answer, error) {
	for failures := 0; ; failures++ {
		answer, err := c.once(ctx, request)
		if err == nil {
			return answer, nil
		}
		if err := c.backOff(ctx, request, err, failures); err != nil {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, request Request) (*Answer, error) {
	response, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the body was read to the end or is no longer needed

	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer+1))
	if err != nil {
		return nil, c.unreachable(err)
	}
	if len(body) > largestAnswer {
		return nil, errors.New("the service's response is larger than 64 MiB")
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// send returns a successful response, whose body the caller closes. An error response becomes a
// *ProblemError.
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
	defer func() { _ = response.Body.Close() }() // the body was read as far as needed

	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(err)
	}
	return nil, problemFor(response, body)
}

func (c *Client) build(ctx context.Context, request Request) (*http.Request, error) {
	var payload io.Reader
	if request.Body != nil {
		if field := notText(request.Body, ""); field != "" {
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

	req.Header.Set("User-Agent", "parley-cli")
	if request.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	for name, value := range request.Header {
		req.Header.Set(name, value)
	}

	switch {
	case c.options.Demo:
		req.Header.Set("X-Tenant-Id", "tenant_demo")
	case c.options.Key != "":
		req.Header.Set("X-Api-Key", c.options.Key)
	}

	if c.options.Organization != "" && !c.options.Demo {
		req.Header.Set("X-Organization-Id", c.options.Organization)
	}
	return req, nil
}

// notText returns the path in a body to a string that is not UTF-8, or "". JSON encoding would silently replace the string's
// invalid bytes.
func notText(value any, at string) string {
	switch value := value.(type) {
	case string:
		if !utf8.ValidString(value) {
			return at
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if found := notText(value[name], strings.TrimPrefix(at+"."+name, ".")); found != "" {
				return found
			}
		}
	}
	return ""
}

// unreachable returns an AwayError without the URL's password, which the library's error may contain.
func (c *Client) unreachable(err error) error {
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err
	}
	return &AwayError{URL: Bare(c.base), Err: err}
}

// Bare returns a URL without its user name and password.
func Bare(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return "(an invalid address)"
	}
	at.User = nil
	return at.String()
}

func problemFor(response *http.Response, body []byte) *ProblemError {
	p := &ProblemError{}
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		p = &ProblemError{Code: "no_problem_document", Detail: "this does not look like a Parley server"}
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
