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
// created. There is one for each connection. It is safe for concurrent use, because turns may
// overlap.
type runs struct {
	// Handler, with the dependencies.
	h       *Handler
	request *http.Request // the upgrade request of the connection
	// Trace context of the upgrade request, for all runs of the connection.
	traceparent string
	// Agent and session of the connection.
	call voiceCall
	// Organization of the caller when the connection was opened.
	org string
	// Principal of the caller when the connection was opened.
	principal string

	mu      sync.Mutex
	started map[string]bool // ids of the runs that this connection has created
}

// turnCharge counts a turn against the caller's rate limit. Unlike httpx.Charge, it sets no
// response headers. A turn has no HTTP response of its own.
type turnCharge struct {
	// Limiter of the handler.
	limiter *httpx.Limiter
	ctx     context.Context //nolint:containedctx // context of the turn
	// Caller, as authenticated for the turn.
	who domain.Caller
}

// Pay counts the turn. It returns rate_limited if the limit is reached. Pay uses the context of the
// turn, so Pay stops waiting for the limit when the turn is given up.
func (t turnCharge) Pay() error { return t.limiter.Count(t.ctx, t.who) }

// Refund reverses Pay. A request that was rejected between Pay and Refund stays rejected; see
// Returns.
func (t turnCharge) Refund() { t.limiter.Uncount(t.who) }

// Returns reports false, because Refund cannot undo the effects of the charge on other requests.
func (t turnCharge) Returns() bool { return false }

// Begin submits a turn as a chat run. It checks the caller's current permissions. It returns after
// the run was accepted. The error is an API error. An error about the agent has the form that the
// protocol expects for an unknown model. ctx limits the acceptance and not the run.
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

	// From here on, Cancel and SavePlayback accept the run.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started[run.Run.ID] = true
	return voiceRun{reader}, nil
}

// submission returns the submission of a turn. Its session check authenticates the caller again, so
// that a revoked credential cannot start a run. s.Before checks the agent when the run is accepted.
func (r *runs) submission(ctx context.Context, turn realtime.Turn) (*dispatch.Submission, error) {
	ident, err := r.h.Auth.VoiceAgain(r.request.WithContext(ctx))
	if err != nil {
		return nil, err
	}

	who, found := ident.Caller, &httpx.Problems{}

	// A long transcript must be rejected like a long message of any chat.
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

	// A turn has no idempotency key, but the scope must nevertheless differ between callers and
	// between agents.
	s.KeyScope = s.Target() + "\x00" + s.Principal
	if !r.call.named {
		s.Retention = dispatch.UnnamedRetention
	}
	return s, found.Err()
}

// noReplay always returns an error. A turn has no idempotency key, so its run is new and cannot
// have a log to replay. noReplay is the function with which Follow would reserve memory for a log.
func noReplay(int) error { return errors.New("the run of a voice turn already exists") }

// Cancel cancels a run of the connection. The run ends as cancelled, unless it has finished. The
// error is not_found for a run of another connection.
func (r *runs) Cancel(ctx context.Context, runID string) error {
	org, principal, err := r.owner(runID)
	if err == nil {
		_, err = r.h.Dispatch.Cancel(ctx, org, principal, runID)
	}
	return err
}

// SavePlayback stores the part of a run's answer that was played. The history of later runs then
// contains only the part that was played. A second call for the same run replaces the stored part.
func (r *runs) SavePlayback(ctx context.Context, runID string, played domain.Playback) error {
	org, _, err := r.owner(runID)
	if err == nil {
		err = r.h.SessionsDB.SavePlayback(ctx, org, runID, played)
	}
	return err
}

// owner returns the organization and the principal of a run. The error is not_found for a run that
// does not belong to this connection. All runs of the connection belong to the principal of the
// caller at the time when the connection was opened.
func (r *runs) owner(runID string) (org, principal string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started[runID] {
		return "", "", apierr.Missing()
	}
	return r.org, r.principal, nil
}

// voiceRun is a run and the reader of its events. It implements voicegate.Run.
type voiceRun struct{ *stream.Reader }

// ID returns the run's id. It stays the same when the run is restarted.
func (r voiceRun) ID() string { return r.RunID() }
