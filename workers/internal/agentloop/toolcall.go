package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// What the model is told when a call could not be carried out.
const (
	malformedNote  = "The arguments are not a single JSON object. Write them again."
	brokeOffNote   = "The answer reached its length limit before this call was complete, so it was not made. Write less and call again."
	unknownNote    = "Unknown tool."
	failedNote     = "The tool failed."
	unreadableNote = "The tool's output could not be read."
)

const (
	maxSources   = 100 // of one call that are kept
	maxBeside    = 8   // calls that are made at once
	maxTurnCalls = 32  // calls of one turn that are made
)

var excessNote = fmt.Sprintf("Too many calls in one turn; at most %d are made.", maxTurnCalls)

// callTools carries out the calls still pending, group by group; none of a turn that goes past the run's limit, for
// nobody would read what they find.
func (r *run) callTools(ctx context.Context) error {
	if len(r.pending) > 0 && r.calls > r.limits.MaxToolCalls {
		return limitError(CodeToolCallLimit, "The run exceeded its limit of tool calls.")
	}
	for len(r.pending) > 0 {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if err := r.callGroup(ctx, r.nextGroup()); err != nil {
			return err
		}
	}
	return nil
}

// nextGroup gives the calls to make next: those that follow each other and may be made beside others, or one.
func (r *run) nextGroup() []llm.ToolCall {
	n := 1
	for r.besideOthers(r.pending[0]) && n < min(len(r.pending), maxBeside) && r.besideOthers(r.pending[n]) {
		n++
	}
	return r.pending[:n]
}

// besideOthers reports whether a call may be made at the same time as others: nothing in the world depends on their order.
func (r *run) besideOthers(call llm.ToolCall) bool {
	t, ok := r.in.Tools.Lookup(call.Name)
	if !ok || call.Arguments == nil || r.brokeOff {
		return true // it is not made at all
	}
	spec := t.Spec()
	return !spec.Alone && harmless(spec)
}

// harmless reports whether a tool's calls have no side effect.
func harmless(spec tool.Spec) bool {
	return spec.SideEffect == "" || spec.SideEffect == domain.SideEffectNone
}

// ended is what a call came to: a failure that the model can be told is a result like any other, an error ends the attempt.
type ended struct {
	record domain.ToolCall
	result tool.Result
	err    error
}

// callGroup makes calls at the same time, and records and tells of them in their order. An error ends the others.
func (r *run) callGroup(ctx context.Context, calls []llm.ToolCall) error {
	together, cancel := context.WithCancelCause(ctx)
	results := make([]chan ended, len(calls))
	var working sync.WaitGroup
	defer func() {
		cancel(nil)
		working.Wait() // nothing of a run goes on once Run has returned
	}()
	for i, call := range calls {
		started := domain.ToolCall{ID: call.ID, Name: call.Name, Status: toolRunning, Input: input(call)}
		r.send(Event{Type: EventToolStarted, Step: r.seq + 1 + i, Tool: &started})
		results[i] = make(chan ended, 1)
	}
	for i, call := range calls {
		excess := len(r.pending)-i <= r.excess
		working.Go(func() {
			done := r.callTool(together, call, excess)
			if failed, ok := errors.AsType[*Error](done.err); ok {
				cancel(failed)
			}
			results[i] <- done
		})
	}
	for i := range calls {
		if err := r.takeEnded(ctx, together, <-results[i]); err != nil {
			return err
		}
	}
	return nil
}

// takeEnded records what a call came to and tells of it.
func (r *run) takeEnded(ctx, together context.Context, done ended) error {
	switch {
	case ctx.Err() != nil:
		return stopped(ctx) // whatever came of it, another worker or nobody is to go on
	case done.err != nil && together.Err() != nil:
		return context.Cause(together) // of the call that ended this one, or of this one
	case done.err != nil:
		return done.err
	}
	if len(done.result.Sources) > 0 {
		if err := r.readEarlier(ctx); err != nil {
			return err
		}
	}
	step := &ToolStep{Call: done.record, Sources: r.number(done.result.Sources)}
	failpoint.Here(failpoint.ToolBefore)
	if err := r.record(ctx, Step{Kind: StepToolCall, Tool: step}); err != nil {
		return err
	}
	failpoint.Here(failpoint.ToolAfter)
	r.takeTool(step)
	r.send(Event{Type: EventToolCompleted, Step: r.seq, Tool: &step.Call})
	return r.checkBytes()
}

// callTool makes one call, unless it is one too many. It may run beside others and leaves the run's state alone.
func (r *run) callTool(ctx context.Context, call llm.ToolCall, excess bool) ended {
	began := r.loop.now()
	result, err := r.carryOut(ctx, call, excess)
	record := domain.ToolCall{
		ID: call.ID, Name: call.Name, Status: toolFailed, Input: input(call), DurationMS: milliseconds(r.loop.now().Sub(began)),
	}
	if err != nil {
		record.Output = failedOutput(err)
		return ended{record: record, err: endsAttempt(ctx, call, err)}
	}
	record.Status, record.Output = toolCompleted, result.Output
	return ended{record: record, result: result}
}

// endsAttempt gives the error that a call's error is to the run, nil if the model can be told.
func endsAttempt(ctx context.Context, call llm.ToolCall, err error) error {
	var action *tool.ActionRequired
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case errors.As(err, &action):
		return &Parked{Kind: action.Kind, Call: tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}}
	}
	if classified, ok := errors.AsType[*Error](err); ok { // of what must be had before a call may be made
		return classified
	}
	if lost := toolUnavailable(call.Name, err); lost != nil {
		return lost
	}
	return nil
}

// carryOut gives what a tool made of a call, its output as it may be kept.
func (r *run) carryOut(ctx context.Context, call llm.ToolCall, excess bool) (result tool.Result, err error) {
	switch {
	case r.brokeOff:
		return tool.Result{}, &tool.Error{Message: brokeOffNote}
	case excess:
		return tool.Result{}, &tool.Error{Message: excessNote}
	case call.Arguments == nil:
		return tool.Result{}, &tool.Error{Message: malformedNote}
	}
	t, ok := r.in.Tools.Lookup(call.Name)
	if !ok {
		return tool.Result{}, &tool.Error{Message: unknownNote}
	}
	spec := t.Spec()
	defer func() {
		if cause := recover(); cause != nil { // nobody else would: a call has a goroutine of its own
			result, err = tool.Result{}, r.panicked(spec, cause)
		}
	}()
	if result, err = t.Call(ctx, tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}); err != nil {
		return tool.Result{}, err
	}
	if len(result.Output) == 0 {
		result.Output = json.RawMessage("null")
	}
	if result.Output, err = llm.CleanJSON(result.Output); err != nil {
		return tool.Result{}, &tool.Error{Message: unreadableNote, Err: err}
	}
	return result, nil
}

// panicked tells of a tool that panicked and gives the error of its call. Whether one with a side effect was carried out is
// not known then: the next attempt finds that out, as it would if the process had ended.
func (r *run) panicked(spec tool.Spec, cause any) error {
	err := fmt.Errorf("tool panicked: %T\n%s", cause, debug.Stack()) // what it says may hold anything, a secret too
	r.loop.panicked(spec.Name, err)
	return &tool.Error{Message: failedNote, Retryable: !harmless(spec), Err: err}
}

// note gives what the model may be told of a tool's error.
func note(err error) string {
	var e *tool.Error
	if errors.As(err, &e) && e.Message != "" {
		return llm.CleanText(e.Message)
	}
	return failedNote
}

// failedOutput gives what there is to show of a failed call: what the tool says of it, if that can be kept, or the note.
func failedOutput(err error) json.RawMessage {
	var e *tool.Error
	if errors.As(err, &e) && len(e.Output) > 0 {
		output, err := llm.CleanJSON(e.Output)
		var said struct {
			Error string `json:"error"`
		}
		if err == nil && json.Unmarshal(output, &said) == nil && said.Error != "" {
			return output
		}
	}
	return quoted("error", note(err))
}

// takeTool takes a finished call into the run's state.
func (r *run) takeTool(s *ToolStep) {
	result := &llm.ToolResult{
		CallID: s.Call.ID, Name: s.Call.Name, Output: s.Call.Output, Sources: s.Sources, Failed: s.Call.Status == toolFailed,
	}
	message := llm.Message{Role: llm.RoleTool, Result: result}
	r.messages = append(r.messages, message)
	r.bytes += int64(message.Size())
	r.result += jsonSize(s.Call)
	r.pending = r.pending[1:]
	r.out.ToolCalls = append(r.out.ToolCalls, s.Call)
	for _, source := range s.Sources {
		if r.passages[source.ID] == nil {
			r.sources = append(r.sources, source)
			r.passages[source.ID] = &passage{source: source}
		}
	}
}

// input gives a call's arguments for the run object; malformed ones as the text that they were.
func input(call llm.ToolCall) json.RawMessage {
	if call.Arguments != nil {
		return call.Arguments
	}
	return quoted("malformed", call.Malformed)
}

func quoted(key, text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{key: text})
	if err != nil { // texts always marshal
		return json.RawMessage("{}")
	}
	return b
}
