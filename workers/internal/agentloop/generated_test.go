package agentloop_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/shared/testkit/cputime"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/scripted"
)

// maxRunTime is the maximum processor time of a run with a generated schema. Most of it is the
// check of the answers.
const maxRunTime = 5 * time.Second

// TestGeneratedSchemas runs agents with generated schemas and with models that give faulty answers.
// The data of a completed run must match its schema. A validator without this package's limits
// checks this again. A failed run must name the errors. LONG=1 tests 100,000 schemas.
func TestGeneratedSchemas(t *testing.T) {
	t.Parallel()
	n := 4_000
	if long := os.Getenv("LONG"); long != "" && long != "0" && long != "no" { // the same values as in the Makefile
		n = 100_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	var completed, failed, refused int
	var slowest time.Duration
	for i := range n {
		g := generator{rand.New(rand.NewPCG(seed, uint64(i)))}
		raw := g.schema(4)
		c, err := agentloop.NewContract(json.RawMessage(raw))
		if err != nil { // the schema is refused, for example because it refers to itself without end
			refused++
			continue
		}

		var model llm.Model = offline.Model{}
		if g.n(4) > 0 {
			model = scripted.New("scripted", g.answer(raw), g.answer(raw), g.answer(raw))
		}
		var out agentloop.Output
		slowest = max(slowest, cputime.Of(func() {
			out, err = newLoop().Run(t.Context(), agentloop.Input{Message: g.words(), Model: model, Contract: c}, newMemory(), nil)
		}))
		if slowest > maxRunTime {
			t.Fatalf("seed %d, schema %d: the run took %v: %s", seed, i, slowest, raw)
		}
		if err == nil {
			completed++
			if fault := mismatch(raw, out.Data); fault != nil || string(out.Data) != out.Text {
				t.Fatalf("seed %d, schema %d: completed with %s: %v\n%s", seed, i, out.Data, fault, raw)
			}
			continue
		}

		failed++
		e := codeFor(t, err)
		if e.Code != agentloop.CodeOutputInvalid || len(e.Mismatches) == 0 || len(e.Mismatches) > 20 || out.Turns != 2 {
			t.Fatalf("seed %d, schema %d: %s after %d turns, %v", seed, i, e.Code, out.Turns, e.Mismatches)
		}
		for _, m := range e.Mismatches {
			if m.Path != "" && m.Path[0] != '/' || m.Message == "" {
				t.Fatalf("seed %d, schema %d: mismatch %+v", seed, i, m)
			}
		}
	}
	t.Logf("%d schemas: %d completed, %d failed with output_invalid, %d refused; the slowest run took %v", n, completed, failed, refused, slowest)
	if completed < n/10 || failed < n/10 || refused > n/2 {
		t.Error("the generator no longer produces a mixture")
	}
}

// mismatch validates data only with the library.
func mismatch(schema string, data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err //nolint:wrapcheck // a test
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		return err //nolint:wrapcheck // a test
	}
	compiled, err := c.Compile("s.json")
	if err != nil {
		return err //nolint:wrapcheck // a test
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		return err //nolint:wrapcheck // a test
	}
	return compiled.Validate(value) //nolint:wrapcheck // a test
}

// generator generates schemas. For each schema, it generates answers that match it entirely, partly
// or not at all.
type generator struct{ *rand.Rand }

func (g generator) n(n int) int { return g.IntN(n) }

func pick[T any](g generator, all ...T) T { return all[g.n(len(all))] }

var generatedNames = []string{"a", "b", "name", "total", "data", "citations", "a/b", "m~n", "due date", "ä", "$ref", "items"}

// words returns the text of a message.
func (g generator) words() string {
	all := make([]string, 1+g.n(12))
	for i := range all {
		all[i] = pick(g, "Ada Lovelace", "7", "-3.25", "red", "green", "2026-03-04", "ada@example.com", "total: 12", "not paid", "1,200.50", "and", "the", "“x y”", "name is Bo", ";", ".")
	}
	return strings.Join(all, " ")
}

// schema returns a schema with at most depth levels. It may contain references to its own parts.
func (g generator) schema(depth int) string {
	root := g.part(depth)
	if g.n(3) > 0 {
		return root
	}
	return strings.TrimSuffix(root, "}") + fmt.Sprintf(`,"$defs":{"x":%s,"y":%s}}`, g.part(depth-1), g.part(depth-1))
}

// part returns a part of a schema with at most depth levels. It is an object with at least one
// member.
func (g generator) part(depth int) string {
	kinds := 12
	if depth <= 0 {
		kinds = 6
	}
	switch g.n(kinds) {
	case 0:
		return `{"type":"string"` + pick(g, ``, `,"minLength":2`, `,"maxLength":3`, `,"pattern":"^[a-z]+$"`, `,"pattern":"^[A-Z]\\d*"`, `,"format":"date"`, `,"format":"email"`) + `}`
	case 1:
		return `{"type":` + pick(g, `"integer"`, `"number"`, `["integer","null"]`) + pick(g, ``, `,"minimum":5`, `,"exclusiveMaximum":0`, `,"multipleOf":0.5`, `,"minimum":1,"maximum":2`) + `}`
	case 2:
		return pick(g, `{"enum":["red","green",null]}`, `{"const":{"k":[1]}}`, `{"enum":[1,2.5,"x"]}`, `{"type":"string","enum":["a b"]}`)
	case 3:
		return pick(g, `{"type":"boolean"}`, `{"type":"null"}`, `{"title":"any"}`, `{"type":["string","null","object"]}`)
	case 4:
		return pick(g, `{"$ref":"#"}`, `{"$ref":"#/$defs/x"}`, `{"$ref":"#/$defs/y"}`, `{"type":"object"}`)
	case 5:
		return pick(g, `{"type":"array"}`, `{"type":"array","items":{"type":"number"},"minItems":1}`, `{"type":"array","prefixItems":[{"type":"string"}],"items":false}`)
	case 6:
		return fmt.Sprintf(`{"type":"array","items":%s%s}`, g.part(depth-1), pick(g, ``, `,"minItems":2`, `,"maxItems":1`, `,"uniqueItems":true`))
	case 7:
		return fmt.Sprintf(`{"%s":[%s,%s]}`, pick(g, "anyOf", "oneOf", "allOf"), g.part(depth-1), g.part(depth-1))
	case 8:
		return fmt.Sprintf(`{"not":%s}`, g.part(depth-1))
	case 9:
		return fmt.Sprintf(`{"if":%s,"then":%s,"else":%s}`, g.part(depth-1), g.part(depth-1), g.part(depth-1))
	default:
		return g.object(depth)
	}
}

// object returns the schema of an object.
func (g generator) object(depth int) string {
	var properties, required []string
	for _, name := range generatedNames {
		if g.n(4) > 0 {
			continue
		}
		properties = append(properties, fmt.Sprintf("%q:%s", name, g.part(depth-1)))
		if g.n(2) == 0 {
			required = append(required, fmt.Sprintf("%q", name))
		}
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]` +
		pick(g, ``, `,"additionalProperties":false`, `,"minProperties":1`, `,"unevaluatedProperties":false`) + `}`
}

// answer returns an answer of a model. It is a value that a schema describes, which may be damaged
// or wrapped in another text.
func (g generator) answer(schema string) scripted.Call {
	var doc any
	_ = json.Unmarshal([]byte(schema), &doc) // a generated schema is valid JSON
	data := g.value(doc, doc, 12)
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // cannot happen
	}
	text := string(raw)
	switch g.n(14) {
	case 0:
		text = text[:g.n(len(text))]
	case 1:
		text = "It is " + text
	case 2:
		text = "```json\n" + text + "\n```"
	case 3:
		text += text
	case 4:
		text = `{"data":` + text + `}`
	case 5:
		text = `{"data":` + text + `,"citations":[{"path":"/a","source":1}]}`
	case 6:
		text = `{"data":` + text + `,"data":7}`
	case 7:
		text = strings.Repeat("[", 70) + strings.Repeat("]", 70)
	case 8:
		text = "[" + strings.TrimSuffix(strings.Repeat(text+",", 1+g.n(2_000)), ",") + "]"
	case 9:
		text = pick(g, ``, `null`, `1e400`, `{"a":1,"a":2}`, `"\ud800"`, `{"__proto__":{}}`, "\x00")
	}
	call := scripted.Call{Usage: llm.Usage{InputTokens: 1, OutputTokens: 1}}
	if text != "" {
		call.Deltas = []string{text}
	}
	return call
}

// value returns a value that probably matches the given part of a schema.
func (g generator) value(root, part any, depth int) any {
	s, ok := part.(map[string]any)
	if !ok || depth == 0 || g.n(40) == 0 {
		return pick[any](g, nil, 1, "x", true, []any{}, map[string]any{})
	}
	if ref, ok := s["$ref"].(string); ok {
		defs, _ := root.(map[string]any)["$defs"].(map[string]any)
		if ref == "#" {
			return g.value(root, root, depth-1)
		}
		return g.value(root, defs[strings.TrimPrefix(ref, "#/$defs/")], depth-1)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "enum"} {
		if list, ok := s[keyword].([]any); ok {
			one := pick(g, list...)
			if keyword == "enum" {
				return one
			}
			return g.value(root, one, depth-1)
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	kind, _ := s["type"].(string)
	if list, ok := s["type"].([]any); ok {
		kind, _ = pick(g, list...).(string)
	}
	switch kind {
	case "string":
		return pick(g, "ab", "A1", "abc", "2026-03-04", "")
	case "integer", "number":
		return pick[any](g, 5, 1, 2, -1, 0, 2.5)
	case "boolean":
		return g.n(2) == 0
	case "array":
		list := []any{}
		for range g.n(4) {
			list = append(list, g.value(root, s["items"], depth-1))
		}
		return list
	case "object":
		object := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for name, sub := range properties {
			if g.n(10) > 0 {
				object[name] = g.value(root, sub, depth-1)
			}
		}
		return object
	default:
		return nil
	}
}
