package realtime

import (
	"bytes"
	"errors"
)

// appendType is the type of the client events that contain audio.
const appendType = "input_audio_buffer.append"

// append adds audio to the input. It avoids heap allocations, because it is called about fifty
// times a second. encoded is base64 of 16-bit samples. The samples are stored, because another
// worker may need them. The result shares their memory. Audio that exceeds a limit is dropped, and
// the client gets an error.
func (c *Conversation) append(eventID, encoded []byte) Effects {
	var e effects
	c.broken = 0
	in := &c.input
	at := in.end
	samples, err := in.decode(encoded, c.session.listening())
	switch {
	case errors.Is(err, errFull), errors.Is(err, errKept):
		c.refuse(&e, named(eventID), codeFull, "audio", err.Error())
	case err != nil:
		c.refuse(&e, named(eventID), codeValue, "audio", "audio: "+err.Error())
	// An event with empty audio is valid and has no effect.
	case len(samples) > 0:
		e.Audio = appendFrames(e.Audio, at, samples)
	}
	return e
}

// slowAppend handles the append events that quickAppend cannot parse. It handles valid forms that
// clients rarely use, such as escapes, and reports errors in the members.
func slowAppend(c *Conversation, e *effects, r *request) Effects {
	var encoded string
	if !r.object.has("audio") {
		r.object.wrong("audio", codeMissing, "is required")
	}
	// The JSON is never shorter than the decoded string. With the length of the JSON as the limit,
	// the string is therefore never too long.
	r.object.text("audio", &encoded, len(r.object.members["audio"]))
	if c.faulty(e, r) {
		return *e
	}
	return c.append(idBytes(r.id), []byte(encoded))
}

// idBytes returns the id of an event as bytes, or nil if the event has none.
func idBytes(eventID *string) []byte {
	if eventID == nil {
		return nil
	}
	return []byte(*eventID)
}

// named converts an id back from the form that idBytes returns. It copies the bytes, because the
// message may be overwritten after the call.
func named(eventID []byte) *string {
	if eventID == nil {
		return nil
	}
	return new(string(eventID))
}

// quickAppend returns the base64 audio of an append event in its usual form: an object with only a
// type, audio and an optional id, and without escapes in its strings. It is faster than a general
// decoder, which would read each byte three times. ok is false if the event has another form.
// quickAppend does not check the base64. The results are parts of raw.
func quickAppend(raw []byte) (eventID, encoded []byte, ok bool) {
	rest := spaces(raw)
	var found quickMembers
	for begin := byte('{'); len(rest) > 0 && rest[0] == begin; begin = ',' {
		var name, value []byte
		if name, value, rest, ok = member(rest[1:]); !ok || !found.take(name, value) {
			return nil, nil, false
		}
	}
	if len(rest) == 0 || rest[0] != '}' || len(spaces(rest[1:])) > 0 || !found.typed || found.audio == nil {
		return nil, nil, false
	}
	return found.eventID, found.audio, true
}

// quickMembers are the members of an append event. The slices refer to the client's message.
type quickMembers struct {
	typed          bool
	eventID, audio []byte
}

// take stores a member. It returns false if the member is a duplicate or unknown. It also returns
// false for another type of event and for an id that cannot be used.
func (m *quickMembers) take(name, value []byte) bool {
	switch {
	case string(name) == "type" && !m.typed && string(value) == appendType:
		m.typed = true
	case string(name) == "audio" && m.audio == nil:
		m.audio = value
	case string(name) == "event_id" && m.eventID == nil && printable(value):
		m.eventID = value
	default:
		return false
	}
	return true
}

// member parses the name of a member and its value, which must be a string. rest is the remaining
// text. ok is false if raw does not begin with such a member.
func member(raw []byte) (name, value, rest []byte, ok bool) {
	if name, rest, ok = plain(raw); !ok {
		return nil, nil, nil, false
	}
	if rest = spaces(rest); len(rest) == 0 || rest[0] != ':' {
		return nil, nil, nil, false
	}
	value, rest, ok = plain(rest[1:])
	return name, value, spaces(rest), ok
}

// printable reports whether a string can be used as an event's id without escapes.
func printable(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return len(text) <= maxEventID
}

// plain parses a string that has no escapes. It does not reject invalid UTF-8 or control
// characters. Callers compare the result with known names or decode it as base64, so such
// characters are rejected there. rest is the text after the closing quote.
func plain(raw []byte) (text, rest []byte, ok bool) {
	raw = spaces(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(raw[1:], '"')
	if end < 0 || bytes.IndexByte(raw[1:1+end], '\\') >= 0 {
		return nil, nil, false
	}
	return raw[1 : 1+end], raw[2+end:], true
}

// spaces returns raw without its leading white space.
func spaces(raw []byte) []byte { return bytes.TrimLeft(raw, " \t\r\n") }
