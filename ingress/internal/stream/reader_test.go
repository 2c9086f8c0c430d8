package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
)

// fakeRun is a run with a worker, rows in the database and a bus, all of them simulated.
type fakeRun struct {
	mu     sync.Mutex
	log    executiondb.EventLog
	gone   bool
	bytes  int // size of the log in bytes
	err    error
	reads  int
	sent   map[domain.EventID]string
	fence  int64
	next   int    // number of the next event
	first  int    // number of the first event that is not checkpointed
	lines  []byte // events that are not checkpointed
	hear   func(bus.RunMessage)
	deaf   bool
	mute   bool // whether subscriptions fail
	follow int  // number of subscriptions
}

func newRun() *fakeRun {
	r := &fakeRun{sent: map[domain.EventID]string{}}
	r.log.Run.Run = domain.Run{ID: "run_1", Status: domain.RunQueued}
	return r
}

func (r *fakeRun) EventLogs(_ context.Context, reqs []executiondb.EventLogRequest) ([]*executiondb.EventLog, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.err != nil {
		return nil, r.err
	}
	out := make([]*executiondb.EventLog, len(reqs))
	for i := range reqs {
		if !r.gone && !r.log.Run.Erased {
			log := r.log
			out[i] = &log
		}
	}
	return out, nil
}

func (r *fakeRun) EventLogBytes(context.Context, executiondb.EventLogRequest) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gone:
		return 0, apierr.New(apierr.NotFound, "gone")
	case r.log.Run.Erased:
		return 0, apierr.New(apierr.Erased, "erased")
	}
	return r.bytes, nil
}

func (r *fakeRun) Flush(context.Context) error { return nil }

func (r *fakeRun) Follow(string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return errors.New("no subscriptions")
	}
	r.follow = 1
	return nil
}

func (r *fakeRun) Unfollow(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follow = 0
}

func (r *fakeRun) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.deaf
}

func (r *fakeRun) Run(ctx context.Context, f func(bus.RunMessage)) {
	r.mu.Lock()
	r.hear = f
	r.mu.Unlock()
	<-ctx.Done()
}

// begin claims the run for a new attempt.
func (r *fakeRun) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence++
	r.next, r.first, r.lines = 1, 1, nil
	r.log.Run.Run.Status = domain.RunRunning
	if r.fence == 1 {
		at := domain.At(time.Now())
		r.log.Run.Run.StartedAt = &at
		r.next, r.first = 2, 2
	}
}

// nextEvent adds an event to the attempt. It returns the bus message with this event.
func (r *fakeRun) nextEvent(text string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := domain.EventID{Fence: r.fence, N: r.next}
	line := domain.AppendEventLine(nil, "message.delta", []byte(`{"text":"`+text+`"}`))
	r.sent[id] = string(line)
	r.lines = append(r.lines, line...)
	r.next++
	return contract.EventMessage(domain.EventChunk{Fence: id.Fence, First: id.N, Lines: line})
}

func (r *fakeRun) checkpoint() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == r.next {
		return
	}
	if r.log.Fence != r.fence {
		r.log.Fence, r.log.Chunks = r.fence, nil
	}
	r.log.Chunks = append(slices.Clip(r.log.Chunks), executiondb.Chunk{FirstN: r.first, LastN: r.next - 1, Events: string(r.lines)})
	r.first, r.lines = r.next, nil
}

// end finishes the run. If the run completes, its worker finishes it, and otherwise the service
// does.
func (r *fakeRun) end(status domain.RunStatus) {
	if status == domain.RunCompleted {
		r.checkpoint()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.EndFence, r.log.EndN = r.fence, r.next
	if status != domain.RunCompleted {
		r.log.EndFence, r.log.EndN = r.fence+1, 1
	}
	r.log.Run.Run.Status = status
	r.log.Run.SetResult([]byte(`{"status":"` + string(status) + `"}`))
}

func (r *fakeRun) deliver(m bus.RunMessage) {
	r.mu.Lock()
	hear := r.hear
	r.mu.Unlock()
	m.RunID = "run_1"
	hear(m)
}

func (r *fakeRun) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// testEnv is a hub with one fake run, in fake time.
type testEnv struct {
	t   *testing.T
	run *fakeRun
	hub *Hub
}

// inBubble runs f with a testEnv in fake time.
func inBubble(t *testing.T, f func(testEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		run := newRun()
		h := New(run, run, zerolog.Nop())
		stop := running.Start(t, h.Run)
		synctest.Wait()
		f(testEnv{t, run, h})
		stop()
		if run.follow != 0 {
			t.Errorf("%d subscriptions are left", run.follow)
		}
	})
}

func open(t *testing.T, h *Hub, last string) *Reader {
	t.Helper()
	r, err := h.Open(t.Context(), "org_1", "run_1", eventID(t, last), unbounded)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unbounded is a Reserve that accepts a log of any size.
func unbounded(int) error { return nil }

// next returns the ids of the events that arrive within a time, followed by "end" if the log has
// ended, or by the code of an error.
func next(t *testing.T, r *Reader, within time.Duration) string {
	t.Helper()
	var ids []string
	for until := time.Now().Add(within); ; {
		events, err := r.Next(t.Context(), until)
		if len(events) > 0 {
			ids = append(ids, idsFor(events))
		}
		switch {
		case errors.Is(err, io.EOF):
			return strings.Join(append(ids, "end"), " ")
		case err != nil && apierr.CodeFor(err) != apierr.Internal:
			return strings.Join(append(ids, string(apierr.CodeFor(err))), " ")
		case err != nil:
			t.Fatal(err)
		case len(events) == 0:
			return strings.Join(ids, " ")
		}
	}
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestAReaderFollowsARunToItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		r := open(t, h, "0.0")
		defer r.Close()
		want(t, "queued", next(t, r, time.Second), "0.1")
		run.begin()
		started := domain.StartedEvent(*run.log.Run.Run.StartedAt)
		run.deliver(bus.RunMessage{Events: contract.EventMessage(domain.EventChunk{Fence: 1, First: 1, Lines: domain.AppendEventLine(nil, started.Type, started.Data)})})
		for range 3 {
			run.deliver(bus.RunMessage{Events: run.nextEvent("a")})
		}
		reads := run.reads
		want(t, "live", next(t, r, time.Second), "1.1 1.2 1.3 1.4")
		if run.reads != reads {
			t.Errorf("events that followed each other were read %d times", run.reads-reads)
		}
		run.end(domain.RunCompleted)
		run.deliver(bus.RunMessage{})
		began := time.Now()
		want(t, "ended", next(t, r, time.Minute), "1.5 end")
		if took := time.Since(began); took != 0 {
			t.Errorf("the end was sent after %s", took)
		}
		late := open(t, h, "1.3")
		defer late.Close()
		want(t, "resumed", next(t, late, 0), "1.4 1.5 end")
		if done := open(t, h, "1.5"); !done.AtEnd(eventID(t, "1.5")) {
			t.Error("a reader after the last event is not at the end")
		} else {
			done.Close()
		}
	})
}

// The message that a run has finished contains the last event of the run, so readers need not read
// the log. The event has the same bytes in the message and in the log.
func TestTheLastEventIsReceivedWithTheNotice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		r, missing := open(t, h, "0.0"), open(t, h, "0.0")
		defer r.Close()
		defer missing.Close()
		want(t, "running", next(t, r, time.Second), "0.1 1.1")
		want(t, "running", next(t, missing, time.Second), "0.1 1.1")
		run.deliver(bus.RunMessage{Events: run.nextEvent("a")})
		missing.takeReceived() // simulates a reader that has lost the event
		missing.position.last = domain.StartedID
		want(t, "live", next(t, r, 0), "1.2")

		run.end(domain.RunCompleted)
		last := domain.EndedEvent(domain.EventID{Fence: 1, N: 3}, domain.RunCompleted, []byte(`{"status":"completed"}`))
		reads := run.reads
		run.deliver(bus.RunMessage{Events: contract.EventMessage(domain.EventChunk{
			Fence: 1, First: 3, Lines: domain.AppendEventLine(nil, last.Type, last.Data),
		})})
		want(t, "ended", next(t, r, time.Minute), "1.3 end")
		if run.reads != reads {
			t.Errorf("the log was read %d times for the last event", run.reads-reads)
		}
		want(t, "ended after a loss", next(t, missing, time.Minute), "1.2 1.3 end")
	})
}

func TestAGapIsReadFromTheLogAsSoonAsItIsStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		r := open(t, h, "0.0")
		defer r.Close()
		want(t, "running", next(t, r, time.Second), "0.1 1.1")
		run.nextEvent("stored already")
		run.checkpoint()
		run.deliver(bus.RunMessage{Events: run.nextEvent("not stored, but heard")})
		want(t, "stored, then received", next(t, r, 0), "1.2 1.3")
		run.nextEvent("lost")
		run.deliver(bus.RunMessage{Events: run.nextEvent("heard")})
		began, reads := time.Now(), run.reads
		want(t, "not stored yet", next(t, r, 250*time.Millisecond), "")
		if n := run.reads - reads; n < 2 || n > 4 {
			t.Errorf("a gap was read %d times in 250 ms", n)
		}
		run.checkpoint()
		want(t, "stored", next(t, r, 2*time.Second), "1.4 1.5")
		if took := time.Since(began); took > testkit.Within(3*time.Second) {
			t.Errorf("a gap was closed after %s", took)
		}
		run.deliver(bus.RunMessage{Events: contract.EventMessage(domain.EventChunk{Fence: 1, First: 6})})
		want(t, "a notice of an event not stored", next(t, r, time.Second), "")
		run.nextEvent(strings.Repeat("x", 2_000_000))
		run.checkpoint()
		want(t, "too large for a message", next(t, r, 3*time.Second), "1.6")
	})
}

func TestANewAttemptVoidsThePreviousOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		r := open(t, h, "0.0")
		defer r.Close()
		zombie := [][]byte{run.nextEvent("a"), run.nextEvent("b"), run.nextEvent("c")}
		run.deliver(bus.RunMessage{Events: zombie[0]})
		want(t, "first attempt", next(t, r, time.Second), "0.1 1.1 1.2")
		run.begin()
		run.deliver(bus.RunMessage{Events: run.nextEvent("restarted")})
		run.deliver(bus.RunMessage{Events: zombie[1]})
		run.deliver(bus.RunMessage{Events: run.nextEvent("a")})
		run.deliver(bus.RunMessage{Events: zombie[2]})
		want(t, "second attempt", next(t, r, time.Second), "2.1 2.2")
		run.end(domain.RunCancelled)
		want(t, "a lost notice of the end", next(t, r, time.Minute), "3.1 end")
	})
}

func TestAFullBufferIsDroppedAndReadFromTheLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		slow := open(t, h, "1.1")
		defer slow.Close()
		quick := open(t, h, "1.1")
		defer quick.Close()
		for range 100 {
			run.deliver(bus.RunMessage{Events: run.nextEvent(strings.Repeat("x", 1000))})
			want(t, "another reader", next(t, quick, 0), fmt.Sprintf("1.%d", run.next-1))
		}
		if slow.bytes > maxBuffer || len(slow.receive) == 100 {
			t.Errorf("a slow reader holds %d messages of %d bytes", len(slow.receive), slow.bytes)
		}
		run.end(domain.RunCompleted)
		run.deliver(bus.RunMessage{})
		got := next(t, slow, time.Minute)
		if !strings.HasPrefix(got, "1.2 1.3 ") || !strings.HasSuffix(got, " 1.100 1.101 1.102 end") || len(strings.Fields(got)) != 102 {
			t.Errorf("a slow reader received %s", got)
		}
	})
}

func TestAnIdleReaderPollsTheLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		r := open(t, h, "1.1")
		defer r.Close()
		run.nextEvent("told before the subscription reached the server")
		run.checkpoint()
		began := time.Now()
		want(t, "first look", next(t, r, firstLook), "1.2")
		if took := time.Since(began); took > testkit.Within(firstLook) {
			t.Errorf("the event from before the subscription arrived after %s", took)
		}
		reads := run.reads
		want(t, "nothing new", next(t, r, time.Minute), "")
		if n := run.reads - reads; n < 10 || n > 13 {
			t.Errorf("the log was read %d times in an idle minute", n)
		}
		run.set(func() { run.deaf = true })
		want(t, "bus lost", next(t, r, idleLook+time.Second), "")
		run.nextEvent("b")
		run.checkpoint()
		want(t, "published while the bus was away", next(t, r, unreachableLook), "1.3")
		run.set(func() { run.deaf = false })
		run.nextEvent("c")
		run.checkpoint()
		run.deliver(bus.RunMessage{}) // simulates a reconnection of the bus
		want(t, "reconnected", next(t, r, 0), "1.4")
	})
}

func TestAStreamSurvivesADatabaseOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.begin()
		r := open(t, h, "1.1")
		defer r.Close()
		run.set(func() { run.err = errors.New("down") })
		if _, err := h.Open(t.Context(), "org_1", "run_1", domain.EventID{}, unbounded); err == nil {
			t.Error("a stream was opened without its log")
		}
		run.deliver(bus.RunMessage{Events: run.nextEvent("a")})
		want(t, "live events go on", next(t, r, time.Minute), "1.2")
		run.end(domain.RunFailed)
		run.deliver(bus.RunMessage{})
		want(t, "no end yet", next(t, r, time.Minute), "")
		run.set(func() { run.err = nil })
		want(t, "the database is back", next(t, r, 2*longestGap), "2.1 end")
	})
}

func TestANewRunIsStreamedWhileItCannotBeRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		accepted := rundb.StoredRun{OrganizationID: "org_1", Run: run.log.Run.Run}
		run.set(func() { run.err = errors.New("down") })
		r, resumed := h.Follow("run_1"), h.Follow("run_1")
		defer r.Close()
		defer resumed.Close()
		r.Begin(&accepted, domain.EventID{})
		resumed.Begin(&accepted, eventID(t, "0.1"))
		want(t, "accepted", next(t, r, 0), "0.1")
		want(t, "accepted, and seen already", next(t, resumed, 0), "")
		run.begin()
		run.deliver(bus.RunMessage{Events: contract.EventMessage(domain.EventChunk{Fence: 1, First: 1, Lines: []byte("run.started {}\n")})})
		run.deliver(bus.RunMessage{Events: run.nextEvent("a")})
		want(t, "live", next(t, r, time.Minute), "1.1 1.2")
		run.nextEvent("told to nobody")
		run.checkpoint()
		run.set(func() { run.err = nil })
		want(t, "the database is back", next(t, r, 2*longestGap), "1.3")
		want(t, "the database is back, after the first event", next(t, resumed, 2*idleLook), "1.1 1.2 1.3")
	})
}

func TestTheNextReaderRetriesAFailedSubscription(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		run.set(func() { run.mute = true })
		first := open(t, h, "0.0")
		defer first.Close()
		run.set(func() { run.mute = false })
		second := open(t, h, "0.0")
		defer second.Close()
		if run.follow != 1 {
			t.Error("the second reader did not subscribe either")
		}
	})
}

func TestReadersEndWithTheirRunHubOrClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s testEnv) {
		t, run, h := s.t, s.run, s.hub
		ctx := t.Context()
		run.begin()
		erased, expired := open(t, h, "1.1"), open(t, h, "1.1")
		left, drained, lasting := open(t, h, "1.1"), open(t, h, "1.1"), open(t, h, "1.1")
		for _, r := range []*Reader{erased, expired, left, drained, lasting} {
			defer r.Close()
		}
		lasting.Outlast()
		gone, leave := context.WithCancel(ctx)
		leave()
		if _, err := left.Next(gone, time.Now().Add(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that disconnected: %v", err)
		}
		run.set(func() { run.log.Run.Erased = true })
		want(t, "erased", next(t, erased, time.Minute), "erased")
		var coded *apierr.Error
		if _, err := h.Open(ctx, "org_1", "run_1", domain.EventID{}, unbounded); !errors.As(err, &coded) || coded.Code != apierr.Erased {
			t.Errorf("opening an erased run: %v", err)
		}
		run.set(func() { run.gone = true })
		want(t, "expired", next(t, expired, time.Minute), "not_found")
		if _, err := h.Open(ctx, "org_1", "run_1", domain.EventID{}, unbounded); !errors.As(err, &coded) || coded.Code != apierr.NotFound {
			t.Errorf("opening a deleted run: %v", err)
		}
		run.set(func() { run.gone, run.log.Run.Erased = false, false })
		go h.Drain()
		if _, err := drained.Next(ctx, time.Now().Add(time.Minute)); !errors.Is(err, ErrDrained) {
			t.Errorf("draining: %v", err)
		}
		run.set(func() { run.log.Run.Erased = false })
		for range 2 { // the drain wakes the first call, and the second call waits as usual
			if events, err := lasting.Next(ctx, time.Now().Add(time.Second)); len(events) > 0 || err != nil {
				t.Errorf("a reader that outlasts the drain: %v, %v", events, err)
			}
		}
	})
}

// The bus drops, repeats and delays messages, attempts die, and the reader disconnects and resumes.
// The reader still receives the log to its end, without a gap and without a repetition.
func TestReadersMissAndRepeatNothingOnAnUnreliableBus(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		inBubble(t, func(s testEnv) {
			t, run, h := s.t, s.run, s.hub
			rng := rand.New(rand.NewPCG(seed, 1))
			r := open(t, h, "0.0")
			var got []domain.Event
			take := func(within time.Duration) (ended bool) {
				for until := time.Now().Add(within); ; {
					events, err := r.Next(t.Context(), until)
					for _, e := range events {
						e.Data = append([]byte(nil), e.Data...)
						got = append(got, e)
					}
					if err != nil {
						return true
					}
					if len(events) == 0 {
						return false
					}
				}
			}
			var delayed [][]byte
			run.begin()
			for range 60 {
				switch n := rng.IntN(20); {
				case n < 10:
					m := run.nextEvent(fmt.Sprint("t", rng.IntN(1000)))
					if rng.IntN(4) > 0 {
						run.deliver(bus.RunMessage{Events: m})
					}
					if rng.IntN(4) == 0 {
						delayed = append(delayed, m)
					}
				case n < 13:
					run.checkpoint()
				case n < 15 && len(delayed) > 0:
					run.deliver(bus.RunMessage{Events: delayed[rng.IntN(len(delayed))]})
				case n == 15:
					run.begin()
					run.deliver(bus.RunMessage{Events: run.nextEvent("restarted")})
				case n == 16: // the reader disconnects and resumes
					r.Close()
					last := domain.EventID{}
					if len(got) > 0 {
						last = got[len(got)-1].ID
					}
					r = open(t, h, last.String())
				default:
					take(time.Duration(rng.IntN(400)) * time.Millisecond)
				}
			}
			run.end([]domain.RunStatus{domain.RunCompleted, domain.RunCancelled}[rng.IntN(2)])
			run.deliver(bus.RunMessage{})
			if !take(time.Minute) {
				t.Fatalf("seed %d: the reader does not end", seed)
			}
			r.Close()
			checkSent(t, seed, run, got)
		})
	}
}

func checkSent(t *testing.T, seed uint64, run *fakeRun, got []domain.Event) {
	t.Helper()
	last := domain.EventID{}
	for _, e := range got {
		if !e.ID.Follows(last) {
			t.Fatalf("seed %d: %s came after %s: %s", seed, e.ID, last, idsFor(got))
		}
		if line, ok := run.sent[e.ID]; ok && line != e.Type+" "+string(e.Data)+"\n" {
			t.Fatalf("seed %d: %s is %s, published as %s", seed, e.ID, e.Data, line)
		}
		last = e.ID
	}
	if (last != domain.EventID{Fence: run.log.EndFence, N: run.log.EndN}) {
		t.Fatalf("seed %d: the last event is %s", seed, last)
	}
}
