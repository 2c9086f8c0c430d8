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

// Spec describes a tool to a model. Schema is the JSON Schema of the arguments, which are a JSON
// object.
type Spec struct {
	Name        string
	Description string
	Schema      json.RawMessage
	SideEffect  domain.SideEffect // side effect of a call; "" means none
	// Alone means that a call is never executed at the same time as other calls of the turn. An
	// example is a call that a person must approve.
	Alone bool
}

// Call is one call of a tool. ID is the call's id in the run, and Arguments is a JSON object.
type Call struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Result is the result of a call: a JSON value as output, and the sources that an answer may cite.
// The tool sets type, title, url, citedText, documentId and page of a source. The source's number
// and position are set later.
type Result struct {
	Output  json.RawMessage
	Sources []domain.Citation
}

// Tool is a tool that an agent may use.
type Tool interface {
	Spec() Spec
	// Call executes a call. If the error is an *Error, its message is shown to the model. Any other
	// error is internal, and neither models nor callers see its text.
	Call(ctx context.Context, call Call) (Result, error)
}

// Error is the failure of a call. If Retryable is true, the tool could not be reached or did not
// reply, and the run is retried later. If Retryable is false, the failure is a result that the
// model sees.
type Error struct {
	Message   string // shown to models and callers
	Retryable bool
	NotSent   bool  // the request was certainly not sent; this is set only for calls with a side effect
	Answered  bool  // the receiver has responded, so the outcome is known; this is set only for calls with a side effect
	Err       error // internal cause; may be nil
	// Output is the output of the failed call for models and callers. It is a JSON object with a
	// string under the key "error". If Output is nil, the output is {"error": Message}.
	Output json.RawMessage
}

// Unopened returns the error for a call whose stored secret cannot be decrypted. The caller must
// have reported the cause to the operator.
func Unopened(cause error) error {
	return &Error{
		Message: "This tool's secret cannot be decrypted. Set it again, or have the operator restore its key.",
		NotSent: true, Err: cause,
	}
}

// Error returns the message for models and callers.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Err }

// ActionRequired is the error of a call that waits for a person's decision. The run is parked until
// the decision.
type ActionRequired struct { //nolint:errname // waiting for a person is not a failure
	Kind domain.ActionKind
	Call Call
}

// Error returns a text with the kind of the required action.
func (e *ActionRequired) Error() string { return "the call waits for a person: " + string(e.Kind) }

// name matches the tool names that model providers accept.
var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Registry is the set of tools of a run, ordered by name. It is safe for concurrent use. A nil
// Registry is empty.
type Registry struct {
	byName map[string]Tool
	specs  []Spec
}

// NewRegistry creates a set of tools. It fails if two tools have the same name, or if model
// providers do not accept a name.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{byName: make(map[string]Tool, len(tools)), specs: make([]Spec, 0, len(tools))}
	for _, t := range tools {
		spec := t.Spec()
		if !name.MatchString(spec.Name) {
			return nil, fmt.Errorf("registering tool: invalid name %q", spec.Name)
		}
		if _, taken := r.byName[spec.Name]; taken {
			return nil, fmt.Errorf("registering tool: %s is registered twice", spec.Name)
		}
		r.byName[spec.Name] = t
		r.specs = append(r.specs, spec)
	}
	// The tools are sorted, so that the same set always results in the same prompt. Prompt caches
	// and reproducible answers depend on this.
	slices.SortFunc(r.specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// Specs returns the tools' descriptions, ordered by name. The slice is shared and must not be
// modified.
func (r *Registry) Specs() []Spec {
	// An agent without tools has a nil registry.
	if r == nil {
		return nil
	}
	return r.specs
}

// Lookup returns the tool with the given name. The second result is false if there is none.
func (r *Registry) Lookup(name string) (Tool, bool) {
	if r == nil {
		return nil, false
	}
	t, ok := r.byName[name]
	return t, ok
}
