package openapi

import (
	"fmt"
	"strings"
)

// Type describes the values of a schema in a few words, such as "list of Agent" or "text, 1 to 120
// characters". The name of a schema is a Span with a link to that schema. A Type is shown after the
// name of a field.
type Type []Span

// words maps JSON's types to the names that the documentation pages use. The document uses no other
// types.
var words = map[string]string{
	"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false",
	"object": "object", "null": "null", "array": "list",
}

// schemasPath is the path of the page that lists the schemas. The router serves the page at this
// path.
const schemasPath = "/docs/api/schemas"

// schemaAnchor returns the URL fragment of a named schema. The fragment is unique, because the
// names of schemas are unique.
func schemaAnchor(name string) string { return "schema-" + name }

// typeName returns a short description of a schema. A reference is described by its name only.
// Alternatives are joined by "or".
func typeName(schema object) Type {
	if name, isRef := strings.CutPrefix(schema.Text("$ref"), "#/components/schemas/"); isRef {
		return Type{{Text: name, Link: schemasPath + "#" + schemaAnchor(name)}}
	}

	if choices := schema.Objects("oneOf"); len(choices) > 0 {
		var out Type
		for i, choice := range choices {
			if i > 0 {
				out = append(out, Span{Text: " or "})
			}
			out = append(out, typeName(choice)...)
		}
		return out
	}

	if value := schema.Get("const"); value != nil {
		return Type{{Text: fmt.Sprint(value), Code: true}}
	}

	if values := schema.List("enum"); len(values) > 0 {
		return oneOfValues(values)
	}

	out := plainType(schema)
	if rules := rulesFor(schema); rules != "" {
		out = append(out, Span{Text: rules})
	}
	return out
}

// oneOfValues lists the values of an enumeration. They are shown as code.
func oneOfValues(values []any) Type {
	var out Type
	for i, value := range values {
		if i > 0 {
			out = append(out, Span{Text: " or "})
		}
		out = append(out, Span{Text: fmt.Sprint(value), Code: true})
	}
	return out
}

// plainType describes the type of a schema without limits such as its length. A schema without a
// type is "anything".
func plainType(schema object) Type {
	switch kind := schema.Get("type").(type) {
	case string:
		if items := schema.At("items"); kind == "array" && items != nil {
			return append(Type{{Text: "list of "}}, typeName(items)...)
		}
		if value := schema.At("additionalProperties"); kind == "object" && value != nil {
			return append(Type{{Text: "object of "}}, typeName(value)...)
		}
		return Type{{Text: words[kind]}}
	case []any:
		names := make([]string, len(kind))
		for i, name := range kind {
			names[i] = words[fmt.Sprint(name)]
		}
		return Type{{Text: strings.Join(names, " or ")}}
	}
	return Type{{Text: "anything"}}
}

// rulesFor describes the limits of a value, such as its length. The result begins with a comma, or
// is "" if there are no limits.
func rulesFor(schema object) string {
	// The function add combines a minimum and a maximum into one phrase.
	var rules []string
	add := func(least, limit, unit string) {
		lo, hi := schema.Get(least), schema.Get(limit)
		switch {
		case lo != nil && hi != nil && fmt.Sprint(lo) == fmt.Sprint(hi):
			rules = append(rules, fmt.Sprintf("%v%s", lo, unit))
		case lo != nil && hi != nil:
			rules = append(rules, fmt.Sprintf("%v to %v%s", lo, hi, unit))
		case lo != nil && fmt.Sprint(lo) == "1" && unit != "":
			rules = append(rules, "not empty")
		case lo != nil:
			rules = append(rules, fmt.Sprintf("%v%s or more", lo, unit))
		case hi != nil:
			rules = append(rules, fmt.Sprintf("up to %v%s", hi, unit))
		}
	}

	add("minLength", "maxLength", " characters")
	add("minimum", "maximum", "")
	add("minItems", "maxItems", " entries")
	add("minProperties", "maxProperties", " entries")
	if schema.Flag("uniqueItems") {
		rules = append(rules, "unique")
	}
	if value := schema.Get("default"); value != nil {
		rules = append(rules, fmt.Sprintf("default %v", value))
	}

	if len(rules) == 0 {
		return ""
	}
	return ", " + strings.Join(rules, ", ")
}
