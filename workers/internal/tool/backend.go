package tool

import (
	"context"
	"errors"

	"parley/shared/domain"
)

// Backend carries the calls of one kind of tool out, in a tool worker; safe for concurrent use.
type Backend interface {
	// Kind is one of the contract's: webSearch, httpRequest, mcp.
	Kind() string
	// Call carries a call out. Its error is an *Error, ctx's, or internal: then the model is told no more than that
	// the tool failed. After Sending was called, an error other than an *Error with NotSent means that nobody knows
	// whether the effect happened.
	Call(ctx context.Context, req Request) (Result, error)
}

// Lister is a backend whose tools are decided on elsewhere, and must be asked for.
type Lister interface {
	List(ctx context.Context, req Request) ([]Spec, error)
}

// Request is a call with everything that a backend may know; ids come from the capability, never from the model.
type Request struct {
	OrganizationID string
	RunID          string
	TargetID       string // agent or template
	Fence          int64
	Config         domain.Config // of the version that the run was accepted with; secrets are sealed
	Call           Call
	// EffectKey goes out as Idempotency-Key with whatever has a side effect; "" when the call has none.
	EffectKey string
	// Sending must be called just before the first byte of something with a side effect leaves, and nothing may
	// leave when it fails. It is nil when the call has no entry in the effect ledger.
	Sending func(ctx context.Context) error
	// Keep keeps a text that was read and gives its source id.
	Keep func(ctx context.Context, source domain.Source) (id string, err error)
}

// ErrStale says that the run is no longer held by whoever asked: nothing may be sent for it.
var ErrStale = errors.New("the run is no longer held under this fence")
