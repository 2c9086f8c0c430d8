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

// The model receives these notes as the results of calls that could not be executed.
const (
	malformedNote  = "The arguments are not a single JSON object. Write them again."
	brokeOffNote   = "The answer reached its length limit before this call was complete, so the call was not made. Write less and call again."
	unknownNote    = "Unknown tool."
	failedNote     = "The tool failed."
	unreadableNote = "The tool's output could not be read."
)

const (
	maxSources    = 100 // maximum number of sources that are kept from the result of one call
	maxConcurrent = 8   // maximum number of concurrent calls
	maxTurnCalls  = 32  // maximum number of executed calls of one turn
)

var excessNote = fmt.Sprintf("Too many calls in one turn; at most %d are made.", maxTurnCalls)

// callTools executes the pending calls, group by group, and records each result. If the turn
// exceeds the run's limit on calls, callTools executes none of them, because no model call would
// read the results. Calls for the client stay pending if the run ends with them.
//
// callTools returns a *Parked if a call needs a decision or the client's results. The results of
// the calls before that call are recorded.
func (r *run) callTools(ctx context.Context) error {
	if len(r.pending) > 0 && r.calls > r.limits.MaxToolCalls {
		return limitError(CodeToolCallLimit, "The run exceeded its limit of tool calls.")
	}
	for len(r.pending) > 0 {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if len(r.pending) > r.theirs {
			if err := r.callGroup(ctx, r.nextGroup()); err != nil {
				return err
			}
			continue
		}
		if r.in.Client.Results == nil {
			return nil
		}
		if err := r.askClient(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nextGroup returns the calls to make next: either several consecutive calls that may run
// concurrently, or a single call.
func (r *run) nextGroup() []llm.ToolCall {
	// A call with a side effect runs alone. It starts after the calls before it have finished, and
	// the calls after it wait until it has finished.
	n := 1
	for r.concurrent(r.pending[0]) && n < min(len(r.pending)-r.theirs, maxConcurrent) && r.concurrent(r.pending[n]) {
		n++
	}
	return r.pending[:n]
}

// concurrent reports whether a call may run at the same time as other calls. This requires that its
// tool has no side effect and is not marked Alone.
func (r *run) concurrent(call llm.ToolCall) bool {
	t, ok := r.in.Tools.Lookup(call.Name)
	if !ok || call.Arguments == nil || r.brokeOff {
		return true // a call that is rejected cannot have a side effect
	}
	spec := t.Spec()
	return !spec.Alone && harmless(spec)
}

// harmless reports whether a tool's calls have no side effect.
func harmless(spec tool.Spec) bool {
	return spec.SideEffect == "" || spec.SideEffect == domain.SideEffectNone
}

// callResult is the outcome of a call. A failure that the model can handle is part of the result. A
// non-nil err ends the attempt.
type callResult struct {
	record domain.ToolCall
	result tool.Result
	err    error
}

// callGroup makes several calls concurrently. It records and reports them in order. An error of one
// call cancels the remaining calls. When it returns, none of its calls is running.
func (r *run) callGroup(ctx context.Context, calls []llm.ToolCall) error {
	groupCtx, cancel := context.WithCancelCause(ctx)
	results := make([]chan callResult, len(calls))
	var working sync.WaitGroup
	defer func() {
		cancel(nil)
		working.Wait() // no goroutine of a run outlives Run
	}()

	// Report all calls as started, in order, before any of them can finish.
	for i, call := range calls {
		started := domain.ToolCall{ID: call.ID, Name: call.Name, Status: toolRunning, Input: input(call)}
		r.send(Event{Type: EventToolStarted, Step: r.seq + 1 + i, Tool: &started})
		results[i] = make(chan callResult, 1)
	}

	for i, call := range calls {
		// The calls beyond the turn's limit are the last calls of the agent's own tools.
		excess := len(r.pending)-r.theirs-i <= r.excess
		working.Go(func() {
			done := r.callTool(groupCtx, call, excess)
			if failed, ok := errors.AsType[*Error](done.err); ok {
				cancel(failed)
			}
			results[i] <- done
		})
	}

	// Record the results in the order of the calls, even if a later call finishes first. A replay
	// depends on this order.
	for i := range calls {
		if err := r.recordResult(ctx, groupCtx, <-results[i]); err != nil {
			return err
		}
	}
	return nil
}

// recordResult records the outcome of a call and reports its event. ctx is the context of the run,
// and groupCtx that of the group of calls. A failed call whose error the model receives is recorded
// like a successful call. A call that ends the attempt is not recorded, so the next attempt repeats
// it.
func (r *run) recordResult(ctx, groupCtx context.Context, done callResult) error {
	switch {
	case ctx.Err() != nil:
		return stopped(ctx) // either this worker has lost the run, or the run was cancelled
	case done.err != nil && groupCtx.Err() != nil:
		return context.Cause(groupCtx) // the error of the call for which the group was canceled
	case done.err != nil:
		return done.err
	}

	// Read the source numbers in the history only if a call has returned sources, because reading
	// them takes time.
	if len(done.result.Sources) > 0 {
		if err := r.readEarlier(ctx); err != nil {
			return err
		}
	}

	// Record the call before it is reported, so that a reported call is never repeated.
	step := &ToolStep{Call: done.record, Sources: r.number(done.result.Sources)}
	failpoint.Here(failpoint.ToolBefore)
	if err := r.record(ctx, Step{Kind: StepToolCall, Tool: step}); err != nil {
		return err
	}
	failpoint.Here(failpoint.ToolAfter)

	r.applyTool(step)
	r.send(Event{Type: EventToolCompleted, Step: r.seq, Tool: &step.Call})
	return r.checkBytes()
}

// callTool makes one call, or rejects it if excess is true because it is beyond the turn's limit.
// It does not change the run's state, so several calls may run concurrently.
func (r *run) callTool(ctx context.Context, call llm.ToolCall, excess bool) callResult {
	began := r.loop.now()
	result, err := r.execute(ctx, call, excess)
	record := domain.ToolCall{
		ID: call.ID, Name: call.Name, Status: toolFailed, Input: input(call), DurationMS: milliseconds(r.loop.now().Sub(began)),
	}
	if err != nil {
		record.Output = failedOutput(err)
		return callResult{record: record, err: endsAttempt(ctx, call, err)}
	}
	record.Status, record.Output = toolCompleted, result.Output
	return callResult{record: record, result: result}
}

// endsAttempt returns the error with which the attempt ends after a call has failed with err. It
// returns nil if the model can handle err.
func endsAttempt(ctx context.Context, call llm.ToolCall, err error) error {
	var action *tool.ActionRequired
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case errors.As(err, &action):
		return &Parked{Kind: action.Kind, Call: tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}}
	}

	if classified, ok := errors.AsType[*Error](err); ok { // the call was not made, because a preceding check returned an error of the run
		return classified
	}
	if lost := toolUnavailable(call.Name, err); lost != nil {
		return lost
	}
	return nil
}

// execute runs a call and returns its result, with the output cleaned by llm.CleanJSON. The error
// is a *tool.Error if the call is rejected, if the tool panics, or if the tool's output is not
// valid JSON. If the tool fails, the error is the tool's own.
func (r *run) execute(ctx context.Context, call llm.ToolCall, excess bool) (result tool.Result, err error) {
	// A call of one of the following kinds fails before it reaches a tool. The model receives the
	// reason.
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

	// A panic in a tool must not end the worker, which executes the runs of other organizations.
	spec := t.Spec()
	defer func() {
		if cause := recover(); cause != nil { // each call has its own goroutine, so it must recover from its own panic
			result, err = tool.Result{}, r.panicked(spec, cause)
		}
	}()
	if result, err = t.Call(ctx, tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}); err != nil {
		return tool.Result{}, err
	}

	// An empty output is not valid JSON, so it could not be recorded. Replace it.
	if len(result.Output) == 0 {
		result.Output = json.RawMessage("null")
	}
	if result.Output, err = llm.CleanJSON(result.Output); err != nil {
		return tool.Result{}, &tool.Error{Message: unreadableNote, Err: err}
	}
	return result, nil
}

// panicked reports the panic of a tool and returns the error of its call. If the tool has side
// effects, it is unknown whether they have happened. The error is then retryable, and the next
// attempt handles the call as after a crash.
func (r *run) panicked(spec tool.Spec, cause any) error {
	err := fmt.Errorf("tool panicked: %T\n%s", cause, debug.Stack()) // report no panic value, because it may contain secrets
	r.loop.panicked(spec.Name, err)
	return &tool.Error{Message: failedNote, Retryable: !harmless(spec), Err: err}
}

// note returns the text that the model receives about a tool's error.
func note(err error) string {
	var e *tool.Error
	if errors.As(err, &e) && e.Message != "" {
		return llm.CleanText(e.Message)
	}
	return failedNote
}

// failedOutput returns the output of a failed call. It is the tool's own output if that is valid
// JSON and contains an error. Otherwise it contains the text of the function note.
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

// applyTool adds a finished call to the run's state.
func (r *run) applyTool(s *ToolStep) {
	message := toolMessage(s)
	// The model receives failures as results, too, so that it can try something else.
	r.messages = append(r.messages, message)
	r.bytes += int64(message.Size())
	r.result += jsonSize(s.Call)
	r.pending = r.pending[1:]
	r.theirs = min(r.theirs, len(r.pending))
	r.out.ToolCalls = append(r.out.ToolCalls, s.Call)
	r.add(s.Sources)
}

// toolMessage returns the message with the result of a call.
func toolMessage(s *ToolStep) llm.Message {
	return llm.Message{Role: llm.RoleTool, Result: &llm.ToolResult{
		CallID: s.Call.ID, Name: s.Call.Name, Output: s.Call.Output, Sources: s.Sources, Failed: s.Call.Status == toolFailed,
	}}
}

// input returns a call's arguments for the run object, in which malformed arguments become text.
func input(call llm.ToolCall) json.RawMessage {
	if call.Arguments != nil {
		return call.Arguments
	}
	return quoted("malformed", call.Malformed)
}

// quoted returns a JSON object with a single member. The argument key is its name, and the argument
// text is its value.
func quoted(key, text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{key: text})
	if err != nil { // marshaling a string never fails
		return json.RawMessage("{}")
	}
	return b
}
