package agentloop_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mismatch validates data with the jsonschema library alone, without this package's limits.
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

// written returns the JSON text of a value.
func written(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // cannot happen
	}
	return string(raw)
}

// generator generates schemas. For each schema, it generates answers that match the schema
// entirely, partly or not at all.
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

// answer returns the text of an answer. It is a value that a schema describes, which may be damaged
// or wrapped in another text. If the value is in an envelope, the envelope may contain citations of
// the value's parts. The argument cites makes an envelope with citations more likely.
func (g generator) answer(schema string, cites bool) string {
	var doc any
	_ = json.Unmarshal([]byte(schema), &doc) // a generated schema is valid JSON
	text := written(g.value(doc, doc, 12))
	if cites && g.n(2) == 0 {
		return `{"data":` + text + `,"citations":` + g.citations(text) + `}`
	}
	switch g.n(14) {
	case 0:
		return text[:g.n(len(text))]
	case 1:
		return "It is " + text
	case 2:
		return "```json\n" + text + "\n```"
	case 3:
		return text + text
	case 4:
		return `{"data":` + text + `}`
	case 5:
		return `{"data":` + text + `,"data":7}`
	case 6:
		return strings.Repeat("[", 70) + strings.Repeat("]", 70)
	case 7:
		return "[" + strings.TrimSuffix(strings.Repeat(text+",", 1+g.n(2_000)), ",") + "]"
	case 8:
		return pick(g, ``, `null`, `1e400`, `{"a":1,"a":2}`, `"\ud800"`, `{"__proto__":{}}`, "\x00")
	case 9, 10:
		return `{"data":` + text + `,"citations":` + g.citations(text) + `}`
	default:
		return text
	}
}

// citations returns a list that cites sources for the scalars of a JSON text. Some of the citations
// name a value or a source that does not exist.
func (g generator) citations(data string) string {
	type citation struct {
		Path   string `json:"path"`
		Source any    `json:"source"`
	}
	list := []citation{}
	for _, l := range leaves(data) {
		if len(list) < 50 && g.n(3) > 0 {
			list = append(list, citation{l.path, 1 + g.n(3)}, citation{l.path, 2})
		}
	}
	if g.n(4) == 0 {
		list = append(list, citation{pick(g, "", "/none", "/a/0", "~", "x"), pick[any](g, 1, 0, -1, 99, "1")})
	}
	return written(list)
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
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if g.n(10) > 0 {
				object[name] = g.value(root, properties[name], depth-1)
			}
		}
		return object
	default:
		return nil
	}
}
