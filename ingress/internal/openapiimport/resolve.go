package openapiimport

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxHops is the maximum number of references in a chain, in which each refers to the next. A
	// longer chain is treated as a cycle.
	maxHops      = 16
	errElsewhere = skip("The operation refers to another document, which is not supported.")
	errNowhere   = skip("The operation contains a reference whose target is not in the document.")
	errCircular  = skip("The operation contains a reference to itself.")
)

// object follows references until it reaches an object. The result is a part of the document and
// must not be changed. The error is a skip for a value that is no object, for a missing target, and
// for a cycle.
func (d *document) object(value any) (map[string]any, error) {
	for range maxHops {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, skip("A part of the operation is not an object.")
		}
		ref, ok := object["$ref"].(string)
		if !ok {
			return object, nil
		}
		var err error
		if value, err = d.lookup(ref); err != nil {
			return nil, err
		}
	}
	return nil, errCircular
}

// lookup returns the target of a reference. ref is a JSON pointer with a leading "#" (RFC 6901).
// Each element of the pointer counts as work, because documents may contain many long references.
// The error is a skip, or errWork.
func (d *document) lookup(ref string) (any, error) {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, errElsewhere
	}

	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && !strings.HasPrefix(pointer, "/") {
		return nil, errNowhere
	}

	var at any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if d.work--; d.work < 0 {
			return nil, errWork
		}

		// The order matters: "~01" stands for "~1" and not for a slash.
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			inner, found := v[part]
			if !found {
				return nil, errNowhere
			}
			at = inner
		case []any:
			i, err := strconv.ParseUint(part, 10, 31)
			if err != nil || i >= uint64(len(v)) {
				return nil, errNowhere
			}
			at = v[i]
		default:
			return nil, errNowhere
		}
	}
	return at, nil
}

// errWork is the error for a document whose references would take too long to resolve. It is of
// type *Invalid, so it ends the import instead of skipping an operation.
var errWork = invalid("document", CodeTooLong, "has too many references to be imported together; select fewer operations")

// stringValue returns a text member of an object, or "" if the member is missing or has another
// type. Invalid documents are thus treated like incomplete documents.
func stringValue(object map[string]any, key string) string {
	text, _ := object[key].(string)
	return text
}

// listFor returns a list member of an object, or nil if the member is missing or has another type.
func listFor(object map[string]any, key string) []any {
	list, _ := object[key].([]any)
	return list
}
