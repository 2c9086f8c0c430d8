package openapiimport

import (
	"errors"
	"fmt"
	"strings"

	"parley/shared/domain"
)

const (
	// maxDocument is the maximum size of a document, in bytes.
	maxDocument = 2 << 20
	// maxEndpoints is the maximum number of endpoints of an agent's HTTP tool.
	maxEndpoints = 32
	maxWork      = 3_000_000 // maximum number of values that the import of all operations together may visit
)

// Options select the operations to import. The zero value selects all operations and the servers of
// the document.
type Options struct {
	Operations []string // operation ids, or texts of the form "METHOD /path"; empty: all operations
	// ServerURL replaces the servers that the document names. Relative server URLs are resolved
	// against it.
	ServerURL string
}

// Skipped is an operation that could not be converted, and the reason. Skipped operations do not
// make the import fail.
type Skipped struct {
	// Id of the operation, or its method and path; at most maxLabel characters.
	Operation string
	// Sentence for people, with a full stop.
	Reason string
}

// These constants are the codes of problems. Parley's API uses the same codes. The codes are
// repeated here, because this package does not import package httpx.
const (
	CodeRequired  = "required"
	CodeInvalid   = "invalid_value"
	CodeDuplicate = "duplicate"
	CodeTooLong   = "too_long"
	CodeTooDeep   = "too_deep"
)

// Problem is an invalid field of the import request: document, operations, operations[i] or
// serverUrl. The caller passes it on to the client.
type Problem struct {
	// Path of the field in the request.
	Field string
	// One of the codes above.
	Code    string
	Message string // predicate of a sentence whose subject is the field's name
}

// Invalid is the error for an invalid import request. No operation is imported. Invalid is the only
// type of error that Convert returns.
type Invalid struct{ Problems []Problem } //nolint:errname // the name says what is wrong with the request

// Error returns the texts of all problems. It is for logs; clients get the list.
func (e *Invalid) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Field + " " + p.Message
	}
	return strings.Join(texts, "; ")
}

// invalid returns the error for one invalid field. The arguments after code form the problem's
// message.
func invalid(field, code, format string, args ...any) *Invalid {
	return &Invalid{Problems: []Problem{{Field: field, Code: code, Message: fmt.Sprintf(format, args...)}}}
}

// Convert converts a document's operations to endpoints, ordered by path. Its error is an *Invalid.
// The document is parsed once. Operations that cannot be converted are returned with the reason.
// Without an error, neither list is nil. If more than maxEndpoints operations can be converted,
// Convert returns an error, so that the caller selects some of them.
func Convert(document []byte, o Options) ([]domain.Endpoint, []Skipped, error) {
	d, err := open(document)
	if err != nil {
		return nil, nil, err
	}

	// Names are assigned before the selection, so that the same operation always gets the same
	// name.
	operations := d.operations()
	if len(operations) == 0 {
		return nil, nil, invalid("document", CodeInvalid, "has no operations under paths")
	}

	base, err := baseFor(o.ServerURL)
	if err != nil {
		return nil, nil, err
	}

	if len(o.Operations) > 0 {
		if operations, err = choose(operations, o.Operations); err != nil {
			return nil, nil, err
		}
	}

	return d.convert(operations, base)
}

// skip is the error for an operation that cannot be converted. Its text is the reason. The type
// skip is a string, so errors of this type can be constants and be compared.
type skip string

// Error returns the reason.
func (s skip) Error() string { return string(s) }

// convert converts operations to endpoints. It returns the operations that cannot be converted as
// skipped. It ends at the first error that is not a skip. The order of the operations is kept.
func (d *document) convert(operations []operation, base *base) ([]domain.Endpoint, []Skipped, error) {
	endpoints, skipped := []domain.Endpoint{}, []Skipped{}
	for _, op := range operations {
		// The error may wrap a skip that occurred deep in the operation's schemas.
		endpoint, err := d.endpoint(op, base)
		var reason skip

		switch {
		case errors.As(err, &reason):
			skipped = append(skipped, Skipped{Operation: op.label(), Reason: string(reason)})
			continue
		case err != nil:
			return nil, nil, err

		// The limit counts converted operations only, because skipped operations need no room.
		case len(endpoints) == maxEndpoints:
			return nil, nil, invalid("operations", CodeRequired, "selects more than %d operations; select fewer", maxEndpoints)
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, skipped, nil
}
