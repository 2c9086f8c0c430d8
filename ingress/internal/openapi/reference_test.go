package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestReference checks that the document contains the parts that the reference pages need, although
// OpenAPI does not require them: descriptions, samples and examples.
func TestReference(t *testing.T) {
	t.Parallel()
	ref := Read()
	schemas := map[string]bool{}
	for _, s := range ref.Schemas {
		schemas[s.Link()] = true
		if len(s.Description) == 0 && s.Name != "Name" && s.Name != "Password" && s.Name != "DocumentIds" {
			t.Errorf("schema %s has no description", s.Name)
		}
	}
	ids := map[string]bool{}
	for _, group := range ref.Groups {
		if len(group.Operations) == 0 {
			t.Errorf("group %s has no operation", group.Name)
		}
		for _, o := range group.Operations {
			if ids[o.ID] || o.ID == "" || o.Summary == "" || len(o.Responses) == 0 {
				t.Errorf("%s %s: id %q, summary %q, %d responses", o.Method, o.Path, o.ID, o.Summary, len(o.Responses))
			}
			ids[o.ID] = true
			if len(o.Samples) == 0 && o.Method != http.MethodHead {
				t.Errorf("%s has no sample", o.ID)
			}
			checkSamples(t, o)
			checkResponses(t, o, schemas)
		}
	}
	if got := len(ref.Featured()); got != len(featured) {
		t.Errorf("%d featured samples, want %d", got, len(featured))
	}
}

// checkSamples checks that the samples of an operation use only parameters and headers that the
// operation has.
func checkSamples(t *testing.T, o Operation) {
	t.Helper()
	documented := func(name, in string) bool {
		return slices.ContainsFunc(o.Parameters, func(f Field) bool { return f.Name == name && f.In == in })
	}
	for _, s := range o.Samples {
		for _, pair := range s.Query {
			if !documented(pair[0], "query") {
				t.Errorf("%s: a sample has the parameter %s, which the operation does not", o.ID, pair[0])
			}
		}
		for _, pair := range s.Headers {
			if !documented(pair[0], "header") && !slices.Contains([]string{"x-api-key", "Authorization", "x-tenant-id", "Content-Type"}, pair[0]) {
				t.Errorf("%s: a sample has the header %s, which the operation does not", o.ID, pair[0])
			}
		}
		if slices.Contains(s.Headers, [2]string{"Content-Type", "application/json"}) && s.Body == "" {
			t.Errorf("%s: the sample %q names a body that the operation does not have", o.ID, s.Title)
		}
	}
}

func checkResponses(t *testing.T, o Operation, schemas map[string]bool) {
	t.Helper()
	for _, r := range o.Responses {
		for _, span := range r.Type {
			if strings.HasPrefix(span.Link, schemasPath) && !schemas[span.Link] {
				t.Errorf("%s %s: no schema %s", o.ID, r.Status, span.Link)
			}
		}
		if r.Status >= "400" && len(r.Codes) == 0 && o.ID != "readyz" && o.Method != http.MethodHead {
			t.Errorf("%s %s has no error code", o.ID, r.Status)
		}
		if r.Status < "300" && slices.Contains(r.Media, "application/json") && o.Answer == nil && o.ID != "openapi" {
			t.Errorf("%s %s has no example", o.ID, r.Status)
		}
	}
}

// TestDistinctTitle checks that titles that repeat the code or the meaning are omitted.
func TestDistinctTitle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code ErrorCode
		want string
	}{
		{ErrorCode{Code: "not_found", Title: "Not found", Meaning: "No such run."}, ""},
		{ErrorCode{Code: "api_key_required", Title: "API key required", Meaning: "Use a key."}, ""},
		{ErrorCode{Code: "internal", Title: "Internal error", Meaning: "Internal error. Search the log."}, ""},
		{ErrorCode{Code: "unauthenticated", Title: "Not authenticated", Meaning: "The key is unknown."}, "Not authenticated"},
	} {
		if got := tt.code.DistinctTitle(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.code.Code, got, tt.want)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	got := parseProse("One `code` and **strong** [link](/docs).\nStill one.\n\n## A title, here\n\n- a\n- b\n  more\n\n| x | y |\n|---|---|\n| `1` | 2 |\n\n```sh\na <b>\n```\n")
	want := Prose{
		{Paragraph: []Span{{Text: "One "}, {Text: "code", Code: true}, {Text: " and "}, {Text: "strong", Strong: true}, {Text: " "}, {Text: "link", Link: "/docs"}, {Text: ". Still one."}}},
		{Heading: &Heading{"A title, here", "a-title-here"}},
		{List: [][]Span{{{Text: "a"}}, {{Text: "b more"}}}},
		{Table: [][][]Span{{{{Text: "x"}}, {{Text: "y"}}}, {{{Text: "1", Code: true}}, {{Text: "2"}}}}},
		{Paragraph: []Span{{Text: "a <b>", Code: true}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for _, broken := range []string{"`", "**", "[", "[a](", "a ` b", "*", "- a", "<id>", "2 * 3 * 4"} {
		text := ""
		for _, span := range ParseSpans(broken) {
			text += span.Text
		}
		if text != broken {
			t.Errorf("%q is shown as %q", broken, text)
		}
	}
}

func TestCurl(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sample Sample
		want   string
	}{
		{Sample{Method: "GET", Path: "/a", Query: [][2]string{{"q", "a b"}, {"n", "1"}}}, `curl 'http://h/a?q=a+b&n=1'`},
		{Sample{Method: "DELETE", Path: "/a", Headers: [][2]string{{"x-api-key", "$PARLEY_API_KEY"}}}, "curl -X DELETE 'http://h/a' \\\n  -H \"x-api-key: $PARLEY_API_KEY\""},
		{Sample{Method: "POST", Path: "/a", Body: `{"m":"it's"}`}, "curl 'http://h/a' \\\n  -d '{\"m\":\"it'\\''s\"}'"},
		{Sample{Method: "POST", Path: "/a"}, "curl -X POST 'http://h/a'"},
		{Sample{Method: "POST", Path: "/a", Body: `{}`, stream: true}, "curl -N 'http://h/a' \\\n  -d '{}'"},
	} {
		if got := tt.sample.Curl("http://h"); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}
