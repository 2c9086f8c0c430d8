package realtime

import (
	"time"

	"parley/shared/domain"
)

// These constants are the reasons for which a response is cancelled.
const (
	reasonTurn   = "turn_detected"
	reasonClient = "client_cancelled"
)

// interrupt cancels the response in progress. If its run is not accepted yet, the run is cancelled
// as soon as it is accepted. The client gets the reason.
func (c *Conversation) interrupt(e *effects, now time.Time, reason string) {
	a := c.now
	if !a.begun {
		a.dropped = reason
		return
	}
	c.cancel(e, now, reason, a.heard(now))
}

// cancel ends the response in progress as cancelled, and stores the part that was played. It also
// cancels the run, unless the run has finished. heard is the part that was played; nil: the whole
// answer. The queued audio is dropped. The item keeps only the text that was played.
func (c *Conversation) cancel(e *effects, now time.Time, reason string, heard *domain.Playback) {
	a := c.now
	c.stop(e, a)
	a.stopped, a.recorded = true, true
	e.Drop = append(e.Drop, a.id)
	e.End = append(e.End, Ended{Answer: a.id, RunID: a.run, Cancel: a.final == nil, Heard: heard})
	c.finish(e, now, status{name: statusCancelled, reason: reason})
	c.items.keep(a, heard)
}

// silence stops the audio of the previous answer when the user begins to speak. The response itself
// has already ended, so only the record of the playback changes.
func (c *Conversation) silence(e *effects, now time.Time) {
	a := c.before
	if !a.playing(now) || a.run == "" {
		return
	}

	// The text of the answer may already be complete while its audio is still playing.
	heard := a.heard(now)
	a.stopped, a.recorded = true, true
	e.Drop = append(e.Drop, a.id)
	e.End = append(e.End, Ended{Answer: a.id, RunID: a.run, Heard: heard})
	c.items.keep(a, heard)
}

// keep truncates the text in an answer's item to the part that was played. It does nothing if heard
// is nil or if the item no longer exists. Citations are removed, because their positions refer to
// the complete text.
func (l *items) keep(a *answer, heard *domain.Playback) {
	if _, it := l.find(a.id); it != nil && heard != nil && len(it.parts) > 0 {
		it.parts[0].text, it.parts[0].annotations = heard.Text, nil
	}
}

// Gone handles the end of the connection. If an answer is being spoken, Gone returns how much of it
// was played. The run of that answer continues. Gone treats the answer as complete if no part of it
// was played, because the user can still read it. It also treats the answer as complete if all of
// it was sent, because the client may still play it.
func (c *Conversation) Gone(now time.Time) []Ended {
	a := c.now
	if a == nil || a.text {
		return nil
	}
	if heard := a.heard(now); heard.AudioMS > 0 {
		return []Ended{{Answer: a.id, RunID: a.run, Heard: heard}}
	}
	return nil
}

// playing reports whether an answer has audio that was not played yet, whether or not it was sent.
// It is false for a nil answer and for an answer whose audio was stopped.
func (a *answer) playing(now time.Time) bool {
	return a != nil && !a.text && !a.stopped && a.spoken.playhead.advance(now) < a.spoken.samples()
}

// heard returns how much of a spoken answer was played, or how much of a text answer was sent. It
// returns nil for a text answer that was sent completely. The estimate assumes playback in real
// time; see [playhead].
func (a *answer) heard(now time.Time) *domain.Playback {
	if a.text {
		// The whole text was sent, so the answer was not interrupted.
		if a.final != nil {
			return nil
		}
		return &domain.Playback{Text: string(a.spoken.text[:a.spoken.reported])}
	}
	return new(a.spoken.heard(a.spoken.playhead.advance(now)))
}

// truncateItem truncates an answer's item to the part that, according to the client, was played.
// Clients that know their playback position correct the estimate with the event
// conversation.item.truncate.
func truncateItem(c *Conversation, e *effects, now time.Time, r *request) {
	var itemID string
	part, ms := 0, 0
	r.object.need("item_id", &itemID, maxName)
	r.object.whole("content_index", &part, 0, 0)
	if !r.object.has("audio_end_ms") {
		r.object.wrong("audio_end_ms", codeMissing, "is required")
	}
	r.object.whole("audio_end_ms", &ms, 0, 1<<31)
	if c.faulty(e, r) {
		return
	}

	_, it := c.items.find(itemID)
	switch {
	case it == nil:
		c.refuse(e, r.id, codeNoItem, "item_id", "unknown item "+itemID)
		return
	case it.answer == nil || it.answer.text:
		c.refuse(e, r.id, codeValue, "item_id", "only items of the assistant can be truncated")
		return
	}

	// The client cannot have played more audio than it has received.
	a := it.answer

	p := &a.spoken.playhead
	if sent := (p.sent + perMS - 1) / perMS; int64(ms) > sent {
		r.object.wrong("audio_end_ms", codeValue, "exceeds the %d ms of audio sent for this item", sent)
		c.faulty(e, r)
		return
	}
	c.correct(e, now, a, int64(ms))
	c.emit(e, "conversation.item.truncated", truncatedEvent{ItemID: a.id, EndMS: int64(ms)})
}

// correct records how many milliseconds of an answer were played. It cancels the answer if the
// answer is in progress. The played part is stored, unless the session already contains the
// complete answer and all of it was played.
func (c *Conversation) correct(e *effects, now time.Time, a *answer, ms int64) {
	samples := ms * perMS

	// A client reports whole milliseconds, so the last millisecond may be incomplete.
	whole := a.whole && samples+perMS > a.spoken.samples()
	heard := new(a.spoken.heard(samples))
	if whole {
		heard.Text = string(a.spoken.text)
	}
	heard.AudioMS = ms
	a.spoken.playhead.played, a.spoken.playhead.asOf = min(samples, a.spoken.playhead.sent), now

	if a == c.now {
		c.cancel(e, now, reasonClient, heard)
		return
	}
	a.stopped = true
	// The rest of the audio is not sent any more.
	if a.spoken.playhead.sent < a.spoken.samples() {
		e.Drop = append(e.Drop, a.id)
	}

	// The session already contains the complete answer, so no correction is needed.
	if whole && !a.recorded {
		return
	}
	a.recorded = true
	e.End = append(e.End, Ended{Answer: a.id, RunID: a.run, Heard: heard})
	c.items.keep(a, heard)
}
