package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/schema"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/tool"
)

// remoteTool is a tool whose calls are executed by tool workers.
type remoteTool struct {
	tools *Tools
	run   Run
	// kind selects the tool workers that receive the calls.
	kind          string
	spec          tool.Spec
	schema        *schema.Schema
	needsApproval bool
}

// Spec describes the tool.
func (r *remoteTool) Spec() tool.Spec { return r.spec }

// Call executes a call and records a span. If the call has side effects or needs approval, its
// state is kept in the effect ledger.
func (r *remoteTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	ctx, span := tracing.Child(ctx, tracing.Internal, "execute_tool", call.Name)
	defer span.End()
	span.Str("gen_ai.operation.name", "execute_tool")
	span.Str("gen_ai.tool.name", call.Name)
	span.Str("gen_ai.tool.call.id", call.ID)
	span.Str("gen_ai.tool.type", toolTypes[r.kind])

	result, err := r.call(ctx, call)
	if err != nil {
		span.Fail(failureFor(err))
	}
	return result, err
}

// call executes a call. It does not record a span.
func (r *remoteTool) call(ctx context.Context, call tool.Call) (tool.Result, error) {
	// Check the arguments first, so that no person is asked to approve a call that the tool would
	// reject.
	if err := r.schema.Check(call.Arguments); err != nil {
		return tool.Result{}, &tool.Error{Message: "The arguments do not fit the tool: " + err.Error(), Err: err}
	}
	// A call without side effects may be repeated, so it needs no entry in the ledger.
	if !r.needsApproval && !repeats(r.spec.SideEffect) {
		return r.send(ctx, call, "")
	}
	return r.effect(ctx, call)
}

// toolTypes contains the value of OpenTelemetry's attribute gen_ai.tool.type for each kind of tool.
var toolTypes = map[string]string{
	contract.ToolWebSearch: "datastore", contract.ToolKnowledge: "datastore", contract.ToolHTTPRequest: "extension",
	contract.ToolMCP: "extension", contract.ToolCodeExecution: "function",
}

// failureFor returns the class of an error as one word, for the span.
func failureFor(err error) string {
	var failed *tool.Error
	switch {
	case errors.As(err, new(*tool.ActionRequired)):
		return "action_required"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "stopped"
	case errors.As(err, &failed) && failed.Retryable:
		return "unavailable"
	default:
		return "failed"
	}
}

// repeats reports whether the side effect could happen again if a call were repeated.
func repeats(effect domain.SideEffect) bool { return effect != "" && effect != domain.SideEffectNone }

// effect executes a call with an entry in the effect ledger. The state of the entry decides whether
// the call is sent.
func (r *remoteTool) effect(ctx context.Context, call tool.Call) (tool.Result, error) {
	// The key depends only on the run and the call, so a repeated call has the same key.
	key := contract.EffectKey(r.run.RunID, call.ID)
	entry, held, err := r.tools.ledger.PrepareEffect(ctx, r.run.Held, domain.Effect{
		CallID: call.ID, Name: call.Name, Input: call.Arguments, SideEffect: r.spec.SideEffect, Key: key,
	}, r.needsApproval)

	switch {
	case err != nil:
		return tool.Result{}, unreachable(fmt.Errorf("preparing effect: %w", err))
	// Another worker has taken over the run, so this attempt must not send the call.
	case !held:
		return tool.Result{}, unreachable(tool.ErrStale)
	}

	// In a first attempt, the entry is usually ready. Any other state was set by an earlier attempt
	// or by a person.
	switch entry.State {
	case domain.EffectReady:
		// The entry is committed. If the worker crashes from here on, the next attempt finds it.
		failpoint.Here(failpoint.EffectAfter)
		return r.send(ctx, call, key)
	case domain.EffectDone:
		return r.outcome(entry.Outcome)
	case domain.EffectAwaiting:
		return tool.Result{}, &tool.ActionRequired{Kind: entry.Waiting(), Call: call}
	case domain.EffectDenied:
		return tool.Result{}, &tool.Error{Message: "A person refused this call; it was not made."}
	case domain.EffectHappened:
		return tool.Result{Output: json.RawMessage(`{"note":"A person confirmed that this call was executed. Its result is unknown."}`)}, nil
	case domain.EffectVoid, domain.EffectSending: // PrepareEffect never returns an entry in one of these states
	}
	return tool.Result{}, unreachable(fmt.Errorf("the effect of the call %s has the unexpected state %s", call.ID, entry.State))
}

// unreachable returns a retryable error, which ends the attempt. The next attempt reads the state
// of the call from the ledger.
func unreachable(err error) *tool.Error {
	return &tool.Error{Message: "The tool could not be reached.", Retryable: true, Err: err}
}

// send sends a call to a tool worker. Before a call of codeExecution, send reserves run time. If
// the call was not sent, send releases the reserved time.
func (r *remoteTool) send(ctx context.Context, call tool.Call, key string) (tool.Result, error) {
	// Only calls of codeExecution have a quota of run time.
	if r.kind != contract.ToolCodeExecution || r.run.Code == nil {
		return r.sendNow(ctx, call, key)
	}

	done, err := r.run.Code(ctx)
	if err != nil {
		return tool.Result{}, fmt.Errorf("reserving time in a sandbox: %w", err)
	}

	// Measure the whole call including the wait for a sandbox, because the reply does not contain
	// the run time.
	began := time.Now()
	result, err := r.sendNow(ctx, call, key)
	var failed *tool.Error
	if errors.As(err, &failed) && failed.NotSent {
		// No program has run, so the organization is not charged.
		done(0)
		return result, err
	}
	done(time.Since(began))
	return result, err
}

// sendNow sends a call to a tool worker and returns the result. key is the effect key, or "" if the
// call has no entry in the ledger.
func (r *remoteTool) sendNow(ctx context.Context, call tool.Call, key string) (tool.Result, error) {
	answer, err := r.tools.ask(ctx, r.run, r.kind, contract.ToolRequest{
		Operation: contract.OperationCall, CallID: call.ID, Name: call.Name, Arguments: call.Arguments,
		EffectKey: key,
	})
	switch {
	case err == nil:
		return r.outcomeFor(answer, call)
	// The run was cancelled or has reached its deadline. This is not a failure of the tool.
	case ctx.Err() != nil:
		return tool.Result{}, err
	case errors.Is(err, bus.ErrToolRefused):
		r.run.Log.Error().Err(err).Str("tool", call.Name).Msg("tool worker rejected a call: check that all processes have the same SECRETS_KEY")
		return r.unsent(ctx, call, key, err, "The tool "+call.Name+" rejected the call.")
	case errors.Is(err, bus.ErrToolsAway): // it is unknown whether any tool worker exists, so the error ends the attempt and is retryable
		return tool.Result{}, unreachable(err)
	case errors.Is(err, bus.ErrNoToolWorker):
		return r.unsent(ctx, call, key, err, "The tool "+call.Name+" is not available at the moment.")
	// The request did not fit into a message, so no tool worker has received it.
	case errors.Is(err, bus.ErrToolTooLarge):
		return r.unsent(ctx, call, key, err, "The arguments are too large.")
	// A tool worker has received the request, but no reply has arrived.
	default:
		return r.lost(call, err)
	}
}

// unsent handles a call that no tool worker has accepted. It first sets the ledger's entry to void,
// so that no tool worker can execute the call later. Only then does it return the error for the
// model.
func (r *remoteTool) unsent(ctx context.Context, call tool.Call, key string, cause error, message string) (tool.Result, error) {
	if key != "" {
		void, err := r.tools.ledger.VoidEffect(ctx, r.run.Held, call.ID)
		if err != nil {
			return tool.Result{}, unreachable(fmt.Errorf("voiding effect: %w", err))
		}
		// A tool worker has already taken the call, so its outcome is unknown.
		if !void {
			return r.lost(call, cause)
		}
	}
	return tool.Result{}, &tool.Error{Message: message, NotSent: true, Err: cause}
}

// lost handles a call that a tool worker has accepted but whose outcome is unknown. If the side
// effect of the call must not happen twice, a person must report the outcome. Otherwise the run's
// next attempt repeats the call.
func (r *remoteTool) lost(call tool.Call, cause error) (tool.Result, error) {
	if r.spec.SideEffect == domain.SideEffectUnsafe {
		return tool.Result{}, &tool.ActionRequired{Kind: domain.ActionUnknownOutcome, Call: call}
	}
	return tool.Result{}, unreachable(cause)
}

// outcomeFor converts a tool worker's reply to a result or an error.
func (r *remoteTool) outcomeFor(answer contract.ToolReply, call tool.Call) (tool.Result, error) {
	failure := answer.Failure
	switch {
	case failure == nil:
		return tool.Result{Output: answer.Output, Sources: answer.Sources}, nil
	case failure.Stale:
		return tool.Result{}, unreachable(tool.ErrStale)
	// A reply contains a failure only as text, so an error is created from the text.
	case failure.Retryable:
		return tool.Result{}, unreachable(errors.New(failure.Message))
	case failure.Unknown:
		return r.lost(call, errors.New("the outcome of the call is not known"))
	default:
		return tool.Result{}, &tool.Error{Message: failure.Message, Output: answer.Output}
	}
}

// outcome decodes a reply that an earlier attempt has recorded in the ledger.
func (r *remoteTool) outcome(kept json.RawMessage) (tool.Result, error) {
	var answer contract.ToolReply
	if err := json.Unmarshal(kept, &answer); err != nil {
		return tool.Result{}, fmt.Errorf("reading stored outcome: %w", err)
	}
	return r.outcomeFor(answer, tool.Call{})
}

// ask sends a request with a capability for this run. It waits for the reply until the call's time
// limit or the run's deadline, whichever is earlier.
func (t *Tools) ask(ctx context.Context, run Run, kind string, request contract.ToolRequest) (contract.ToolReply, error) {
	var answer contract.ToolReply

	deadline := time.Now().Add(t.callTime(kind))
	// A reply after the run's deadline would be useless.
	if run.Deadline.Before(deadline) {
		deadline = run.Deadline
	}

	body, err := json.Marshal(request)
	if err != nil {
		return answer, fmt.Errorf("encoding request: %w", err)
	}

	// The capability permits the tool worker to act only for this call of this attempt, until the
	// deadline.
	claims, err := json.Marshal(contract.Capability{
		OrganizationID: run.OrganizationID, RunID: run.RunID, TargetID: run.TargetID, ConfigVersion: run.ConfigVersion,
		Fence: run.Fence, Kind: kind, CallID: request.CallID, Expires: deadline.UTC(),
	})
	if err != nil {
		return answer, fmt.Errorf("encoding capability: %w", err)
	}

	// The tool worker adds its spans to this trace.
	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	raw, err := t.caller.Call(ctx, kind, t.signer.Sign(claims, body), body, deadline)
	if err != nil {
		return answer, fmt.Errorf("calling %s: %w", kind, err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("reading answer of %s: %w", kind, err)
	}
	return answer, nil
}
