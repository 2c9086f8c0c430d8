package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/secrets"
	"parley/shared/store/queuedb"
)

const (
	lateTime     = 250 * time.Millisecond // after which a run without a reply is accepted in the ordinary way
	lateMaxInput = 16 << 10               // bytes; larger inputs do not belong into a job message
	lateDeclined = 30 * time.Second       // how long the runs of an agent are accepted ordinarily after one was declined
	lateSilent   = time.Second            // the same for all runs after maxSilent runs in a row without a reply
	maxSilent    = 3
	maxLateOff   = 1 << 14 // remembered agents
)

// late accepts runs after they have finished: the run travels sealed in its job message, and the
// worker stores it together with its result. If that does not succeed within lateTime, the run is
// accepted in the ordinary way, under the same id and key; unique indexes decide which of the two
// inserts counts.
type late struct {
	box *secrets.Box // nil: late acceptance is off

	mu       sync.Mutex
	off      map[string]time.Time // until when the runs of an agent are accepted ordinarily
	offUntil time.Time            // the same for all runs
	silences int                  // runs in a row without a reply
}

func newLate(box *secrets.Box) *late { return &late{box: box, off: map[string]time.Time{}} }

// admits reports whether late acceptance may be tried for a run.
func (l *late) admits(r *queuedb.NewRun) bool {
	if l.box == nil || !r.Late || !r.Single() || len(r.Input) > lateMaxInput {
		return false
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.offUntil) || now.Before(l.off[r.AgentID]) {
		return false
	}
	if l.silences >= maxSilent { // until a worker replies, one run in lateSilent is tried
		l.offUntil = now.Add(lateSilent)
	}
	return true
}

// declined records that a worker has declined a run of an agent.
func (l *late) declined(agentID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.off) >= maxLateOff {
		clear(l.off)
	}
	l.off[agentID] = time.Now().Add(lateDeclined)
}

// heard records whether a worker has replied.
func (l *late) heard(reply bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reply {
		l.silences, l.offUntil = 0, time.Time{}
		return
	}
	if l.silences++; l.silences >= maxSilent {
		l.offUntil = time.Now().Add(lateSilent)
	}
}

// tryLate publishes the run to a worker with a free slot and waits until the run is stored. It
// returns finished = false if the run must be accepted in the ordinary way. Otherwise the result waits in
// w. tried reports whether a worker may store the run.
func (d *Dispatcher) tryLate(ctx context.Context, run *queuedb.NewRun, w *wait) (tried, finished bool) {
	if !d.late.admits(run) {
		return false, false
	}
	giveBack := queuedb.TakeSlot(ctx, d.store.Queue, run)
	if giveBack == nil {
		return false, false
	}
	defer giveBack()

	job, err := d.publishLate(run)
	if err != nil {
		return false, false
	}

	timer := time.NewTimer(lateTime)
	defer timer.Stop()
	for stored := job.Stored(); ; {
		select {
		case r := <-w.result:
			select {
			case w.result <- r: // for Await
			default: // the result has arrived twice
			}
			d.late.heard(true)
			return true, true
		case agent := <-w.declined:
			if d.late.heard(true); agent {
				d.late.declined(run.AgentID)
			}
			return true, false
		case ack := <-stored:
			if ack.Duplicate { // another request has published the key; the unique index decides
				return true, false
			}
			stored = nil
		case err := <-job.Failed():
			d.log.Debug().Err(err).Str("run_id", run.ID).Msg("job message not stored; the run is accepted first")
			d.late.heard(false)
			return true, false
		case <-timer.C:
			d.late.heard(false)
			return true, false
		}
	}
}

// publishLate publishes a job message with the run. Its message id is that of dispatch 0, so it does
// not suppress the message of an ordinary dispatch.
func (d *Dispatcher) publishLate(run *queuedb.NewRun) (bus.LateJob, error) {
	plain, err := json.Marshal(domain.LateRun{
		ID: run.ID, OrganizationID: run.OrganizationID, AgentID: run.AgentID, CallerKind: string(run.CallerKind), Principal: run.Principal,
		SessionID: run.SessionID, SessionHash: run.SessionKey, TriggerType: run.TriggerType, AutomationID: run.AutomationID,
		IdempotencyKey: run.IdempotencyKey, KeyHash: run.KeyHash, Fingerprint: run.Fingerprint, Input: run.Input,
		Retention: int64(run.Retention / time.Second), KeyID: run.KeyID,
	})
	if err != nil {
		return bus.LateJob{}, fmt.Errorf("encoding run: %w", err)
	}
	return d.bus.PublishLate(domain.Job{
		RunID: run.ID, OrganizationID: run.OrganizationID, Lane: run.Lane, Dedupe: run.Dedupe, ReplyTo: run.ReplyTo, Traceparent: run.Traceparent,
	}, d.late.box.SealBytes(plain, []byte(run.ID)))
}

// declines reports whether a reply means that the worker has not stored the run, and whether that
// concerns all runs of the agent.
func declines(body []byte) (run, agent bool) {
	agent = string(body) == contract.DeclinedAgent
	return agent || string(body) == contract.Declined, agent
}
