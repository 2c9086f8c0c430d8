package realtime

import (
	"slices"
	"time"

	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/stream"
	"parley/shared/contract"
)

// Cut says that no more can be told of an answer's run, which goes on.
func (c *Conversation) Cut(now time.Time, name string) Effects {
	var e effects
	a := c.now
	if a == nil || a.id != name || !a.begun || a.last {
		return e
	}
	c.stop(&e, a)
	c.finish(&e, now, status{name: statusFailed, err: &openaiapi.Error{
		Type: openaiapi.TypeServer, Code: codeUnavailable,
		Message: "no more can be told of the run " + a.run + "; it goes on, and GET /api/runs?id=" + a.run + " gives its answer",
	}})
	return e
}

// runRestarted ends a response whose run started again and now answers differently. The run is stopped, because the client has
// already heard the beginning of the first answer.
func runRestarted(c *Conversation, e *effects, now time.Time, a *answer) {
	c.abandon(e, now, openaiapi.Error{
		Type: openaiapi.TypeServer, Code: openaiapi.CodeStreamRestarted,
		Message: "the run " + a.run + " began anew and answers otherwise than was told: what was said cannot be taken back",
	}, true)
}

// abandon ends a response that failed.
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

// stop has the worker say no more of an answer.
func (c *Conversation) stop(e *effects, a *answer) {
	if !a.text && len(a.spoken.text) > 0 {
		e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceStop, Answer: a.id})
	}
}

// finish tells the end of the response under way, and what there is to do then.
func (c *Conversation) finish(e *effects, now time.Time, s status) {
	a := c.now
	c.active = now
	if a.opened {
		closeMessage(c, e, a, s)
	}
	c.tell(e, "response.done", responseEvent{c.shownResponse(a, s)})
	if a.begun && !ending(e, a.id) {
		e.End = append(e.End, Ended{Answer: a.id, RunID: a.run})
	}
	c.now, c.before = nil, a
	if a.voice != "" {
		c.configure(e)
	}
	a.release()
	c.next(e, now)
}

// release forgets of an answer that was told of what is needed no more. How it was spoken is: clients correct what was heard.
func (a *answer) release() {
	a.final, a.waits, a.metadata, a.attempts = nil, nil, nil, stream.Told{}
	if a.text {
		a.spoken = spoken{}
		return
	}
	a.spoken.text, a.spoken.segments = slices.Clip(a.spoken.text), slices.Clip(a.spoken.segments)
}

func ending(e *effects, name string) bool {
	for _, ended := range e.End {
		if ended.Answer == name {
			return true
		}
	}
	return false
}

// closeMessage tells the end of an answer's message.
func closeMessage(c *Conversation, e *effects, a *answer, s status) {
	text := string(a.spoken.text[:a.spoken.told])
	if a.text {
		c.tell(e, "response.output_text.done", textDoneEvent{a.place(), text})
	} else {
		c.tell(e, "response.output_audio.done", a.place())
		c.tell(e, "response.output_audio_transcript.done", transcriptDoneEvent{a.place(), text})
	}
	c.tell(e, "response.content_part.done", partEvent{a.place(), a.part(text)})
	it := a.message(s)
	c.tell(e, "response.output_item.done", outputItemEvent{ResponseID: a.response, Item: it.shown()})
	var previous *string
	if at, _ := c.items.find(a.id); at >= 0 {
		c.items[at] = it
		if at > 0 {
			previous = &c.items[at-1].id
		}
	}
	c.tell(e, "conversation.item.done", itemEvent{previous, it.shown()})
}
