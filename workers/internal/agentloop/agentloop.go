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

// Input is the input of one attempt at a run. Run does not change it. Model is required; all other
// fields may have their zero values. All attempts at a run must have the same tools and the same
// message, because the journal refers to these tools and this message.
type Input struct {
	Organization string // id of the organization; see llm.Request
	System       string
	History      []Turn // earlier turns of the session, oldest first, already shortened by [Fit]
	OmittedTurns int    // number of older turns that Fit left out
	Message      string
	Data         json.RawMessage // further input of the request, a JSON object that is marked as untrusted for the model; nil: none
	Rounds       []llm.Message   // the tool calls and results that the request contains after its message; see RoundMessages
	Model        llm.Model
	Tools        *tool.Registry // the agent's tools; nil: none
	Client       *ClientTools   // the tools that the client executes; nil: none
	Contract     *Contract      // the schema that the answer must match; nil: the answer is text
	Settings     domain.ModelSettings
	Attachments  []llm.Attachment // attachments of the message; their passages have no source numbers yet
	Limits       Limits
	Price        func(model string, used llm.Usage) int64 // cost of one model call in millionths of the currency unit; nil: calls are free
}

// Limits bound one run. A zero field means the default.
type Limits struct {
	MaxTurns        int   // maximum number of model calls; default 25
	MaxTokens       int64 // maximum of the input and output tokens of all turns together; default 1,000,000
	MaxBytes        int64 // maximum size of all text of the model and the tools, and maximum size of the run object; default 8 MiB for each
	MaxToolCalls    int   // maximum number of executed tool calls of all turns; default 128
	MaxCostMicros   int64 // maximum cost of all turns together, by Input.Price; default: no limit
	MaxAnswerTokens int64 // maximum number of output tokens of one turn; default: the model's limit
}

// withDefaults replaces zero and negative limits by their defaults. Limits whose default is "no
// limit" stay unchanged.
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

// Output is the outcome of a run. If Run returns an error, only ToolCalls, Usage and Turns are set.
// These fields then describe the work done before the error, including the work of earlier
// attempts.
type Output struct {
	Text         string
	Data         json.RawMessage   // the answer as data that matches Input.Contract; Text contains the same JSON
	Citations    []domain.Citation // one citation for each marker in Text, in the same order
	ToolCalls    []domain.ToolCall
	Usage        domain.Usage // sum over all turns; Model is the last model that answered
	Turns        int          // model calls that returned an answer
	OmittedTurns int          // number of the session's older turns that the prompt omits
	StopReason   llm.StopReason
	// CitationsRemoved is the number of citations that the model wrote and that failed the check.
	CitationsRemoved int
	// Turn is the run's addition to the session's history: the message, the tool exchanges and
	// the answer.
	Turn Turn
}

// Journal stores the steps of a run. An implementation belongs to one attempt and must reject the
// writes of an attempt that has lost its run.
type Journal interface {
	// Load returns the recorded steps in order; a new run has none.
	Load(ctx context.Context) ([]Step, error)
	// Record stores the next step durably. It fails if this worker no longer owns the run.
	Record(ctx context.Context, step Step) error
}

// Types of events. The HTTP API uses the same names.
const (
	EventDelta         = domain.EventMessageDelta
	EventToolStarted   = domain.EventToolStarted
	EventToolCompleted = domain.EventToolCompleted
	EventCitation      = domain.EventCitationAdded
	EventOutput        = domain.EventOutputDelta
)

// Event reports the progress of a run. Only the fields for its type are set.
type Event struct {
	Type string
	// Step is the sequence number of the step to which the event belongs. The final answer is not a
	// step, so its events have the number after the number of the last recorded step.
	Step int
	// Replayed marks an event of a step that an earlier attempt recorded. The loop reports such an
	// event again when another attempt continues the run.
	Replayed bool
	Text     string
	Tool     *domain.ToolCall
	Citation *domain.Citation
	Data     json.RawMessage
}

// Config configures a Loop. The zero Config uses the real clock, random jitter and unlimited
// retries. The functions must be safe for concurrent use, because concurrent runs call them.
type Config struct {
	Now    func() time.Time
	Jitter func() float64 // returns a random number in [0, 1), which varies the delays of retries
	Retry  func() bool    // called before each retry of a model call; if it returns false, the call is not retried
	Earn   func()         // called after each answer of a model, to refill the retry budget
	// OnPanic is called when a tool panics, with the tool's name and an error that is only for
	// logs. The tool call then fails.
	OnPanic func(name string, err error)
}

// Loop runs agents. It has no mutable state and is safe for concurrent use. A worker uses one Loop
// for all runs.
type Loop struct {
	now      func() time.Time
	jitter   func() float64
	retry    func() bool
	earn     func()
	panicked func(name string, err error)
}

// New returns a Loop.
func New(cfg Config) *Loop {
	l := &Loop{now: cfg.Now, jitter: cfg.Jitter, retry: cfg.Retry, earn: cfg.Earn, panicked: cfg.OnPanic}
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

// Run executes a run from its first step, or continues after the steps in its journal. It calls the
// function events for each event, in order and in the goroutine of the caller. events may be nil
// and must not block.
//
// The error is an *Error or a *Parked, or it wraps the cause of ctx or the journal's error. If ctx
// ends, Run returns as soon as the running model call and tool calls return. No goroutine of the
// run outlives Run.
func (l *Loop) Run(ctx context.Context, in Input, journal Journal, events func(Event)) (Output, error) {
	// Replay the recorded steps to restore the state in which an earlier attempt left the run.
	r := newRun(l, &in, journal, events)
	if err := r.begin(ctx); err != nil {
		return r.out, err
	}
	steps, err := journal.Load(ctx)
	if err != nil {
		return r.out, wrap("loading steps", err)
	}
	if err := r.replay(steps); err != nil {
		return r.out, err
	}

	for {
		// If a limit already forbids the next model call, skip the pending tool calls, because no
		// model would read their results.
		if _, err := r.budgetLeft(); err != nil && len(r.pending) > 0 {
			return r.out, err
		}
		if err := r.callTools(ctx); err != nil {
			return r.out, err
		}
		if len(r.pending) > 0 {
			return r.returnCalls()
		}

		// All calls of the previous turn now have results, as providers require.
		turn, stop, err := r.modelTurn(ctx)
		if err != nil {
			return r.out, err
		}

		// A turn without tool calls is the answer. It is not recorded here: the caller saves it
		// with the run's result.
		if len(turn.ToolCalls) == 0 {
			out, again, err := r.conclude(turn, stop)
			if again {
				continue
			}
			return out, err
		}

		if err := r.recordTurn(ctx, turn); err != nil {
			return r.out, err
		}
	}
}
