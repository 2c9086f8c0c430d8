package realtime

import (
	"fmt"
	"slices"
	"time"

	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
)

// Cut ends an answer whose event stream was lost although its run continues. The client gets the
// status failed and can read the answer with GET /api/runs. Cut has no effect if the run was not
// accepted or if the text is already complete.
func (c *Conversation) Cut(now time.Time, name string) Effects {
	var e effects
	a := c.now
	if a == nil || a.id != name || !a.begun || a.last {
		return e
	}

	// The client receives no further text, so the worker must not speak the rest either.
	c.stop(&e, a)
	c.finish(&e, now, status{name: statusFailed, err: &openaiapi.Error{
		Type: openaiapi.TypeServer, Code: codeUnavailable,
		Message: fmt.Sprintf("the events of the run %[1]s can no longer be read, but the run continues; "+
			"read its answer with GET /api/runs?id=%[1]s", a.run),
	}})
	return e
}

// runRestarted ends a response whose run was restarted and now produces a different answer. It
// cancels the run, because the client has already received the beginning of the first answer. The
// part that was played is stored.
func runRestarted(c *Conversation, e *effects, now time.Time, a *answer) {
	c.abandon(e, now, openaiapi.Error{
		Type: openaiapi.TypeServer, Code: openaiapi.CodeStreamRestarted,
		Message: fmt.Sprintf("the run %s was restarted, and its new answer differs from the part already spoken", a.run),
	}, true)
}

// abandon ends a response with the status failed. If the argument heard is true, the played part of
// the answer is stored. Otherwise the answer counts as complete. The run is cancelled, unless it
// has finished or waits for a person.
func (c *Conversation) abandon(e *effects, now time.Time, why openaiapi.Error, heard bool) {
	a := c.now
	c.stop(e, a)
	ended := Ended{Answer: a.id, RunID: a.run, Cancel: a.final == nil && a.waits == nil}
	if heard {
		ended.Heard = a.heard(now)
	}
	e.End = append(e.End, ended)
	c.finish(e, now, status{name: statusFailed, err: &why})
}

// stop makes the worker stop speaking an answer. It sends no command for a text answer and for an
// answer without text.
func (c *Conversation) stop(e *effects, a *answer) {
	if !a.text && len(a.spoken.text) > 0 {
		e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceStop, Answer: a.id})
	}
}

// finish ends the response in progress, and begins the next response if one is due. Every response
// that has begun ends here. The answer stays available as the previous answer, because its audio
// may still be playing.
func (c *Conversation) finish(e *effects, now time.Time, s status) {
	a := c.now
	c.active = now
	// If the message of a response was never begun, the response ends without the events of a
	// message.
	if a.opened {
		closeMessage(c, e, a, s)
	}
	c.emit(e, "response.done", responseEvent{c.shownResponse(a, s)})
	// The caller may still read the events of the run, but the conversation no longer needs them.
	if a.begun && !ending(e, a.id) {
		e.End = append(e.End, Ended{Answer: a.id, RunID: a.run})
	}
	c.now, c.before = nil, a
	// If the response had its own voice, make the worker use the voice of the session again.
	if a.voice != "" {
		c.configure(e)
	}
	a.release()
	c.next(e, now)
}

// release drops the data of an ended answer, except for the record of its speech, because the
// client may still correct how much was played. The text of a text answer is dropped as well,
// because such an answer cannot be corrected.
func (a *answer) release() {
	a.final, a.waits, a.metadata, a.attempts = nil, nil, nil, stream.SentText{}
	if a.text {
		a.spoken = spoken{}
		return
	}
	a.spoken.text, a.spoken.segments = slices.Clip(a.spoken.text), slices.Clip(a.spoken.segments)
}

// ending reports whether e already contains the end of the answer, so that it is not added twice.
func ending(e *effects, name string) bool {
	for _, ended := range e.End {
		if ended.Answer == name {
			return true
		}
	}
	return false
}

// closeMessage sends the events that end an answer's message. The text in the events is the text
// that was sent, which may be shorter than the answer. The item of the conversation is replaced by
// its final form.
func closeMessage(c *Conversation, e *effects, a *answer, s status) {
	text := string(a.spoken.text[:a.spoken.reported])
	if a.text {
		c.emit(e, "response.output_text.done", textDoneEvent{a.partRef(), text})
	} else {
		c.emit(e, "response.output_audio.done", a.partRef())
		c.emit(e, "response.output_audio_transcript.done", transcriptDoneEvent{a.partRef(), text})
	}
	c.emit(e, "response.content_part.done", partEvent{a.partRef(), a.part(text)})

	it := a.message(s)
	c.emit(e, "response.output_item.done", outputItemEvent{ResponseID: a.response, Item: it.shown()})

	// The answer's item may have been dropped or deleted since the answer began.
	var previous *string
	if at, _ := c.items.find(a.id); at >= 0 {
		c.items[at] = it
		if at > 0 {
			previous = &c.items[at-1].id
		}
	}
	c.emit(e, "conversation.item.done", itemEvent{previous, it.shown()})
}
