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
	// headerTimeout is longer than any wait that can be asked for.
	headerTimeout = 90 * time.Second
)

// Options say which service is called, and as whom.
type Options struct {
	BaseURL      string
	Key          string
	Organization string // for a key that belongs to a person
	Demo         bool   // as a visitor of the demo, without a key

	Dials    int                                        // how often it is tried to reach a service that has not answered yet; 0: as Retries
	Retries  int                                        // how often a request is sent again
	Patience time.Duration                              // the longest pause that the service may ask for before a request is sent again
	Waiting  func(cause error, pause time.Duration)     // told before each pause; nil: nobody
	pause    func(context.Context, time.Duration) error // a timer, unless a test says otherwise
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	options Options
	base    string
	http    *http.Client
	reached atomic.Bool // something has answered
}

// New checks the address. Nothing is called yet.
func New(options Options) (*Client, error) {
	at, err := url.Parse(options.BaseURL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("the service's address must be like http://127.0.0.1:8080, not %q", options.BaseURL)
	}
	if options.pause == nil {
		options.pause = lifecycle.Sleep
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: headerTimeout, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	// A redirect would take the key to an address that nobody has named.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		options: options, base: strings.TrimRight(options.BaseURL, "/"),
		http: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Request is one call.
type Request struct {
	Method string
	Path   string
	Query  url.Values
	Header map[string]string
	Body   any  // sent as JSON; nil: none
	Keyed  bool // it has an idempotency key, so that it may be sent again although it may have arrived
}

// again reports whether the request may be sent again although it may have been carried out.
func (r Request) again() bool { return r.Method == http.MethodGet || r.Keyed }

// Answer is what a call got.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the answer's JSON.
func (a *Answer) Into(value any) error {
	if err := json.Unmarshal(a.Body, value); err != nil {
		return fmt.Errorf("reading the service's answer: %w", err)
	}
	return nil
}

// Get asks for a resource and decodes it.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) (*Answer, error) {
	answer, err := c.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil || into == nil {
		return answer, err
	}
	return answer, answer.Into(into)
}

// Call sends a request, again where that may help, and gives a *ProblemError as the error of an answer that says no.
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
	defer func() { _ = response.Body.Close() }() // read to its end, or of no use any more
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer+1))
	if err != nil {
		return nil, c.away(err)
	}
	if len(body) > largestAnswer {
		return nil, errors.New("the service's answer is larger than 64 MiB")
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// send gives the response to a request that was not refused; its body is the caller's to close.
func (c *Client) send(ctx context.Context, request Request) (*http.Response, error) {
	req, err := c.build(ctx, request)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(req)
	if err != nil {
		return nil, c.away(err)
	}
	c.reached.Store(true)
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // read as far as it matters
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, c.away(err)
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

// notText names a text in a body that is not UTF-8: JSON would send other characters in place of some, without a word.
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

// away says that no answer came, without the address's password, which the library's words may hold.
func (c *Client) away(err error) error {
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err
	}
	return &AwayError{URL: Bare(c.base), Err: err}
}

// Bare is an address without a user's name and password.
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
			p.Detail = "redirected to " + Bare(at) + "; the key is sent only to the given address"
		}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
