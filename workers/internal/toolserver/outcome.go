package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"parley/shared/contract"
	"parley/shared/failpoint"
	"parley/workers/internal/tool"
)

const (
	// bytes of an encoded reply, well below the bus's limit on a message
	maxAnswer = 512 << 10
	// bytes of a failure's message
	maxMessage = 1_000
	recordTime = 10 * time.Second // time limit for recording an outcome; a call's deadline does not apply
	// pause between two attempts to write to the ledger
	recordRetry = 200 * time.Millisecond
)

// failure returns a failed reply. The message is shown to models and callers and is truncated to
// maxMessage bytes.
func failure(message string, retryable bool) contract.ToolReply {
	if message == "" {
		message = "The tool failed."
	}
	if len(message) > maxMessage {
		// The cut may divide a character, whose remaining bytes are dropped.
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return contract.ToolReply{Failure: &contract.ToolFailure{Message: message, Retryable: retryable}}
}

// settle returns the reply for a finished call. If the request was sent, it records the outcome in
// the ledger. If the request was certainly not sent but the ledger may claim that it was, settle
// corrects the ledger, and the next attempt makes the call.
func (c *call) settle(ctx context.Context, result tool.Result, err error) contract.ToolReply {
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()

	// An unknown outcome stays unrecorded: the ledger then asks a person or repeats the call.
	reply, known := c.outcome(ctx, result, err, sent)

	switch {
	case !known:
		return reply
	// The order matters: a reply without a recorded outcome could be repeated after a crash.
	case sent == sentPerhaps:
		failpoint.Here(failpoint.OutcomeBefore)
		c.recordOutcome(ctx, reply)
		failpoint.Here(failpoint.OutcomeAfter)
	case sent == sentUnsure && reply.Failure != nil:
		c.write(ctx, "the sending of a tool call was not cancelled", func(ctx context.Context) (bool, error) {
			return c.server.deps.Ledger.CancelSend(ctx, c.held(), c.request.CallID, c.sender)
		})
		return failure("The call could not be recorded, so it was not made.", true)
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
	// Only NotSent and Answered prove what happened. Any other error leaves it open.
	case sent == sentPerhaps && (!isToolErr || !toolErr.NotSent && !toolErr.Answered):
		c.log.Warn().Err(cause(err)).Msg("the outcome of a tool call is unknown")
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "The outcome of the call is unknown.", Unknown: true}}, false
	// Nothing was sent for the old attempt, so the new attempt makes the call.
	case errors.Is(err, tool.ErrStale) && sent == sentNothing:
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "The run was taken over.", Stale: true}}, true
	case isToolErr:
		// An error before the request was sent is a known outcome, too. The call is not repeated
		// under the same entry of the ledger.
		reply := failure(toolErr.Message, toolErr.Retryable && sent == sentNothing)
		reply.Output = c.shown(toolErr.Output)
		return reply, true
	// The model may try a cheaper call, so this failure is a result and not a reason to retry.
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
// truncated output is not an object with an error, shown returns nil; the message is then
// sufficient.
func (c *call) shown(output json.RawMessage) json.RawMessage {
	if len(output) == 0 {
		return nil
	}
	capped := tool.Cap(tool.Result{Output: output}).Output
	var object struct {
		Error string `json:"error"`
	}
	// Models and callers expect an error text in the output of every failed call.
	if json.Unmarshal(capped, &object) != nil || object.Error == "" {
		c.log.Warn().Int("bytes", len(output)).Msg("the result of a failed tool call is not an object with an error, or too large")
		return nil
	}
	return capped
}

// cause returns the internal part of an error, which models and callers must not see.
func cause(err error) error {
	var toolErr *tool.Error
	if errors.As(err, &toolErr) && toolErr.Err != nil {
		return toolErr.Err
	}
	return err
}

// recordOutcome records a reply in the ledger.
func (c *call) recordOutcome(ctx context.Context, reply contract.ToolReply) {
	outcome := encodeReply(reply)
	c.write(ctx, "the outcome of a tool call was not stored", func(ctx context.Context) (bool, error) {
		return c.server.deps.Ledger.EndSend(ctx, c.held(), c.request.CallID, outcome)
	})
}

// write makes a write to the ledger. While the database is unreachable, it retries for at most
// recordTime, and logs failed if that is not enough.
func (c *call) write(ctx context.Context, failed string, do func(context.Context) (bool, error)) {
	// The write must be made even if the call was cancelled: the side effect may have happened.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	for {
		_, err := do(ctx)
		if err == nil {
			return
		}
		c.log.Warn().Err(err).Msg("cannot write to the effect ledger, retrying")
		timer := time.NewTimer(recordRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			c.log.Error().Err(err).Msg(failed)
			return
		}
	}
}

// encodeReply encodes a reply. If the reply is too large for a message, it encodes a failure
// instead.
func encodeReply(reply contract.ToolReply) []byte {
	raw, err := json.Marshal(reply)
	if err == nil && len(raw) <= maxAnswer {
		return raw
	}
	instead := failure("The tool's answer is too large.", false)
	if err != nil {
		instead = failure("The tool's answer is not JSON.", false)
	}
	if raw, err = json.Marshal(instead); err != nil {
		return []byte(`{"failure":{"message":"The tool failed."}}`)
	}
	return raw
}
