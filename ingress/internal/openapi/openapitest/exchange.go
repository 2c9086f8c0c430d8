package openapitest

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Exchange is a request and its complete response. The test harnesses create it after the response
// was read.
type Exchange struct {
	Method        string
	URL           *url.URL
	RequestHeader http.Header
	RequestBody   []byte

	Status int
	Header http.Header
	Body   []byte
}

// Check fails the test if the exchange does not conform to the document. It may be called from any
// goroutine of the test.
func Check(tb testing.TB, e Exchange) {
	tb.Helper()
	c, err := Document()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Check(e); err != nil {
		tb.Errorf("%s %s: the response with status %d differs from openapi.yaml: %v\n%.2000s",
			e.Method, e.URL.RequestURI(), e.Status, err, e.Body)
	}
}

// Check returns an error that describes how an exchange violates the document, or nil if it
// conforms. It records the response as received. If the document lacks the path or the method, the
// response must be an error that clients understand.
func (c *Contract) Check(e Exchange) error {
	path, item := c.find(e.URL.Path)
	if item == nil {
		if IsPage(path) && !isProblem(e.Header) {
			return nil
		}
		return c.stray(e, nil)
	}

	if err := sharing(item, e); err != nil {
		return err
	}

	operation := item.GetOperation(e.Method)
	if operation == nil && isPreflight(e) {
		return nil
	}
	if operation == nil {
		return c.stray(e, item)
	}

	at := pointer("#/paths", path, strings.ToLower(e.Method))
	status := strconv.Itoa(e.Status)
	response := operation.Responses.Value(status)
	if response == nil {
		return fmt.Errorf("status %d is not documented", e.Status)
	}

	c.mu.Lock()
	c.seen[e.Method+" "+path+" → "+status] = true
	c.mu.Unlock()

	here := pointer(at, "responses", status)
	if response.Ref != "" {
		here = response.Ref
	}
	return errors.Join(c.headers(here, response.Value, e), c.body(here, response.Value, e), c.taken(at, operation, e))
}

// find returns the documented path that matches the path of a request. It prefers a path without
// parameters. The result item is nil if no documented path matches.
func (c *Contract) find(path string) (documented string, item *openapi3.PathItem) {
	if item := c.doc.Paths.Value(path); item != nil {
		return path, item
	}
	for documented, item := range c.doc.Paths.Map() {
		if fits(documented, path) {
			return documented, item
		}
	}
	return path, nil
}

// fits reports whether a path matches a documented path, which may contain {parameters}. A
// parameter matches one element that is not empty.
func fits(documented, path string) bool {
	wanted, given := strings.Split(documented, "/"), strings.Split(path, "/")
	if len(wanted) != len(given) {
		return false
	}
	for i, part := range wanted {
		if part != given[i] && (!strings.HasPrefix(part, "{") || given[i] == "") {
			return false
		}
	}
	return true
}

// sharing checks the CORS headers of a response. Other origins may read only responses to POST and
// OPTIONS, and only on paths that the document marks as open to other origins. No response may
// allow other origins to send cookies. The header Vary keeps caches from mixing up origins.
func sharing(item *openapi3.PathItem, e Exchange) error {
	origin, shared := e.Header["Access-Control-Allow-Origin"]
	switch {
	case e.Header.Get("Access-Control-Allow-Credentials") != "":
		return errors.New("the response allows pages of other origins to send cookies")
	case !shared:
		return nil
	case item.Extensions["x-cross-origin"] != true:
		return errors.New("the response allows pages of other origins to read it")
	case e.Method != http.MethodPost && e.Method != http.MethodOptions:
		return fmt.Errorf("the response to %s allows pages of other origins to read it", e.Method)
	case !slices.Equal(origin, e.RequestHeader["Origin"]):
		return fmt.Errorf("the response allows the origins %q to read it, but the request has the origins %q", origin, e.RequestHeader["Origin"])
	case !slices.Contains(e.Header.Values("Vary"), "Origin") && !strings.HasPrefix(e.Header.Get("Vary"), "Origin,"):
		return errors.New("the response lacks Vary: Origin")
	}
	return nil
}

// isPreflight reports whether the exchange is a successful CORS preflight. Preflights are not
// documented, because clients never see them.
func isPreflight(e Exchange) bool {
	return e.Method == http.MethodOptions && e.Status == http.StatusNoContent && len(e.Body) == 0 &&
		len(e.Header["Access-Control-Allow-Origin"]) == 1 && e.Header.Get("Access-Control-Allow-Methods") == http.MethodPost &&
		e.Header.Get("Allow") == ""
}

// pages lists the path prefixes of pages for browsers. A path that begins with one of them is a
// page.
var pages = []string{
	"/login", "/signup", "/dashboard", "/accept", "/reset", "/assets/", "/widget.js", "/widget-files.js", "/widget/preview", "/favicon.svg",
}

// documented lists the documentation pages that openapi.yaml describes. Their responses are checked
// like those of the API.
var documented = []string{"/docs/api", "/docs/errors"}

// IsPage reports whether a path is a page for browsers and not part of the API. Pages are checked
// by tests of their own.
func IsPage(path string) bool {
	if strings.HasPrefix(path, "/docs/") {
		return !slices.Contains(documented, path)
	}
	return path == "/" || slices.ContainsFunc(pages, func(page string) bool { return strings.HasPrefix(path, page) })
}

// isMissingPage reports whether the response is the HTML page that browsers get for a URL without a
// page. Only requests that accept HTML get it.
func isMissingPage(e Exchange) bool {
	return e.Status == http.StatusNotFound && strings.Contains(e.RequestHeader.Get("Accept"), "text/html") &&
		strings.HasPrefix(e.Header.Get("Content-Type"), "text/html") && !strings.HasPrefix(e.URL.Path, "/api/")
}

// isProblem reports whether a response is an error in the API's format.
func isProblem(header http.Header) bool {
	return header.Get("Content-Type") == "application/problem+json"
}

// stray checks a response to a request with an undocumented path or method. The response must be a
// problem document or, for OpenAI's clients with a wrong base URL, an error of OpenAI's API. A 405
// response must list the allowed methods. The argument item is nil if the path is unknown.
func (c *Contract) stray(e Exchange, item *openapi3.PathItem) error {
	if strings.Contains(e.URL.Path+"/", openAI) || item == nil && e.Header.Get("Content-Type") == "application/json" {
		return c.strayOpenAI(e)
	}

	if isMissingPage(e) {
		return nil
	}

	if !isProblem(e.Header) {
		return fmt.Errorf("openapi.yaml lacks this path or method, but the response has the content type %q", e.Header.Get("Content-Type"))
	}

	if err := c.problem(e); err != nil {
		return err
	}

	if e.Status == http.StatusMethodNotAllowed && item != nil {
		var documented []string
		for method := range item.Operations() {
			documented = append(documented, method)
		}
		slices.Sort(documented)
		allowed := strings.Split(strings.ReplaceAll(strings.Join(e.Header.Values("Allow"), ","), " ", ""), ",")
		slices.Sort(allowed)
		if !slices.Equal(documented, allowed) {
			return fmt.Errorf("header Allow = %v, want %v", allowed, documented)
		}
	}

	if _, named := e.Header["X-Request-Id"]; !named {
		return errors.New("header X-Request-Id is missing")
	}
	return nil
}

// openAI is the path prefix of OpenAI's API, whose errors have a different form.
const openAI = "/v1/"

// strayOpenAI is the variant of stray for errors in OpenAI's format, which have another schema.
func (c *Contract) strayOpenAI(e Exchange) error {
	if media := e.Header.Get("Content-Type"); media != "application/json" {
		return fmt.Errorf("openapi.yaml lacks this path or method, but the response has the content type %q", media)
	}
	if e.Method == http.MethodHead {
		return nil
	}
	if err := c.validJSON("#/components/schemas/OpenAiError", e.Body); err != nil {
		return fmt.Errorf("openapi.yaml lacks this path or method: %w", err)
	}
	return nil
}

// problem checks an error response. The status must match the code in the body. A response to HEAD
// has no body. The codes and their statuses are those of the document.
func (c *Contract) problem(e Exchange) error {
	if e.Method == http.MethodHead {
		return nil
	}
	if err := c.validJSON("#/components/schemas/Problem", e.Body); err != nil {
		return err
	}
	code, status := codeFor(e.Body)
	if status != e.Status || c.statuses[code] != e.Status {
		return fmt.Errorf("the body has the code %s and the status %d, but the response has the status %d", code, status, e.Status)
	}
	return nil
}

// contractual lists the headers that have a meaning for callers. A response may have such a header
// only if the document contains it. Other headers may be added by any middleware.
var contractual = []string{
	"Allow", "Etag", "Idempotency-Replayed", "Location", "Ratelimit", "Ratelimit-Policy", "Retry-After", "Set-Cookie", "Www-Authenticate",
	"X-Parley-Run-Id", "X-Should-Retry",
}

// headers checks the headers of a response: required ones must be present, and all must match their
// schemas. at is the pointer to the response. The errors are joined.
func (c *Contract) headers(at string, response *openapi3.Response, e Exchange) error {
	var wrong []error
	documented := map[string]bool{}
	for name, header := range response.Headers {
		documented[http.CanonicalHeaderKey(name)] = true
		values := e.Header.Values(name)
		if len(values) == 0 {
			if header.Value.Required {
				wrong = append(wrong, fmt.Errorf("header %s is missing", name))
			}
			continue
		}

		here := pointer(at, "headers", name)
		if header.Ref != "" {
			here = header.Ref
		}

		for _, value := range values {
			if err := c.valid(pointer(here, "schema"), value); err != nil {
				wrong = append(wrong, fmt.Errorf("header %s: %w", name, err))
			}
		}
	}

	for _, name := range contractual {
		if _, present := e.Header[name]; present && !documented[name] {
			wrong = append(wrong, fmt.Errorf("header %s is not documented", name))
		}
	}
	return errors.Join(wrong...)
}

// body checks the body of a response against the schema for its media type. A response to HEAD, and
// a response without documented content, must have no body.
func (c *Contract) body(at string, response *openapi3.Response, e Exchange) error {
	if len(response.Content) == 0 || e.Method == http.MethodHead {
		if len(e.Body) > 0 {
			return errors.New("the response has a body, but none is documented")
		}
		return nil
	}

	media, _, err := mime.ParseMediaType(e.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("reading Content-Type: %w", err)
	}

	if response.Content[media] == nil {
		return fmt.Errorf("content of type %s is not documented", media)
	}

	schema := pointer(at, "content", media, "schema")
	switch media {
	case "text/event-stream":
		return c.events(schema, e.Body)
	case "application/json":
		return c.validJSON(schema, e.Body)
	case "application/problem+json":
		return errors.Join(c.validJSON(schema, e.Body), c.problem(e))
	}
	return c.valid(schema, string(e.Body))
}
