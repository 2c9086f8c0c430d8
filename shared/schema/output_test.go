package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
		"unknown type":      {`{"type":"strin"}`, "type"},
		"broken pattern":    {`{"type":"string","pattern":"("}`, "pattern"},
		"look-ahead":        {`{"type":"string","pattern":"(?=a)"}`, "pattern"},
		"remote reference":  {`{"$ref":"https://example.com/schema"}`, "another document"},
		"dangling":          {`{"$ref":"#/$defs/none"}`, "#/$defs/none"},
		"refers to itself":  {`{"$ref":"#"}`, "no value matches"},
		"two in a circle":   {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "no value matches"},
		"requires itself":   {`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}`, "no value matches"},
		"list of itself":    {`{"type":"array","items":{"$ref":"#"},"minItems":1}`, "no value matches"},
		"a way out":         {`{"anyOf":[{"type":"null"},{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}]}`, ""},
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

// BenchmarkMismatches checks an answer of 10 KiB.
func BenchmarkMismatches(b *testing.B) {
	s, err := CompileOutput(json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":
		{"type":"object","required":["name","price"],"properties":{"name":{"type":"string"},"price":{"type":"number","minimum":0}}}}}}`))
	if err != nil {
		b.Fatal(err)
	}
	var items []string
	for i := range 240 {
		items = append(items, fmt.Sprintf(`{"name":"lamp %d","price":%d.5}`, i, i))
	}
	answer := []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
	b.ReportMetric(float64(len(answer)), "bytes")
	for b.Loop() {
		if found := s.Mismatches(answer); found != nil {
			b.Fatal(found)
		}
	}
}
