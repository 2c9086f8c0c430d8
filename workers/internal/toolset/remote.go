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

// remoteTool is a tool whose calls a tool worker executes.
type remoteTool struct {
	tools *Tools
	run   Run
	// kind selects the tool workers that serve the call.
	kind          string
	spec          tool.Spec
	schema        *schema.Schema
	needsApproval bool
}

// Spec describes the tool.
func (r *remoteTool) Spec() tool.Spec { return r.spec }

// Call executes a call. If the call has side effects or needs approval, it goes through the effect
// ledger.
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

// call executes a call without recording a span.
func (r *remoteTool) call(ctx context.Context, call tool.Call) (tool.Result, error) {
	// Check before the ledger: arguments that the tool rejects must not ask a person for approval.
	if err := r.schema.Check(call.Arguments); err != nil {
		return tool.Result{}, &tool.Error{Message: "The arguments do not fit the tool: " + err.Error(), Err: err}
	}
	// A call without side effects needs no ledger entry: repeating it is harmless.
	if !r.needsApproval && !repeats(r.spec.SideEffect) {
		return r.send(ctx, call, "")
	}
	return r.effect(ctx, call)
}

// toolTypes maps kinds of tools to the values of OpenTelemetry's attribute gen_ai.tool.type.
var toolTypes = map[string]string{
	contract.ToolWebSearch: "datastore", contract.ToolKnowledge: "datastore", contract.ToolHTTPRequest: "extension",
	contract.ToolMCP: "extension", contract.ToolCodeExecution: "function",
}

// failureFor returns one word for the class of an error, for the span.
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

// repeats reports whether the side effect may happen twice if a call is made twice.
func repeats(effect domain.SideEffect) bool { return effect != "" && effect != domain.SideEffectNone }

// effect executes a call through the effect ledger. The state of the ledger's entry decides whether
// the call is sent.
func (r *remoteTool) effect(ctx context.Context, call tool.Call) (tool.Result, error) {
	// The key depends only on the run and the call, so that a repeated call has the same key.
	key := contract.EffectKey(r.run.RunID, call.ID)
	entry, held, err := r.tools.ledger.PrepareEffect(ctx, r.run.Held, domain.Effect{
		CallID: call.ID, Name: call.Name, Input: call.Arguments, SideEffect: r.spec.SideEffect, Key: key,
	}, r.needsApproval)

	switch {
	case err != nil:
		return tool.Result{}, unreachable(fmt.Errorf("preparing effect: %w", err))
	// Another worker has taken over the run, so this attempt must not act for it.
	case !held:
		return tool.Result{}, unreachable(tool.ErrStale)
	}

	// The first attempt finds the entry ready. Any other state comes from an earlier attempt or
	// from a person.
	switch entry.State {
	case domain.EffectReady:
		// The entry is committed, so a crash from here on leaves a record of the call.
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
	case domain.EffectVoid, domain.EffectSending: // PrepareEffect never returns these states
	}
	return tool.Result{}, unreachable(fmt.Errorf("effect of call %s is %s", call.ID, entry.State))
}

// unreachable returns a retryable error, which ends the attempt at the run. The next attempt reads
// the state of the call from the ledger.
func unreachable(err error) *tool.Error {
	return &tool.Error{Message: "The tool could not be reached.", Retryable: true, Err: err}
}

// send executes a call on a tool worker. For codeExecution it first reserves run time, and releases
// it again if the call was not sent.
func (r *remoteTool) send(ctx context.Context, call tool.Call, key string) (tool.Result, error) {
	// Only sandboxes have a quota of run time.
	if r.kind != contract.ToolCodeExecution || r.run.Code == nil {
		return r.sendNow(ctx, call, key)
	}

	done, err := r.run.Code(ctx)
	if err != nil {
		return tool.Result{}, fmt.Errorf("reserving time in a sandbox: %w", err)
	}

	// The time includes the wait for a sandbox, because the reply does not contain the run time.
	began := time.Now()
	result, err := r.sendNow(ctx, call, key)
	var failed *tool.Error
	if errors.As(err, &failed) && failed.NotSent {
		// No program ran, so the organization pays nothing.
		done(0)
		return result, err
	}
	done(time.Since(began))
	return result, err
}

// sendNow sends a call to a tool worker and returns the result in the reply. key is the effect key,
// or "" if the call has no entry in the ledger.
func (r *remoteTool) sendNow(ctx context.Context, call tool.Call, key string) (tool.Result, error) {
	answer, err := r.tools.ask(ctx, r.run, r.kind, contract.ToolRequest{
		Operation: contract.OperationCall, CallID: call.ID, Name: call.Name, Arguments: call.Arguments,
		EffectKey: key,
	})
	switch {
	case err == nil:
		return r.outcomeFor(answer, call)
	// The run was cancelled or its time is over. That is no failure of the tool.
	case ctx.Err() != nil:
		return tool.Result{}, err
	case errors.Is(err, bus.ErrToolRefused):
		r.run.Log.Error().Err(err).Str("tool", call.Name).Msg("tool worker rejected a call: check that all processes have the same SECRETS_KEY")
		return r.unsent(ctx, call, key, err, "The tool "+call.Name+" rejected the call.")
	case errors.Is(err, bus.ErrToolsAway): // it is unknown whether there are tool workers; the model cannot help, so retry the attempt
		return tool.Result{}, unreachable(err)
	case errors.Is(err, bus.ErrNoToolWorker):
		return r.unsent(ctx, call, key, err, "The tool "+call.Name+" is not available at the moment.")
	// The request did not fit into a message, so no worker has seen it.
	case errors.Is(err, bus.ErrToolTooLarge):
		return r.unsent(ctx, call, key, err, "The arguments are too large.")
	// The request was accepted, but no reply came.
	default:
		return r.lost(call, err)
	}
}

// unsent handles a call that no tool worker has accepted. First it sets the ledger's entry to void,
// so that no tool worker can still execute the call. Only then does the model receive the error.
func (r *remoteTool) unsent(ctx context.Context, call tool.Call, key string, cause error, message string) (tool.Result, error) {
	if key != "" {
		void, err := r.tools.ledger.VoidEffect(ctx, r.run.Held, call.ID)
		if err != nil {
			return tool.Result{}, unreachable(fmt.Errorf("voiding effect: %w", err))
		}
		// A tool worker has already begun to send this call, so its outcome is unknown.
		if !void {
			return r.lost(call, cause)
		}
	}
	return tool.Result{}, &tool.Error{Message: message, NotSent: true, Err: cause}
}

// lost handles a call that a tool worker has accepted but whose outcome is unknown. The run's next
// attempt repeats the call, unless its side effect is unsafe. In that case a person must report the
// outcome.
func (r *remoteTool) lost(call tool.Call, cause error) (tool.Result, error) {
	if r.spec.SideEffect == domain.SideEffectUnsafe {
		return tool.Result{}, &tool.ActionRequired{Kind: domain.ActionUnknownOutcome, Call: call}
	}
	return tool.Result{}, unreachable(cause)
}

// outcomeFor converts a tool worker's reply into a result or an error.
func (r *remoteTool) outcomeFor(answer contract.ToolReply, call tool.Call) (tool.Result, error) {
	failure := answer.Failure
	switch {
	case failure == nil:
		return tool.Result{Output: answer.Output, Sources: answer.Sources}, nil
	case failure.Stale:
		return tool.Result{}, unreachable(tool.ErrStale)
	// Only the text of the failure crossed the bus, so a new error is made of it.
	case failure.Retryable:
		return tool.Result{}, unreachable(errors.New(failure.Message))
	case failure.Unknown:
		return r.lost(call, errors.New("the outcome of the call is not known"))
	default:
		return tool.Result{}, &tool.Error{Message: failure.Message, Output: answer.Output}
	}
}

// outcome decodes the reply that the ledger recorded for a call in an earlier attempt.
func (r *remoteTool) outcome(kept json.RawMessage) (tool.Result, error) {
	var answer contract.ToolReply
	if err := json.Unmarshal(kept, &answer); err != nil {
		return tool.Result{}, fmt.Errorf("reading stored outcome: %w", err)
	}
	return r.outcomeFor(answer, tool.Call{})
}

// ask sends a request with a capability for this run. It waits for the reply until the call's time
// limit or the run's deadline.
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

	// The capability limits the tool worker to this run, this attempt and this call, until the
	// deadline.
	claims, err := json.Marshal(contract.Capability{
		OrganizationID: run.OrganizationID, RunID: run.RunID, TargetID: run.TargetID, ConfigVersion: run.ConfigVersion,
		Fence: run.Fence, Kind: kind, CallID: request.CallID, Expires: deadline.UTC(),
	})
	if err != nil {
		return answer, fmt.Errorf("encoding capability: %w", err)
	}

	// The tool worker continues this trace.
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
