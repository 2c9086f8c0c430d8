package voice

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/realtime"
	"parley/ingress/internal/stream"
	"parley/ingress/internal/voicegate"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

// runs makes a connection's turns runs. Of other runs it does nothing.
type runs struct {
	h           *Handler
	request     *http.Request // that became the connection
	traceparent string
	call        voiceCall
	org         string
	principal   string

	mu    sync.Mutex
	begun map[string]bool // by run
}

// quietly counts a turn against its caller's limit; there is no response to say on where that stands.
type quietly struct {
	limiter *httpx.Limiter
	ctx     context.Context //nolint:containedctx // of the one turn that it counts
	who     domain.Caller
}

func (t quietly) Pay() error { return t.limiter.Count(t.ctx, t.who) }

func (t quietly) Refund()       { t.limiter.Uncount(t.who) }
func (t quietly) Returns() bool { return false }

// Begin submits a turn as the run of a chat, by its caller as they stand now.
func (r *runs) Begin(ctx context.Context, turn realtime.Turn) (voicegate.Run, error) {
	s, err := r.submission(ctx, turn)
	if err != nil {
		return nil, err
	}
	reader, run, err := r.h.Follow(ctx, s, quietly{r.h.Limiter, ctx, s.Caller}, noReplay)
	if err != nil {
		return nil, openaiapi.AsModelError(err)
	}
	reader.Outlast() // the gate says what is being answered to its end, and closes it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[run.Run.ID] = true
	return voiceRun{reader}, nil
}

func (r *runs) submission(ctx context.Context, turn realtime.Turn) (*dispatch.Submission, error) {
	ident, err := r.h.Auth.VoiceAgain(r.request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	who, found := ident.Caller, &httpx.Problems{}
	httpx.CheckMessage(found, "message", turn.Message)
	s := &dispatch.Submission{
		Endpoint: contract.EndpointRealtime, Lane: domain.LaneChat, Caller: who, Principal: who.Principal(), TriggerType: domain.TriggerChat,
		SessionID: r.call.sessionID, Message: turn.Message, History: turn.History, Instructions: turn.Instructions, Traceparent: r.traceparent,
		Before: func(ctx context.Context) error { // it may have been disabled since
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

// noReplay fails: a turn has no idempotency key, so that its run is always new, and has no log yet.
func noReplay(int) error { return errors.New("the run of a voice turn already exists") }

// Cancel ends a run of the connection's.
func (r *runs) Cancel(ctx context.Context, runID string) error {
	org, principal, err := r.of(runID)
	if err == nil {
		_, err = r.h.Dispatch.Cancel(ctx, org, principal, runID)
	}
	return err
}

// SaveHeard notes what was heard of a run of the connection's.
func (r *runs) SaveHeard(ctx context.Context, runID string, heard domain.Heard) error {
	org, _, err := r.of(runID)
	if err == nil {
		err = r.h.SessionsDB.SaveHeard(ctx, org, runID, heard)
	}
	return err
}

// of says whose a run of the connection's is; not_found of any other run.
func (r *runs) of(runID string) (org, principal string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun[runID] {
		return "", "", apierr.New(apierr.NotFound, "no such resource")
	}
	return r.org, r.principal, nil
}

// voiceRun is a run that is followed.
type voiceRun struct{ *stream.Reader }

// ID gives the run's id.
func (r voiceRun) ID() string { return r.RunID() }
