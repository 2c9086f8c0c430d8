package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	look       = 100 * time.Millisecond // interval between checks of watched runs
	askEvery   = time.Second            // interval between questions about a watched run
	answerTime = 500 * time.Millisecond // time that other ingresses have to answer
	maxAsked   = 500                    // maximum number of runs in one message
	maxWatch   = time.Hour              // maximum time to watch a run that still has a reader at another ingress
	cancelTime = 10 * time.Second

	// These limits apply to the watched runs of all organizations together. If a limit is reached,
	// a new run of an organization with less than an equal share replaces a run of the organization
	// with the largest share. The replaced run continues without a reader.
	maxLeft      = 10_000
	maxLeftBytes = 64 << 20  // maximum size of all shown texts together, in bytes
	maxShownSent = 256 << 10 // maximum size of a shown text in a message, in bytes
)

// Bus delivers a message to the Watches of all ingresses.
type Bus interface {
	PublishReaders(body []byte) error
	OnReaders(f func(body []byte)) (stop func(), err error)
}

// Runs are the operations on runs that a Watch needs.
type Runs interface {
	// Working reports whether a run is queued or running. It returns false for a run that waits for
	// a person.
	Working(ctx context.Context, org, runID string) (bool, error)
	// Cancel cancels a run.
	Cancel(ctx context.Context, org, runID string) error
	// SaveShown stores the text of a run that its client has shown, for the session's history.
	SaveShown(ctx context.Context, org, runID, text string) error
}

// Watch watches the runs whose clients have left this ingress. It is safe for concurrent use.
type Watch struct {
	name string // unique name of this ingress
	bus  Bus
	runs Runs
	// reads reports whether a request at this ingress reads the run or waits for it.
	reads func(runID string) bool
	log   zerolog.Logger
	wake  chan struct{}

	mu       sync.Mutex
	left     map[string]*leftRun
	counts   map[string]int // number of runs in the map left, by organization
	sizes    map[string]int // bytes of the shown texts in the map left, by organization
	bytes    int            // bytes of all shown texts in the map left
	full     bool           // whether a limit was reached; reset when the map left is empty
	calls    map[string]*Reader
	next     memory[waiter]  // messages that wait for an earlier run, by session
	attempts memory[attempt] // attempts whose clients have left, by request
}

// leftRun is a run whose client has left.
type leftRun struct {
	Run

	shown     *string // text that the client has shown, to be stored; nil: none
	grace     time.Duration
	since     time.Time // when the run was last read
	asked     time.Time // when the ingresses were last asked who reads the run
	confirmed time.Time // when the last question of this ingress came back from the bus; zero: no question since the run was last read
	// Time at which the watch ends even if the run has a reader at another ingress.
	until time.Time
}

// New returns a Watch, which watches only while Run is running. name must be unique.
func New(name string, bus Bus, runs Runs, reads func(runID string) bool, log zerolog.Logger) *Watch {
	return &Watch{
		name: name, bus: bus, runs: runs, reads: reads, log: log,
		wake: make(chan struct{}, 1), left: map[string]*leftRun{}, counts: map[string]int{}, sizes: map[string]int{},
		calls: map[string]*Reader{},
	}
}

// Run watches runs until ctx ends. The runs then continue without being watched. Cancellations in
// progress are completed before Run returns.
func (w *Watch) Run(ctx context.Context) error {
	stop, err := w.bus.OnReaders(func(body []byte) { w.receive(ctx, body) })
	if err != nil {
		return fmt.Errorf("receiving messages about the readers of runs: %w", err)
	}
	defer stop()

	cancels := cancels{cancel: func(run *leftRun) { w.cancel(ctx, run) }, queues: map[string][]*leftRun{}}
	defer cancels.wait.Wait()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		beat := tick.C
		if !w.watching() {
			beat = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-beat:
		}

		due, ask := w.check(time.Now())
		for len(ask) > 0 {
			n := min(len(ask), maxAsked)
			w.send(message{Ask: ask[:n]})
			ask = ask[n:]
		}
		for _, run := range due {
			cancels.add(run)
		}
	}
}

// watching reports whether any run is watched.
func (w *Watch) watching() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.left) > 0
}

// check returns the runs to cancel, which are no longer watched, and the runs about which the other
// ingresses must be asked. A run that is read at this ingress begins its grace period again.
func (w *Watch) check(now time.Time) (due []*leftRun, ask []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, run := range w.left {
		switch {
		case w.reads(id):
			run.read(now)
		case now.After(run.until):
			w.remove(id)
		case run.due(now):
			w.remove(id)
			due = append(due, run)
		case now.Sub(run.asked) >= askEvery && !run.decisive():
			run.asked = now
			ask = append(ask, id)
		}
	}
	return due, ask
}

// add watches a run. If too many runs are watched, the new run may replace others. The caller must
// hold w.mu.
func (w *Watch) add(run *leftRun) {
	for len(w.left) >= maxLeft || w.bytes+run.bytes() > maxLeftBytes {
		if !w.full {
			w.log.Warn().Str("run_id", run.ID).Int("watched", len(w.left)).Msg("too many runs without a reader; some of them are not cancelled")
		}
		w.full = true
		other := w.above(run)
		if other == nil {
			return
		}
		w.remove(other.ID)
	}
	w.left[run.ID] = run
	w.account(run, 1)
}

// above returns the run that the given run may replace when a limit is reached. It is the newest
// run of the organization that uses the largest part of the limit. above returns nil if the
// organization of the given run, with that run, would use at least as much as any other.
func (w *Watch) above(run *leftRun) (newest *leftRun) {
	sizes, more := w.sizes, run.bytes()
	if len(w.left) >= maxLeft {
		sizes, more = w.counts, 1
	}
	org, size := largest(sizes)
	if size <= sizes[run.OrganizationID]+more {
		return nil
	}
	for _, other := range w.left {
		takes := len(w.left) >= maxLeft || other.bytes() > 0
		if other.OrganizationID == org && takes && (newest == nil || other.until.After(newest.until)) {
			newest = other
		}
	}
	return newest
}

// remove stops watching a run. The caller must hold w.mu.
func (w *Watch) remove(runID string) {
	if run := w.left[runID]; run != nil {
		w.account(run, -1)
		delete(w.left, runID)
		w.full = w.full && len(w.left) > 0
	}
}

// account adds n times the run's count and size to the totals of its organization. n is 1 or -1.
func (w *Watch) account(run *leftRun, n int) {
	w.bytes += n * run.bytes()
	addTo(w.counts, run.OrganizationID, n)
	addTo(w.sizes, run.OrganizationID, n*run.bytes())
}

// bytes returns the size of the shown text in bytes.
func (l *leftRun) bytes() int {
	if l.shown == nil {
		return 0
	}
	return len(*l.shown)
}

// read records that the run has a reader now, so that its grace period begins again.
func (l *leftRun) read(now time.Time) { l.since, l.confirmed = now, time.Time{} }

// due reports whether the run has had no reader at any ingress for its grace period.
func (l *leftRun) due(now time.Time) bool {
	return l.decisive() && now.Sub(l.confirmed) >= answerTime
}

// decisive reports whether this ingress received its own last question after the grace period.
// Answers to earlier questions do not count, because a client may have returned at another ingress
// since then. Receiving its own message shows that the bus works.
func (l *leftRun) decisive() bool {
	return !l.confirmed.IsZero() && l.confirmed.Sub(l.since) >= l.grace
}

// leave watches the run of a reading whose client has left, unless the run has finished. If its
// client announces retries, the attempt is also published for a retry.
func (w *Watch) leave(r *Reader) {
	now := time.Now()
	run := &leftRun{Run: r.run, grace: r.rules.Grace, since: now, until: now.Add(maxWatch)}
	if r.rules.Shows {
		shown := r.shown.Text()
		run.shown = &shown
	}
	w.mu.Lock()
	for _, next := range w.next.get(run.Session) {
		if next.on(run.ID) {
			run.grace = 0
		}
	}
	if !r.ended {
		w.add(run)
	}
	w.mu.Unlock()
	w.rouse()

	// All ingresses must know the attempt, because the client may send its retry to any of them.
	if try := r.rules.Attempt; try.Request != "" {
		lost := attempt{OrganizationID: run.OrganizationID, RunID: run.ID, Number: try.Number}
		w.remember(try.Request, lost)
		w.send(message{Request: []byte(try.Request), Attempt: &lost})
	}
}

// rouse makes the loop of Run check the runs now. It does not block.
func (w *Watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // the loop is about to run anyway
	}
}

// cancel stores the shown text of a run and then cancels the run. On failure, the run is watched
// again. A run that has finished or waits for a person is left alone.
func (w *Watch) cancel(ctx context.Context, run *leftRun) {
	within, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	working, err := w.runs.Working(within, run.OrganizationID, run.ID)
	if err == nil && working {
		// The text is stored first, because the session's next run may start as soon as this run is
		// cancelled.
		if run.shown != nil {
			w.save(within, run.Run, *run.shown)
		}
		err = w.runs.Cancel(within, run.OrganizationID, run.ID)
	}
	if err == nil || ctx.Err() != nil {
		return
	}

	w.log.Warn().Err(err).Str("run_id", run.ID).Msg("cannot cancel a run that no client reads any more, retrying")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[run.ID] == nil {
		run.confirmed = time.Time{}
		w.add(run)
		w.rouse()
	}
}

// save stores the shown text of a run.
func (w *Watch) save(ctx context.Context, run Run, text string) {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	if err := w.runs.SaveShown(ctx, run.OrganizationID, run.ID, text); err != nil {
		w.log.Warn().Err(err).Str("run_id", run.ID).Msg("cannot store how much of an answer was shown")
	}
}

// Next reports that the run of a session's next message waits for earlier runs of the session: for
// the run with the id previous or, if previous is empty, for all of them. If such an earlier run
// has no reader, it is cancelled immediately. Next informs the other ingresses.
func (w *Watch) Next(org, session, runID, previous string) {
	w.sessionNext(org, session, waiter{runID, previous})
	w.send(message{Session: []byte(session), Run: runID, Previous: previous, Org: org})
}

// sessionNext records a waiting message, and ends the grace period of the runs for which it waits.
func (w *Watch) sessionNext(org, session string, next waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next.add(org, session, next)
	for _, run := range w.left {
		if run.Session == session && next.on(run.ID) {
			run.grace = 0
			w.rouse()
		}
	}
}

// Earlier returns the run of the latest earlier attempt of a request, if the client of that attempt
// has left. It returns each attempt only once. The caller attaches its request to that run.
func (w *Watch) Earlier(try Attempt) (org, runID string, ok bool) {
	if try.Request == "" || try.Number == 0 {
		return "", "", false
	}
	w.mu.Lock()
	var best *attempt
	for _, a := range w.attempts.get(try.Request) {
		if a.Number < try.Number && (best == nil || a.Number > best.Number) {
			best = &a
		}
	}
	if best != nil {
		w.forget(try.Request, best.RunID)
		if run := w.left[best.RunID]; run != nil {
			run.read(time.Now())
		}
	}
	w.mu.Unlock()
	if best == nil {
		return "", "", false
	}
	w.send(message{Request: []byte(try.Request), Read: []string{best.RunID}})
	return best.OrganizationID, best.RunID, true
}

// remember records the run of an attempt whose client has left, so that a retry of the request
// finds it.
func (w *Watch) remember(request string, a attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts.add(a.OrganizationID, request, a)
}

// forget removes an attempt that has a new reader. The caller must hold w.mu.
func (w *Watch) forget(request, runID string) {
	w.attempts.remove(request, func(a attempt) bool { return a.RunID == runID })
}

// CancelCall cancels the run of the request with this name. Any ingress may be handling the
// request.
func (w *Watch) CancelCall(ctx context.Context, call string) {
	if !w.cancelCall(ctx, call) {
		w.send(message{Call: []byte(call)})
	}
}

// cancelCall cancels the run of a request at this ingress. It returns false if there is none.
func (w *Watch) cancelCall(ctx context.Context, call string) bool {
	w.mu.Lock()
	r := w.calls[call]
	w.mu.Unlock()
	if r == nil {
		return false
	}
	now := time.Now()
	w.cancel(context.WithoutCancel(ctx), &leftRun{Run: r.run, until: now.Add(maxWatch), since: now})
	return true
}

// removeCall forgets the name of a request, unless a newer request has the same name.
func (w *Watch) removeCall(r *Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[r.rules.Call] == r {
		delete(w.calls, r.rules.Call)
	}
}

// message is a message to the Watch of every ingress. A message sets only the fields of one of the
// groups below.
type message struct {
	From string `json:"from"`

	Ask  []string `json:"ask,omitempty"`  // runs whose readers the sender asks for
	Read []string `json:"read,omitempty"` // runs that have a reader at the sender

	Session  []byte `json:"session,omitempty"`  // session whose next message waits
	Run      string `json:"run,omitempty"`      // run of the waiting message
	Previous string `json:"previous,omitempty"` // run that the message waits for; empty: all earlier runs
	Org      string `json:"org,omitempty"`      // organization of the session

	Request []byte   `json:"request,omitempty"` // request whose client has left or whose run is read again
	Attempt *attempt `json:"attempt,omitempty"`

	Call []byte `json:"call,omitempty"` // name of the request to cancel

	Resumed string `json:"resumed,omitempty"` // run whose later reader has left
	Shown   string `json:"shown,omitempty"`   // text that the later reader has shown
}

// send publishes a message. If the message is lost, the runs that the message names are not
// cancelled.
func (w *Watch) send(m message) {
	m.From = w.name
	body, err := json.Marshal(m)
	if err == nil {
		err = w.bus.PublishReaders(body)
	}
	if err != nil {
		w.log.Debug().Err(err).Msg("cannot send a message about the readers of a run")
	}
}

// receive handles a message from the bus, which calls it in one goroutine. It does not block.
func (w *Watch) receive(ctx context.Context, body []byte) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		w.log.Warn().Err(err).Msg("cannot read a message about the readers of a run")
		return
	}
	own := m.From == w.name
	switch {
	case len(m.Ask) > 0 && own:
		w.mark(m.Ask, func(run *leftRun) { run.confirmed = time.Now() })
	case len(m.Ask) > 0:
		w.answer(m.Ask)
	case own: // this ingress sent the message and has handled it already
	case len(m.Read) > 0:
		w.mark(m.Read, func(run *leftRun) { run.read(time.Now()) })
		if len(m.Request) > 0 {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.forget(string(m.Request), m.Read[0])
		}
	case len(m.Session) > 0:
		w.sessionNext(m.Org, string(m.Session), waiter{m.Run, m.Previous})
	case m.Attempt != nil:
		w.remember(string(m.Request), *m.Attempt)
	case len(m.Call) > 0:
		go w.cancelCall(ctx, string(m.Call))
	case m.Resumed != "":
		w.showed(m.Resumed, m.Shown)
	}
}

// showed stores the text that a later reader of a run has shown, if it is longer than the text
// stored before.
func (w *Watch) showed(runID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run := w.left[runID]; run != nil && run.shown != nil && len(text) > len(*run.shown) {
		w.remove(runID)
		run.shown = &text
		w.add(run)
	}
}

// mark calls the function change for each of the given runs that this ingress watches.
func (w *Watch) mark(runIDs []string, change func(*leftRun)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range runIDs {
		if run := w.left[id]; run != nil {
			change(run)
		}
	}
}

// answer publishes which of the given runs have readers at this ingress.
func (w *Watch) answer(runIDs []string) {
	read := slices.DeleteFunc(slices.Clone(runIDs), func(id string) bool { return !w.reads(id) })
	if len(read) > 0 {
		w.send(message{Read: read})
	}
}
