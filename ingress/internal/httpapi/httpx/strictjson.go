package httpx

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/apierr"
	"parley/shared/truncate"
)

const (
	// maxDepth is the maximum nesting of a body. A body may contain the schema of an answer, which
	// may have 16 levels. Each of them takes up to two levels of the body.
	maxDepth = 48
	// BodyPath is the path of the whole body in problems.
	BodyPath = "body"
)

// DecodeStrict decodes one JSON value into dst, which must be a pointer. It adds all problems to
// found: unknown and repeated names, values of wrong types, missing fields, and the character
// U+0000. Names are case-sensitive. ok is false if src is not valid JSON. DecodeStrict may modify
// src. If ok is true, dst may still be incomplete because of problems in found.
func DecodeStrict(src []byte, dst any, found *Problems) (ok bool) {
	return decode(Decoder{Src: src, Found: found}, dst)
}

// DecodeOpen is DecodeStrict for bodies of other protocols. It ignores unknown names, because their
// specifications add fields over time.
func DecodeOpen(src []byte, dst any, found *Problems) (ok bool) {
	return decode(Decoder{Src: src, Found: found, Open: true}, dst)
}

// decode decodes d.Src into dst, which must be a pointer. Only white space may follow the value.
func decode(d Decoder, dst any) (ok bool) {
	if !utf8.Valid(d.Src) {
		d.Found.Add(BodyPath, CodeInvalidJSON, "must be UTF-8")
		return false
	}

	target := reflect.ValueOf(dst).Elem()
	err := d.Value(shapeFor(target.Type()), target)
	if err == nil {
		if d.space(); d.pos < len(d.Src) {
			err = d.syntax("unexpected text after the end of the value")
		}
	}

	if err != nil {
		d.Found.List = append(d.Found.List, *err)
	}
	return err == nil
}

// Decoder decodes Src in one pass. Its methods add problems to Found. They return an error only for
// invalid JSON, which ends the decoding. A Decoder decodes only one value, and only one goroutine may
// use it. Src must be valid UTF-8.
type Decoder struct {
	Src   []byte
	pos   int    // offset of the next byte
	depth int    // number of open objects and lists
	Path  []byte // the path of the current value
	buf   []byte // content of the last string that contained escapes, with the escapes decoded
	Found *Problems
	Open  bool // unknown names are ignored
}

// syntax returns the error for invalid JSON at the current position.
func (d *Decoder) syntax(what string) *apierr.Field {
	return &apierr.Field{Field: BodyPath, Code: CodeInvalidJSON, Message: "invalid JSON at byte " + strconv.Itoa(d.pos) + ": " + what}
}

// add adds a problem of the current value to d.Found.
func (d *Decoder) add(code, message string, args ...any) {
	at := string(d.Path)
	if at == "" {
		at = BodyPath
	}
	d.Found.Add(at, code, message, args...)
}

// enter appends a member's name to the path. To remove the name, pass the result of enter to leave.
func (d *Decoder) enter(name string) (back int) {
	back = len(d.Path)
	if back > 0 {
		d.Path = append(d.Path, '.')
	}
	d.Path = append(d.Path, truncate.Ellipsis(name, maxName)...)
	return back
}

// enterIndex appends an entry's index to the path. To remove the index, pass the result of
// enterIndex to leave.
func (d *Decoder) enterIndex(i int) (back int) {
	back = len(d.Path)
	d.Path = append(d.Path, '[')
	d.Path = strconv.AppendInt(d.Path, int64(i), 10)
	d.Path = append(d.Path, ']')
	return back
}

func (d *Decoder) leave(back int) { d.Path = d.Path[:back] }

// space skips white space.
func (d *Decoder) space() {
	for d.pos < len(d.Src) {
		switch d.Src[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, or 0 at the end.
func (d *Decoder) peek() byte {
	if d.space(); d.pos < len(d.Src) {
		return d.Src[d.pos]
	}
	return 0
}

// Value decodes one value of shape s into dst. The decoder never stores a value of the wrong type;
// it adds a problem and continues after the value.
func (d *Decoder) Value(s *shape, dst reflect.Value) *apierr.Field { //nolint:cyclop // one case for each kind
	first := d.peek()
	switch s.kind {
	case removableKind:
		value := dst.Field(0)
		value.Field(0).SetBool(true)
		if first == 'n' {
			dst.Field(1).SetBool(true)
			return d.literal("null")
		}
		return d.Value(s.elem, value.Field(1))
	case optionalKind:
		dst.Field(0).SetBool(true)
		return d.Value(s.elem, dst.Field(1))
	case pointerKind:
		if first == 'n' {
			return d.literal("null")
		}
		dst.Set(reflect.New(s.typ.Elem()))
		return d.Value(s.elem, dst.Elem())
	case unionKind:
		return d.union(s, dst, first)
	case rawKind:
		start := d.pos
		err := d.skip()
		dst.SetBytes(append([]byte(nil), d.Src[start:d.pos]...))
		return err
	default:
	}

	if !begins(s.kind, first) {
		return d.wrong(s)
	}

	switch s.kind {
	case stringKind:
		text, err := d.text()
		dst.SetString(string(text))
		return err
	case longTextKind:
		text, err := d.text()
		dst.SetBytes(text)
		d.buf = nil // dst may still refer to the buffer
		return err
	case boolKind:
		dst.SetBool(first == 't')
		return d.skip()
	case intKind:
		return d.integer(dst)
	case floatKind:
		return d.float(dst)
	case structKind:
		return d.structure(s, dst)
	case mapKind:
		return d.mapping(s, dst)
	default:
		return d.list(s, dst)
	}
}

// union decodes a value into the field of a union whose type matches the first byte of the value.
// null matches no field.
func (d *Decoder) union(s *shape, dst reflect.Value, first byte) *apierr.Field {
	for i := range s.fields {
		if f := &s.fields[i]; begins(f.shape.kind, first) {
			return d.Value(f.shape, dst.FieldByIndex(f.index))
		}
	}
	return d.wrong(s)
}

// begins reports whether a value of kind k may begin with the byte first.
func begins(k kind, first byte) bool {
	switch k {
	case stringKind, longTextKind:
		return first == '"'
	case boolKind:
		return first == 't' || first == 'f'
	case intKind, floatKind:
		return first == '-' || isDigit(first)
	case listKind:
		return first == '['
	default:
		return first == '{'
	}
}

// wrong skips a value of the wrong type. It adds one problem for the value, but no problems for the
// content of the value. Only a syntax error is returned.
func (d *Decoder) wrong(s *shape) *apierr.Field {
	before := len(d.Found.List)
	if err := d.skip(); err != nil {
		return err
	}
	d.Found.List = d.Found.List[:before]
	d.add(CodeInvalidType, "must be %s", s.expected())
	return nil
}

// integer decodes a number without a fraction. The number may be written with a fraction of zeros
// or an exponent, because some clients send 3600.0.
func (d *Decoder) integer(dst reflect.Value) *apierr.Field {
	text, err := d.number()
	if err != nil {
		return err
	}

	n, parseErr := strconv.ParseInt(string(text), 10, 64)
	if parseErr != nil {
		f, floatErr := strconv.ParseFloat(string(text), 64)
		if floatErr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			d.add(CodeInvalidType, "must be %s", expected[intKind])
			return nil
		}
		n = int64(f)
	}

	dst.SetInt(n)
	return nil
}

// float decodes a number. If the number is too large for a float64, float adds a problem.
func (d *Decoder) float(dst reflect.Value) *apierr.Field {
	text, err := d.number()
	if err != nil {
		return err
	}
	n, parseErr := strconv.ParseFloat(string(text), 64)
	if parseErr != nil {
		d.add(CodeInvalidType, "must be %s", expected[floatKind])
	}
	dst.SetFloat(n)
	return nil
}

// structure decodes an object into a struct and adds a problem for each missing required field. The
// struct has at most 64 fields; see fieldsFor.
func (d *Decoder) structure(s *shape, dst reflect.Value) *apierr.Field {
	if err := d.down(); err != nil {
		return err
	}

	var seen uint64
	for first := true; ; first = false {
		name, more, err := d.member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := d.structMember(s, dst, name, &seen); err != nil {
			return err
		}
	}

	for i := range s.fields {
		if f := &s.fields[i]; f.required && seen&(1<<i) == 0 {
			back := d.enter(f.name)
			d.add(CodeRequired, "is required")
			d.leave(back)
		}
	}

	return nil
}

// structMember decodes the value of a member into its field. seen is the set of the fields that the
// object contained so far, one bit per field.
func (d *Decoder) structMember(s *shape, dst reflect.Value, name []byte, seen *uint64) *apierr.Field {
	at := slices.IndexFunc(s.fields, func(f field) bool { return f.name == string(name) })
	if at < 0 {
		return d.unknownMember(s, string(name))
	}

	f := &s.fields[at]
	back := d.enter(f.name)
	defer d.leave(back)
	if *seen&(1<<at) != 0 {
		d.add(CodeDuplicate, "is given twice")
		return d.skip()
	}

	*seen |= 1 << at
	return d.Value(f.shape, dst.FieldByIndex(f.index))
}

// unknownMember skips the value of an unknown member, and adds a problem unless d.Open is true.
func (d *Decoder) unknownMember(s *shape, name string) *apierr.Field {
	if d.Open {
		before := len(d.Found.List)
		err := d.skip() // problems within an ignored value do not matter
		d.Found.List = d.Found.List[:before]
		return err
	}

	back := d.enter(name)
	defer d.leave(back)
	like := slices.IndexFunc(s.fields, func(f field) bool { return strings.EqualFold(f.name, name) })
	if like < 0 {
		d.add(CodeUnknown, "is unknown")
	} else {
		d.add(CodeUnknown, "is unknown: names are case-sensitive; use %s", s.fields[like].name)
	}

	return d.skip()
}

// mapping decodes an object into a map. Names must be unique.
func (d *Decoder) mapping(s *shape, dst reflect.Value) *apierr.Field {
	if err := d.down(); err != nil {
		return err
	}

	dst.Set(reflect.MakeMap(s.typ))
	for first := true; ; first = false {
		raw, more, err := d.member(first)
		if err != nil || !more {
			return err
		}
		name := string(raw)
		back := d.enter(name)

		key, elem := reflect.ValueOf(name), reflect.New(s.elem.typ).Elem()

		// Decode the value even if the name is repeated, to get to the next member.
		if dst.MapIndex(key).IsValid() {
			d.add(CodeDuplicate, "is given twice")
		}
		if err := d.Value(s.elem, elem); err != nil {
			return err
		}
		dst.SetMapIndex(key, elem)
		d.leave(back)
	}
}

// list decodes a list into a slice, which is never nil.
func (d *Decoder) list(s *shape, dst reflect.Value) *apierr.Field {
	if err := d.down(); err != nil {
		return err
	}

	dst.Set(reflect.MakeSlice(s.typ, 0, 4))
	for i := 0; ; i++ {
		more, err := d.element(i == 0)
		if err != nil || !more {
			return err
		}
		back := d.enterIndex(i)
		elem := reflect.New(s.elem.typ).Elem()
		if err := d.Value(s.elem, elem); err != nil {
			return err
		}
		dst.Set(reflect.Append(dst, elem))
		d.leave(back)
	}
}

// Into decodes a value from Src into target. It does not check the text after the value.
func (d *Decoder) Into(target reflect.Value) *apierr.Field {
	return d.Value(shapeFor(target.Type()), target)
}
