package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// object is a mapping of the document, in the order of its source.
type object yaml.MapSlice

// document is an OpenAPI document.
type document struct{ root object }

func parse(raw []byte) (document, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(raw, &root, yaml.UseOrderedMap()); err != nil {
		return document{}, fmt.Errorf("reading the document: %w", err)
	}
	return document{object(root)}, nil
}

// get gives a member, nil when there is none.
func (o object) get(name string) any {
	for _, item := range o {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

// has reports whether there is a member, be it null.
func (o object) has(name string) bool {
	for _, item := range o {
		if item.Key == name {
			return true
		}
	}
	return false
}

// at gives the object that a path of names leads to; an empty one where there is none.
func (o object) at(path ...string) object {
	for _, name := range path {
		o = asObject(o.get(name))
	}
	return o
}

func asObject(value any) object {
	inner, ok := value.(yaml.MapSlice)
	if !ok {
		return nil
	}
	return object(inner)
}

// text gives a member that is a text.
func (o object) text(name string) string {
	s, ok := o.get(name).(string)
	if !ok {
		return ""
	}
	return s
}

// list gives a member that is a list.
func (o object) list(name string) []any {
	l, ok := o.get(name).([]any)
	if !ok {
		return nil
	}
	return l
}

// texts gives the texts of a list.
func (o object) texts(name string) []string {
	var out []string
	for _, value := range o.list(name) {
		if s, ok := value.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// objects gives the objects of a list.
func (o object) objects(name string) []object {
	var out []object
	for _, value := range o.list(name) {
		if inner, ok := value.(yaml.MapSlice); ok {
			out = append(out, object(inner))
		}
	}
	return out
}

// members are the members that are objects, in order.
func (o object) members() []member {
	var out []member
	for _, item := range o {
		if inner, ok := item.Value.(yaml.MapSlice); ok {
			out = append(out, member{fmt.Sprint(item.Key), object(inner)})
		}
	}
	return out
}

// member is a named object.
type member struct {
	name  string
	value object
}

// resolve follows an object's $ref as long as it is one.
func (d document) resolve(o object) (object, error) {
	for range 32 {
		ref := o.text("$ref")
		if ref == "" {
			return o, nil
		}
		path, isLocal := strings.CutPrefix(ref, "#/")
		if !isLocal {
			return nil, fmt.Errorf("%s is not in the document", ref)
		}
		if o = d.root.at(strings.Split(path, "/")...); o == nil {
			return nil, fmt.Errorf("there is no %s", ref)
		}
	}
	return nil, fmt.Errorf("%s leads round in a circle", o.text("$ref"))
}

// encode writes a value of the document as JSON, keeping the order of mappings.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	err := write(&out, value)
	return out.Bytes(), err
}

func write(out *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case object:
		return write(out, yaml.MapSlice(v))
	case yaml.MapSlice:
		return writeAll(out, '{', '}', len(v), func(i int) error {
			if err := write(out, fmt.Sprint(v[i].Key)); err != nil {
				return err
			}
			out.WriteByte(':')
			return write(out, v[i].Value)
		})
	case []any:
		return writeAll(out, '[', ']', len(v), func(i int) error { return write(out, v[i]) })
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing as JSON: %w", err)
	}
	out.Truncate(out.Len() - 1) // the encoder's line feed
	return nil
}

func writeAll(out *bytes.Buffer, open, end byte, n int, one func(i int) error) error {
	out.WriteByte(open)
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := one(i); err != nil {
			return err
		}
	}
	out.WriteByte(end)
	return nil
}
