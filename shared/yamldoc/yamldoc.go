// Package yamldoc reads YAML documents whose mappings keep the order of their source, such as the
// OpenAPI document. The commands that generate code and documentation use it. Documents are
// trusted: they are files of the repository.
package yamldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	yaml "github.com/oasdiff/yaml3"
)

// Object is a mapping, in the order of its source. The values of its items are Object, []any,
// string, int, float64, bool and nil. A nil Object is an empty mapping, so that look-ups can be
// chained.
type Object []Item

// Item is a member of an object.
type Item struct {
	Key   string
	Value any
}

// Parse reads a document that is a mapping. Aliases and merges (<<) are resolved. Parse is only for
// trusted documents, because the expansion of aliases is not bounded.
func Parse(raw []byte) (Object, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}

	value, err := valueFor(&root)
	if err != nil {
		return nil, err
	}

	object, ok := value.(Object)
	if !ok {
		return nil, errors.New("the document is not a mapping")
	}

	return object, nil
}

// valueFor converts a node to a value and resolves its aliases and merges.
func valueFor(node *yaml.Node) (any, error) {
	switch node.Kind { //nolint:exhaustive // scalars follow
	case yaml.DocumentNode:
		return valueFor(node.Content[0])
	case yaml.AliasNode:
		return valueFor(node.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, entry := range node.Content {
			value, err := valueFor(entry)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	case yaml.MappingNode:
		object := make(Object, 0, len(node.Content)/2)
		for i := 0; i < len(node.Content); i += 2 {
			value, err := valueFor(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			key := node.Content[i]
			// A member with the key "<<" inserts the members of another mapping.
			if merged, ok := value.(Object); ok && key.Tag == "!!merge" {
				object = append(object, merged...)
				continue
			}
			object = append(object, Item{key.Value, value})
		}
		return object, nil
	}

	if node.Tag == "!!timestamp" { // JSON has none
		return node.Value, nil
	}

	var value any
	if err := node.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading line %d: %w", node.Line, err)
	}

	return value, nil
}

// Get returns the value of a key, or nil if the key is missing.
func (o Object) Get(key string) any {
	for _, item := range o {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

// Has reports whether the mapping has a key, even if its value is null.
func (o Object) Has(key string) bool {
	for _, item := range o {
		if item.Key == key {
			return true
		}
	}
	return false
}

// At returns the object at a path of keys, or nil if the path leads to no value or to a value that
// is not an object.
func (o Object) At(path ...string) Object {
	for _, key := range path {
		o, _ = o.Get(key).(Object)
	}
	return o
}

// Text returns the value of a key if it is a string, and otherwise "".
func (o Object) Text(key string) string {
	text, _ := o.Get(key).(string)
	return text
}

// Flag reports whether the value of a key is the boolean true.
func (o Object) Flag(key string) bool { return o.Get(key) == true }

// List returns the value of a key if it is a list, and otherwise nil.
func (o Object) List(key string) []any {
	list, _ := o.Get(key).([]any)
	return list
}

// Texts returns the strings in the list that a key has as its value. Other elements are left out.
func (o Object) Texts(key string) []string { return only[string](o.List(key)) }

// Objects returns the objects in the list that a key has as its value.
func (o Object) Objects(key string) []Object { return only[Object](o.List(key)) }

// only returns the elements of a list that have type T.
func only[T any](list []any) []T {
	var out []T
	for _, entry := range list {
		if value, ok := entry.(T); ok {
			out = append(out, value)
		}
	}
	return out
}

// Members iterates over the items whose values are objects, in order.
func (o Object) Members() iter.Seq2[string, Object] {
	return func(yield func(string, Object) bool) {
		for _, item := range o {
			if value, ok := item.Value.(Object); ok && !yield(item.Key, value) {
				return
			}
		}
	}
}

// maxReferences bounds a chain of references.
const maxReferences = 32

// Resolve follows references ($ref) within the document o, and returns the first object that is not
// a reference. It returns an error for a reference to another document, to a missing object, or to
// itself.
func (o Object) Resolve(from Object) (Object, error) {
	for range maxReferences {
		ref := from.Text("$ref")
		if ref == "" {
			return from, nil
		}
		path, local := strings.CutPrefix(ref, "#/")
		if !local {
			return nil, fmt.Errorf("%s is not in the document", ref)
		}
		// References in the documents that are read contain no escaped characters.
		if from = o.At(strings.Split(path, "/")...); from == nil {
			return nil, fmt.Errorf("there is no %s", ref)
		}
	}

	return nil, fmt.Errorf("%s refers to itself", from.Text("$ref"))
}

// JSON returns a value of a document as JSON, without line feeds. The members of objects keep their
// order, and HTML characters are not escaped.
func JSON(value any) ([]byte, error) {
	var out bytes.Buffer
	err := write(&out, value)
	return out.Bytes(), err
}

// write appends a value as JSON.
func write(out *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case Object:
		return writeAll(out, '{', '}', len(v), func(i int) error {
			if err := write(out, v[i].Key); err != nil {
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
		return fmt.Errorf("writing JSON: %w", err)
	}

	out.Truncate(out.Len() - 1) // the encoder's line feed
	return nil
}

// writeAll appends n elements, separated by commas, between two brackets.
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
