package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maximum size of a schema in bytes
	maxSchema = 64 << 10
	// maximum size of the arguments of a call in bytes
	maxArguments = 256 << 10
	// maximum work of checking the arguments of a call; see Schema.validate
	maxEffort = 400_000
	// A check by the library may do baseEffort units of work, plus byteEffort for each byte of the
	// value. A unit takes up to 2 µs if nothing matches.
	baseEffort, byteEffort = 50_000, 32

	address = "parley://arguments/schema" // the URL of a schema; it is never fetched
)

var (
	// Errors of schemas and values. None of them quotes a value.
	errNotObject = errors.New("not a JSON object")
	errDialect   = errors.New("/$schema: unknown dialect; supported are the drafts 04, 06, 07, 2019-09 and 2020-12, the default")
	errElsewhere = errors.New("it refers to another document")
	errDynamic   = errors.New("$dynamicRef and $recursiveRef are not supported")
	errUnknown   = errors.New(`a pattern that cannot be checked is used in "not", "if" or "patternProperties"`)
	errBroken    = errors.New("it cannot be read")
	errUnchecked = errors.New("the value cannot be checked")
	errTooLarge  = errors.New("the value takes too much work to be checked")
)

// Schema is a compiled JSON Schema. It is safe for concurrent use. Quick checks run in parallel;
// checks by the library are executed one at a time, because they share the counter effort.
type Schema struct {
	compiled *jsonschema.Schema
	quick    *quickPart // nil if not supported
	formats  bool       // false: the keyword format is not checked in any draft

	mu     sync.Mutex
	effort int // remaining effort of the running check
}

// Compile compiles a JSON Schema of 2020-12, or of the older draft in its $schema. It returns an
// error if the schema is larger than 64 KiB or nested deeper than 64 levels. It also returns an
// error if the schema refers to anything outside itself or has patterns that are too large.
func Compile(raw json.RawMessage) (*Schema, error) { return newSchema(raw, true) }

// newSchema compiles a schema. The argument formats is false if the keyword format is not checked
// in any draft.
func newSchema(raw json.RawMessage, formats bool) (*Schema, error) {
	doc, err := decode(raw, maxSchema)
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}

	if _, ok := doc.(map[string]any); !ok {
		return nil, fmt.Errorf("reading schema: %w", errNotObject)
	}

	if err := checkTypes(doc, aSchema, ""); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}

	s := &Schema{formats: formats}
	if s.compiled, err = compile(doc); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}

	s.quick = newQuickPart(s.compiled) // converted before countEffort adds formats to the parts
	if err := s.countEffort(); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}

	return s, nil
}

// compile compiles a schema without loading anything. It converts a panic of the library to
// errBroken.
func compile(doc any) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if recover() != nil { // the library panics on some documents
			compiled, err = nil, errBroken
		}
	}()

	// The loader refuses all addresses, so no reference causes a request.
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuse{})
	c.UseRegexpEngine((&patterns{known: map[string]*pattern{}}).compile)
	if err := c.AddResource(address, doc); err != nil {
		return nil, errBroken
	}

	compiled, err = c.Compile(address)
	if failed, ok := errors.AsType[*jsonschema.LoadURLError](err); ok && failed.URL == dialect(doc) {
		return nil, errDialect
	}
	return compiled, readable(err)
}

// dialect returns the URL in the keyword $schema, without its fragment, or "" if there is none.
func dialect(doc any) string {
	object, _ := doc.(map[string]any)
	name, _ := object["$schema"].(string)
	name, _, _ = strings.Cut(name, "#")
	return name
}

// refuse is a loader that rejects everything.
type refuse struct{}

// Load returns an error.
func (refuse) Load(string) (any, error) { return nil, errElsewhere }

// Check returns an error if the arguments do not match the schema. The error has at most three
// problems, in words for a model, for example "/filters/0/from: got string, want number". It does
// not contain values from the arguments.
func (s *Schema) Check(arguments json.RawMessage) error {
	value, err := decode(arguments, maxArguments)
	if err != nil {
		return err
	}

	if _, ok := value.(map[string]any); !ok {
		return errNotObject
	}
	return readable(s.validate(value, len(arguments), maxEffort))
}

// validate checks a decoded value with the given maximum work. The argument size is the size of its
// JSON in bytes. A check by the library of a small value has a lower limit, because a few bytes can
// otherwise cause the same work as a large value. A mismatch is a *jsonschema.ValidationError.
// Other errors are errTooLarge and errUnchecked.
func (s *Schema) validate(value any, size, effort int) (err error) {
	if quickMatch(s.quick, value, effort) {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		// If the library panics, as it does for some values, the check returns an error.
		if recover() != nil {
			err = errUnchecked
		}
	}()

	s.effort = min(effort, baseEffort+byteEffort*size)
	err = s.compiled.Validate(value)
	if s.effort < 0 {
		return errTooLarge
	}
	return err //nolint:wrapcheck // the callers convert the library's error
}
