package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"parley/shared/contract"
	"parley/shared/failpoint"
	"parley/shared/lifecycle"
	"parley/workers/internal/tool"
)

const (
	// Maximum number of bytes of an encoded reply, well below the bus's limit on a message.
	maxAnswer = 512 << 10
	// Maximum number of bytes of a failure's message.
	maxMessage = 1_000
	recordTime = 10 * time.Second // time limit for recording an outcome, to which the deadline of the call does not apply
	// Pause between two attempts to write to the ledger.
	recordRetry = 200 * time.Millisecond
)

// failure returns the reply for a failed call. The message is truncated to maxMessage bytes, and is
// shown to models and callers.
func failure(message string, retryable bool) contract.ToolReply {
	if message == "" {
		message = "The tool failed."
	}
	if len(message) > maxMessage {
		// Truncation may leave an incomplete character, which is dropped.
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return contract.ToolReply{Failure: &contract.ToolFailure{Message: message, Retryable: retryable}}
}

// finish returns the reply for a finished call. If the request may have been sent and the outcome
// is known, finish records the outcome in the ledger. If the request was certainly not sent
// although the ledger may state otherwise, finish corrects the ledger, and the next attempt makes
// the call.
func (c *call) finish(ctx context.Context, result tool.Result, err error) contract.ToolReply {
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()

	// An unknown outcome is not recorded. The ledger's recovery then asks a person or repeats the
	// call.
	reply, known := c.outcome(ctx, result, err, sent)

	switch {
	case !known:
		return reply
	// The outcome is recorded before the reply is sent. Otherwise the call could be repeated after
	// a crash.
	case sent == sentPerhaps:
		failpoint.Here(failpoint.OutcomeBefore)
		c.recordOutcome(ctx, reply)
		failpoint.Here(failpoint.OutcomeAfter)
	case sent == sentUnsure && reply.Failure != nil:
		c.write(ctx, "cannot record that a tool call was not sent", func(ctx context.Context) (bool, error) {
			return c.server.deps.Ledger.CancelSend(ctx, c.held(), c.request.CallID, c.sender)
		})
		return failure("The call could not be recorded, so the call was not made.", true)
	}
	return reply
}

// outcome returns the reply for a call, and whether the outcome is known. An unknown outcome must
// not be recorded in the ledger.
func (c *call) outcome(ctx context.Context, result tool.Result, err error, sent sent) (reply contract.ToolReply, known bool) {
	var toolErr *tool.Error
	isToolErr := errors.As(err, &toolErr)
	switch {
	case err == nil:
		capped := tool.Cap(result)
		return contract.ToolReply{Output: capped.Output, Sources: capped.Sources}, true
	// Only the fields NotSent and Answered of an error prove whether the call was executed. After
	// any other error, the outcome is unknown.
	case sent == sentPerhaps && (!isToolErr || !toolErr.NotSent && !toolErr.Answered):
		c.log.Warn().Err(cause(err)).Msg("the outcome of a tool call is unknown")
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "The outcome of the call is unknown.", Unknown: true}}, false
	// Another attempt has taken over the run. This attempt has sent nothing, so the other attempt
	// makes the call.
	case errors.Is(err, tool.ErrStale) && sent == sentNothing:
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "Another worker has taken over the run.", Stale: true}}, true
	case isToolErr:
		// If the request was not sent, the outcome is also known: the call failed. The call is not
		// repeated under the same entry of the ledger.
		reply := failure(toolErr.Message, toolErr.Retryable && sent == sentNothing)
		reply.Output = c.shown(toolErr.Output)
		return reply, true
	// If the call took too long, the model may try a less expensive call. So this failure is a
	// result, and the call is not retried.
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure("The tool took too long.", false), true
	case ctx.Err() != nil: // this worker is stopping, or the run was cancelled
		return failure("The tool call was interrupted.", true), true
	default:
		c.log.Warn().Err(cause(err)).Msg("tool call failed")
		return failure("The tool failed.", false), true
	}
}

// shown returns the output of a failed call, truncated like the output of a successful call. If the
// result is not an object that contains an error, shown returns nil, because the message suffices.
func (c *call) shown(output json.RawMessage) json.RawMessage {
	if len(output) == 0 {
		return nil
	}
	capped := tool.Cap(tool.Result{Output: output}).Output
	var object struct {
		Error string `json:"error"`
	}
	// Models and callers expect the output of a failed call to contain an error text.
	if json.Unmarshal(capped, &object) != nil || object.Error == "" {
		c.log.Warn().Int("bytes", len(output)).Msg("the result of a failed tool call is not an object with the field error, or is too large")
		return nil
	}
	return capped
}

// cause returns the internal cause of an error, which models and callers must not see.
func cause(err error) error {
	var toolErr *tool.Error
	if errors.As(err, &toolErr) && toolErr.Err != nil {
		return toolErr.Err
	}
	return err
}

// recordOutcome records a reply in the ledger as the outcome of the call.
func (c *call) recordOutcome(ctx context.Context, reply contract.ToolReply) {
	outcome := encodeReply(reply)
	c.write(ctx, "cannot store the outcome of a tool call", func(ctx context.Context) (bool, error) {
		return c.server.deps.Ledger.EndSend(ctx, c.held(), c.request.CallID, outcome)
	})
}

// write calls the function do, which writes to the ledger. While the database is unavailable, write
// repeats the call for up to recordTime. If the database stays unavailable, write logs the message
// that the argument failed contains.
func (c *call) write(ctx context.Context, failed string, do func(context.Context) (bool, error)) {
	// The write must happen even if the call was cancelled, because the side effect may have
	// happened.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	for {
		_, err := do(ctx)
		if err == nil {
			return
		}
		c.log.Warn().Err(err).Msg("cannot write to the effect ledger, retrying")
		if lifecycle.Sleep(ctx, recordRetry) != nil {
			c.log.Error().Err(err).Msg(failed)
			return
		}
	}
}

// encodeReply encodes a reply. If the reply is too large for a message, encodeReply returns an
// encoded failure.
func encodeReply(reply contract.ToolReply) []byte {
	raw, err := json.Marshal(reply)
	if err == nil && len(raw) <= maxAnswer {
		return raw
	}
	instead := failure("The tool's output is too large.", false)
	if err != nil {
		instead = failure("The tool's output is not JSON.", false)
	}
	if raw, err = json.Marshal(instead); err != nil {
		return []byte(`{"failure":{"message":"The tool failed."}}`)
	}
	return raw
}
