package realtime

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
)

const (
	maxHistory = 200_000 // maximum number of characters in the exchanges kept before a message; only whole exchanges are kept
	unsaid     = "…"     // stands for the user's part in an exchange in which only the agent speaks, such as a greeting
)

// ask is a response that the client has requested.
type ask struct {
	eventID      *string // id of the client's event that requests the response; nil: none
	text         bool    // text only, without speech
	voice        string
	instructions *string // replace the session's instructions; nil: none
	metadata     map[string]string
}

// transcribing reports whether a transcript is pending.
func (c *Conversation) transcribing() bool { return c.input.wanted() || len(c.heldAudio) > 0 }

// next begins the response that is due, if any. A response waits for the response in progress, for
// pending transcripts and, after a detected turn, for speech in progress.
func (c *Conversation) next(e *effects, now time.Time) {
	if c.now != nil || c.transcribing() {
		return
	}
	switch {
	// A request of the client has priority over a detected turn.
	case c.asked != nil:
		asked := c.asked
		c.asked = nil
		c.begin(e, now, asked, true)
	case c.due && (c.input.speech == nil || !c.session.interrupts()):
		c.begin(e, now, &ask{text: c.session.text}, false)
	}
}

// begin submits a turn. If there is no turn to submit, it rejects the client's request.
func (c *Conversation) begin(e *effects, now time.Time, asked *ask, reported bool) {
	c.due = false

	instructions := c.session.instructions
	message, history, taken := c.items.unanswered()

	// Without a message from the user, the response's instructions, such as "greet the user",
	// become the message.
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

	// The items belong to this run now, and the next run does not get them again.
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

// unanswered returns the items since the last response: the user's message, and the exchanges that
// the client inserted before it.
func (l *items) unanswered() (message string, history []domain.Exchange, taken []*item) {
	var users []string
	for _, it := range *l {
		if it.taken || it.role == "system" {
			continue
		}
		taken = append(taken, it)
		said := it.said()
		switch {
		// An item without words adds nothing.
		case said == "":
		case it.role == "user":
			users = append(users, said)
		case len(users) == 0 && len(history) > 0: // the exchange continues
			last := &history[len(history)-1]
			last.Answer = joined(last.Answer, said)
		default:
			history = append(history, domain.Exchange{Message: cmp.Or(fitting(users), unsaid), Answer: said})
			users = nil
		}
	}
	return fitting(users), kept(history), taken
}

// fitting joins as many of the newest texts as fit into a message.
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

// kept returns as many of the newest exchanges as fit into a run's history.
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

// instructionsFit reports whether the instructions, all system items and one more text together are
// within the limit.
func (l *items) instructionsFit(instructions, more string) bool {
	return utf8.RuneCountInString(joined(instructions, joined(l.systemText(), more))) <= instructionsMax
}

// joined joins two texts with an empty line between them, unless one of them is empty.
func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "\n\n" + second
}
