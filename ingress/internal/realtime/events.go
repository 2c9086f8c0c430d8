package realtime

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"parley/shared/contract"
)

// effects is a short name of Effects, for functions that add effects.
type effects = Effects

// eventHead contains the fields at the beginning of every event.
type eventHead struct {
	Type string `json:"type"`
	ID   string `json:"event_id"`
}

// The types below are the contents of events, except their types and ids. Each is named after its
// event, and its fields have the names and units of the protocol.

// sessionEvent contains all settings of the session.
type sessionEvent struct {
	Session *shownSession `json:"session"`
}

// itemEvent contains an item and the id of the item before it. Previous is nil for the first item.
type itemEvent struct {
	Previous *string   `json:"previous_item_id"`
	Item     shownItem `json:"item"`
}

// retrievedEvent answers a request for an item.
type retrievedEvent struct {
	Item shownItem `json:"item"`
}

// namedEvent names an item that was deleted.
type namedEvent struct {
	ItemID string `json:"item_id"`
}

// committedEvent names an item that was created from audio.
type committedEvent struct {
	ItemID   string  `json:"item_id"`
	Previous *string `json:"previous_item_id"`
}

// startedEvent reports the beginning of speech. The position refers to the client's stream.
type startedEvent struct {
	ItemID  string `json:"item_id"`
	StartMS int64  `json:"audio_start_ms"`
}

// stoppedEvent reports the end of speech. The position refers to the client's stream.
type stoppedEvent struct {
	ItemID string `json:"item_id"`
	EndMS  int64  `json:"audio_end_ms"`
}

// truncatedEvent confirms how much of an answer was played.
type truncatedEvent struct {
	ItemID       string `json:"item_id"`
	ContentIndex int    `json:"content_index"`
	EndMS        int64  `json:"audio_end_ms"`
}

// transcriptEvent contains the transcript of an item. The transcript is empty if the audio has no
// words.
type transcriptEvent struct {
	ItemID       string        `json:"item_id"`
	ContentIndex int           `json:"content_index"`
	Transcript   string        `json:"transcript"`
	Usage        durationUsage `json:"usage"`
}

// durationUsage is the length of the audio that was transcribed.
type durationUsage struct {
	Type    string  `json:"type"` // always the text "duration"
	Seconds float64 `json:"seconds"`
}

// untranscribedEvent reports that an item has no transcript, because transcription failed.
type untranscribedEvent struct {
	ItemID       string     `json:"item_id"`
	ContentIndex int        `json:"content_index"`
	Error        errorShown `json:"error"`
}

// responseEvent contains a response in its current state.
type responseEvent struct {
	Response *shownResponse `json:"response"`
}

// outputItemEvent contains the message of a response. OutputIndex is always 0.
type outputItemEvent struct {
	ResponseID  string    `json:"response_id"`
	OutputIndex int       `json:"output_index"`
	Item        shownItem `json:"item"`
}

// partRef identifies the text of an answer. Each response has one item with one part. Both
// indexes are always 0.
type partRef struct {
	ResponseID   string `json:"response_id"`
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
}

// partEvent contains the part of a message, at its beginning and at its end.
type partEvent struct {
	partRef
	Part shownPart `json:"part"`
}

// deltaEvent contains a piece of the text or transcript.
type deltaEvent struct {
	partRef
	Delta string `json:"delta"`
}

// textDoneEvent contains the whole text of a text answer.
type textDoneEvent struct {
	partRef
	Text string `json:"text"`
}

// transcriptDoneEvent contains the transcript that was sent.
type transcriptDoneEvent struct {
	partRef
	Transcript string `json:"transcript"`
}

// eventMaker creates the events of a connection. newID returns a new id that begins with the
// prefix.
type eventMaker struct{ newID func(prefix string) string }

// emit appends an event to e. The argument says is the content of the event.
func (t eventMaker) emit(e *effects, kind string, says any) {
	e.Events = append(e.Events, Event{Body: t.event(kind, says)})
}

// event returns the JSON of an event. The JSON form of the argument says must be an object, whose
// members follow the event's type and id. The method event panics if says cannot be encoded, which
// is an error in this package.
func (t eventMaker) event(kind string, says any) []byte {
	head, err := json.Marshal(eventHead{kind, t.newID("event")})
	if err != nil {
		panic(err) // two strings always have a JSON form
	}
	body, err := json.Marshal(says)
	if err != nil {
		panic(err) // all types of events have a JSON form
	}
	// The event has only a type and an id.
	if len(body) == len("{}") {
		return head
	}
	head[len(head)-1] = ','
	return append(head, body[1:]...)
}

// audioEvent encodes the most frequent event without a general encoder. The ids in the event need
// no escapes. The argument samples contains 16-bit PCM. A spoken answer has many of these events.
func (t eventMaker) audioEvent(a *answer, samples []byte) Event {
	const fixed = len(`{"type":"response.output_audio.delta","event_id":"","response_id":"","item_id":"","output_index":0,"content_index":0,"delta":""}`)
	eventID := t.newID("event")
	size := fixed + len(eventID) + len(a.response) + len(a.id) + base64.StdEncoding.EncodedLen(len(samples))
	b := slices.Grow([]byte(nil), size)
	b = append(append(b, `{"type":"response.output_audio.delta","event_id":"`...), eventID...)
	b = append(append(b, `","response_id":"`...), a.response...)
	b = append(append(b, `","item_id":"`...), a.id...)
	b = append(b, `","output_index":0,"content_index":0,"delta":"`...)
	b = append(base64.StdEncoding.AppendEncode(b, samples), `"}`...)
	return Event{Body: b, Answer: a.id, Samples: int64(len(samples)) / sampleBytes}
}

// seconds converts a number of samples to seconds.
func seconds(samples int64) float64 { return float64(samples) / contract.VoiceRate }
