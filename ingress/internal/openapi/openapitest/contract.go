package openapitest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/ingress/internal/openapi"
)

// resource is the name under which the compiler knows the document.
const resource = "openapi.json"

// Contract is an OpenAPI document against which exchanges are checked. It is safe for concurrent
// use by parallel tests.
type Contract struct {
	// The document as loaded by kin-openapi.
	doc *openapi3.T
	// Compiles the schemas of the document. A JSON pointer identifies each schema.
	compiler *jsonschema.Compiler
	// Guards compiled and seen.
	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema // compiled schemas by their JSON pointers
	statuses map[string]int                // HTTP status of each error code
	seen     map[string]bool               // responses that the tests have received, such as "POST /api/agents → 201"
}

// serviceContract is the contract of the embedded document. It is loaded once for all tests of a
// package.
var serviceContract = sync.OnceValues(func() (*Contract, error) { return load(openapi.Document()) })

// New parses and validates an OpenAPI document in JSON. The error says which part of the document
// is invalid.
func New(ctx context.Context, document []byte) (*Contract, error) {
	c, err := load(document)
	if err != nil {
		return nil, err
	}
	if err := c.doc.Validate(ctx); err != nil {
		return nil, fmt.Errorf("checking document: %w", err)
	}
	return c, nil
}

// load parses an OpenAPI document in JSON without validating it, because the validation takes
// seconds of CPU time.
func load(document []byte) (*Contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("loading document: %w", err)
	}

	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("reading document: %w", err)
	}

	c := &Contract{
		doc: doc, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{},
		statuses: map[string]int{}, seen: map[string]bool{},
	}

	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource(resource, raw); err != nil {
		return nil, fmt.Errorf("adding document: %w", err)
	}

	for _, code := range openapi.ErrorCodes() {
		c.statuses[code.Code] = code.Status
	}
	return c, nil
}

// schema returns the schema at a JSON pointer, such as "#/components/schemas/Run". It compiles each
// schema only once. It returns an error if there is no schema at the pointer.
func (c *Contract) schema(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := c.compiler.Compile(resource + pointer)
	if err != nil {
		return nil, fmt.Errorf("compiling schema %s: %w", pointer, err)
	}
	c.compiled[pointer] = s
	return s, nil
}

// valid returns an error if a decoded value does not match the schema at a JSON pointer. The error
// of the library lists each violation.
func (c *Contract) valid(pointer string, value any) error {
	s, err := c.schema(pointer)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// validJSON returns an error if a value, given as JSON text, does not match the schema at a JSON
// pointer. Numbers are decoded exactly, so that large integers are compared correctly.
func (c *Contract) validJSON(pointer string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	return c.valid(pointer, value)
}

// escapeMember escapes the characters of a member's name that have a meaning in pointers or URLs.
// It is created once, because every exchange needs several pointers.
var escapeMember = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", " ", "%20", "{", "%7B", "}", "%7D")

// pointer appends member names to a JSON pointer, and escapes them.
func pointer(base string, names ...string) string {
	for _, name := range names {
		base += "/" + escapeMember.Replace(name)
	}
	return base
}

// Operations lists the document's operations as "METHOD /path". The order is random.
func (c *Contract) Operations() []string {
	var out []string
	for path, item := range c.doc.Paths.Map() {
		for method := range item.Operations() {
			out = append(out, method+" "+path)
		}
	}
	return out
}

// Document returns the contract of the embedded document, whose validity is checked only by this
// package's TestDocumentIsValid.
func Document() (*Contract, error) { return serviceContract() }
