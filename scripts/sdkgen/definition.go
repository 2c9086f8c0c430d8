package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// definition is a named type: a record with fields, or another name for a shape. It is independent
// of the language in which it is printed. If the field record is false, the definition has a shape.
// A definition of an enum whose values are described also has values.
type definition struct {
	name, doc string
	record    bool
	fields    []field
	open      bool // whether a record may have additional fields
	shape     shape
	values    []value // documented values of an enum
}

// field is a field in a record.
type field struct {
	name, doc string
	required  bool
	shape     shape
}

// value is one value of an enum, with its documentation.
type value struct {
	literal any
	doc     string
}

// kind is the kind of a shape.
type kind int

const (
	unknown kind = iota // any value
	text
	number
	boolean
	null
	binary
	literal    // exactly one value
	list       // a list whose elements have one shape
	dictionary // an object with arbitrary names whose values have one shape
	empty      // an object without members
	reference  // a reference to a definition
	union      // one of several shapes
)

// shape is a type expression. The field named of contains the element of a list or dictionary, or
// the alternatives of a union.
type shape struct {
	kind   kind
	whole  bool   // of a number: whether it must be an integer
	value  any    // of a literal: its value
	name   string // of a reference: the name of the definition that it refers to
	length int    // of a list: the number of its elements if the schema fixes it, otherwise 0
	of     []shape
}

// oneOf returns the union of shapes. It flattens inner unions, removes duplicates and puts null
// last. A union of one shape is that shape.
func oneOf(shapes ...shape) shape {
	var flat []shape
	nullable := false
	var add func(s shape)
	add = func(s shape) {
		switch {
		case s.kind == union:
			for _, inner := range s.of {
				add(inner)
			}
		case s.kind == null:
			nullable = true
		case !slices.ContainsFunc(flat, func(other shape) bool { return reflect.DeepEqual(s, other) }):
			flat = append(flat, s)
		}
	}

	for _, s := range shapes {
		add(s)
	}

	if slices.ContainsFunc(flat, func(s shape) bool { return s.kind == unknown }) {
		return shape{kind: unknown} // a union with an unknown shape allows any value
	}
	if nullable {
		flat = append(flat, shape{kind: null})
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return shape{kind: union, of: flat}
}

// names returns the names of the definitions that a shape references, possibly repeatedly.
func (s shape) names() []string {
	if s.kind == reference {
		return []string{s.name}
	}
	var out []string
	for _, inner := range s.of {
		out = append(out, inner.names()...)
	}
	return out
}

// names returns the names of the definitions that a definition references, in order.
func (d definition) names() []string {
	out := d.shape.names()
	for _, f := range d.fields {
		out = append(out, f.shape.names()...)
	}
	return out
}

// reservedNames are names that types cannot have, because a generated file or its language uses the
// names.
var reservedNames = []string{
	"Any", "Array", "Blob", "Exception", "False", "Literal", "Never", "None", "NotRequired", "Record",
	"String", "True", "TypeAlias", "TypedDict", "Uint8Array", "Union",
}

// typeName joins names from the document into the name of a type. For example, chat-message and
// tool become ChatMessageTool. The result is a valid name in all languages.
func typeName(parts ...string) string {
	var out strings.Builder
	for _, part := range parts {
		begin := true
		for _, r := range part {
			switch {
			case r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r):
				begin = true
				continue
			case begin:
				r = unicode.ToUpper(r)
			}
			out.WriteRune(r)
			begin = false
		}
	}

	name := out.String()
	switch {
	case name == "" || unicode.IsDigit(rune(name[0])):
		return "Type" + name
	case slices.Contains(reservedNames, name):
		return name + "_"
	}
	return name
}

// unique returns an error unless all definitions have different names.
func unique(definitions []definition) error {
	seen := map[string]bool{}
	for _, d := range definitions {
		if seen[d.name] {
			return fmt.Errorf("two types have the name %s", d.name)
		}
		seen[d.name] = true
	}
	return nil
}
