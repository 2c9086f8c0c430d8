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
	maxAnswer  = 512 << 10
	maxMessage = 1_000
	keepWithin = 10 * time.Second // for the ledger to take an outcome, whatever the call's deadline
	keepPause  = 200 * time.Millisecond
)

// failure is an answer whose message is made for model and caller; it is never more than a few lines.
func failure(message string, retryable bool) contract.ToolReply {
	if message == "" {
		message = "The tool failed."
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return contract.ToolReply{Failure: &contract.ToolFailure{Message: message, Retryable: retryable}}
}

// settle gives the answer to a call that came to an end, and keeps the outcome of an effect that left, or that
// certainly did not though the ledger has it as sent.
func (c *call) settle(ctx context.Context, result tool.Result, err error) contract.ToolReply {
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()
	reply, known := c.outcome(ctx, result, err, sent)
	switch {
	case !known:
		return reply
	case sent == sentPerhaps:
		failpoint.Here(failpoint.OutcomeBefore)
		c.keepOutcome(ctx, reply)
		failpoint.Here(failpoint.OutcomeAfter)
	case sent == sentUnsure && reply.Failure != nil:
		over := failure("The call could not be recorded, so it was not made.", false)
		if c.keepOutcome(ctx, over) {
			return over // the ledger had it as sent, and has this now
		}
		reply.Failure.Retryable = true // the next attempt finds out where the ledger stands
	}
	return reply
}

// outcome says what is known of a call. When it is not known, the ledger must not be told that it is.
func (c *call) outcome(ctx context.Context, result tool.Result, err error, sent sent) (reply contract.ToolReply, known bool) {
	var told *tool.Error
	isTold := errors.As(err, &told)
	switch {
	case err == nil:
		capped := tool.Cap(result)
		return contract.ToolReply{Output: capped.Output, Sources: capped.Sources}, true
	case sent == sentPerhaps && (!isTold || !told.NotSent):
		c.log.Warn().Err(cause(err)).Msg("the outcome of a tool call is unknown")
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "The outcome of the call is unknown.", Unknown: true}}, false
	case errors.Is(err, tool.ErrStale) && sent == sentNothing:
		return contract.ToolReply{Failure: &contract.ToolFailure{Message: "The run was taken over.", Stale: true}}, true
	case isTold:
		// What was not sent is an outcome: the same call is not made again under this entry of the ledger.
		reply := failure(told.Message, told.Retryable && sent == sentNothing)
		reply.Output = c.shown(told.Output)
		return reply, true
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failure("The tool took too long.", false), true
	case ctx.Err() != nil: // this worker stops, or the run was cancelled
		return failure("The tool call was interrupted.", true), true
	default:
		c.log.Warn().Err(cause(err)).Msg("tool call failed")
		return failure("The tool failed.", false), true
	}
}

// shown gives what there is to show of a failed call, as much as of one that did not fail; what is no object, or is too
// large to be one afterwards, is left out: the message stands for itself.
func (c *call) shown(output json.RawMessage) json.RawMessage {
	if len(output) == 0 {
		return nil
	}
	capped := tool.Cap(tool.Result{Output: output}).Output
	var object struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(capped, &object) != nil || object.Error == "" {
		c.log.Warn().Int("bytes", len(output)).Msg("the result of a failed tool call is not an object with an error, or too large")
		return nil
	}
	return capped
}

// cause is the part of an error that is not made for model and caller.
func cause(err error) error {
	var told *tool.Error
	if errors.As(err, &told) && told.Err != nil {
		return told.Err
	}
	return err
}

// keepOutcome has the ledger keep a reply, and tries for a while when the database is away. It reports whether the
// effect has this outcome now.
func (c *call) keepOutcome(ctx context.Context, reply contract.ToolReply) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	outcome := encodeReply(reply)
	for {
		kept, err := c.server.deps.Ledger.EndSend(ctx, c.held(), c.request.CallID, outcome)
		if err == nil {
			return kept
		}
		c.log.Warn().Err(err).Msg("cannot store the outcome of a tool call, retrying")
		timer := time.NewTimer(keepPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			c.log.Error().Err(err).Msg("the outcome of a tool call was not stored")
			return false
		}
	}
}

// encodeReply gives the answer's bytes, which fit a message.
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
