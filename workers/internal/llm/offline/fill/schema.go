package fill

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// node is a JSON object that preserves the order of its members. A member's value is a *node,
// []any, string, json.Number, bool or nil. The methods that read a member accept a nil node.
type node struct {
	names  []string
	values map[string]any
}

// parse decodes JSON. It returns nil if the JSON is invalid or null. Text after the first value is
// ignored.
func parse(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseValue(d)
	if err != nil {
		return nil
	}
	return v
}

// parseValue decodes the next JSON value, in the form that node describes.
func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err //nolint:wrapcheck // parse drops it
	}
	opening, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}

	// Only one of the two is filled, according to the opening delimiter.
	object, list := &node{values: map[string]any{}}, []any{}
	for d.More() {
		name := ""
		if opening == '{' {
			token, err := d.Token()
			if err != nil {
				return nil, err //nolint:wrapcheck // parse drops it
			}
			name, _ = token.(string)
		}
		v, err := parseValue(d)
		if err != nil {
			return nil, err
		}
		if opening == '[' {
			list = append(list, v)
			continue
		}
		object.set(name, v)
	}

	// Read the closing delimiter.
	if _, err := d.Token(); err != nil {
		return nil, err //nolint:wrapcheck // parse drops it
	}
	if opening == '[' {
		return list, nil
	}
	return object, nil
}

// set sets the member with the given name. A name that occurs twice keeps its first position and
// its last value.
func (n *node) set(name string, v any) {
	if _, known := n.values[name]; !known {
		n.names = append(n.names, name)
	}
	n.values[name] = v
}

// get returns the member with the given name, or nil.
func (n *node) get(name string) any {
	if n == nil {
		return nil
	}
	return n.values[name]
}

// child returns the member with the given name if it is an object, or nil.
func (n *node) child(name string) *node {
	c, _ := n.get(name).(*node)
	return c
}

// list returns the member with the given name if it is a list, or nil.
func (n *node) list(name string) []any {
	l, _ := n.get(name).([]any)
	return l
}

// text returns the member with the given name if it is a string, or "".
func (n *node) text(name string) string {
	s, _ := n.get(name).(string)
	return s
}

// count returns the member with the given name if it is a whole number, or else other.
func (n *node) count(name string, other int) int {
	number, _ := n.get(name).(json.Number)
	if i, err := strconv.Atoi(number.String()); err == nil {
		return i
	}
	return other
}

// amount returns the member with the given name as a number. It returns false if it is not a
// number.
func (n *node) amount(name string) (float64, bool) {
	number, ok := n.get(name).(json.Number)
	if !ok {
		return 0, false
	}
	f, err := number.Float64()
	return f, err == nil
}

// types returns the types that the schema allows, except null, and whether it allows null.
func (n *node) types() (types []string, null bool) {
	all := n.list("type")
	if one := n.text("type"); one != "" {
		all = []any{one}
	}
	for _, t := range all {
		if name, _ := t.(string); name == "null" {
			null = true
		} else {
			types = append(types, name)
		}
	}
	return types, null
}

// nullable reports whether the schema's type and enumeration allow null.
func (n *node) nullable() bool {
	_, null := n.types()
	enum := n.list("enum")
	return null && (enum == nil || slices.Contains(enum, nil))
}

// kind returns the type of the value to write: the first type that the schema allows. If the schema
// has no type, the other keywords determine the type. The default is "string".
func (n *node) kind() string {
	types, null := n.types()
	switch {
	case len(types) > 0:
		return types[0]
	case null:
		return "null"
	// Many schemas omit the type of objects and lists.
	case n.child("properties") != nil || n.list("required") != nil:
		return "object"
	case n.otherItems() != nil || n.firstItems() != nil:
		return "array"
	default:
		return "string"
	}
}

// firstItems returns the schemas of the first items of a list. Drafts before 2020-12 have them in
// items.
func (n *node) firstItems() []any {
	if list := n.list("items"); list != nil {
		return list
	}
	return n.list("prefixItems")
}

// otherItems returns the schema of the items after firstItems, or nil.
func (n *node) otherItems() *node {
	if n.list("items") != nil {
		return n.child("additionalItems")
	}
	return n.child("items")
}

// requires reports whether the schema requires the property.
func (n *node) requires(name string) bool { return slices.Contains(n.list("required"), any(name)) }

// reference returns the reference of a schema, or the first reference in its allOf.
func (n *node) reference() string {
	ref := n.text("$ref")
	for _, part := range n.list("allOf") {
		if one, ok := part.(*node); ok && ref == "" {
			ref = one.text("$ref")
		}
	}
	return ref
}

// maxSteps is the maximum number of references that are followed for one value.
const maxSteps = 32

// resolve follows the references of a schema, and merges the parts of allOf. It returns the schema
// unchanged if a reference has no target.
func (f *filler) resolve(s *node) *node {
	for range maxSteps {
		ref := s.text("$ref")
		if ref == "" {
			break
		}
		target := f.at(ref)
		if target == nil {
			return s
		}
		// Keywords beside a reference take precedence over those of its target.
		rest := without(s, "$ref")
		s = merge(target, rest)
	}
	if parts := s.list("allOf"); len(parts) > 0 && f.left > 0 {
		f.left--
		s = without(s, "allOf")
		for _, part := range parts {
			if one, ok := part.(*node); ok {
				s = merge(s, f.resolve(one))
			}
		}
	}
	return s
}

// at returns the part of the schema to which a reference within the document points, or nil.
// References to other documents are not supported.
func (f *filler) at(ref string) *node {
	var at any = f.root
	for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		switch inside := at.(type) {
		case *node:
			if key != "" {
				at = inside.values[key]
			}
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(inside) {
				at = inside[i]
			}
		}
	}
	s, _ := at.(*node)
	return s
}

// without returns a copy of a schema that lacks the given keyword. The original schema is not
// changed, because several references may share it.
func without(s *node, keyword string) *node {
	out := &node{values: map[string]any{}}
	for _, name := range s.names {
		if name != keyword {
			out.set(name, s.values[name])
		}
	}
	return out
}

// merge returns a schema with the keywords of a and b. It joins their properties and their lists of
// required names. For any other keyword in both, the value of b is used.
func merge(a, b *node) *node {
	out := without(a, "")
	for _, name := range b.names {
		known, v := out.values[name], b.values[name]
		switch name {
		case "properties":
			if x, ok := known.(*node); ok {
				if y, ok := v.(*node); ok {
					v = merge(x, y)
				}
			}
		case "required":
			if x, ok := known.([]any); ok {
				if y, ok := v.([]any); ok {
					v = append(slices.Clone(x), y...)
				}
			}
		}
		out.set(name, v)
	}
	return out
}
