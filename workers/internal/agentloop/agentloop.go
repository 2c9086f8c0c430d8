package agentloop

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// Input is what a run starts from; it is not changed.
type Input struct {
	System       string
	History      []Turn // earlier turns of the session, oldest first, as [Fit] chose them
	OmittedTurns int    // how many older ones it left out
	Message      string
	Data         json.RawMessage // further input keys, a JSON object: given to the model marked untrusted; nil for none
	Model        llm.Model
	Tools        *tool.Registry // nil for none
	Limits       Limits
	Price        func(model string, used llm.Usage) int64 // of one model call, in millionths; nil: free
}

// Limits cap one run; a zero field means its default.
type Limits struct {
	MaxTurns        int   // model calls: 25
	MaxTokens       int64 // input and output of all turns together: 1,000,000
	MaxBytes        int64 // what model and tools wrote, and what of it the run object holds: 8 MiB each
	MaxToolCalls    int   // that are made, of all turns together: 128
	MaxCostMicros   int64 // by Input.Price, of all turns together: no limit
	MaxAnswerTokens int64 // output of one turn; by default the model's own limit
}

func (l Limits) withDefaults() Limits {
	if l.MaxTurns <= 0 {
		l.MaxTurns = 25
	}
	if l.MaxTokens <= 0 {
		l.MaxTokens = 1_000_000
	}
	if l.MaxBytes <= 0 {
		l.MaxBytes = 8 << 20
	}
	if l.MaxToolCalls <= 0 {
		l.MaxToolCalls = 128
	}
	return l
}

// Output is how a run went. After an error it still says what was used up to then: ToolCalls, Usage, Turns.
type Output struct {
	Text         string
	Citations    []domain.Citation // one for each marker of Text, in their order
	ToolCalls    []domain.ToolCall
	Usage        domain.Usage // summed over turns; its model is the one that answered last
	Turns        int          // model calls that were answered
	OmittedTurns int          // older turns of the session that the model was not given
	StopReason   llm.StopReason
	// CitationsRemoved counts what the model cited and what did not hold.
	CitationsRemoved int
	// Turn is what this run adds to the session's history: its message up to its answer, tool exchanges included.
	Turn Turn
}

// Journal keeps a run's steps.
type Journal interface {
	// Load gives the recorded steps in order, none for a run that begins.
	Load(ctx context.Context) ([]Step, error)
	// Record keeps the next step for good; it fails if the run is no longer this worker's.
	Record(ctx context.Context, step Step) error
}

// Types of events, as the HTTP contract names them.
const (
	EventDelta         = domain.EventMessageDelta
	EventToolStarted   = domain.EventToolStarted
	EventToolCompleted = domain.EventToolCompleted
	EventCitation      = domain.EventCitationAdded
)

// Event is something to show while a run goes on; only the field of its type is set.
type Event struct {
	Type string
	// Step is the sequence number of the step that the event is part of; the answer itself
	// counts as the step after the last recorded one.
	Step int
	// Replayed marks events of recorded steps, told again by the worker that took the run over.
	Replayed bool
	Text     string
	Tool     *domain.ToolCall
	Citation *domain.Citation
}

// Config sets up a Loop; zero fields mean the real clock and chance, and retries without a budget. Its functions are
// called by many runs at once.
type Config struct {
	Now    func() time.Time
	Jitter func() float64 // in [0, 1), spreads retries
	Retry  func() bool    // asked before each retry in place; false: it must not be made
	Earn   func()         // called for each answer of a model: what retries may be made of
	// Panicked is told of a tool that panicked, with what is for logs only; its call is a failed one.
	Panicked func(name string, err error)
}

// Loop runs agents; it has no state of its own and is safe for concurrent use.
type Loop struct {
	now      func() time.Time
	jitter   func() float64
	retry    func() bool
	earn     func()
	panicked func(name string, err error)
}

// New makes a Loop.
func New(cfg Config) *Loop {
	l := &Loop{now: cfg.Now, jitter: cfg.Jitter, retry: cfg.Retry, earn: cfg.Earn, panicked: cfg.Panicked}
	if l.now == nil {
		l.now = time.Now
	}
	if l.jitter == nil {
		l.jitter = rand.Float64
	}
	if l.retry == nil {
		l.retry = func() bool { return true }
	}
	if l.earn == nil {
		l.earn = func() {}
	}
	if l.panicked == nil {
		l.panicked = func(string, error) {}
	}
	return l
}

// Run carries a run out from its first step, or from where its journal says that it stands. events,
// which may be nil, is called in order from the calling goroutine and must not block. The error is an
// *Error or a *Parked, or wraps ctx's cause or the journal's error.
func (l *Loop) Run(ctx context.Context, in Input, journal Journal, events func(Event)) (Output, error) {
	r := newRun(l, &in, journal, events)
	steps, err := journal.Load(ctx)
	if err != nil {
		return r.out, wrap("loading steps", err)
	}
	if err := r.replay(steps); err != nil {
		return r.out, err
	}
	for {
		// Calls whose results no model will read are not made.
		if _, err := r.budgetLeft(); err != nil && len(r.pending) > 0 {
			return r.out, err
		}
		if err := r.callTools(ctx); err != nil {
			return r.out, err
		}
		turn, stop, err := r.modelTurn(ctx)
		if err != nil {
			return r.out, err
		}
		if len(turn.ToolCalls) == 0 {
			return r.finish(turn, stop)
		}
		if err := r.recordTurn(ctx, turn); err != nil {
			return r.out, err
		}
	}
}
