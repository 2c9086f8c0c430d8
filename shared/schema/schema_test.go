package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/schema"
	"parley/shared/testkit/cputime"
)

const order = `{"type":"object","required":["id"],"additionalProperties":false,"properties":{
	"id":{"type":"integer","minimum":1},
	"state":{"enum":["open","closed"]},
	"code":{"type":"string","pattern":"^[A-Z]{2}-\\d+$"},
	"lines":{"type":"array","maxItems":3,"items":{"$ref":"#/$defs/line"}},
	"who":{"anyOf":[{"type":"string"},{"type":"object","required":["mail"],"properties":{"mail":{"type":"string"}}}]},
	"a/b~c":{"type":"boolean"}},
	"$defs":{"line":{"type":"object","required":["sku","n"],"properties":{"sku":{"type":"string","minLength":2},"n":{"type":"number","exclusiveMinimum":0}}}}}`

func compile(t *testing.T, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%.200s: %v", raw, err)
	}
	return s
}

func TestCheckNamesTheLocation(t *testing.T) {
	t.Parallel()
	s := compile(t, order)
	for arguments, want := range map[string]string{
		`{"id":1}`: "",
		`{"id":1.0,"state":"open","code":"AB-12","lines":[{"sku":"xx","n":0.5}],"who":"me"}`: "",
		`{"id":18446744073709551616}`:     "",
		`{}`:                              "missing property 'id'",
		`{"id":"1"}`:                      "/id: got string, want integer",
		`{"id":1,"di":2}`:                 "additional properties 'di' not allowed",
		`{"id":0}`:                        "/id: minimum: got 0, want 1",
		`{"id":1,"state":"secret value"}`: "/state: value must be one of 'open', 'closed'",
		`{"id":1,"code":"secret value"}`:  `/code: does not match the pattern ^[A-Z]{2}-\d+$`,
		`{"id":1,"lines":[{"sku":"xx","n":1},{"sku":"x","n":1}]}`: "/lines/1/sku: minLength: got 1, want 2",
		`{"id":1,"lines":[{"n":0}]}`:                              "/lines/0: missing property 'sku'; /lines/0/n: exclusiveMinimum: got 0, want 0",
		`{"id":1,"lines":[1,2,3,4]}`:                              "/lines: maxItems: got 4, want 3; /lines/0: got number, want object; /lines/1: got number, want object; and more",
		`{"id":1,"who":{"mail":3}}`:                               "/who/mail: matches none of the allowed forms; closest: got number, want string",
		`{"id":1,"a/b~c":1}`:                                      "/a~1b~0c: got number, want boolean",
		`[]`:                                                      "not a JSON object",
		`null`:                                                    "not a JSON object",
		``:                                                        "not JSON",
		`{"id":1}{}`:                                              "not JSON",
		`{"id":1,}`:                                               "not JSON",
		`{"id":1,"id":2}`:                                         `duplicate key "id"`,
		`{"id":1e999999999}`:                                      "a number is out of range: 1e999999999",
		`{"id":1e-401}`:                                           "a number is out of range: 1e-401",
		`{"id":1` + strings.Repeat("0", 200) + `}`:                   "a number is out of range: 1" + strings.Repeat("0", 78) + "…",
		strings.Repeat(`{"id":`, 65) + `1` + strings.Repeat(`}`, 65): "nested deeper than 64 levels",
		`{"id":"` + strings.Repeat("x", 256<<10) + `"}`:              "longer than 262144 bytes",
	} {
		err := s.Check(json.RawMessage(arguments))
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%.80s: got %q, want %q", arguments, got, want)
		}
	}
}

func TestMessagesAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1000)
	s := compile(t, `{"required":["`+long+`"],"properties":{"e":{"enum":["`+long+`"]},"`+long+`":{"type":"null"}}}`)
	err := s.Check(json.RawMessage(`{"e":1,"` + long + `":1}`))
	if err == nil || len([]rune(err.Error())) > 600 || !strings.Contains(err.Error(), "…") {
		t.Errorf("got %v", err)
	}
	deep := `{"properties":{"x":{"$ref":"#"},"y":{"type":"string"}}}`
	err = compile(t, deep).Check(json.RawMessage(strings.Repeat(`{"x":`, 20) + `{"y":1}` + strings.Repeat(`}`, 20)))
	if err == nil || err.Error() != "…/x/x/x/x/x/y: got number, want string" {
		t.Errorf("got %v", err)
	}
}

func TestOlderDraftsAreRead(t *testing.T) {
	t.Parallel()
	for _, draft := range []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"} {
		s := compile(t, `{"$schema":"`+draft+`","properties":{"a":{"items":[{"type":"string"}],"type":"array"}},"definitions":{"x":{}}}`)
		if err := s.Check(json.RawMessage(`{"a":[1]}`)); err == nil || err.Error() != "/a/0: got number, want string" {
			t.Errorf("%s: %v", draft, err)
		}
	}
	s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"d":{"format":"date"},"r":{"format":"regex"}}}`)
	if err := s.Check(json.RawMessage(`{"d":"tomorrow"}`)); err == nil || err.Error() != "/d: is not a valid date" {
		t.Errorf("a date: %v", err)
	}
	if err := s.Check(json.RawMessage(`{"r":"((a{1000}){1000}"}`)); err != nil { // the pattern is never compiled
		t.Errorf("a pattern as an argument: %v", err)
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var many strings.Builder
	for n := range 30 {
		fmt.Fprintf(&many, `%s"p%d":{"pattern":"%d[a-z]{900}"}`, strings.Repeat(",", min(n, 1)), n, n)
	}
	for raw, want := range map[string]string{
		``:                                     "not JSON",
		`true`:                                 "not a JSON object",
		`[]`:                                   "not a JSON object",
		`{"type":"thing"}`:                     "/type: ",
		`{"properties":[]}`:                    "/properties: got array, want object",
		`{"minimum":1e999999999}`:              "a number is out of range",
		`{"type":"a","type":"b"}`:              `duplicate key "type"`,
		`{"multipleOf":0}`:                     "/multipleOf: ",
		`{"$ref":"#/nowhere"}`:                 "nowhere",
		`{"$ref":"#/$defs/a/b"}`:               "",
		`{"$ref":"file://` + file + `"}`:       "refers to another document",
		`{"$ref":"` + file + `"}`:              "refers to another document",
		`{"$ref":"other.json"}`:                "refers to another document",
		`{"$ref":"http://127.0.0.1:1/x.json"}`: "refers to another document",
		`{"$id":"https://example.com/a/","$ref":"b.json"}`:                               "refers to another document",
		`{"$schema":"https://example.com/own"}`:                                          "/$schema: unknown dialect",
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`:                          "/$schema: unknown dialect",
		`{"$schema":"https://json-schema.org/schema","$ref":"https://example.com/own"}`:  "refers to another document",
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`:                        "refers to another document",
		`{"properties":{"x":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`:        "refers to another document",
		`{"$dynamicRef":"#a","$defs":{"b":{"$dynamicAnchor":"a"}}}`:                      "not supported",
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#"}`: "not supported",
		`{"pattern":"` + strings.Repeat("a", 1001) + `"}`:                                "a pattern is too large",
		`{"pattern":"a{900}b{900}c{900}"}`:                                               "a pattern is too large",
		`{"pattern":"((((x{9}){9}){9}y{700}){1}z{700})"}`:                                "a pattern is too large",
		`{"patternProperties":{"a{900}b{900}c{900}":{}}}`:                                "a pattern is too large",
		`{"properties":{` + many.String() + `}}`:                                         "a pattern is too large",
		`{"not":{"pattern":"((x{99}){99}){99}"}}`:                                        "cannot be checked",
		`{"patternProperties":{"^(?=x)":{}}}`:                                            "cannot be checked",
		`{"not":{"pattern":"^(?=x)"}}`:                                                   "cannot be checked",
		strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70):                   "nested deeper",
		`{"description":"` + strings.Repeat("x", 64<<10) + `"}`:                          "longer than 65536 bytes",
	} {
		_, err := schema.Compile(json.RawMessage(raw))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 || strings.Contains(err.Error(), "parley://") {
			t.Errorf("%.100s: got %v, want %q", raw, err, want)
		}
	}
}

func TestPatternsOfOtherEngines(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"a":{"type":"string","pattern":"^(?=.*x).+$","minLength":2},"l":{"pattern":"^.{1,2000}$"},"u":{"pattern":"^[\\u00e0-\\u00ff]+$"}}}`)
	for arguments, want := range map[string]string{
		`{"a":"no such letter"}`: "<nil>", // Parley does not support this pattern, so only the receiver of the call checks it
		`{"a":"x"}`:              "/a: minLength: got 1, want 2",
		`{"u":"é"}`:              "<nil>",
		`{"u":"e"}`:              `/u: does not match the pattern ^[\u00e0-\u00ff]+$`,
	} {
		if got := fmt.Sprint(s.Check(json.RawMessage(arguments))); got != want {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}

// hostile lists schemas and arguments whose check would take very long without limits.
func hostile() map[string][2]string {
	var doubling strings.Builder
	for n := range 60 {
		fmt.Fprintf(&doubling, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, n, n+1, n+1)
	}
	defs := `"$defs":{` + doubling.String() + `"a60":{"type":"object"}}`
	var failing strings.Builder
	for n := range 60 {
		fmt.Fprintf(&failing, `"b%d":{"dependentSchemas":{"x":{"$ref":"#/$defs/b%d"},"y":{"$ref":"#/$defs/b%d"}}},`, n, n+1, n+1)
	}
	nested := strings.Repeat(`{"x":`, 60) + "1" + strings.Repeat("}", 60)
	names, values := make([]string, 5000), make([]string, 20000)
	for n := range names {
		names[n] = fmt.Sprintf(`"k%d":1`, n)
	}
	for n := range values {
		values[n] = "1.5"
	}
	var patterns []string
	for n := range 20 {
		patterns = append(patterns, fmt.Sprintf(`"(x+x+)+%d[a-z]{90}":{}`, n))
	}
	return map[string][2]string{
		"doubling":           {`{"$ref":"#/$defs/a0",` + defs + `}`, `{}`},
		"doubling under not": {`{"not":{"$ref":"#/$defs/a0"},` + defs + `}`, `{}`},
		"failing under not":  {`{"not":{"$ref":"#/$defs/b0"},"$defs":{` + failing.String() + `"b60":false}}`, `{"x":1,"y":1}`},
		"doubling by level":  {`{"allOf":[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}}}]}`, nested},
		"by any of":          {`{"anyOf":[{"properties":{"x":{"$ref":"#"}},"required":["z"]},{"properties":{"x":{"$ref":"#"}},"required":["z"]}]}`, nested},
		"many patterns":      {`{"patternProperties":{` + strings.Join(patterns, ",") + `}}`, `{` + strings.Join(names, ",") + `}`},
		"long text":          {`{"properties":{"a":{"pattern":"(x+x+)+y[a-z]{900}"}}}`, `{"a":"` + strings.Repeat("x", 200<<10) + `"}`},
		"wide":               {`{"properties":{"a":{"items":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"number"},`, 3000), ",") + `]}}}}`, `{"a":[` + strings.Join(values, ",") + `]}`},
		"cycle":              {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`},
	}
}

func TestHostileSchemasEndSoon(t *testing.T) {
	t.Parallel()
	for name, c := range hostile() {
		var err error
		took := cputime.Of(func() { err = compile(t, c[0]).Check(json.RawMessage(c[1])) })
		if err == nil || took > 20*time.Second { // takes about 100 ms on an idle machine, and would never end without the limit
			t.Errorf("%s: %v after %s", name, err, took)
		}
		t.Log(name, took, err)
	}
}

func TestCompileOfMuchEndsSoon(t *testing.T) {
	t.Parallel()
	var ids, refs []string
	for n := range 1500 {
		ids = append(ids, fmt.Sprintf(`"a%d":{"$id":"https://example.com/x%d"}`, n, n))
		refs = append(refs, fmt.Sprintf(`{"$ref":"#/x/%d"}`, n))
	}
	for name, raw := range map[string]string{
		"parts": `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 8000), ",") + `]}`,
		"ids":   `{"$defs":{` + strings.Join(ids, ",") + `}}`,
		"refs":  `{"allOf":[` + strings.Join(refs, ",") + `],"x":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 1500), ",") + `]}`,
	} {
		var err error
		if took := cputime.Of(func() { _, err = schema.Compile(json.RawMessage(raw)) }); took > 30*time.Second {
			t.Errorf("%s: %v after %s", name, err, took)
		} else {
			t.Log(name, took, err)
		}
	}
}

func TestLargeArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	s := compile(t, order)
	lines := compile(t, strings.Replace(order, `"maxItems":3,`, "", 1))
	many := `{"id":1,"lines":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"a word","n":12},`, 5000), ",") + `]}`
	if err := lines.Check(json.RawMessage(many)); err != nil {
		t.Errorf("5000 lines: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := s.Check(json.RawMessage(`{"id":1,"lines":[{"sku":"xx","n":0.5}]}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(order), []byte(`{"id":1,"lines":[{"sku":"xx","n":0.5}]}`))
	for _, c := range hostile() {
		if len(c[0]) < 4000 && len(c[1]) < 4000 {
			f.Add([]byte(c[0]), []byte(c[1]))
		}
	}
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","properties":{"r":{"$ref":"x"}}}`), []byte(`{"r":1}`))
	f.Add([]byte(`{"unevaluatedProperties":false,"if":{"const":1},"then":{"enum":[1,{}]},"uniqueItems":true,"contains":{}}`), []byte(`{"a":[1,1]}`))
	f.Fuzz(func(t *testing.T, raw, arguments []byte) {
		var err error
		took := cputime.Of(func() {
			var s *schema.Schema
			if s, err = schema.Compile(raw); err == nil {
				err = s.Check(arguments)
			}
		})
		if took > 30*time.Second {
			t.Errorf("took %s", took)
		}
		if err != nil && len([]rune(err.Error())) > 1000 {
			t.Errorf("a message of %d characters: %.200s", len([]rune(err.Error())), err)
		}
	})
}
