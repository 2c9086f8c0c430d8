package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/shared/domain"
)

// Spec describes a tool to a model: Schema is the JSON Schema of its arguments, an object.
type Spec struct {
	Name        string
	Description string
	Schema      json.RawMessage
	SideEffect  domain.SideEffect // of a call; empty is none
	// Alone: a call is never made beside another of the same turn, as when a person may be asked first.
	Alone bool
}

// Call is one use of a tool: the run's id for it and the arguments, a JSON object.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Result is what a tool gives back: any JSON, and the sources an answer may cite. Of a source the
// tool fills type, title, url, citedText, documentId and page; number and place are set later.
type Result struct {
	Output  json.RawMessage
	Sources []domain.Citation
}

// Tool is something an agent may use.
type Tool interface {
	Spec() Spec
	// Call carries a call out. An *Error says in its message what the model may be told;
	// any other error is taken as internal and its text kept from model and caller.
	Call(ctx context.Context, call Call) (Result, error)
}

// Error is a failed call. Retryable means that the tool could not be reached or was lost, so that
// the run should be tried again later; any other failure is a result that the model is told.
type Error struct {
	Message   string // for model and caller
	Retryable bool
	NotSent   bool  // of a call with a side effect: it is certain that nothing left
	Err       error // internal cause, may be nil
	// Output is what there is to show of the failed call, for model and caller: a JSON object whose key "error" is text.
	// Nil is {"error": Message}.
	Output json.RawMessage
}

// Unopened is the error of a call that needs a stored secret which the service cannot open: the cause was reported to the operator.
func Unopened(cause error) error {
	return &Error{
		Message: "This tool's secret cannot be decrypted. Set it again, or have the operator restore its key.",
		NotSent: true, Err: cause,
	}
}

// Error gives the public message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// ActionRequired is the error of a call that waits for a person: the run is to be parked until the decision.
type ActionRequired struct { //nolint:errname // it is no failure
	Kind domain.ActionKind
	Call Call
}

// Error says what is waited for.
func (e *ActionRequired) Error() string { return "the call waits for a person: " + string(e.Kind) }

// name is what model providers accept as a tool's name.
var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Registry is the set of tools of a run, in the order of their names; safe for concurrent use. The nil one is empty.
type Registry struct {
	byName map[string]Tool
	specs  []Spec
}

// NewRegistry makes a set of tools; it fails on a name that is taken twice or that providers would refuse.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{byName: make(map[string]Tool, len(tools)), specs: make([]Spec, 0, len(tools))}
	for _, t := range tools {
		spec := t.Spec()
		if !name.MatchString(spec.Name) {
			return nil, fmt.Errorf("registering tool: name %q", spec.Name)
		}
		if _, taken := r.byName[spec.Name]; taken {
			return nil, fmt.Errorf("registering tool: %s twice", spec.Name)
		}
		r.byName[spec.Name] = t
		r.specs = append(r.specs, spec)
	}
	// A prompt that lists tools in another order is another prompt: caches miss, answers differ.
	slices.SortFunc(r.specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// Specs describes the tools, ordered by name; the slice is shared and must not be changed.
func (r *Registry) Specs() []Spec {
	if r == nil {
		return nil
	}
	return r.specs
}

// Lookup finds a tool by its exact name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	if r == nil {
		return nil, false
	}
	t, ok := r.byName[name]
	return t, ok
}
