package realtime

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
)

const (
	maxHistory = 200_000 // maximum number of characters in the exchanges that a run gets as history; only whole exchanges count
	unsaid     = "…"     // replaces the user's part in an exchange that has only an answer, such as a greeting
)

// ask is a response that the client has requested. At most one is waiting.
type ask struct {
	eventID *string // id of the client's event that requested the response; nil: none
	text    bool    // whether the response is text only, without speech
	// Voice of the response; empty: that of the session.
	voice        string
	instructions *string // replaces the session's instructions; nil: no replacement
	// Metadata for the response; nil: none.
	metadata map[string]string
}

// transcribing reports whether the transcript of an item is pending.
func (c *Conversation) transcribing() bool { return c.input.wanted() || len(c.heldAudio) > 0 }

// next begins the response that is due, if there is one. A response begins only after the response
// in progress has ended and all transcripts have arrived. If speech interrupts responses, a
// response to a detected turn also waits until speech in progress has ended. Callers may call it
// after every change, because it does nothing if no response is due.
func (c *Conversation) next(e *effects, now time.Time) {
	if c.now != nil || c.transcribing() {
		return
	}
	switch {
	// A response that the client has requested begins before the response to a detected turn.
	case c.asked != nil:
		asked := c.asked
		c.asked = nil
		c.begin(e, now, asked, true)
	case c.due && (c.input.speech == nil || !c.session.interrupts()):
		c.begin(e, now, &ask{text: c.session.text}, false)
	}
}

// begin submits a turn to the caller, which starts its run. If there is no turn to submit, begin
// rejects the client's request for a response. The argument reported is true if the client has
// requested the response and must therefore learn of a rejection. The response has no id yet: it
// gets one in Begun or Refused.
func (c *Conversation) begin(e *effects, now time.Time, asked *ask, reported bool) {
	c.due = false

	instructions := c.session.instructions
	message, history, taken := c.items.unanswered()

	// Without a message from the user, the instructions of the response, such as "greet the user",
	// are used as the message.
	switch {
	case asked.instructions == nil:
	case message == "":
		message = *asked.instructions
	default:
		instructions = *asked.instructions
	}

	if strings.TrimSpace(message) == "" {
		if reported {
			c.refuse(e, asked.eventID, codeNothing, "",
				"nothing to answer: the user has sent no text since the last response, and there are no instructions")
		}
		return
	}

	// The items are now the input of this run, so the next run does not get them.
	for _, it := range taken {
		it.taken = true
	}

	c.active = now

	c.now = &answer{id: c.newID("item"), text: asked.text, voice: asked.voice, metadata: asked.metadata, given: taken}
	e.Begin = append(e.Begin, Turn{
		Answer: c.now.id, Message: message, Instructions: joined(instructions, c.items.systemText()), History: history,
	})
	if asked.voice != "" {
		c.configure(e)
	}
}

// unanswered returns the items since the last response. They consist of the user's message and of
// the exchanges that the client inserted before it. Items without text are taken, too, so that they
// are not examined again. The limits of message and history drop the oldest parts.
func (l *items) unanswered() (message string, history []domain.Exchange, taken []*item) {
	var users []string
	for _, it := range *l {
		if it.taken || it.role == "system" {
			continue
		}
		taken = append(taken, it)
		said := it.said()
		switch {
		// An item without words is skipped.
		case said == "":
		case it.role == "user":
			users = append(users, said)
		case len(users) == 0 && len(history) > 0: // items of the agent that continue the last answer
			last := &history[len(history)-1]
			last.Answer = joined(last.Answer, said)
		default:
			history = append(history, domain.Exchange{Message: cmp.Or(fitting(users), unsaid), Answer: said})
			users = nil
		}
	}
	return fitting(users), kept(history), taken
}

// fitting joins the newest texts, as many as fit into the maximum length of a message. The texts
// are separated by empty lines, which count.
func fitting(texts []string) string {
	from, room := len(texts), maxMessage
	for from > 0 {
		room -= utf8.RuneCountInString(texts[from-1])
		if room < 0 {
			break
		}
		room -= 2
		from--
	}
	return strings.Join(texts[from:], "\n\n")
}

// kept returns the newest exchanges, as many as fit into a run's history. The limit is maxHistory
// characters.
func kept(history []domain.Exchange) []domain.Exchange {
	from, room := len(history), maxHistory
	for from > 0 {
		room -= utf8.RuneCountInString(history[from-1].Message) + utf8.RuneCountInString(history[from-1].Answer)
		if room < 0 {
			break
		}
		from--
	}
	return history[from:]
}

// systemText joins the texts of all system items.
func (l *items) systemText() string {
	var texts []string
	for _, it := range *l {
		if it.role == "system" {
			texts = append(texts, it.said())
		}
	}
	return strings.Join(texts, "\n\n")
}

// instructionsFit reports whether the instructions, the texts of all system items and a further
// text together are short enough. The limit is maxInstructions characters.
func (l *items) instructionsFit(instructions, more string) bool {
	return utf8.RuneCountInString(joined(instructions, joined(l.systemText(), more))) <= maxInstructions
}

// joined joins two texts with an empty line between them, unless one of them is empty.
func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "\n\n" + second
}
