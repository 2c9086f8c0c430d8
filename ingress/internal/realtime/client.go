package realtime

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
)

const (
	maxEventID = 512 // maximum length of an event's id, in characters
	maxBroken  = 20  // maximum number of consecutive messages that are not valid events
)

// handlers maps the types of client events to their handlers. The append events, which contain
// audio, are missing, because Client handles them separately. A handler first reads and checks the
// event. An event with an error changes nothing.
var handlers = map[string]func(*Conversation, *effects, time.Time, *request){
	"session.update":             updateSession,
	"input_audio_buffer.commit":  commitBuffer,
	"input_audio_buffer.clear":   clearBuffer,
	"output_audio_buffer.clear":  clearOutput,
	"conversation.item.create":   createItem,
	"conversation.item.retrieve": retrieveItem,
	"conversation.item.delete":   deleteItem,
	"conversation.item.truncate": truncateItem,
	"response.create":            createResponse,
	"response.cancel":            cancelResponse,
}

// Client handles a message that the client has sent. raw must not change during the call; no result
// refers to it. An invalid event is answered with an error event.
func (c *Conversation) Client(now time.Time, raw []byte) Effects {
	// Almost all messages contain audio, so that form is parsed first.
	if eventID, encoded, ok := quickAppend(raw); ok {
		return c.append(eventID, encoded)
	}
	return c.read(now, raw)
}

// read handles a message that quickAppend cannot parse. A readable event counts as activity, unless
// it contains audio. The error for an event contains the client's event id, if it could be read.
func (c *Conversation) read(now time.Time, raw []byte) Effects {
	var e effects
	r := &request{}
	if !utf8.Valid(raw) || kind(raw) != '{' || json.Unmarshal(raw, &r.object.members) != nil {
		unreadable(c, &e)
		return e
	}
	c.broken = 0

	r.object.faults = &r.found
	var eventID string
	if r.object.text("event_id", &eventID, maxEventID) {
		r.id = &eventID
	}
	// The id is read before the type, so that an error about the type can contain the id.
	r.object.need("type", &r.kind, maxEventID)
	if c.faulty(&e, r) {
		return e
	}
	if r.kind == appendType {
		return slowAppend(c, &e, r)
	}

	c.active = now
	handle, known := handlers[r.kind]
	switch {
	case r.kind == betaUpdate:
		c.refuse(&e, r.id, codeUnsupported, "type", betaGone)
		return e
	case !known:
		c.refuse(&e, r.id, codeValue, "type", "unknown event type "+r.kind)
		return e
	}
	handle(c, &e, now, r)
	return e
}

// unreadable rejects a message that is not a valid event. It closes the connection after maxBroken
// such messages in a row. The close code is 1008, a policy violation.
func unreadable(c *Conversation, e *effects) {
	c.broken++
	c.refuse(e, nil, codeJSON, "", "an event must be a JSON object in UTF-8")
	if c.broken >= maxBroken {
		e.Close = &Close{Code: 1008, Reason: "too many invalid events"}
	}
}

// updateSession applies the session settings that the client sent. Missing settings keep their
// values. The client gets session.updated with all settings.
func updateSession(c *Conversation, e *effects, _ time.Time, r *request) {
	if !r.object.has("session") {
		r.object.wrong("session", codeMissing, "is required")
	}
	o, ok := r.object.object("session")

	// The settings are applied to a copy, so that an invalid event changes nothing.
	after := c.session
	if ok {
		after.update(c.set.Model, o)
		if !c.items.instructionsFit(after.instructions, "") {
			o.wrong("instructions", codeTooLong, "must have at most %d characters, including the text of system items", maxInstructions)
		}
	}
	if c.faulty(e, r) {
		return
	}
	in := &c.input
	if after.detection == nil && c.session.listening() { // without speech detection, the client commits the buffered audio itself
		in.start = in.buffered(true)
		in.speech, in.behind = nil, in.end // speech before this sample was already detected
	}
	c.session = after
	c.configure(e)
	c.emit(e, "session.updated", sessionEvent{c.shown()})
	// The new settings may allow held audio to be sent to the worker, or a response to begin.
	c.release(e)
	c.next(e, c.active)
}

// commitBuffer creates an item from the audio in the input buffer. It needs at least 100 ms of
// audio. The item waits for its transcript; the response begins only at the client's request.
func commitBuffer(c *Conversation, e *effects, _ time.Time, r *request) {
	in := &c.input
	from, to := in.buffered(c.session.listening()), in.end
	if to-from < commitLeast {
		c.refuse(e, r.id, codeEmpty, "", "the buffer has less than 100 ms of audio")
		return
	}

	// Audio stays in memory until its transcript arrives, so the number of utterances without a
	// transcript is limited.
	if len(in.waits)+len(c.heldAudio) >= maxWaits {
		c.refuse(e, r.id, codeFull, "", tooManyWait)
		return
	}

	// If the worker has reported the start of this speech, the client already knows the item's id.
	var name string
	if in.speech != nil {
		name = in.speech.item
	} else {
		name = c.newID("item")
	}
	in.speech, in.start, in.behind = nil, to, to
	c.committed(e, span{item: name, line: name, from: from, to: to})
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceCommit, Item: name, From: from, To: to})
	c.release(e)
}

// clearBuffer discards the audio in the input buffer. Speech in progress is forgotten, also by
// the worker. Utterances that were committed before are still transcribed.
func clearBuffer(c *Conversation, e *effects, now time.Time, _ *request) {
	in := &c.input
	in.speech, in.start, in.behind = nil, in.end, in.end
	in.prune(c.session.listening())
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceClear, From: in.end})
	c.emit(e, "input_audio_buffer.cleared", struct{}{})
	c.release(e)
	c.next(e, now)
}

// clearOutput rejects an event that exists only for connections over WebRTC.
func clearOutput(c *Conversation, e *effects, _ time.Time, r *request) {
	c.refuse(e, r.id, codeUnsupported, "type", "output_audio_buffer.clear is only for WebRTC: over a WebSocket the client controls playback")
}
