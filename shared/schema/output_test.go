package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
)

// TestCompileOutput lists schemas that are accepted or refused for answers.
func TestCompileOutput(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string {
		return strings.Repeat(`{"type":"object","properties":{"a":`, levels-1) + `{"type":"string"}` + strings.Repeat(`}}`, levels-1)
	}
	for name, c := range map[string]struct {
		schema string
		want   string // part of the error; "" if the schema is accepted
	}{
		"object":            {`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, ""},
		"list":              {`{"type":"array","items":{"type":"string"}}`, ""},
		"recursive":         {`{"type":"object","properties":{"next":{"$ref":"#"}}}`, ""},
		"16 levels":         {deep(16), ""},
		"17 levels":         {deep(17), "deeper than 16 levels"},
		"unknown type":      {`{"type":"strin"}`, `/type: unknown type "strin"; the types are array, boolean, integer, null, number, object, string`},
		"unknown inside":    {`{"type":"object","properties":{"type":{"type":["string","nul"]}}}`, `/properties/type/type/1: unknown type "nul"`},
		"unknown in a list": {`{"anyOf":[{"type":"string"},{"type":"int"}]}`, `/anyOf/1/type: unknown type "int"`},
		"no type":           {`{"const":{"type":"int"},"enum":[{"type":"int"}],"properties":{"type":{"type":"string"}}}`, ""},
		"broken pattern":    {`{"type":"string","pattern":"("}`, "pattern"},
		"look-ahead":        {`{"type":"string","pattern":"(?=a)"}`, "reading schema: /pattern: the pattern is invalid, or uses look-around"},
		"inside": {
			`{"properties":{"z":{"pattern":"(?=a)"},"a b/c":{"items":{"pattern":"(?=a)"}},"b":{"type":"string"}}}`,
			"reading schema: /properties/a b~1c/items/pattern: the pattern is invalid, or uses look-around",
		},
		"remote reference":  {`{"$ref":"https://example.com/schema"}`, "another document"},
		"dangling":          {`{"$ref":"#/$defs/none"}`, "#/$defs/none"},
		"refers to itself":  {`{"$ref":"#"}`, "no value matches"},
		"two in a circle":   {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "no value matches"},
		"requires itself":   {`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}`, "no value matches"},
		"list of itself":    {`{"type":"array","items":{"$ref":"#"},"minItems":1}`, "no value matches"},
		"a way out":         {`{"anyOf":[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}]}`, ""},
		"unknown dialect":   {`{"$schema":"https://example.com/own","type":"object"}`, "reading schema: /$schema: unknown dialect; supported are"},
		"requires a list":   {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"null"},{"$ref":"#"}],"minItems":2}`, "no value matches"},
		"requires more":     {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{}],"additionalItems":{"$ref":"#"},"minItems":2}`, "no value matches"},
		"requires less":     {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{}],"additionalItems":{"$ref":"#"},"minItems":1}`, ""},
		"not an object":     {`[]`, "not a JSON object"},
		"larger than 64 KB": {`{"description":"` + strings.Repeat("a", 64<<10) + `"}`, "longer"},
	} {
		_, err := CompileOutput(json.RawMessage(c.schema))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestMismatches compares the paths of mismatches.
func TestMismatches(t *testing.T) {
	t.Parallel()
	s, err := CompileOutput(json.RawMessage(`{"type":"object","required":["items"],"additionalProperties":false,"properties":{
		"items":{"type":"array","items":{"type":"object","properties":{"a/b":{"type":"number"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	many := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"a/b":"x"},`, 30), ",") + `]}`
	for answer, want := range map[string]string{
		`{"items":[]}`:                      ``,
		`{"items":[{"a/b":1},{"a/b":"x"}]}`: `/items/1/a~1b`,
		`{}`:                                ``,
		`text`:                              ``,
		many:                                `/items/0/a~1b`,
	} {
		found := s.Mismatches([]byte(answer))
		if valid := answer == `{"items":[]}`; valid != (len(found) == 0) || !valid && found[0].Path != want {
			t.Errorf("%.40s: %v, want %s", answer, found, want)
		}
		if len(found) > 20 {
			t.Errorf("%d mismatches, want at most 20", len(found))
		}
	}
}

// TestWorkDependsOnTheSize checks that a schema whose parts refer to each other twice costs little
// work for a small answer. The same schema is checked completely for a larger answer.
func TestWorkDependsOnTheSize(t *testing.T) {
	t.Parallel()
	const levels = 15
	parts := []string{`"l0":{"type":"string"}`}
	for n := range levels {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/l%d"}`, n)
		parts = append(parts, fmt.Sprintf(`"l%d":{"anyOf":[%s,%s]}`, n+1, ref, ref))
	}
	s, err := CompileOutput(json.RawMessage(fmt.Sprintf(`{"properties":{"a":{"$ref":"#/$defs/l%d"}},"$defs":{%s}}`, levels, strings.Join(parts, ","))))
	if err != nil {
		t.Fatal(err)
	}
	if found := s.Mismatches([]byte(`{"a":1}`)); len(found) != 1 || found[0].Message != errTooLarge.Error() {
		t.Errorf("a small answer: %v", found)
	}
	large := `{"a":1,"b":"` + strings.Repeat("x", 10<<10) + `"}`
	if found := s.Mismatches([]byte(large)); len(found) == 0 || found[0].Path != "/a" {
		t.Errorf("a large answer: %v", found)
	}
}

// TestListsWithEnumsAreChecked checks a list of ordinary objects with long enums, against a schema
// of a draft for which there is no quick check.
func TestListsWithEnumsAreChecked(t *testing.T) {
	t.Parallel()
	enum := func(values int) string {
		var list []string
		for n := range values {
			list = append(list, fmt.Sprintf(`"v%d"`, n))
		}
		return `{"enum":[` + strings.Join(list, ",") + `]}`
	}
	fields, values := []string{`"country":` + enum(249), `"currency":` + enum(180)}, []string{`"country":"v200"`, `"currency":"v100"`}
	for n := range 8 {
		fields = append(fields, fmt.Sprintf(`"field%d":{"type":"string"}`, n))
		values = append(values, fmt.Sprintf(`"field%d":"some text"`, n))
	}
	s, err := CompileOutput(json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":{"type":"object","properties":{` +
		strings.Join(fields, ",") + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Repeat(`{`+strings.Join(values, ",")+`},`, 100)
	if found := s.Mismatches([]byte(`[` + strings.TrimSuffix(list, ",") + `]`)); len(found) != 0 {
		t.Errorf("100 valid objects: %v", found)
	}
}

// TestOutputOfOlderDrafts checks answers against schemas of the older drafts of JSON Schema. The
// keywords have the meaning that the draft defines, but the keyword format is never checked.
func TestOutputOfOlderDrafts(t *testing.T) {
	t.Parallel()
	list := `{"type":"array","items":[{"type":"string","format":"date"}],"additionalItems":{"$ref":"#/definitions/n"},"definitions":{"n":{"type":"integer"}}}`
	for _, draft := range []string{
		"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-04/schema", "http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
	} {
		s, err := CompileOutput(json.RawMessage(`{"$schema":"` + draft + `",` + list[1:]))
		if err != nil {
			t.Errorf("%s: %v", draft, err)
			continue
		}
		for answer, want := range map[string]string{`["tomorrow",1,2]`: "", `[1]`: "/0", `["tomorrow",1,"2"]`: "/2"} {
			found := s.Mismatches([]byte(answer))
			if len(found) > 1 || (len(found) == 0) != (want == "") || want != "" && found[0].Path != want {
				t.Errorf("%s: %s: %v, want %q", draft, answer, found, want)
			}
		}
	}

	// Until draft 07, the keywords beside a reference have no effect.
	beside := `"$ref":"#/definitions/n","type":"string","definitions":{"n":{"type":"integer"}}}`
	for draft, want := range map[string]int{"http://json-schema.org/draft-07/schema#": 0, "https://json-schema.org/draft/2019-09/schema": 1} {
		s, err := CompileOutput(json.RawMessage(`{"$schema":"` + draft + `",` + beside))
		if err != nil || len(s.Mismatches([]byte(`7`))) != want {
			t.Errorf("%s: %v, want %d mismatches", draft, err, want)
		}
	}

	// A boolean exclusiveMinimum belongs to draft 04.
	for draft, accepted := range map[string]bool{"http://json-schema.org/draft-04/schema#": true, "http://json-schema.org/draft-07/schema#": false} {
		s, err := CompileOutput(json.RawMessage(`{"$schema":"` + draft + `","minimum":3,"exclusiveMinimum":true}`))
		if (err == nil) != accepted || accepted && (len(s.Mismatches([]byte(`3`))) != 1 || len(s.Mismatches([]byte(`4`))) != 0) {
			t.Errorf("%s: %v", draft, err)
		}
	}
}

// TestDecodeReadsJSON compares values with those of encoding/json.
func TestDecodeReadsJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`7`, ` -0.5e-3 `, `"a"`, `"\u00e4\n\"\\"`, "\"\xff\"", `""`, `[]`, `{}`, ` [ 1 , [ ] , { } , null , true , false ] `,
		`{ "a" : { "b\\" : [ "," , ":" , "}" ] } , "ä" : 1 }`, `["\ud83d\ude00","\ud83d"]`, "[\n1\t,\r2]",
	} {
		var want any
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if got, err := decode([]byte(raw), maxOutput); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, want %#v", raw, got, err, want)
		}
	}
	for _, raw := range []string{``, ` `, `{"a":1,"a":2}`, `[1e500]`, `{`, `[1,]`, `1 2`, strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		if got, err := decode([]byte(raw), maxOutput); err == nil {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// TestEmbed checks that embedding a schema changes its references.
func TestEmbed(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"b":1,"a":2}`: `{"b":1,"a":2}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/x","$defs":{"x":{"$ref":"#"}}}`: `{"$ref":"#/data/$defs/x","$defs":{"x":{"$ref":"#/data"}}}`,
		`{"properties":{"$ref":{"$ref":"#"},"const":{"$ref":"#"}},"const":{"$ref":"#"},"enum":[{"$ref":"#/a"}]}`:   `{"properties":{"$ref":{"$ref":"#/data"},"const":{"$ref":"#/data"}},"const":{"$ref":"#"},"enum":[{"$ref":"#/a"}]}`,
		`{"anyOf":[{"$ref":"#/x"},true,1.50]}`: `{"anyOf":[{"$ref":"#/data/x"},true,1.50]}`,
	} {
		if got := string(Embed(json.RawMessage(raw), "#/data")); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// TestHostileSchemasAreReadQuickly compiles schemas whose parts refer to each other in many ways.
// It also checks large answers that do not match such schemas.
func TestHostileSchemasAreReadQuickly(t *testing.T) {
	t.Parallel()
	parts := func(n int, part func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"d%d":%s`, i, part(i))
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(all, ",") + `}}`
	}
	list := func(item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", 200_000/len(item)), ",") + "]"
	}
	for name, raw := range map[string]string{
		"a chain": parts(1_500, func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, min(i+1, 1_499)) }),
		"doubled": parts(30, func(i int) string {
			return fmt.Sprintf(`{"allOf":[{"$ref":"#/$defs/d%[1]d"},{"$ref":"#/$defs/d%[1]d"}]}`, min(i+1, 29))
		}),
		"tripled": `{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"}}]}`,
		"ends far away": parts(700, func(i int) string {
			return fmt.Sprintf(`{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, (i+1)%700, (i+699)%700)
		}),
		"numbers":        `{"type":"array","items":{"type":"string","minLength":3}}`,
		"unique":         `{"type":"array","uniqueItems":true,"items":{"type":"string"}}`,
		"alternatives":   `{"type":"array","items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 200), ",") + `]}}`,
		"long patterns":  `{"type":"array","items":{"pattern":"(a|b|ab)*c{1,40}$"}}`,
		"extra contents": `{"type":"array","contains":{"type":"object"},"minContains":3,"items":{"not":{"type":"number"}}}`,
	} {
		var s *Schema
		var err error
		compiled := cputime.Of(func() { s, err = CompileOutput(json.RawMessage(raw)) })
		var checked time.Duration
		if err == nil {
			for _, answer := range []string{list(`1`), list(`"` + strings.Repeat("ab", 50) + `"`), list(`{}`), strings.Repeat("[", 60) + strings.Repeat("]", 60)} {
				var found []Mismatch
				checked = max(checked, cputime.Of(func() { found = s.Mismatches([]byte(answer)) }))
				if len(found) > maxMismatches {
					t.Errorf("%s: %d mismatches", name, len(found))
				}
			}
		}
		t.Logf("%s: compiled in %v (%v), checked in at most %v of processor time", name, compiled, err, checked)
		// The slowest check takes 0.8 s, and several times as long with the race detector.
		if limit := 20 * time.Second; compiled > limit || checked > limit {
			t.Errorf("%s took longer than %v", name, limit)
		}
	}
}

// BenchmarkMismatches checks an answer of 10 KiB.
func BenchmarkMismatches(b *testing.B) {
	s, err := CompileOutput(json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":
		{"type":"object","required":["name","price"],"properties":{"name":{"type":"string"},"price":{"type":"number","minimum":0}}}}}}`))
	if err != nil {
		b.Fatal(err)
	}
	var items []string
	for i := range 310 {
		items = append(items, fmt.Sprintf(`{"name":"lamp %d","price":%d.5}`, i, i))
	}
	answer := []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if found := s.Mismatches(answer); found != nil {
			b.Fatal(found)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(answer)), "bytes")
}
