package toolserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/bus"
	"parley/shared/contain"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/failpoint"
	"parley/shared/store/lease"
	"parley/shared/telemetry/tracing"
	"parley/workers/internal/tool"
)

// call is a tool call that is being executed.
type call struct {
	server     *Server
	capability contract.Capability
	request    contract.ToolRequest
	backend    tool.Backend
	cancel     context.CancelFunc
	log        zerolog.Logger
	sender     string // distinguishes this execution from other executions of the same call

	// mu guards sent, because a backend may call Sending from another goroutine.
	mu   sync.Mutex
	sent sent
}

// sent states whether the request of a call was sent, as far as this process knows.
type sent int

const (
	sentNothing sent = iota // nothing was sent, and the ledger does not contain a record of sending
	sentUnsure              // nothing was sent, but BeginSend failed, so the ledger may contain a record of sending
	sentPerhaps             // the request may have been sent: the ledger contains a record of sending, and the backend continued
)

// handle executes a call and returns the encoded reply. It returns false if the capability does not
// permit the call.
func (s *Server) handle(ctx context.Context, backend tool.Backend, m bus.ToolMessage) (answer []byte, ok bool) {
	began := time.Now()
	// Verify the capability again, because it may have expired while the call was queued.
	capability, request, err := s.verify(backend.Kind(), m)
	if err != nil {
		s.refuse(backend.Kind(), err)
		return nil, false
	}

	// ctx already has the deadline of the message, which may be earlier than the expiry of the
	// capability.
	ctx, cancel := context.WithDeadline(ctx, capability.Expires.Add(contract.ClockLeeway))
	defer cancel()

	c := &call{
		server: s, capability: capability, request: request, backend: backend, cancel: cancel, sender: rand.Text(),
		log: s.log.With().Str("tool", backend.Kind()).Str("org_id", capability.OrganizationID).
			Str("agent_id", capability.TargetID).Str("run_id", capability.RunID).Logger(),
	}

	// From here on, the call is cancelled if its run is cancelled.
	defer s.track(c)()
	ctx, span := c.begin(ctx, m.Traceparent)
	defer span.End()

	reply := c.execute(c.log.WithContext(ctx))
	if reply.Failure != nil {
		span.Fail(outcome(reply.Failure))
	}
	s.metrics.ended(backend.Kind(), reply.Failure, time.Since(began))
	return encodeReply(reply), true
}

// begin starts the tracing span of a call.
func (c *call) begin(ctx context.Context, traceparent string) (context.Context, tracing.Span) {
	ctx, span := c.server.deps.Tracer.Root(ctx, tracing.Server, "tool.call", traceparent)
	span.Str("parley.tool.kind", c.backend.Kind())
	span.Str("gen_ai.tool.name", c.request.Name)
	span.Str("gen_ai.tool.call.id", c.request.CallID)
	span.Str("parley.organization.id", c.capability.OrganizationID)
	span.Str("parley.agent.id", c.capability.TargetID)
	span.Str("parley.run.id", c.capability.RunID)
	return ctx, span
}

// execute executes a call and returns the reply. If the call has a side effect, the outcome is
// recorded in the ledger before execute returns.
func (c *call) execute(ctx context.Context) contract.ToolReply {
	// The configuration is read from the database and not from the request, so callers cannot
	// extend it.
	cfg, err := c.server.configs.Get(ctx, c.capability.OrganizationID, c.capability.TargetID, c.capability.ConfigVersion)
	if err != nil {
		c.log.Warn().Err(err).Msg("cannot execute a tool call")
		return failure("The tool is not available at the moment.", true)
	}
	// The caller has already checked that the tool is enabled, but a tool worker does not trust its
	// callers.
	if !enabled(c.backend.Kind(), cfg.Tools) {
		return failure("The agent does not have this tool.", false)
	}
	if c.request.Operation == contract.OperationList {
		return c.list(ctx, c.toolRequest(cfg))
	}
	// A faulty caller could omit the ledger, so the tool worker checks whether the call needs it.
	if c.request.EffectKey == "" && !repeatable(c.backend.Kind(), c.request.Name, cfg.Tools) {
		c.log.Error().Str("name", c.request.Name).Msg("tool call rejected: it has a side effect, and is not in the effect ledger")
		return failure("The call has a side effect and was not recorded, so the call was not made.", false)
	}
	result, err := c.callBackend(ctx, c.toolRequest(cfg))
	return c.finish(ctx, result, err)
}

// toolRequest returns the call in the form that backends receive.
func (c *call) toolRequest(cfg domain.Config) tool.Request {
	r := tool.Request{
		OrganizationID: c.capability.OrganizationID, RunID: c.capability.RunID, TargetID: c.capability.TargetID,
		Fence: c.capability.Fence, Config: cfg, EffectKey: c.request.EffectKey, Keep: c.keep, Files: files{c},
		Documents: documents{call: c, knowledge: cfg.Tools.Knowledge},
		Call:      tool.Call{ID: c.request.CallID, Name: c.request.Name, Arguments: c.request.Arguments},
	}

	// Only calls with an entry in the ledger record that they are sending.
	if r.EffectKey != "" {
		r.Sending = c.sending
	}
	return r
}

// held returns the run's identity and fence, under which the call writes to the store.
func (c *call) held() lease.Held {
	return lease.Held{RunID: c.capability.RunID, OrganizationID: c.capability.OrganizationID, Fence: c.capability.Fence}
}

// sending makes the last check before a request with a side effect is sent. It sets the state of
// the ledger's entry to sending, under the run's fence.
func (c *call) sending(ctx context.Context) error {
	// A cancelled call must not start to send, even if the backend ignores the cancellation.
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("marking the call as being sent: %w", err)
	}

	failpoint.Here(failpoint.SendBefore)
	began, err := c.server.deps.Ledger.BeginSend(ctx, c.held(), c.request.CallID, c.sender)

	// BeginSend may have been committed although it returned an error. In that case, the method
	// finish later makes the ledger's entry ready again.
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.sent = max(c.sent, sentUnsure)
		return fmt.Errorf("marking the call as being sent: %w", err)
	case !began:
		return tool.ErrStale
	}
	c.sent = sentPerhaps
	failpoint.Here(failpoint.SendAfter)
	return nil
}

// keep stores a text that was read during the call, and returns the text's source id.
func (c *call) keep(ctx context.Context, source domain.Source) (string, error) {
	id, kept, err := c.server.deps.Sources.KeepSource(ctx, c.held(), source)
	switch {
	case err != nil:
		return "", fmt.Errorf("keeping source: %w", err)
	case !kept:
		return "", tool.ErrStale
	}
	return id, nil
}

// list returns the tools of the backend, if the backend can list them.
func (c *call) list(ctx context.Context, request tool.Request) contract.ToolReply {
	// Only the tools of mcp are defined by other servers and must be listed.
	lister, ok := c.backend.(tool.Lister)
	if !ok {
		return failure("This kind of tool cannot be listed.", false)
	}
	var listed tool.Listing
	err := c.guard(func() (err error) {
		listed, err = lister.List(ctx, request)
		return err
	})
	if err != nil {
		return c.finish(ctx, tool.Result{}, err)
	}
	return contract.ToolReply{Tools: specs(listed.Specs), Absent: listed.Absent}
}

// callBackend calls the backend. A panic in the backend is returned as an error.
func (c *call) callBackend(ctx context.Context, request tool.Request) (result tool.Result, err error) {
	err = c.guard(func() (err error) {
		result, err = c.backend.Call(ctx, request)
		return err
	})
	return result, err
}

// guard calls f and converts a panic to an error.
func (c *call) guard(f func() error) (err error) {
	defer contain.Panic(&err, &c.log, "tool panicked")
	return f()
}
