package httpx

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Optional is a field of a body that may be left out, and tells that apart from every value.
type Optional[T any] struct {
	Set   bool
	Value T
}

func (Optional[T]) optional() {}

// Or gives the value, other when there is none.
func (o Optional[T]) Or(other T) T {
	if o.Set {
		return o.Value
	}
	return other
}

// Pointer gives the value of a field that was sent, or nil.
func (o Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// LongText is a string that may be so long that it is not copied: it is a part of the body that it was read from, which
// must be the caller's own then. See decodeOwned.
type LongText []byte

type kind uint8

const (
	ofString kind = iota
	ofLongText
	ofBool
	ofInt
	ofStruct
	ofList
	ofMap
	ofRaw
	ofPointer
	ofOptional
	ofRemovable
	ofEither
)

// wants is what a value of each kind must be, for messages.
var wants = [...]string{
	ofString: "a string", ofLongText: "a string", ofBool: "true or false", ofInt: "a whole number", ofStruct: "an object",
	ofList: "a list", ofMap: "an object",
}

// either is a struct whose value is that of one of its fields: the one whose type begins as the value does.
type either interface{ Either() }

// wants is what a value must be, for messages.
func (s *shape) wants() string {
	if s.kind != ofEither {
		return wants[s.kind]
	}
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.shape.wants()
	}
	return strings.Join(names, " or ")
}

// shape is what the decoder knows of a Go type: worked out once.
type shape struct {
	kind   kind
	typ    reflect.Type
	elem   *shape  // of a list, map, pointer or optional
	fields []field // of a struct or an either
}

// field is one field of a struct: its JSON name, its place, and whether it must be there.
type field struct {
	name     string
	index    []int
	shape    *shape
	required bool
}

var shapes sync.Map // reflect.Type → *shape

// shapeFor reads a type once. A field is named by its json tag and must be there with `need:"yes"`.
// Types that no body has make it panic, which the first test of an endpoint shows.
func shapeFor(typ reflect.Type) *shape {
	known, ok := shapes.Load(typ)
	if !ok {
		known, _ = shapes.LoadOrStore(typ, newShape(typ))
	}
	s, _ := known.(*shape) // nothing else is ever stored
	return s
}

func newShape(typ reflect.Type) *shape { //nolint:cyclop // one case for each kind
	s := &shape{typ: typ}
	if _, ok := reflect.TypeAssert[interface{ optional() }](reflect.Zero(typ)); ok {
		s.kind, s.elem = ofOptional, shapeFor(typ.Field(1).Type)
		if typ.NumField() > 2 { // removable
			s.kind = ofRemovable
		}
		return s
	}
	if typ.Kind() == reflect.Struct && reflect.PointerTo(typ).Implements(reflect.TypeFor[either]()) {
		s.kind = ofEither
		for _, f := range reflect.VisibleFields(typ) {
			s.fields = append(s.fields, field{index: f.Index, shape: shapeFor(f.Type)})
		}
		return s
	}
	if typ == reflect.TypeFor[json.RawMessage]() {
		s.kind = ofRaw
		return s
	}
	if typ == reflect.TypeFor[LongText]() {
		s.kind = ofLongText
		return s
	}
	switch typ.Kind() {
	case reflect.String:
		s.kind = ofString
	case reflect.Bool:
		s.kind = ofBool
	case reflect.Int, reflect.Int64:
		s.kind = ofInt
	case reflect.Slice:
		s.kind, s.elem = ofList, shapeFor(typ.Elem())
	case reflect.Map:
		s.kind, s.elem = ofMap, shapeFor(typ.Elem())
	case reflect.Pointer:
		s.kind, s.elem = ofPointer, shapeFor(typ.Elem())
	case reflect.Struct:
		s.kind, s.fields = ofStruct, fieldsFor(typ)
	default:
		panic(fmt.Sprintf("unsupported type %s in a body", typ))
	}
	return s
}

func fieldsFor(typ reflect.Type) []field {
	var out []field
	for _, f := range reflect.VisibleFields(typ) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		out = append(out, field{name: name, index: f.Index, shape: shapeFor(f.Type), required: f.Tag.Get("need") == "yes"})
	}
	if len(out) > 64 {
		panic(fmt.Sprintf("%s has more fields than the decoder can count", typ))
	}
	return out
}
