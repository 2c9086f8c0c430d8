package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// definition is a type with a name: a record of fields, or another name for a shape.
type definition struct {
	name, doc string
	record    bool
	fields    []field
	open      bool // a record that takes further fields
	shape     shape
	values    []value // of a shape that is a closed list whose values are explained
}

// field is a member of a record.
type field struct {
	name, doc string
	required  bool
	shape     shape
}

// value is one of a closed list.
type value struct {
	literal any
	doc     string
}

// kind says what a shape is.
type kind int

const (
	unknown kind = iota // anything
	text
	number
	boolean
	null
	binary
	literal    // one value
	list       // of one shape
	dictionary // names of one shape
	empty      // an object without members
	reference  // a definition
	union      // one of several shapes
)

// shape is what a value may be.
type shape struct {
	kind  kind
	whole bool   // of a number: an integer
	value any    // of a literal
	name  string // of a reference
	of    []shape
}

// oneOf puts shapes together, each once and null last, as one reads it.
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
		return shape{kind: unknown} // anything, and what else it may be is part of that
	}
	if nullable {
		flat = append(flat, shape{kind: null})
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return shape{kind: union, of: flat}
}

// names gives the definitions that a shape names.
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

// names gives the definitions that a definition names, in order.
func (d definition) names() []string {
	out := d.shape.names()
	for _, f := range d.fields {
		out = append(out, f.shape.names()...)
	}
	return out
}

// taken are names that types cannot have, for both languages give them a meaning that the generated files use.
var taken = []string{
	"Any", "Array", "Blob", "Exception", "False", "Literal", "Never", "None", "NotRequired", "Record",
	"String", "True", "TypeAlias", "TypedDict", "Uint8Array", "Union",
}

// typeName makes the name of a type from names of the document: chat-message and tool are ChatMessageTool.
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
	case slices.Contains(taken, name):
		return name + "_"
	}
	return name
}

// unique fails when two definitions have one name.
func unique(definitions []definition) error {
	seen := map[string]bool{}
	for _, d := range definitions {
		if seen[d.name] {
			return fmt.Errorf("two types are called %s", d.name)
		}
		seen[d.name] = true
	}
	return nil
}
