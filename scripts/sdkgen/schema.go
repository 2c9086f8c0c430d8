package main

import (
	"fmt"
	"slices"
	"strings"

	"parley/shared/yamldoc"
)

// reader derives definitions from the schemas and operations of a document. It is used once. After
// the first error, it continues, but its result is not used.
type reader struct {
	doc   object
	made  []definition
	fault error // the first error that occurred
}

// definitions returns the types that a document defines: first those of its schemas, then those of
// its operations. Both groups are in the document's order.
func definitions(doc object) ([]definition, error) {
	r := &reader{doc: doc}
	for name, schema := range doc.At("components", "schemas").Members() {
		r.define(typeName(name), schema)
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
				return nil, fmt.Errorf("%s references %s, which does not exist", d.name, name)
			}
		}
	}
	return r.made, unique(r.made)
}

// fail records an error, unless an earlier one was recorded. It returns the zero shape, so that
// callers can return its result.
func (r *reader) fail(format string, args ...any) shape {
	if r.fault == nil {
		r.fault = fmt.Errorf(format, args...)
	}
	return shape{}
}

// define defines a type for a schema, followed by types for the objects in the schema.
func (r *reader) define(name string, schema object) {
	at := len(r.made)
	r.made = append(r.made, definition{name: name, doc: docFor(schema)})
	if merged, is := r.recordFor(schema); is {
		fields := r.fields(name, merged)
		r.made[at].record, r.made[at].fields, r.made[at].open = true, fields, isOpen(merged)
		return
	}
	s := r.shape(schema, name)
	r.made[at].shape, r.made[at].values = s, documentedValues(schema)
}

// recordFor returns the schema of an object with named members. It merges the parts of an allOf.
func (r *reader) recordFor(schema object) (object, bool) {
	if schema.Has("allOf") {
		merged, ok := r.merge(schema, 0)
		return merged, ok && len(merged.At("properties")) > 0
	}
	kind, given := schema.Get("type").(string)
	return schema, len(schema.At("properties")) > 0 && schema.Text("$ref") == "" && (kind == "object" || !given && !schema.Has("type"))
}

// merge merges the parts of an allOf if they are objects. If several parts define a member, it uses
// the last definition.
func (r *reader) merge(schema object, depth int) (object, bool) {
	if depth > 16 {
		r.fail("a schema contains itself through allOf")
		return nil, false
	}

	parts := schema.Objects("allOf")
	var properties, closed object
	var required []any
	for _, part := range append(parts, without(schema, "allOf")) {
		resolved, err := r.doc.Resolve(part)
		if err != nil {
			r.fail("%w", err)
			return nil, false
		}
		if resolved.Has("allOf") {
			inner, ok := r.merge(resolved, depth+1)
			if !ok {
				return nil, false
			}
			resolved = inner
		}
		if kind := resolved.Text("type"); kind != "" && kind != "object" || resolved.Has("enum") || resolved.Has("oneOf") {
			return nil, false
		}
		for _, property := range resolved.At("properties") {
			i := slices.IndexFunc(properties, func(other yamldoc.Item) bool { return other.Key == property.Key })
			if i < 0 {
				properties = append(properties, property)
			} else {
				properties[i].Value = property.Value
			}
		}
		required = append(required, resolved.List("required")...)
		if resolved.Get("additionalProperties") == false {
			closed = object{{Key: "additionalProperties", Value: false}}
		}
	}

	return append(object{
		{Key: "type", Value: "object"},
		{Key: "properties", Value: properties},
		{Key: "required", Value: required},
	}, closed...), true
}

// without returns a copy of an object without the member that has the given name.
func without(o object, name string) object {
	return slices.DeleteFunc(slices.Clone(o), func(item yamldoc.Item) bool { return item.Key == name })
}

// fields returns the fields of a record. An object in a field becomes a type whose name joins the
// names of the record and the field.
func (r *reader) fields(parent string, schema object) []field {
	required := schema.Texts("required")
	var out []field
	for _, property := range schema.At("properties") {
		name := property.Key
		inner, _ := property.Value.(object)
		out = append(out, field{
			name: name, doc: docFor(inner), required: slices.Contains(required, name), shape: r.shape(inner, parent+typeName(name)),
		})
	}
	return out
}

// isOpen reports whether an object may have additional members.
func isOpen(schema object) bool { return schema.Get("additionalProperties") != false }

// shape returns the type expression of a schema. If the schema is an object with members, it
// defines a type with the given name and returns a reference to it.
func (r *reader) shape(schema object, name string) shape {
	s := r.bare(schema, name)
	if schema.Get("nullable") == true { // the syntax of OpenAPI 3.0
		return oneOf(s, shape{kind: null})
	}
	return s
}

// bare returns the type expression of a schema without regard to "nullable".
func (r *reader) bare(schema object, name string) shape {
	switch {
	case schema.Text("$ref") != "":
		return r.refer(schema, name)
	case schema.Has("const"):
		return literalFor(schema.Get("const"))
	case schema.Has("enum"):
		var of []shape
		for _, value := range schema.List("enum") {
			of = append(of, literalFor(value))
		}
		return oneOf(of...)
	case schema.Has("allOf"):
		return r.all(schema, name)
	}

	for _, word := range []string{"oneOf", "anyOf"} {
		if choices := schema.Objects(word); len(choices) > 0 && !onlyConstrains(choices) {
			return oneOf(r.choices(choices, name)...)
		}
	}

	if kinds := schema.List("type"); kinds != nil {
		var of []shape
		for _, kind := range kinds {
			of = append(of, r.plain(fmt.Sprint(kind), schema, name))
		}
		return oneOf(of...)
	}
	return r.plain(schema.Text("type"), schema, name)
}

// refer resolves a $ref to a schema, or to a member of a schema.
func (r *reader) refer(schema object, name string) shape {
	target, isSchema := strings.CutPrefix(schema.Text("$ref"), "#/components/schemas/")
	if !isSchema {
		return r.fail("%s is not a schema in the document", schema.Text("$ref"))
	}

	within := strings.Split(target, "/")
	if len(within) == 1 {
		return shape{kind: reference, name: typeName(target)}
	}

	resolved, err := r.doc.Resolve(schema)
	if err != nil {
		return r.fail("%s: %w", name, err)
	}
	if _, is := r.recordFor(resolved); is && len(within) == 3 && within[1] == "properties" {
		return shape{kind: reference, name: typeName(within[0]) + typeName(within[2])} // the member's type has this name
	}
	return r.shape(resolved, name)
}

// literalFor returns the shape of a single value, or null.
func literalFor(value any) shape {
	if value == nil {
		return shape{kind: null}
	}
	return shape{kind: literal, value: value}
}

// all returns the type expression of an allOf: one object, or the first part that has a type.
// Without either, any value is allowed.
func (r *reader) all(schema object, name string) shape {
	if _, is := r.recordFor(schema); is && len(schema.Objects("allOf")) > 1 {
		r.define(name, schema)
		return shape{kind: reference, name: name}
	}
	for _, part := range schema.Objects("allOf") {
		if s := r.shape(part, name); s.kind != unknown {
			return s
		}
	}
	return shape{kind: unknown}
}

// choices returns the shapes of the alternatives of a schema, in order. Objects among them become
// types with the given name and a number.
func (r *reader) choices(choices []object, name string) []shape {
	var of []shape
	for i, choice := range choices {
		inner := name
		if i > 0 { // objects after the first one get a number as a part of their name
			inner = fmt.Sprintf("%s%d", name, i+1)
		}
		if _, is := r.recordFor(choice); is && i == 0 && slices.ContainsFunc(r.made, func(d definition) bool { return d.name == name }) {
			inner = name + "1"
		}
		of = append(of, r.shape(choice, inner))
	}
	return of
}

// onlyConstrains reports whether the alternatives of a schema only say which members are required.
// If so, the schema itself describes the members.
func onlyConstrains(choices []object) bool {
	return !slices.ContainsFunc(choices, func(choice object) bool {
		return slices.ContainsFunc(choice, func(item yamldoc.Item) bool {
			switch item.Key {
			case "required", "not", "description", "title":
				return false
			case "properties":
				for _, property := range choice.At("properties").Members() {
					if property.Has("type") || property.Has("$ref") {
						return true
					}
				}
				return false
			}
			return true
		})
	})
}

// plain returns the type expression of a schema for one of the types that the schema allows.
func (r *reader) plain(kind string, schema object, name string) shape {
	switch kind {
	case "string":
		if media := schema.Text("contentMediaType"); media == "application/octet-stream" || schema.Text("format") == "binary" {
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
		if !schema.Has("items") {
			return shape{kind: list, of: []shape{{kind: unknown}}}
		}
		return shape{kind: list, length: fixedLength(schema), of: []shape{r.shape(schema.At("items"), name+"Item")}}
	case "object":
		return r.object(schema, name)
	case "":
		if len(schema.At("properties")) > 0 {
			return r.object(schema, name)
		}
		return shape{kind: unknown}
	}
	return r.fail("%s: unknown type %q", name, kind)
}

// fixedLength returns the number of elements of a list if the schema allows only one, otherwise 0.
func fixedLength(schema object) int {
	length, _ := schema.Get("minItems").(int)
	if schema.Get("maxItems") != length {
		return 0
	}
	return length
}

// object returns a reference to a new record if the schema has properties. Otherwise it returns a
// dictionary, or an object without members.
func (r *reader) object(schema object, name string) shape {
	switch {
	case len(schema.At("properties")) > 0:
		if schema.Has("type") && schema.Text("type") == "" { // the schema allows an object and values of other types
			schema = append(without(schema, "type"), yamldoc.Item{Key: "type", Value: "object"})
		}
		if slices.ContainsFunc(r.made, func(d definition) bool { return d.name == name && !d.record }) {
			name += "Object" // the union has the name without a suffix
		}
		r.define(name, schema)
		return shape{kind: reference, name: name}
	case schema.Get("additionalProperties") == false:
		return shape{kind: empty}
	case len(schema.At("additionalProperties")) > 0:
		return shape{kind: dictionary, of: []shape{r.shape(schema.At("additionalProperties"), name+"Value")}}
	}
	return shape{kind: dictionary, of: []shape{{kind: unknown}}}
}

// documentedValues returns the values of an enum, if the document describes each value.
func documentedValues(schema object) []value {
	var out []value
	for _, choice := range schema.Objects("oneOf") {
		if !choice.Has("const") || choice.Get("const") == nil {
			return nil
		}
		out = append(out, value{literal: choice.Get("const"), doc: choice.Text("description")})
	}
	if !slices.ContainsFunc(out, func(v value) bool { return v.doc != "" }) {
		return nil
	}
	return out
}

// docFor returns a schema's documentation.
func docFor(schema object) string {
	paragraphs := []string{strings.TrimSpace(schema.Text("description"))}
	for _, word := range []string{"oneOf", "anyOf"} {
		choices := schema.Objects(word)
		if len(choices) == 0 || !onlyConstrains(choices) {
			continue
		}
		var names []string
		for _, choice := range choices {
			if required := choice.Texts("required"); len(required) > 0 {
				names = append(names, "`"+strings.Join(required, "` with `")+"`")
			}
		}
		if len(names) > 1 {
			count := map[string]string{"oneOf": "Exactly one", "anyOf": "At least one"}[word]
			paragraphs = append(paragraphs, count+" of these is required: "+strings.Join(names, ", or ")+".")
		}
	}

	if schema.Has("default") {
		if raw, err := yamldoc.JSON(schema.Get("default")); err == nil {
			last := len(paragraphs) - 1
			paragraphs[last] = strings.TrimSpace(paragraphs[last] + " Default: `" + string(raw) + "`.")
		}
	}
	if schema.Get("deprecated") == true {
		paragraphs = append(paragraphs, "@deprecated")
	}
	return strings.TrimSpace(strings.Join(paragraphs, "\n\n"))
}
