package openapiimport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	yaml "github.com/oasdiff/yaml3"

	"parley/shared/truncate"
)

const (
	// maxDepth is the maximum depth of nested values. Deeper documents could exhaust the stack,
	// because reading and copying are recursive.
	maxDepth = 64
	// maxValues is the maximum number of values in a document, with aliases expanded. A document of
	// 2 MiB could otherwise expand to any size by aliases.
	maxValues = 500_000
)

// document is an OpenAPI document in the form of plain JSON values. The function open creates it
// for one import. It is used by one goroutine.
type document struct {
	// The whole document; never changed.
	root   map[string]any
	legacy bool // OpenAPI 3.0, which has its own dialect of JSON Schema
	work   int  // number of values that may still be visited
}

// open parses a document and checks its version. The result has paths, and its version is 3.0 or
// 3.1. All errors are of type *Invalid.
func open(raw []byte) (*document, error) {
	if len(raw) > maxDocument {
		return nil, invalid("document", CodeTooLong, "must have at most %d bytes, not %d", maxDocument, len(raw))
	}

	// A byte order mark is permitted at the beginning, but the parsers reject it.
	value, err := parse(bytes.TrimPrefix(raw, []byte("\ufeff")))
	var known *Invalid
	switch {
	case errors.As(err, &known):
		return nil, known
	case err != nil:
		return nil, invalid("document", CodeInvalid, "is neither JSON nor YAML: %s", truncate.Ellipsis(err.Error(), 200))
	}

	root, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("document", CodeInvalid, "must be an OpenAPI document, which is an object")
	}

	d := &document{root: root, work: maxWork}
	version, _ := root["openapi"].(string)
	switch {
	case strings.HasPrefix(version, "3.0.") || version == "3.0":
		d.legacy = true
	case strings.HasPrefix(version, "3.1.") || version == "3.1":
	case root["swagger"] != nil:
		return nil, invalid("document", CodeInvalid, "must be OpenAPI 3.0 or 3.1: convert Swagger 2.0 first")
	default:
		return nil, invalid("document", CodeInvalid, "must be OpenAPI 3.0 or 3.1, according to its field openapi")
	}
	if _, ok := root["paths"].(map[string]any); !ok {
		return nil, invalid("document", CodeInvalid, "must have paths")
	}
	return d, nil
}

// parse parses JSON or YAML. The result has the types that encoding/json would return. A text that
// begins with a brace is JSON; other texts are YAML. The value is within maxDepth and maxValues. If
// the value exceeds these limits, the error is of type *Invalid; other errors describe the syntax.
func parse(raw []byte) (value any, err error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not UTF-8")
	}

	// The package encoding/json needs less memory than the YAML library, and its errors fit JSON
	// better.
	if strings.HasPrefix(strings.TrimLeft(string(raw[:min(len(raw), 1024)]), " \t\r\n"), "{") {
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		r := reader{left: maxValues}
		return value, r.measure(value, 0)
	}

	if nodes(raw) > maxValues { // the library needs far more memory for a value than the text of the value takes
		return nil, errMany
	}

	defer func() {
		if recover() != nil { // the library panics on some inputs
			value, err = nil, errors.New("reading YAML: invalid document")
		}
	}()

	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}

	r := reader{left: maxValues}
	return r.value(&node, 0)
}

// nodes estimates the number of values in a YAML text. The estimate may be much too high, but is
// never much too low. nodes does not parse the text. It counts certain signs, because each value of
// a YAML text except the first needs one of them.
func nodes(raw []byte) int {
	n := 0
	for _, sign := range []string{",", "\n", ": ", "- ", "[", "{"} {
		n += bytes.Count(raw, []byte(sign))
	}
	return n
}

// The errors of a value that exceeds a limit. They are of type *Invalid, so open returns them
// unchanged.
var (
	errDeep = invalid("document", CodeTooDeep, "must be nested at most %d levels deep", maxDepth)
	errMany = invalid("document", CodeTooLong, "must contain at most %d values", maxValues)
)

// reader converts YAML nodes to JSON values. It copies the targets of aliases, so it limits the
// total number of values. The field left is the number of values that may still follow. For JSON,
// the reader only counts the values. A reader is used for one document.
type reader struct{ left int }

// take counts a value toward the limit. It returns an error if the value is nested too deeply or if
// there are too many values.
func (r *reader) take(depth int) error {
	r.left--
	switch {
	case r.left < 0:
		return errMany
	case depth > maxDepth:
		return errDeep
	default:
		return nil
	}
}

// measure counts all values within a parsed JSON value, in the same way as take. The values were
// parsed already, so the limit protects the steps that follow.
func (r *reader) measure(value any, depth int) error {
	if err := r.take(depth); err != nil {
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			if err := r.measure(inner, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := r.measure(inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// value converts a YAML node to a JSON value. The argument depth is the nesting depth of the node.
// An unknown kind becomes null. Aliases are copied, so a cyclic alias ends at maxDepth.
func (r *reader) value(n *yaml.Node, depth int) (any, error) {
	if err := r.take(depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return r.value(n.Content[0], depth)
		}
		return nil, nil //nolint:nilnil // an empty document is null
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, inner := range n.Content {
			v, err := r.value(inner, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalar(n)
	default:
		return nil, nil //nolint:nilnil // an empty document is null
	}
}

// mapping converts a mapping. The mapping's own keys take precedence over keys that are merged into
// it. Duplicate keys and keys that are not strings are errors, because JSON objects cannot have
// them.
func (r *reader) mapping(n *yaml.Node, depth int) (any, error) {
	object, merged := make(map[string]any, len(n.Content)/2), map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}

		switch {
		case name.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: the key is not a string", name.Line)
		case name.ShortTag() == "!!merge":
			merge(merged, v)
			continue
		}

		if _, twice := object[name.Value]; twice {
			return nil, fmt.Errorf("line %d: duplicate key %s", name.Line, truncate.Ellipsis(name.Value, 60))
		}
		object[name.Value] = v
	}

	// Merged keys are added last, because the position of the merge key does not matter.
	for key, v := range merged {
		if _, own := object[key]; !own {
			object[key] = v
		}
	}
	return object, nil
}

// merge adds the members of a merge key's object, or of a list of objects. The first object in a
// list takes precedence. Values that are not objects are ignored. The members that the argument
// into already has are not replaced.
func merge(into map[string]any, value any) {
	list, several := value.([]any)
	if !several {
		list = []any{value}
	}
	for _, one := range list {
		object, _ := one.(map[string]any)
		for key, v := range object {
			if _, known := into[key]; !known {
				into[key] = v
			}
		}
	}
}

// scalar converts a scalar. Numbers become float64, as in encoding/json. The text of a scalar
// without a JSON type is returned as a string. Whether a scalar has a type depends on its tag,
// explicit or implied.
func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil //nolint:nilnil // null
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return b, nil
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return n.Value, nil //nolint:nilerr // numbers that JSON does not have, such as infinity, remain texts
		}
		return f, nil
	default: // other types, such as dates, are texts in JSON
		return n.Value, nil
	}
}
