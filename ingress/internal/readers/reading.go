package readers

import (
	"context"
	"encoding/json"
	"time"

	"parley/ingress/internal/stream"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// Grace is how long a run continues without a reader, because the client may reconnect.
const Grace = 5 * time.Second

// Rules say what happens to a run whose client leaves.
type Rules struct {
	Keep    bool          // the run continues
	Shows   bool          // the client shows the text of the events: it belongs in the session's history
	Grace   time.Duration // how long the run continues without a reader
	Attempt Attempt       // the request, if its client announces retries
	Call    string        // the protocol's unique name of the request, for CancelCall; empty: none
}

// Attempt is a request that its client repeats when no response arrives.
type Attempt struct {
	Request string // identifies credential and body; empty: the client does not announce retries
	Number  int    // 0 for the first attempt
}

// Run is a run with what is needed to watch it.
type Run struct {
	OrganizationID string
	ID             string
	Session        string
}

// RunFor returns the Run of a stored run.
func RunFor(stored *rundb.StoredRun) Run {
	return Run{
		OrganizationID: stored.OrganizationID, ID: stored.Run.ID,
		Session: SessionFor(contract.Hash(stored.OrganizationID, stored.Target(), stored.Principal, stored.Run.SessionID)),
	}
}

// SessionFor returns the name of a session, from the key that the store has for it.
func SessionFor(key []byte) string { return string(key) }

// Events is a source of a run's events.
type Events interface {
	Next(ctx context.Context, until time.Time) ([]domain.Event, error)
}

// Reading is one request that waits for a run or reads its events. End must be called when the
// response has ended. A Reading is used by one goroutine.
type Reading struct {
	watch  *Watch
	run    Run
	rules  Rules
	events Events

	shown     stream.SentText
	unsent    []string // text of the events that Next has returned last
	ended     bool     // the run has finished
	cancelled bool
	before    string // of a cancelled run: the shown text without that of the events that Next has returned last
	resumed   bool   // the run belongs to an earlier request
}

// Begin begins a reading of a run.
func (w *Watch) Begin(stored *rundb.StoredRun, rules Rules) *Reading {
	r := &Reading{watch: w, run: RunFor(stored), rules: rules, ended: stored.Ended()}
	w.mu.Lock()
	defer w.mu.Unlock()

	// A run that was watched has a reader again.
	w.remove(r.run.ID)
	if rules.Call != "" {
		w.calls[rules.Call] = r
	}
	return r
}

// Resume begins a reading of a run that belongs to an earlier request. If the client leaves, the
// rules of that request decide. The shown text counts, as that of the earlier request does.
func (w *Watch) Resume(stored *rundb.StoredRun) *Reading {
	return &Reading{watch: w, run: RunFor(stored), rules: Rules{Keep: true, Shows: true}, ended: stored.Ended(), resumed: true}
}

// Follow makes the reading a source of the run's events.
func (r *Reading) Follow(events Events) *Reading {
	r.events = events
	return r
}

// Next returns the next events. The text of events counts as shown when Next is called again,
// because they have been sent then. The text of a cancelled run is stored before the client learns of
// the cancellation: its next message may follow at once, and must continue with this text.
func (r *Reading) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	r.sent()
	if r.cancelled {
		r.before = r.shown.Text()
	}
	events, err := r.events.Next(ctx, until)
	for _, e := range events {
		switch e.Type {
		case domain.EventMessageDelta:
			// The text counts as shown only at the next call, when it was sent.
			r.delta(e.Data)
		case domain.EventRunRestarted:
			r.sent()
			r.shown.Restarted()
		case domain.EventRunCancelled:
			r.ended, r.cancelled = true, true
			if r.rules.Shows {
				r.before = r.shown.Text()
				r.sent()
				r.watch.save(context.WithoutCancel(ctx), r.run, r.shown.Text())
			}
		case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunTimedOut:
			r.ended = true
		}
	}
	return events, err
}

// delta notes the text of an event that is about to be sent.
func (r *Reading) delta(data []byte) {
	var delta struct {
		Text string `json:"text"`
	}
	if r.rules.Shows && json.Unmarshal(data, &delta) == nil {
		r.unsent = append(r.unsent, delta.Text)
	}
}

// sent adds the text of the returned events to the shown text.
func (r *Reading) sent() {
	for _, text := range r.unsent {
		r.shown.Delta(text)
	}
	r.unsent = r.unsent[:0]
}

// End ends the reading. ctx is the context of the request: net/http cancels it when the client
// leaves. If the run has not finished then, it is watched.
func (r *Reading) End(ctx context.Context) {
	if r.rules.Call != "" {
		r.watch.removeCall(r)
	}

	// A cancelled run keeps the text that its client has seen as its answer, which Next has stored. A
	// client that left may not have received the last events.
	switch left := ctx.Err() != nil; {
	case r.cancelled && r.rules.Shows:
		if left {
			r.watch.save(context.WithoutCancel(ctx), r.run, r.before)
		}
	case left && !r.rules.Keep:
		r.watch.leave(r)
	case left && r.resumed && !r.ended:
		text := r.shown.Text()
		r.watch.showed(r.run.ID, text)
		if len(text) <= maxShownSent {
			r.watch.send(message{Resumed: r.run.ID, Shown: text})
		}
	}
}
