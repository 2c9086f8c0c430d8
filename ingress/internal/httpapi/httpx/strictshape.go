package httpx

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Optional is a field of a body that may be missing. Set is true if the field is present, even with
// the zero value. The zero value means that the field is missing. Null is a value of the wrong
// type, unless T accepts it.
type Optional[T any] struct {
	Set   bool
	Value T
}

// optional marks the type for the decoder; see newShape.
func (Optional[T]) optional() {}

// Or returns the value, or other if the field is missing.
func (o Optional[T]) Or(other T) T {
	if o.Set {
		return o.Value
	}
	return other
}

// Pointer returns the value, or nil if the field is missing.
func (o Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// LongText is a string that may be long. Decoding does not copy the bytes of the string. They stay
// a part of the body, which therefore must not be in a pooled buffer.
type LongText []byte

// kind determines how the decoder reads a value.
type kind uint8

const (
	stringKind kind = iota
	longTextKind
	boolKind
	intKind
	floatKind
	structKind
	listKind
	mapKind
	rawKind
	pointerKind
	optionalKind
	removableKind
	unionKind
)

// expected describes the values of each kind, for messages.
var expected = [...]string{
	stringKind: "a string", longTextKind: "a string", boolKind: "true or false", intKind: "a whole number",
	floatKind: "a number", structKind: "an object",
	listKind: "a list", mapKind: "an object",
}

// union is a struct whose fields are alternatives. The decoder sets only the field whose type
// matches the first byte of the value.
type union interface{ Either() }

// expected returns the description of the expected value, for messages.
func (s *shape) expected() string {
	if s.kind != unionKind {
		return expected[s.kind]
	}
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.shape.expected()
	}
	return strings.Join(names, " or ")
}

// shape is the decoder's description of a Go type. It is computed once for each type. It is not
// changed afterwards, so it is safe for concurrent use.
type shape struct {
	kind   kind
	typ    reflect.Type
	elem   *shape  // shape of a list's or map's elements, of a pointer's target, or of an optional value
	fields []field // the fields of a struct or a union
}

// field is one field of a struct.
type field struct {
	name     string
	index    []int // indexes of the field and of the embedded structs around it, for reflect's FieldByIndex
	shape    *shape
	required bool
}

var shapes sync.Map // reflect.Type → *shape

// shapeFor returns the shape of a type. The json tags of a struct contain the names of its fields,
// and the tag `required:"true"` makes a field required. If the decoder does not support the type,
// shapeFor panics, so that any test of the endpoint finds the mistake.
func shapeFor(typ reflect.Type) *shape {
	known, ok := shapes.Load(typ)
	if !ok {
		known, _ = shapes.LoadOrStore(typ, newShape(typ))
	}
	s, _ := known.(*shape) // the map contains only *shape
	return s
}

// newShape computes the shape of a type. It panics for a type that the decoder does not support.
// Recursive types are not supported.
func newShape(typ reflect.Type) *shape { //nolint:cyclop // one case for each kind
	s := &shape{typ: typ}

	// Optional and Removable are generic types, so they are recognized by a method.
	if _, ok := reflect.TypeAssert[interface{ optional() }](reflect.Zero(typ)); ok {
		s.kind = optionalKind
		if typ.Field(0).Anonymous { // Removable embeds Optional
			s.kind, typ = removableKind, typ.Field(0).Type
		}
		s.elem = shapeFor(typ.Field(1).Type)
		return s
	}
	if typ.Kind() == reflect.Struct && reflect.PointerTo(typ).Implements(reflect.TypeFor[union]()) {
		s.kind = unionKind
		for _, f := range reflect.VisibleFields(typ) {
			s.fields = append(s.fields, field{index: f.Index, shape: shapeFor(f.Type)})
		}
		return s
	}
	if typ == reflect.TypeFor[json.RawMessage]() {
		s.kind = rawKind
		return s
	}
	if typ == reflect.TypeFor[LongText]() {
		s.kind = longTextKind
		return s
	}

	switch typ.Kind() {
	case reflect.String:
		s.kind = stringKind
	case reflect.Bool:
		s.kind = boolKind
	case reflect.Int, reflect.Int64:
		s.kind = intKind
	case reflect.Float64:
		s.kind = floatKind
	case reflect.Slice:
		s.kind, s.elem = listKind, shapeFor(typ.Elem())
	case reflect.Map:
		s.kind, s.elem = mapKind, shapeFor(typ.Elem())
	case reflect.Pointer:
		s.kind, s.elem = pointerKind, shapeFor(typ.Elem())
	case reflect.Struct:
		s.kind, s.fields = structKind, fieldsFor(typ)
	default:
		panic(fmt.Sprintf("type %s is not supported in a request body", typ))
	}

	return s
}

// fieldsFor returns the fields of a struct that have a json tag, including those of embedded
// structs.
func fieldsFor(typ reflect.Type) []field {
	var out []field
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		out = append(out, field{name: name, index: f.Index, shape: shapeFor(f.Type), required: f.Tag.Get("required") == "true"})
	}

	// A set of fields is a 64-bit number; see structMember.
	if len(out) > 64 {
		panic(fmt.Sprintf("%s has more than 64 fields", typ))
	}
	return out
}
