package openapiimport

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"parley/shared/truncate"
)

// These lists contain the schema keywords that are copied, grouped by the type of their values.
// Other keywords are dropped, for example documentation and keywords that refer to other schemas.
// OpenAPI's own keywords, such as discriminator and xml, are among those that are dropped.
var (
	// Keywords with one schema.
	single = []string{
		"not", "additionalProperties", "items", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems",
	}
	// Keywords with a list of schemas.
	several = []string{"allOf", "oneOf", "anyOf", "prefixItems"}
	// Keywords with an object of schemas.
	named = []string{"properties", "patternProperties", "dependentSchemas"}
	// Keywords whose values contain no schemas.
	plain = []string{
		"type", "enum", "const", "default", "format", "pattern", "maxLength", "minLength", "maximum", "minimum", "exclusiveMaximum",
		"exclusiveMinimum", "multipleOf", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required",
		"dependentRequired", "minContains", "maxContains",
	}
)

// pass is one attempt to copy schemas within certain bounds. It replaces each reference with a copy
// of its target. The copies share with the document only values that do not change. A pass is used
// once, for one operation.
type pass struct {
	d    *document
	left int // number of values that this pass may still copy
	// Maximum depth of nested schemas. Deeper schemas are reduced to their type.
	depth int
	// Maximum length of a description, in characters. If it is 0, descriptions are dropped.
	texts  int
	within []string // references whose targets are being copied
}

// errTooLarge is the error for a schema that exceeds the bounds of a pass. The caller then tries
// again with narrower bounds.
const errTooLarge = skip("The schema of the operation's arguments is too large.")

// bounds are the bounds to try, from wide to narrow. The first bounds into which a schema fits are
// used. Narrower bounds lose descriptions first, and then the structure of nested values. All
// passes have the same limit for values, since only the size of the result matters.
var bounds = []pass{
	{left: 3000, depth: 12, texts: 300},
	{left: 3000, depth: 8, texts: 100},
	{left: 3000, depth: 6},
	{left: 3000, depth: 4},
	{left: 3000, depth: 3},
	{left: 3000, depth: 2},
	{left: 3000, depth: 1},
}

// take counts n copied values. It returns an error if the number of copied values exceeds the limit
// of the schema or of the whole import. The errors are errTooLarge and errWork.
func (p *pass) take(n int) error {
	p.left -= n
	p.d.work -= n
	switch {
	case p.d.work < 0:
		return errWork
	case p.left < 0:
		return errTooLarge
	default:
		return nil
	}
}

// schema copies a schema. The argument depth is the nesting depth of the schema. A schema deeper
// than the pass allows becomes a stub, which accepts any value of its type.
func (p *pass) schema(value any, depth int) (any, error) {
	if err := p.take(1); err != nil {
		return nil, err
	}

	// JSON Schema 2020-12 permits true and false. Model providers expect objects.
	if allowed, ok := value.(bool); ok {
		if allowed {
			return map[string]any{}, nil
		}
		return map[string]any{"not": map[string]any{}}, nil
	}

	object, ok := value.(map[string]any)
	if !ok {
		return nil, skip("A schema in the operation is not an object.")
	}

	ref, ok := object["$ref"].(string)
	if ok {
		return p.reference(object, ref, depth)
	}

	if depth > p.depth {
		return p.stub(object), nil
	}
	return p.keywords(object, depth)
}

// stub reduces a schema to its type. It returns the empty schema, which accepts any value, if the
// type is missing or is a list.
func (p *pass) stub(object map[string]any) any {
	if kind, ok := object["type"].(string); ok {
		return p.nullable(object, map[string]any{"type": kind})
	}
	return map[string]any{}
}

// reference copies the target of a reference. Keywords next to the reference apply in addition,
// except in OpenAPI 3.0, which ignores them. The target is copied at the depth of the
// reference.
func (p *pass) reference(object map[string]any, ref string, depth int) (any, error) {
	target, err := p.d.lookup(ref)
	if err != nil {
		return nil, err
	}
	// The reference is recursive: it refers to a schema that is being copied. The copy ends here.
	if slices.Contains(p.within, ref) || len(p.within) > maxDepth {
		inner, _ := target.(map[string]any)
		return p.stub(inner), nil
	}

	p.within = append(p.within, ref)
	copied, err := p.schema(target, depth)
	p.within = p.within[:len(p.within)-1]
	if err != nil || p.d.legacy || len(object) == 1 {
		return copied, err
	}

	// OpenAPI 3.1 permits keywords next to a reference, for example a description.
	beside := maps.Clone(object)
	delete(beside, "$ref")
	more, err := p.keywords(beside, depth)
	if err != nil {
		return nil, err
	}
	return both(copied, more), nil
}

// both returns a schema that matches the values that match both a and b. It may return a or b
// itself, or change a. In any other case, the result is an allOf of a and b.
func both(a, b any) any {
	first, _ := a.(map[string]any)
	second, _ := b.(map[string]any)
	if len(first) == 0 {
		return b
	}

	if len(second) == 0 || same(a, b) {
		return a
	}

	description, described := second["description"]
	if described && len(second) == 1 {
		first["description"] = description
		return a
	}
	return map[string]any{"allOf": []any{a, b}}
}

// keywords copies the keywords of a schema that has no reference. Keywords without a meaning in
// requests are omitted. The result is a new map, whose plain values are those of the document.
func (p *pass) keywords(object map[string]any, depth int) (any, error) {
	out := map[string]any{}
	for _, key := range plain {
		if v, found := object[key]; found {
			if err := p.measure(v); err != nil {
				return nil, err
			}
			out[key] = v
		}
	}

	if text := p.text(stringValue(object, "description"), p.texts); text != "" {
		out["description"] = text
	}

	for _, key := range single {
		// The old form of items, a list, is dropped. Values of such a list may then have any type.
		v, found := object[key]
		if _, tuple := v.([]any); !found || tuple {
			continue
		}
		inner, err := p.below(key, v, depth)
		if err != nil {
			return nil, err
		}
		out[key] = inner
	}

	if err := p.lists(object, out, depth); err != nil {
		return nil, err
	}
	if err := p.properties(object, out, depth); err != nil {
		return nil, err
	}
	return p.dialect(object, out), nil
}

// below copies a nested schema. It keeps the values true and false where these are valid schemas.
// The keyword items is the exception: model providers expect an object there.
func (p *pass) below(key string, value any, depth int) (any, error) {
	if b, ok := value.(bool); ok && key != "items" {
		return b, nil
	}
	return p.schema(value, depth+1)
}

// lists copies the keywords whose values are lists of schemas. Empty lists are dropped, because
// they are invalid.
func (p *pass) lists(object, out map[string]any, depth int) error {
	for _, key := range several {
		list := listFor(object, key)
		if len(list) == 0 {
			continue
		}
		copied := make([]any, 0, len(list))
		for _, v := range list {
			inner, err := p.schema(v, depth+1)
			if err != nil {
				return err
			}
			copied = append(copied, inner)
		}
		out[key] = copied
	}
	return nil
}

// properties copies the schemas of properties. It omits properties that occur only in responses. It
// also removes them from the list of required properties, and drops that list if it is empty or
// invalid. Names are visited in sorted order, so the result does not depend on the order in memory.
func (p *pass) properties(object, out map[string]any, depth int) error {
	for _, key := range named {
		schemas, _ := object[key].(map[string]any)
		if schemas == nil {
			continue
		}
		copied := make(map[string]any, len(schemas))
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			// A response's properties would mislead the model, and servers may reject them.
			if key == "properties" && p.d.readOnly(schemas[name]) {
				out["required"] = without(out["required"], name)
				continue
			}
			inner, err := p.schema(schemas[name], depth+1)
			if err != nil {
				return err
			}
			copied[name] = inner
		}
		out[key] = copied
	}
	if list, ok := out["required"].([]any); !ok || len(list) == 0 {
		delete(out, "required")
	}
	return nil
}

// without returns a list of names from which one name is removed. The argument is not changed,
// because it belongs to the document.
func without(list any, name string) any {
	names, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(names), func(v any) bool { return v == any(name) })
}

// readOnly reports whether a property occurs only in responses. A property that cannot be resolved
// is not read-only; copying it reports the error.
func (d *document) readOnly(schema any) bool {
	object, err := d.object(schema)
	return err == nil && object["readOnly"] == true
}

// dialect converts the keywords of OpenAPI 3.0 that have a different meaning in JSON Schema. In
// 3.0, exclusiveMinimum and exclusiveMaximum are flags for the limits, and nullable is a keyword.
// dialect modifies the schema out, and returns out or a schema that contains out.
func (p *pass) dialect(object, out map[string]any) any {
	if !p.d.legacy {
		return out
	}
	for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		flag, ok := out[exclusive].(bool)
		if !ok {
			continue
		}
		delete(out, exclusive)
		if at, found := out[limit]; found && flag {
			out[exclusive] = at
			delete(out, limit)
		}
	}
	return p.nullable(object, out)
}

// nullable returns the schema with null as an allowed value, if OpenAPI 3.0 marks the schema as
// nullable. It changes out. The argument object is the schema in the document.
func (p *pass) nullable(object, out map[string]any) any {
	if !p.d.legacy || object["nullable"] != true {
		return out
	}

	// A schema without a type, such as an enumeration or an allOf, needs an alternative for null.
	kind, typed := out["type"].(string)
	if !typed {
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
	}
	out["type"] = []any{kind, "null"}

	// Without null in the list, the enumeration would still exclude it.
	if list, ok := out["enum"].([]any); ok && !slices.Contains(list, nil) {
		out["enum"] = append(slices.Clone(list), nil)
	}
	return out
}

// measure counts the values within a value that is copied unchanged. Long strings count as several
// values, one for each 32 bytes. The errors are those of take.
func (p *pass) measure(value any) error {
	size := 1
	switch v := value.(type) {
	case string:
		size += len(v) / 32
	case []any:
		for _, inner := range v {
			if err := p.measure(inner); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, inner := range v {
			if err := p.measure(inner); err != nil {
				return err
			}
		}
	}
	return p.take(size)
}

// text returns a description without invisible characters, truncated to maximum characters. It
// returns "" if maximum is 0.
func (p *pass) text(text string, maximum int) string {
	if maximum == 0 {
		return ""
	}
	return truncate.Ellipsis(clean(text), maximum)
}

// clean removes invisible characters from a text. It keeps line breaks and tabs, and replaces other
// control characters by spaces. Texts of a document are shown to people and models, so they must
// not contain hidden instructions.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case r == unicode.ReplacementChar, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return -1
		default:
			return r
		}
	}, text))
}

// same reports whether two schemas are equal. Both are plain JSON values, so DeepEqual compares
// them completely.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }
