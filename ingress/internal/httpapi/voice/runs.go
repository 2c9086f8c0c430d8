package voice

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

// runs creates the runs for the turns of a voice connection. It acts only on runs that it has
// created.
type runs struct {
	h           *Handler
	request     *http.Request // the upgrade request of the connection
	traceparent string
	call        voiceCall
	org         string
	principal   string

	mu      sync.Mutex
	started map[string]bool // ids of the runs that this connection has created
}

// turnCharge counts a turn against the caller's rate limit. Unlike httpx.Charge, it sets no
// response headers.
type turnCharge struct {
	limiter *httpx.Limiter
	ctx     context.Context //nolint:containedctx // context of the turn
	who     domain.Caller
}

// Pay counts the turn. It returns rate_limited if the limit is reached.
func (t turnCharge) Pay() error { return t.limiter.Count(t.ctx, t.who) }

// Refund reverses Pay.
func (t turnCharge) Refund()       { t.limiter.Uncount(t.who) }
func (t turnCharge) Returns() bool { return false }

// Begin submits a turn as a chat run. It checks the caller's current permissions.
func (r *runs) Begin(ctx context.Context, turn realtime.Turn) (voicegate.Run, error) {
	s, err := r.submission(ctx, turn)
	if err != nil {
		return nil, err
	}

	reader, run, err := r.h.Follow(ctx, s, turnCharge{r.h.Limiter, ctx, s.Caller}, noReplay)
	if err != nil {
		return nil, openaiapi.AsModelError(err)
	}

	reader.Outlast() // the gate reports the answer's result and closes the reader
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started[run.Run.ID] = true
	return voiceRun{reader}, nil
}

// submission returns the submission of a turn. Its session check authenticates the caller again, so
// that a revoked credential cannot start a run.
func (r *runs) submission(ctx context.Context, turn realtime.Turn) (*dispatch.Submission, error) {
	ident, err := r.h.Auth.VoiceAgain(r.request.WithContext(ctx))
	if err != nil {
		return nil, err
	}

	who, found := ident.Caller, &httpx.Problems{}
	runbody.CheckMessage(found, "message", turn.Message)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointRealtime, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), TriggerType: domain.TriggerChat,
		SessionID: r.call.sessionID, Message: turn.Message, History: turn.History, Instructions: turn.Instructions, Traceparent: r.traceparent,
		Before: func(ctx context.Context) error { // voice may have been disabled since the connection was opened
			now := r.call
			return r.h.findVoice(ctx, who.OrganizationID, &now)
		},
	}
	if strings.HasPrefix(r.call.model, openaiapi.TemplatePrefix) {
		s.TemplateID = r.call.model
	} else {
		s.AgentID = r.call.model
	}

	s.KeyScope = s.Target() + "\x00" + s.Principal
	if !r.call.named {
		s.Retention = dispatch.UnnamedRetention
	}
	return s, found.Err()
}

// noReplay always returns an error. A turn has no idempotency key, so its run is new and cannot
// have a log to replay.
func noReplay(int) error { return errors.New("the run of a voice turn already exists") }

// Cancel cancels a run of the connection.
func (r *runs) Cancel(ctx context.Context, runID string) error {
	org, principal, err := r.owner(runID)
	if err == nil {
		_, err = r.h.Dispatch.Cancel(ctx, org, principal, runID)
	}
	return err
}

// SavePlayback stores the part of a run's answer that was played.
func (r *runs) SavePlayback(ctx context.Context, runID string, played domain.Playback) error {
	org, _, err := r.owner(runID)
	if err == nil {
		err = r.h.SessionsDB.SavePlayback(ctx, org, runID, played)
	}
	return err
}

// owner returns the organization and the principal of a run. For a run that does not belong to this
// connection, it returns not_found.
func (r *runs) owner(runID string) (org, principal string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started[runID] {
		return "", "", apierr.Missing()
	}
	return r.org, r.principal, nil
}

// voiceRun is a run and the reader of its events.
type voiceRun struct{ *stream.Reader }

// ID returns the run's id.
func (r voiceRun) ID() string { return r.RunID() }
