package model

import (
	"fmt"
	"time"
)

// The durations in shared/bus.
const (
	ackWait          = 30 * time.Second
	duplicatesWindow = 2 * time.Minute
)

// message is a job message in the stream.
type message struct {
	job       *job
	at        time.Duration
	delivered bool
	due       time.Duration // time at which the message is delivered again if it has not been acknowledged
	gone      bool
}

// bus models NATS: a work queue that may lose, repeat and delay messages, and subjects of core
// NATS, which store no messages.
type bus struct {
	sim       *sim
	downUntil time.Duration
	made      int // number of times that the stream was created
	exists    bool
	messages  []*message
	known     map[string]time.Duration // times at which messages were stored, by message ID
	window    time.Duration            // length of the duplicate window
	fetching  []*box[struct{}]
	watching  map[int][]*ingress // subscribers of the subject runs.done.<run_id>, by run
	workers   []*toolWorker
	lost      int
}

// msgID returns the ID that contract.MsgID gives to a job's message.
func (s *sim) msgID(j *job) string {
	unique := j.key
	if unique == "" {
		unique = fmt.Sprint("run ", j.id)
	}
	dedupe := fmt.Sprintf("%d/%s", j.org, unique)
	if s.mutant.sharedMsgID {
		dedupe = unique
	}
	if s.mutant.rawMsgID {
		return dedupe
	}
	return fmt.Sprintf("%s:%d", dedupe, j.dispatchNo)
}

func (b *bus) down() bool { return b.sim.now < b.downUntil }

// loses decides at random whether a message is lost.
func (b *bus) loses() bool {
	if b.down() || b.sim.faulty() && b.sim.rng.in1000(b.sim.faultRates.lost) {
		b.lost++
		return true
	}
	return false
}

// delay returns a random latency of a message.
func (b *bus) delay() time.Duration {
	if b.sim.faulty() && b.sim.rng.in1000(b.sim.faultRates.lost) {
		return b.sim.rng.between(0, 8*time.Second)
	}
	return b.sim.rng.between(100*time.Microsecond, 4*time.Millisecond)
}

// publishJobs models Bus.PublishJobs. It does not wait for NATS to confirm the messages, so a lost
// confirmation has no effect.
func (b *bus) publishJobs(jobs ...*job) {
	for _, j := range jobs {
		if b.loses() {
			b.sim.tracef("job message %d for run %d is lost", j.dispatchNo, j.id)
			continue
		}
		b.sim.after(b.delay(), func() { b.store(j) })
	}
}

// store models how the NATS server handles a job message that it receives.
func (b *bus) store(j *job) {
	s := b.sim
	if b.down() || !b.exists {
		return
	}

	id := s.msgID(j)
	if at, known := b.known[id]; known && s.now-at < b.window {
		s.tracef("job message %s is a duplicate", id)
		return
	}

	b.known[id] = s.now
	b.messages = append(b.messages, &message{job: j, at: s.now})
	s.tracef("job message %s is in the stream", id)
	b.wakeFetchers()
}

func (b *bus) wakeFetchers() {
	for _, f := range b.fetching {
		f.put(b.sim, struct{}{})
	}
	b.fetching = b.fetching[:0]
}

// ensure models EnsureStream. It returns the number of times that the stream was created, which
// corresponds to the stream's creation time.
func (b *bus) ensure() (made int, ok bool) {
	if b.down() {
		return 0, false
	}
	if !b.exists {
		b.exists = true
		b.made++
	}
	return b.made, true
}

// fetch models Lane.Fetch. It returns at most the given number of job messages. It returns none if
// no message arrives within a second.
func (b *bus) fetch(t *task, maximum int) (got []*message, ok bool) {
	if _, ok := b.ensure(); !ok {
		return nil, false
	}

	for range 2 {
		if got = b.take(maximum); len(got) > 0 {
			return got, true
		}
		woken := &box[struct{}]{}
		b.fetching = append(b.fetching, woken)
		woken.take(t, time.Second)
		if b.down() {
			return nil, false
		}
	}
	return nil, true
}

func (b *bus) take(maximum int) (got []*message) {
	now := b.sim.now
	for _, m := range b.messages {
		if len(got) == maximum {
			break
		}
		if !m.gone && (!m.delivered || m.due <= now) {
			m.delivered, m.due = true, now+ackWait
			got = append(got, m)
		}
	}
	return got
}

// reply sends a worker's acknowledgement of a job message. The acknowledgement may be lost.
func (b *bus) reply(do func()) {
	if !b.loses() {
		b.sim.after(b.delay(), func() {
			if !b.down() {
				do()
			}
		})
	}
}

func (b *bus) ack(m *message) {
	b.reply(func() {
		m.gone = true
		b.clear()
	})
}

func (b *bus) nak(m *message, delay time.Duration) {
	b.reply(func() { m.due = min(m.due, b.sim.now+delay) })
}

func (b *bus) clear() {
	kept := b.messages[:0]
	for _, m := range b.messages {
		if !m.gone {
			kept = append(kept, m)
		}
	}
	b.messages = kept
}

// oldestUndelivered models OldestUndelivered: it returns the time at which the oldest undelivered
// message was stored.
func (b *bus) oldestUndelivered() (at time.Duration, found bool) {
	for _, m := range b.messages {
		if !m.delivered {
			return m.at, true
		}
	}
	return 0, false
}

// The following methods cause faults of the stream.

func (b *bus) loseStore() {
	b.sim.tracef("the stream's whole store is lost")
	b.exists, b.messages, b.known = false, nil, map[string]time.Duration{}
}

// truncate removes the newest messages, as a crash of the machine may. NATS may have confirmed
// these messages. The duplicate window is unchanged; forgetDuplicates removes it.
func (b *bus) truncate() {
	n := b.sim.rng.n(len(b.messages) + 1)
	b.sim.tracef("the last %d of %d job messages are lost", len(b.messages)-n, len(b.messages))
	b.messages = b.messages[:n]
}

func (b *bus) forgetDuplicates() {
	b.sim.tracef("the stream loses its duplicate window")
	b.known = map[string]time.Duration{}
}

// repeat delivers again all messages that were delivered but not acknowledged.
func (b *bus) repeat() {
	b.sim.tracef("all delivered job messages are delivered again")
	for _, m := range b.messages {
		m.due = b.sim.now
	}
	b.wakeFetchers()
}

// done models Bus.Done. It notifies the ingress that accepted the run, and the subscribers of the
// run's results. The reply for a parked run is empty.
func (b *bus) done(id int, replyTo *ingress, status, result string) {
	if replyTo != nil && !b.loses() {
		b.sim.after(b.delay(), func() { replyTo.reply(id, status, result) })
	}
	if b.loses() {
		return
	}
	b.sim.after(b.delay(), func() {
		for _, i := range b.watching[id] {
			i.look(id)
		}
	})
}

// cancel models Bus.Cancelled: it notifies the workers that a run was canceled.
func (b *bus) cancel(id int) {
	if b.loses() {
		return
	}
	b.sim.after(b.delay(), func() {
		for _, w := range b.sim.workers {
			w.stopRun(id)
		}
	})
}
