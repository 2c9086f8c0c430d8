package schema

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Embed returns a copy of a schema for use inside another document. The argument at is the JSON
// Pointer to the copy, for example "#/properties/data". References in the copy are changed so that
// they begin with this pointer. The order of the members is kept. $schema is omitted, because only
// the outermost schema may have it. The schema must have been compiled before.
func Embed(raw json.RawMessage, at string) json.RawMessage {
	e := embedding{in: json.NewDecoder(bytes.NewReader(raw)), at: at, root: true}
	e.in.UseNumber()
	if e.value(aSchema, "") != nil {
		return raw // not JSON; callers embed compiled schemas
	}
	return e.out.Bytes()
}

// embedding copies a schema, token by token.
type embedding struct {
	// tokens of the schema
	in *json.Decoder
	// the copy of the schema
	out bytes.Buffer
	// JSON Pointer at which the copy will be
	at string

	root bool // the next object is the schema itself
}

// position is the role of a value in a schema. It decides how the keys of an object are read.
type position int

const (
	aSchema position = iota
	schemas          // an object whose values are schemas
	plainJSON
)

// literals are the keywords whose values may be any JSON.
var literals = setFor(`const default enum examples`)

// within returns the position of a member of an object, given the object's position p and the
// member's key.
func (p position) within(key string) position {
	switch {
	case p == schemas:
		return aSchema
	// Inside an example or a default, "$ref" is an ordinary name.
	case p == plainJSON || literals[key]:
		return plainJSON
	case schemaMaps[key]:
		return schemas
	default:
		return aSchema
	}
}

// value copies the next value. The argument named is contains the role of the value. The argument
// key is the value's name in an object, or "" in a list.
func (e *embedding) value(is position, key string) error {
	token, err := e.in.Token()
	if err != nil {
		return err //nolint:wrapcheck // Embed drops it
	}
	if opening, ok := token.(json.Delim); ok {
		return e.inner(is, opening)
	}

	// A reference is relative to the root of the schema, which has another location in the outer
	// document.
	if ref, ok := token.(string); ok && is == aSchema && key == "$ref" && (ref == "#" || strings.HasPrefix(ref, "#/")) {
		token = e.at + ref[1:]
	}
	return e.write(token)
}

// inner copies the rest of an object or a list, whose opening bracket was read.
func (e *embedding) inner(is position, opening json.Delim) error {
	root := e.root
	e.root = false
	e.out.WriteByte(byte(opening))
	comma := ""
	// The members are copied in order, which encoding/json's maps would lose.
	for e.in.More() {
		within, key := is, ""
		if opening == '{' {
			name, err := e.in.Token()
			if err != nil {
				return err //nolint:wrapcheck // Embed drops it
			}
			key, _ = name.(string)
			within = is.within(key)
		}
		if root && key == "$schema" {
			if _, err := e.in.Token(); err != nil {
				return err //nolint:wrapcheck // Embed drops it
			}
			continue
		}
		e.out.WriteString(comma)
		comma = ","
		if opening == '{' {
			if err := e.write(key); err != nil {
				return err
			}
			e.out.WriteByte(':')
		}
		if err := e.value(within, key); err != nil {
			return err
		}
	}
	closing, err := e.in.Token()
	if err != nil {
		return err //nolint:wrapcheck // Embed drops it
	}
	delim, _ := closing.(json.Delim)
	e.out.WriteByte(byte(delim))
	return nil
}

// write writes a token other than a bracket.
func (e *embedding) write(token any) error {
	text, err := json.Marshal(token)
	e.out.Write(text)
	return err //nolint:wrapcheck // Embed drops it
}
