package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// reader makes definitions of a document's schemas and operations.
type reader struct {
	doc   document
	made  []definition
	fault error // the first
}

// definitions gives the types of a document: those of its schemas, then those of its operations, in its order.
func definitions(doc document) ([]definition, error) {
	r := &reader{doc: doc}
	for _, schema := range doc.root.at("components", "schemas").members() {
		r.define(typeName(schema.name), schema.value)
	}
	r.operations()
	if r.fault != nil {
		return nil, r.fault
	}
	known := map[string]bool{}
	for _, d := range r.made {
		known[d.name] = true
	}
	for _, d := range r.made {
		for _, name := range d.names() {
			if !known[name] {
				return nil, fmt.Errorf("%s names %s, which is not there", d.name, name)
			}
		}
	}
	return r.made, unique(r.made)
}

func (r *reader) fail(format string, args ...any) shape {
	if r.fault == nil {
		r.fault = fmt.Errorf(format, args...)
	}
	return shape{}
}

// define makes a schema a type with this name. Those of objects within it follow it.
func (r *reader) define(name string, schema object) {
	at := len(r.made)
	r.made = append(r.made, definition{name: name, doc: docOf(schema)})
	if merged, is := r.recordOf(schema); is {
		fields := r.fields(name, merged)
		r.made[at].record, r.made[at].fields, r.made[at].open = true, fields, isOpen(merged)
		return
	}
	s := r.shape(schema, name)
	r.made[at].shape, r.made[at].values = s, explained(schema)
}

// recordOf gives an object with named members, its allOf put together.
func (r *reader) recordOf(schema object) (object, bool) {
	if schema.has("allOf") {
		merged, ok := r.merge(schema, 0)
		return merged, ok && len(merged.at("properties")) > 0
	}
	kind, given := schema.get("type").(string)
	return schema, len(schema.at("properties")) > 0 && schema.text("$ref") == "" && (kind == "object" || !given && !schema.has("type"))
}

// merge puts the parts of an allOf together, when they are objects: of a member that several name the last word counts.
func (r *reader) merge(schema object, depth int) (object, bool) {
	if depth > 16 {
		r.fail("an allOf contains itself")
		return nil, false
	}
	parts := schema.objects("allOf")
	var properties, closed yaml.MapSlice
	var required []any
	for _, part := range append(parts, without(schema, "allOf")) {
		resolved, err := r.doc.resolve(part)
		if err != nil {
			r.fail("%w", err)
			return nil, false
		}
		if resolved.has("allOf") {
			inner, ok := r.merge(resolved, depth+1)
			if !ok {
				return nil, false
			}
			resolved = inner
		}
		if kind := resolved.text("type"); kind != "" && kind != "object" || resolved.has("enum") || resolved.has("oneOf") {
			return nil, false
		}
		for _, property := range resolved.at("properties") {
			i := slices.IndexFunc(properties, func(other yaml.MapItem) bool { return other.Key == property.Key })
			if i < 0 {
				properties = append(properties, property)
			} else {
				properties[i].Value = property.Value
			}
		}
		required = append(required, resolved.list("required")...)
		if resolved.get("additionalProperties") == false {
			closed = yaml.MapSlice{{Key: "additionalProperties", Value: false}}
		}
	}
	return object(append(yaml.MapSlice{
		{Key: "type", Value: "object"},
		{Key: "properties", Value: properties},
		{Key: "required", Value: required},
	}, closed...)), true
}

func without(o object, name string) object {
	return slices.DeleteFunc(slices.Clone(o), func(item yaml.MapItem) bool { return item.Key == name })
}

func (r *reader) fields(parent string, schema object) []field {
	required := schema.texts("required")
	var out []field
	for _, property := range schema.at("properties") {
		name := fmt.Sprint(property.Key)
		inner := asObject(property.Value)
		out = append(out, field{
			name: name, doc: docOf(inner), required: slices.Contains(required, name), shape: r.shape(inner, parent+typeName(name)),
		})
	}
	return out
}

// isOpen reports whether an object takes members that it does not name.
func isOpen(schema object) bool { return schema.get("additionalProperties") != false }

// shape reads a schema; an object with members of its own gets the name.
func (r *reader) shape(schema object, name string) shape {
	s := r.bare(schema, name)
	if schema.get("nullable") == true { // as OpenAPI 3.0 said it
		return oneOf(s, shape{kind: null})
	}
	return s
}

func (r *reader) bare(schema object, name string) shape {
	switch {
	case schema.text("$ref") != "":
		return r.refer(schema, name)
	case schema.has("const"):
		return literalOf(schema.get("const"))
	case schema.has("enum"):
		var of []shape
		for _, value := range schema.list("enum") {
			of = append(of, literalOf(value))
		}
		return oneOf(of...)
	case schema.has("allOf"):
		return r.all(schema, name)
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if choices := schema.objects(word); len(choices) > 0 && !onlyConstrains(choices) {
			return oneOf(r.choices(choices, name)...)
		}
	}
	if kinds := schema.list("type"); kinds != nil {
		var of []shape
		for _, kind := range kinds {
			of = append(of, r.plain(fmt.Sprint(kind), schema, name))
		}
		return oneOf(of...)
	}
	return r.plain(schema.text("type"), schema, name)
}

// refer reads a $ref, to a schema or to a member of one.
func (r *reader) refer(schema object, name string) shape {
	target, isSchema := strings.CutPrefix(schema.text("$ref"), "#/components/schemas/")
	if !isSchema {
		return r.fail("%s is no schema of the document", schema.text("$ref"))
	}
	within := strings.Split(target, "/")
	if len(within) == 1 {
		return shape{kind: reference, name: typeName(target)}
	}
	resolved, err := r.doc.resolve(schema)
	if err != nil {
		return r.fail("%s: %w", name, err)
	}
	if _, is := r.recordOf(resolved); is && len(within) == 3 && within[1] == "properties" {
		return shape{kind: reference, name: typeName(within[0]) + typeName(within[2])} // the name that it has where it stands
	}
	return r.shape(resolved, name)
}

func literalOf(value any) shape {
	if value == nil {
		return shape{kind: null}
	}
	return shape{kind: literal, value: value}
}

// all reads an allOf: as one object, or else as the first of its parts that says something.
func (r *reader) all(schema object, name string) shape {
	if _, is := r.recordOf(schema); is && len(schema.objects("allOf")) > 1 {
		r.define(name, schema)
		return shape{kind: reference, name: name}
	}
	for _, part := range schema.objects("allOf") {
		if s := r.shape(part, name); s.kind != unknown {
			return s
		}
	}
	return shape{kind: unknown}
}

func (r *reader) choices(choices []object, name string) []shape {
	var of []shape
	for i, choice := range choices {
		inner := name
		if i > 0 { // further objects without a name of their own are told apart by their place
			inner = fmt.Sprintf("%s%d", name, i+1)
		}
		if _, is := r.recordOf(choice); is && i == 0 && slices.ContainsFunc(r.made, func(d definition) bool { return d.name == name }) {
			inner = name + "1"
		}
		of = append(of, r.shape(choice, inner))
	}
	return of
}

// onlyConstrains reports whether alternatives do no more than to require members that the schema itself describes.
func onlyConstrains(choices []object) bool {
	return !slices.ContainsFunc(choices, func(choice object) bool {
		return slices.ContainsFunc(choice, func(item yaml.MapItem) bool {
			switch item.Key {
			case "required", "not", "description", "title":
				return false
			case "properties":
				return slices.ContainsFunc(choice.at("properties").members(), func(m member) bool { return m.value.has("type") || m.value.has("$ref") })
			}
			return true
		})
	})
}

func (r *reader) plain(kind string, schema object, name string) shape {
	switch kind {
	case "string":
		if media := schema.text("contentMediaType"); media == "application/octet-stream" || schema.text("format") == "binary" {
			return shape{kind: binary}
		}
		return shape{kind: text}
	case "integer":
		return shape{kind: number, whole: true}
	case "number":
		return shape{kind: number}
	case "boolean":
		return shape{kind: boolean}
	case "null":
		return shape{kind: null}
	case "array":
		if !schema.has("items") {
			return shape{kind: list, of: []shape{{kind: unknown}}}
		}
		return shape{kind: list, of: []shape{r.shape(schema.at("items"), name+"Item")}}
	case "object":
		return r.object(schema, name)
	case "":
		if len(schema.at("properties")) > 0 {
			return r.object(schema, name)
		}
		return shape{kind: unknown}
	}
	return r.fail("%s: there is no type %q", name, kind)
}

func (r *reader) object(schema object, name string) shape {
	switch {
	case len(schema.at("properties")) > 0:
		if schema.has("type") && schema.text("type") == "" { // one of several types: the others are not part of the record
			schema = append(without(schema, "type"), yaml.MapItem{Key: "type", Value: "object"})
		}
		if slices.ContainsFunc(r.made, func(d definition) bool { return d.name == name && !d.record }) {
			name += "Object" // a named schema that is an object or something else
		}
		r.define(name, schema)
		return shape{kind: reference, name: name}
	case schema.get("additionalProperties") == false:
		return shape{kind: empty}
	case len(schema.at("additionalProperties")) > 0:
		return shape{kind: dictionary, of: []shape{r.shape(schema.at("additionalProperties"), name+"Value")}}
	}
	return shape{kind: dictionary, of: []shape{{kind: unknown}}}
}

// explained gives the values of a closed list that says of each what it means.
func explained(schema object) []value {
	var out []value
	for _, choice := range schema.objects("oneOf") {
		if !choice.has("const") || choice.get("const") == nil {
			return nil
		}
		out = append(out, value{literal: choice.get("const"), doc: choice.text("description")})
	}
	if !slices.ContainsFunc(out, func(v value) bool { return v.doc != "" }) {
		return nil
	}
	return out
}

// docOf says what people are told of a schema.
func docOf(schema object) string {
	paragraphs := []string{strings.TrimSpace(schema.text("description"))}
	for _, word := range []string{"oneOf", "anyOf"} {
		choices := schema.objects(word)
		if len(choices) == 0 || !onlyConstrains(choices) {
			continue
		}
		var names []string
		for _, choice := range choices {
			if required := choice.texts("required"); len(required) > 0 {
				names = append(names, "`"+strings.Join(required, "` with `")+"`")
			}
		}
		if len(names) > 1 {
			count := map[string]string{"oneOf": "Exactly one", "anyOf": "At least one"}[word]
			paragraphs = append(paragraphs, count+" of these must be there: "+strings.Join(names, ", or ")+".")
		}
	}
	if schema.has("default") {
		if raw, err := encode(schema.get("default")); err == nil {
			last := len(paragraphs) - 1
			paragraphs[last] = strings.TrimSpace(paragraphs[last] + " Unless given: `" + string(raw) + "`.")
		}
	}
	if schema.get("deprecated") == true {
		paragraphs = append(paragraphs, "@deprecated")
	}
	return strings.TrimSpace(strings.Join(paragraphs, "\n\n"))
}
