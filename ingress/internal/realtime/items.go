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
	// These constants limit a conversation and its items.
	maxItems   = 500
	maxTexts   = 1 << 20 // maximum size of the texts of all items, in bytes
	maxMessage = 32_000  // maximum length of a message, in characters
	// Maximum number of parts of an item.
	maxParts = 100

	annotationBytes, segmentBytes = 128, 24 // estimated memory of an annotation and of a segment in bytes, without their texts
)

// These constants are the statuses of items and responses.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusCancelled  = "cancelled"
	statusFailed     = "failed"
)

// These constants are the kinds of parts that an item can have.
const (
	partInputText   = "input_text"
	partInputAudio  = "input_audio"
	partOutputText  = "output_text"
	partOutputAudio = "output_audio"
)

// item is a message of the conversation. Its id is unique in the conversation.
type item struct {
	// id as the client knows it.
	id   string
	role string // user, assistant or system
	// One of the status constants.
	status string
	// Parts in order; empty for an answer in progress.
	parts   []part
	waiting bool    // whether the transcript of the item is pending
	taken   bool    // whether the item was passed to a run, which stores it
	refused bool    // whether that run was refused, so that the item is not stored
	answer  *answer // the answer to which the item belongs; nil for other items
}

// part is one part of the content of an item. An answer has one part. Annotations are set only for
// complete answers.
type part struct {
	// One of the part constants.
	kind    string
	text    string // text of the part, or transcript of its audio
	heardBy bool   // whether the transcript of the audio has arrived
	// Citations of the answer; nil: none.
	annotations []openaiapi.ResponseAnnotation
}

// shownItem is an item in the form of the protocol. Object is always realtime.item, and Type is
// always message.
type shownItem struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Role    string      `json:"role"`
	Content []shownPart `json:"content"`
}

// shownPart is a part in the form of the protocol. Depending on the type, Text or Transcript is
// set. Neither of them is set while a transcript is pending.
type shownPart struct {
	Type        string                         `json:"type"`
	Text        *string                        `json:"text,omitempty"`
	Transcript  *string                        `json:"transcript,omitempty"`
	Annotations []openaiapi.ResponseAnnotation `json:"annotations,omitempty"`
}

// shown returns the item as the client sees it. Audio itself is never included, only its
// transcript.
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

// said returns the text of an item, with one line for each part. Empty parts are omitted. A pending
// transcript counts as empty.
func (i *item) said() string {
	texts := make([]string, 0, len(i.parts))
	for _, p := range i.parts {
		if strings.TrimSpace(p.text) != "" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

// items contains the items of a conversation, the oldest first. Their number and total size are
// limited; see insert. A search is linear, because there are few items.
type items []*item

// find returns the index of the item with an id, and the item. If there is none, it returns -1 and
// nil.
func (l *items) find(id string) (int, *item) {
	for i, it := range *l {
		if it.id == id {
			return i, it
		}
	}
	return -1, nil
}

// insert inserts an item and returns the id of the item before it. If the items then exceed a
// limit, insert drops the oldest ones. It keeps the new item, items whose transcript is pending,
// and the item of the answer in progress (the parameter now). The client gets no event for dropped
// items, and the stored session does not change.
func (l *items) insert(at int, it *item, now *answer) (previous *string) {
	*l = slices.Insert(*l, at, it)
	if at > 0 {
		previous = &(*l)[at-1].id
	}

	bytes := 0
	for _, i := range *l {
		bytes += i.bytes()
	}
	for len(*l) > maxItems || bytes > maxTexts {
		// An item whose transcript is pending is kept, because its transcript will arrive later.
		old := slices.IndexFunc(*l, func(i *item) bool { return !i.waiting && i != it && (now == nil || i.id != now.id) })
		if old < 0 {
			break
		}
		bytes -= (*l)[old].bytes()
		*l = slices.Delete(*l, old, old+1)
	}
	return previous
}

// bytes estimates the memory that an item takes for its texts and for the record of its speech. The
// estimate is used only for the limit maxTexts.
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
	// The record of the speech is kept, because the client may still correct how much was played.
	if i.answer != nil {
		sum += len(i.answer.spoken.text) + segmentBytes*len(i.answer.spoken.segments)
	}
	return sum
}

// last returns the id of the newest item, or nil if there are no items.
func (l *items) last() *string {
	if len(*l) == 0 {
		return nil
	}
	return &(*l)[len(*l)-1].id
}

// added inserts an item and sends it to the client. The argument done is true if the item is
// complete; the end of an answer's item is sent later. The argument at is the index of the item.
func (c *Conversation) added(e *effects, at int, it *item, done bool) {
	previous := c.items.insert(at, it, c.now)
	c.emit(e, "conversation.item.added", itemEvent{previous, it.shown()})
	if done {
		c.emit(e, "conversation.item.done", itemEvent{previous, it.shown()})
	}
}

// partKinds maps the role of an item to the kinds of parts that an item with this role may have.
var partKinds = map[string][]string{
	"user":      {partInputText, partInputAudio},
	"system":    {partInputText},
	"assistant": {partOutputText, partOutputAudio},
}

// readItem parses an item that a client creates. It also returns the item's audio. Faults are added
// to o. After a fault, the item must not be used. The item has no id if the client gave none.
func readItem(o object) (*item, []byte) {
	it := &item{status: statusCompleted}
	kind := "message"
	if o.text("type", &kind, maxName) && kind != "message" {
		o.wrong("type", codeUnsupported, "must be message; the caller's own tools are not supported")
		return it, nil
	}
	o.text("id", &it.id, maxName)
	o.need("role", &it.role, maxName)
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

// readParts parses the parts of an item and stores them in it. It returns the samples of the audio
// part, or nil if there is none. It skips invalid parts, and adds a fault to o for each of them.
// Text over the limits is a fault for the whole item.
func readParts(o object, it *item, entries []json.RawMessage) (audio []byte) {
	for i, raw := range entries {
		entry, ok := newObject(o.at("content")+"["+strconv.Itoa(i)+"]", raw, o.faults)
		if !ok {
			continue
		}
		p := part{}
		entry.need("type", &p.kind, maxName)
		if p.kind == "" {
			continue
		}
		if !slices.Contains(partKinds[it.role], p.kind) {
			entry.wrong("type", codeUnsupported, "must be %s in an item with the role %s", strings.Join(partKinds[it.role], " or "), it.role)
			continue
		}
		// An item has only one span of samples, so it can have only one audio part.
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

// readText parses the text of a part and stores it in p. If the part is audio of the assistant, its
// transcript is the text. The text may be empty.
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

// readAudio decodes the audio of a part, which has the same format as in append events. It returns
// nil after a fault. The audio must have 100 ms to 120 s.
func readAudio(entry object) []byte {
	if !entry.has("audio") {
		entry.wrong("audio", codeMissing, "is required")
		return nil
	}
	var samples []byte
	switch err := json.Unmarshal(entry.members["audio"], &samples); {
	case kind(entry.members["audio"]) != '"' || err != nil:
		entry.wrong("audio", codeValue, "%v", errBase64)
	case len(samples)%sampleBytes != 0:
		entry.wrong("audio", codeValue, "%v", errOdd)
	case len(samples) < commitLeast*sampleBytes:
		entry.wrong("audio", codeValue, "must be at least 100 ms long")
	case len(samples) > maxBuffer*sampleBytes:
		entry.wrong("audio", codeTooLong, "must be at most %d seconds long", maxBuffer/contract.VoiceRate)
	default:
		return samples
	}
	return nil
}
