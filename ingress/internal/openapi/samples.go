package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"parley/shared/yamldoc"
)

// Sample is an example of a request that readers of the documentation can copy. Query and Headers
// are ordered pairs of a name and a value. Values may contain variables of the shell, such as
// $PARLEY_API_KEY.
type Sample struct {
	Title, Method, Path string
	Query, Headers      [][2]string
	Body                string // body as JSON; "": no body
	// Whether the response is an event stream.
	stream bool
}

// samples reads the example requests of an operation, which are in x-requests. The parameters of
// the path are filled in. If a request names an example of the operation's body, the body is that
// example.
func samples(op object, operation Operation) []Sample {
	var out []Sample
	for _, request := range op.Objects("x-requests") {
		s := Sample{
			Title: request.Text("title"), Method: operation.Method, Path: filled(operation.Path, pairs(request.At("path"))),
			Query: pairs(request.At("query")), Headers: credentialFor(request, operation.Credentials),
		}

		s.Headers = append(s.Headers, pairs(request.At("headers"))...)
		if name := request.Text("body"); name != "" {
			s.Body = compact(op.At("requestBody", "content", "application/json", "examples", name).Get("value"))
			s.Headers = append(s.Headers, [2]string{"Content-Type", "application/json"})
		}
		// With the option --no-buffer, curl prints the output of a stream immediately.
		s.stream = request.Text("body") == "stream" || slices.Contains(s.Query, [2]string{"stream", "1"}) ||
			request.Flag("stream")
		out = append(out, s)
	}
	return out
}

// filled replaces the parameters in a path with values. A parameter without a value stays as it is.
func filled(path string, values [][2]string) string {
	for _, pair := range values {
		path = strings.ReplaceAll(path, "{"+pair[0]+"}", pair[1])
	}
	return path
}

// featured are the titles of the samples at the beginning of the documentation. Each must be the
// title of exactly one sample.
var featured = []string{"Demo mode", "Chat with an agent", "Stream the answer", "From a scheduler", "Wait for a run", "Create an agent"}

// Featured returns the samples for the beginning of the documentation, the simplest first. A title
// without a sample is skipped.
func (r Reference) Featured() []Sample {
	out := make([]Sample, 0, len(featured))
	for _, title := range featured {
		for _, group := range r.Groups {
			for _, operation := range group.Operations {
				if i := slices.IndexFunc(operation.Samples, func(s Sample) bool { return s.Title == title }); i >= 0 {
					out = append(out, operation.Samples[i])
				}
			}
		}
	}
	return out
}

// credentialFor returns the credential header of a sample. It is the header that the sample names,
// or an API key if the operation accepts one. A sample without either needs no credential.
func credentialFor(request object, allowed []string) [][2]string {
	credential := request.Text("credential")
	if credential == "" && slices.Contains(allowed, "apiKey") {
		credential = "apiKey"
	}
	switch credential {
	case "apiKey":
		return [][2]string{{"x-api-key", "$PARLEY_API_KEY"}}
	case "sessionToken":
		return [][2]string{{"Authorization", "Bearer $PARLEY_TOKEN"}}
	case "demo":
		return [][2]string{{"x-tenant-id", "tenant_demo"}}
	}
	return nil
}

// pairs returns the members of an object as ordered pairs of texts. Their order is kept.
func pairs(o object) [][2]string {
	var out [][2]string
	for _, item := range o {
		out = append(out, [2]string{item.Key, fmt.Sprint(item.Value)})
	}
	return out
}

// compact returns an object as JSON in one line, or "" for any other value. It is used for bodies,
// which are objects.
func compact(value any) string {
	o, isObject := value.(object)
	raw, err := yamldoc.JSON(o)
	if !isObject || err != nil {
		return ""
	}
	return string(raw)
}

// Target returns the path and query of the sample. The values of the query are escaped.
func (s Sample) Target() string {
	parts := make([]string, len(s.Query))
	for i, pair := range s.Query {
		parts[i] = pair[0] + "=" + url.QueryEscape(pair[1])
	}
	if len(parts) == 0 {
		return s.Path
	}
	return s.Path + "?" + strings.Join(parts, "&")
}

// OwnHeaders returns the headers that a logged-in browser must set, as a JSON object. It omits the
// credentials of programs and the media type of the body. The page's console sends these headers.
func (s Sample) OwnHeaders() string {
	own := map[string]string{}
	for _, h := range s.Headers {
		if !strings.Contains(h[1], "$PARLEY_") && h[0] != "Content-Type" {
			own[h[0]] = h[1]
		}
	}
	raw, _ := json.Marshal(own) //nolint:errchkjson // strings always have a JSON form
	return string(raw)
}

// Curl returns the sample as a curl command. The argument base is the base URL of the service. Each
// header is on its own line. The command works in a POSIX shell if the variables are set.
func (s Sample) Curl(base string) string {
	words := []string{"curl"}
	switch {
	case s.stream:
		words = append(words, "-N")
	// curl uses these methods without the option -X.
	case s.Method == http.MethodPost && s.Body != "", s.Method == http.MethodGet:
	default:
		words = append(words, "-X", s.Method)
	}

	lines := []string{strings.Join(append(words, quoted(base+s.Target())), " ")}
	for _, header := range s.Headers {
		lines = append(lines, "-H "+quoted(header[0]+": "+header[1]))
	}
	if s.Body != "" {
		lines = append(lines, "-d "+quoted(s.Body))
	}
	return strings.Join(lines, " \\\n  ")
}

// quoted quotes a text for a shell, which still expands variables such as $PARLEY_API_KEY. Single
// quotes prevent any expansion. Texts with variables are part of the document and contain no double
// quotes.
func quoted(s string) string {
	if strings.Contains(s, "$PARLEY_") {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
