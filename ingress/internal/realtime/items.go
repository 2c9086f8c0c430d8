package realtime

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/ingress/internal/openaiapi"
	"parley/shared/contract"
)

const (
	// Limits of a conversation and of an item.
	maxItems   = 500
	maxTexts   = 1 << 20 // bytes of all items
	maxMessage = 32_000  // characters
	maxParts   = 100

	annotationBytes, segmentBytes = 128, 24 // overhead of each item in addition to its text
)

// States of items and responses.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusCancelled  = "cancelled"
	statusFailed     = "failed"
)

// Kinds of parts of an item.
const (
	partInputText   = "input_text"
	partInputAudio  = "input_audio"
	partOutputText  = "output_text"
	partOutputAudio = "output_audio"
)

// item is a message of the conversation.
type item struct {
	id      string
	role    string // user, assistant or system
	status  string
	parts   []part
	waiting bool    // its transcript is pending
	taken   bool    // passed to a run, and stored with it
	refused bool    // the run was refused, so no session stores it
	answer  *answer // the answer that the item shows; nil for other items
}

// part is one part of an item's content.
type part struct {
	kind        string
	text        string // the transcript, for audio
	heardBy     bool   // audio whose transcript has arrived
	annotations []openaiapi.ResponseAnnotation
}

// shownItem is an item in the protocol's form.
type shownItem struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Role    string      `json:"role"`
	Content []shownPart `json:"content"`
}

// shownPart is a part in the protocol's form. Depending on the type, Text or Transcript is set, or
// neither while a transcript is pending.
type shownPart struct {
	Type        string                         `json:"type"`
	Text        *string                        `json:"text,omitempty"`
	Transcript  *string                        `json:"transcript,omitempty"`
	Annotations []openaiapi.ResponseAnnotation `json:"annotations,omitempty"`
}

// shown returns the item in the form that the client sees.
func (i *item) shown() shownItem {
	out := shownItem{ID: i.id, Object: "realtime.item", Type: "message", Status: i.status, Role: i.role, Content: []shownPart{}}
	for _, p := range i.parts {
		shown := shownPart{Type: p.kind, Annotations: p.annotations}
		switch {
		case p.kind == partInputText || p.kind == partOutputText:
			shown.Text = &p.text
		case p.heardBy:
			shown.Transcript = &p.text
		}
		out.Content = append(out.Content, shown)
	}
	return out
}

// said returns the text of an item, with one line for each part.
func (i *item) said() string {
	texts := make([]string, 0, len(i.parts))
	for _, p := range i.parts {
		if strings.TrimSpace(p.text) != "" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

// items contains the conversation's items, oldest first.
type items []*item

// find returns the item with an id and its index; -1 and nil if there is none.
func (l *items) find(id string) (int, *item) {
	for i, it := range *l {
		if it.id == id {
			return i, it
		}
	}
	return -1, nil
}

// place inserts an item and returns the id of the item before it. If a limit is exceeded, it drops
// the oldest items, but not the answer in progress (now).
func (l *items) place(at int, it *item, now *answer) (previous *string) {
	*l = slices.Insert(*l, at, it)
	if at > 0 {
		previous = &(*l)[at-1].id
	}

	bytes := 0
	for _, i := range *l {
		bytes += i.bytes()
	}
	for len(*l) > maxItems || bytes > maxTexts {
		// An item whose transcript is pending stays, because the transcript refers to it.
		old := slices.IndexFunc(*l, func(i *item) bool { return !i.waiting && i != it && (now == nil || i.id != now.id) })
		if old < 0 {
			break
		}
		bytes -= (*l)[old].bytes()
		*l = slices.Delete(*l, old, old+1)
	}
	return previous
}

// bytes estimates the memory of an item: its texts and its speech.
func (i *item) bytes() int {
	sum := 0
	for _, p := range i.parts {
		sum += len(p.text)
		for _, a := range p.annotations {
			sum += annotationBytes + len(a.URL) + len(a.FileID) + len(a.Filename)
			if a.Title != nil {
				sum += len(*a.Title)
			}
		}
	}
	// The record of speech is kept for corrections of what was played.
	if i.answer != nil {
		sum += len(i.answer.spoken.text) + segmentBytes*len(i.answer.spoken.segments)
	}
	return sum
}

// last returns the id of the newest item; nil if there is none.
func (l *items) last() *string {
	if len(*l) == 0 {
		return nil
	}
	return &(*l)[len(*l)-1].id
}

// added inserts an item and sends it to the client.
func (c *Conversation) added(e *effects, at int, it *item, done bool) {
	previous := c.items.place(at, it, c.now)
	c.emit(e, "conversation.item.added", itemEvent{previous, it.shown()})
	if done {
		c.emit(e, "conversation.item.done", itemEvent{previous, it.shown()})
	}
}

// partKinds maps the role of an item to the kinds of parts that the item may have.
var partKinds = map[string][]string{
	"user":      {partInputText, partInputAudio},
	"system":    {partInputText},
	"assistant": {partOutputText, partOutputAudio},
}

// readItem parses an item that a client creates, and returns its audio.
func readItem(o object) (*item, []byte) {
	it := &item{status: statusCompleted}
	kind := "message"
	if o.text("type", &kind, nameMax) && kind != "message" {
		o.wrong("type", codeUnsupported, "must be message: tools of the caller are not supported")
		return it, nil
	}
	o.text("id", &it.id, nameMax)
	o.need("role", &it.role, nameMax)
	if it.role != "" && partKinds[it.role] == nil {
		o.wrong("role", codeValue, "must be user, assistant or system")
		return it, nil
	}

	entries, given := o.list("content")
	switch {
	case !given && !o.has("content"):
		o.wrong("content", codeMissing, "is required")
	case given && (len(entries) == 0 || len(entries) > maxParts):
		o.wrong("content", codeValue, "must have from 1 to %d parts", maxParts)
	case given && it.role != "":
		return it, readParts(o, it, entries)
	}
	return it, nil
}

// readParts parses the parts of an item into it and returns the audio part's samples, if there is
// one. Faults are added to o's faults; parts with faults are skipped.
func readParts(o object, it *item, entries []json.RawMessage) (audio []byte) {
	for i, raw := range entries {
		entry, ok := newObject(o.at("content")+"["+strconv.Itoa(i)+"]", raw, o.faults)
		if !ok {
			continue
		}
		p := part{}
		entry.need("type", &p.kind, nameMax)
		if p.kind == "" {
			continue
		}
		if !slices.Contains(partKinds[it.role], p.kind) {
			entry.wrong("type", codeUnsupported, "must be %s in an item of role %s", strings.Join(partKinds[it.role], " or "), it.role)
			continue
		}
		// Each item has one span of samples, so it can have only one audio part.
		if p.kind == partInputAudio {
			if it.waiting {
				entry.wrong("type", codeUnsupported, "must have at most one audio part")
				continue
			}
			audio, it.waiting = readAudio(entry), true
		} else {
			readText(entry, &p)
		}
		it.parts = append(it.parts, p)
	}

	if n := utf8.RuneCountInString(it.said()); n > maxMessage {
		o.wrong("content", codeTooLong, "must have at most %d characters, not %d", maxMessage, n)
	}
	return audio
}

// readText parses the text of a part into p. An assistant's audio part has a transcript instead.
func readText(entry object, p *part) {
	name := "text"
	if p.kind == partOutputAudio {
		name, p.heardBy = "transcript", true
	}
	if !entry.has(name) {
		entry.wrong(name, codeMissing, "is required")
		return
	}
	entry.text(name, &p.text, maxMessage)
}

// readAudio parses the audio of a part: base64, as in the buffer.
func readAudio(entry object) []byte {
	if !entry.has("audio") {
		entry.wrong("audio", codeMissing, "is required")
		return nil
	}
	var samples []byte
	switch err := json.Unmarshal(entry.members["audio"], &samples); {
	case kind(entry.members["audio"]) != '"' || err != nil:
		entry.wrong("audio", codeValue, "%v", errBase64)
	case len(samples)%bytesOf != 0:
		entry.wrong("audio", codeValue, "%v", errOdd)
	case len(samples) < commitLeast*bytesOf:
		entry.wrong("audio", codeValue, "must be at least 100 ms long")
	case len(samples) > maxBuffer*bytesOf:
		entry.wrong("audio", codeTooLong, "must be at most %d seconds long", maxBuffer/contract.VoiceRate)
	default:
		return samples
	}
	return nil
}
