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

// Grace is the time for which a run continues without a reader, because its client may reconnect.
const Grace = 5 * time.Second

// Rules determine what happens to a run when its client leaves. If Grace is 0, the run is cancelled
// immediately, unless another client reads it.
type Rules struct {
	Keep    bool          // whether the run continues even without a reader
	Shows   bool          // whether the client shows the text of the events, so that the text belongs in the session's history
	Grace   time.Duration // how long the run continues without a reader
	Attempt Attempt       // identifies the request, if its client announces retries
	Call    string        // unique name of the request in its protocol, for CancelCall; empty: none
}

// Attempt identifies one attempt of a request that its client repeats if no response arrives. The
// field Request is never the same for requests of different callers.
type Attempt struct {
	Request string // identifies credential and body; empty: the client does not announce retries
	Number  int    // number of the attempt; 0 for the first
}

// Run contains the data of a run that a Watch needs. It is a copy, so that the whole run need not
// stay in memory.
type Run struct {
	OrganizationID string
	ID             string
	// Name of the run's session; see SessionFor.
	Session string
}

// RunFor returns the Run of a stored run. The session is identified by its key in the store.
func RunFor(stored *rundb.StoredRun) Run {
	return Run{
		OrganizationID: stored.OrganizationID, ID: stored.Run.ID,
		Session: SessionFor(contract.Hash(stored.OrganizationID, stored.Target(), stored.Principal, stored.Run.SessionID)),
	}
}

// SessionFor returns the name of a session in a Watch. key identifies the session in the store. The
// name may be invalid UTF-8.
func SessionFor(key []byte) string { return string(key) }

// Events is a source from which a Reader gets the events of a run. It is implemented by
// stream.Reader, among others.
type Events interface {
	Next(ctx context.Context, until time.Time) ([]domain.Event, error)
}

// Reader is one request that waits for a run or reads its events. The caller must call End when the
// response has ended. Only one goroutine may use a Reader. A Reader is created by Begin or Resume.
type Reader struct {
	// The Watch that created it.
	watch *Watch
	// The run that is read.
	run Run
	// Rules for a client that leaves.
	rules Rules
	// Source of the events; nil if the request only waits.
	events Events

	// Text that was shown to the client.
	shown  stream.SentText
	unsent []string // text of the events that the last call of Next returned
	ended  bool     // whether the run has finished
	// Whether the run was cancelled.
	cancelled bool
	before    string // text shown before the cancellation, without the last events, which a client that has left may have missed
	resumed   bool   // whether the run belongs to an earlier request
}

// Begin begins a reading of a run for a new request. The run is no longer watched, because it has a
// reader again. A reading that only waits for the run needs no Follow.
func (w *Watch) Begin(stored *rundb.StoredRun, rules Rules) *Reader {
	r := &Reader{watch: w, run: RunFor(stored), rules: rules, ended: stored.Ended()}
	w.mu.Lock()
	defer w.mu.Unlock()

	// If the run was watched, it now has a reader again.
	w.remove(r.run.ID)
	if rules.Call != "" {
		w.calls[rules.Call] = r
	}
	return r
}

// Resume begins a reading of a run that belongs to an earlier request. If the client leaves, the
// rules of the earlier request apply. Text that this reader shows is treated like text that the
// earlier request has shown. Resume does not end a watch of the run; the ingress that watches the
// run asks which runs are read.
func (w *Watch) Resume(stored *rundb.StoredRun) *Reader {
	return &Reader{watch: w, run: RunFor(stored), rules: Rules{Keep: true, Shows: true}, ended: stored.Ended(), resumed: true}
}

// Follow sets the source of the run's events. It returns r. It must be called before Next.
func (r *Reader) Follow(events Events) *Reader {
	r.events = events
	return r
}

// Next returns the next events. Their text counts as shown at the next call of Next, because they
// have been sent by then. The shown text of a cancelled run is stored before the client learns of
// the cancellation. Otherwise the client's next message could start before the text is in the
// history. Next implements Events. It returns errors of the source.
func (r *Reader) Next(ctx context.Context, until time.Time) ([]domain.Event, error) {
	r.sent()
	if r.cancelled {
		r.before = r.shown.Text()
	}
	events, err := r.events.Next(ctx, until)
	for _, e := range events {
		switch e.Type {
		case domain.EventMessageDelta:
			// Add the text at the next call, because the events have been sent by then.
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

// delta records the text of an event that is about to be sent. Text is not recorded if the client
// does not show it.
func (r *Reader) delta(data []byte) {
	var delta struct {
		Text string `json:"text"`
	}
	if r.rules.Shows && json.Unmarshal(data, &delta) == nil {
		r.unsent = append(r.unsent, delta.Text)
	}
}

// sent adds the text of the last returned events to the shown text. The events of the previous call
// were sent, because the caller now asks for the next events.
func (r *Reader) sent() {
	for _, text := range r.unsent {
		r.shown.Delta(text)
	}
	r.unsent = r.unsent[:0]
}

// End ends the reading. ctx is the context of the request, which net/http cancels when the client
// leaves. If the client has left and the run has not finished, the run is watched, unless
// Rules.Keep is set. End must be called once, after the source of the events was closed.
func (r *Reader) End(ctx context.Context) {
	if r.rules.Call != "" {
		r.watch.removeCall(r)
	}

	// The answer of a cancelled run is the text that its client has seen, which Next has stored. A
	// client that has left may have missed the last events.
	switch left := ctx.Err() != nil; {
	case r.cancelled && r.rules.Shows:
		if left {
			r.watch.save(context.WithoutCancel(ctx), r.run, r.before)
		}
	case left && !r.rules.Keep:
		r.watch.leave(r)
	case left && r.resumed && !r.ended:
		// Another ingress may watch the run, so send the text to all ingresses.
		text := r.shown.Text()
		r.watch.showed(r.run.ID, text)
		if len(text) <= maxShownSent {
			r.watch.send(message{Resumed: r.run.ID, Shown: text})
		}
	}
}
