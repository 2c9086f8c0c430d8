package realtime

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
)

const (
	eventIDMost = 512 // characters
	brokenMost  = 20  // messages in a row that are no events
)

// handlers are what a client can ask for, but for append, which comes fifty times a second.
var handlers = map[string]func(*Conversation, *effects, time.Time, *request){
	"session.update":             (*Conversation).update,
	"input_audio_buffer.commit":  (*Conversation).commit,
	"input_audio_buffer.clear":   (*Conversation).clear,
	"output_audio_buffer.clear":  (*Conversation).clearOutput,
	"conversation.item.create":   (*Conversation).create,
	"conversation.item.retrieve": (*Conversation).retrieve,
	"conversation.item.delete":   (*Conversation).remove,
	"conversation.item.truncate": (*Conversation).truncate,
	"response.create":            (*Conversation).respond,
	"response.cancel":            (*Conversation).stopResponse,
}

// Client takes a message of the client's.
func (c *Conversation) Client(now time.Time, raw []byte) Effects {
	if eventID, encoded, ok := quickAppend(raw); ok {
		return c.append(eventID, encoded)
	}
	return c.read(now, raw)
}

// read takes any message but the usual append.
func (c *Conversation) read(now time.Time, raw []byte) Effects {
	var e effects
	r := &request{}
	if !utf8.Valid(raw) || kind(raw) != '{' || json.Unmarshal(raw, &r.object.members) != nil {
		c.unreadable(&e)
		return e
	}
	c.broken = 0
	r.object.faults = &r.found
	var eventID string
	if r.object.text("event_id", &eventID, eventIDMost) {
		r.id = &eventID
	}
	r.object.need("type", &r.kind, eventIDMost)
	if c.faulty(&e, r) {
		return e
	}
	if r.kind == appendType {
		return c.slowAppend(&e, r)
	}
	c.active = now
	handle, known := handlers[r.kind]
	switch {
	case r.kind == betaUpdate:
		c.refuse(&e, r.id, codeUnsupported, "type", betaGone)
		return e
	case !known:
		c.refuse(&e, r.id, codeValue, "type", "there is no event of type "+r.kind)
		return e
	}
	handle(c, &e, now, r)
	return e
}

func (c *Conversation) unreadable(e *effects) {
	c.broken++
	c.refuse(e, nil, codeJSON, "", "an event must be a JSON object in UTF-8")
	if c.broken >= brokenMost {
		e.Close = &Close{Code: 1008, Reason: "too many messages that are no events"}
	}
}

// update sets what the client names of the session.
func (c *Conversation) update(e *effects, _ time.Time, r *request) {
	if !r.object.has("session") {
		r.object.wrong("session", codeMissing, "is required")
	}
	o, ok := r.object.object("session")
	after := c.session
	if ok {
		after.update(c.set.Model, o)
		if !c.instructionsFit(after.instructions, "") {
			o.wrong("instructions", codeTooLong, "must have at most %d characters, with those of system items", instructionsMax)
		}
	}
	if c.faulty(e, r) {
		return
	}
	in := &c.input
	if after.detection == nil && c.listening() { // what was kept waits for the client's commit
		in.start = in.buffered(true)
		in.speech, in.behind = nil, in.end // what the worker finds before, it found while it still listened
	}
	c.session = after
	c.configure(e)
	c.tell(e, "session.updated", sessionEvent{c.shown()})
	c.release(e)
	c.next(e, c.active)
}

// commit makes an item of the buffer.
func (c *Conversation) commit(e *effects, _ time.Time, r *request) {
	in := &c.input
	from, to := in.buffered(c.listening()), in.end
	if to-from < commitLeast {
		c.refuse(e, r.id, codeEmpty, "", "the buffer has less than 100 ms of audio")
		return
	}
	if len(in.waits)+len(c.held) >= waitsMost {
		c.refuse(e, r.id, codeFull, "", tooManyWait)
		return
	}
	var name string
	if in.speech != nil {
		name = in.speech.item
	} else {
		name = c.set.NewID("item")
	}
	in.speech, in.start, in.behind = nil, to, to
	c.committed(e, span{item: name, line: name, from: from, to: to})
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceCommit, Item: name, From: from, To: to})
	c.release(e)
}

// clear forgets the buffer.
func (c *Conversation) clear(e *effects, now time.Time, _ *request) {
	in := &c.input
	in.speech, in.start, in.behind = nil, in.end, in.end
	in.prune(c.listening())
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceClear, From: in.end})
	c.tell(e, "input_audio_buffer.cleared", struct{}{})
	c.release(e)
	c.next(e, now)
}

func (c *Conversation) clearOutput(e *effects, _ time.Time, r *request) {
	c.refuse(e, r.id, codeUnsupported, "type", "output_audio_buffer.clear is for WebRTC: over a WebSocket, the client plays what it was sent")
}
