package realtime

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"parley/ingress/internal/openaiapi"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
)

// Begun handles the acceptance of a turn's run.
func (c *Conversation) Begun(now time.Time, name, runID string) Effects {
	var e effects
	a := c.now

	// The response has ended meanwhile, so the run is not needed.
	if a == nil || a.id != name || a.begun {
		e.End = append(e.End, Ended{Answer: name, RunID: runID, Cancel: true})
		return e
	}
	c.active = now
	a.begun, a.run, a.response, a.given = true, runID, openaiapi.ResponseID(runID), nil
	c.emit(&e, "response.created", responseEvent{c.shownResponse(a, status{name: statusInProgress})})
	// The user has interrupted the answer before its run was accepted.
	if a.dropped != "" {
		c.interrupt(&e, now, a.dropped)
	}
	return e
}

// Refused handles the rejection of a turn's run.
func (c *Conversation) Refused(now time.Time, name string, refusal *apierr.Error) Effects {
	var e effects
	a := c.now
	if a == nil || a.id != name || a.begun {
		return e
	}
	c.active = now
	// Items that no run received can be deleted again.
	for _, it := range a.given {
		it.refused = true
	}
	a.given = nil
	// Without a run the response needs a generated id.
	a.response = c.newID("resp")
	c.emit(&e, "response.created", responseEvent{c.shownResponse(a, status{name: statusInProgress})})
	why := openaiapi.Refused(statusFor(refusal.Code), refusal)
	c.finish(&e, now, status{name: statusFailed, err: &why})
	return e
}

// open sends the start of an answer's message, once.
func (c *Conversation) open(e *effects, a *answer) {
	if a.opened {
		return
	}
	a.opened = true
	it := a.message(status{name: statusInProgress})
	c.emit(e, "response.output_item.added", outputItemEvent{ResponseID: a.response, Item: it.shown()})
	c.added(e, len(c.items), it, false)
	c.emit(e, "response.content_part.added", partEvent{a.place(), a.part("")})
}

// Run handles an event of an answer's run.
func (c *Conversation) Run(now time.Time, name string, event domain.Event) Effects {
	var e effects
	a := c.now

	// The event belongs to an earlier answer, or its text is already complete.
	if a == nil || a.id != name || !a.begun || a.last {
		return e
	}
	c.active = now
	if err := takeRunEvent(c, &e, now, a, event); err != nil { // a damaged log cannot be repaired here
		c.abandon(&e, now, openaiapi.Error{
			Type: openaiapi.TypeServer, Code: string(apierr.Internal), Message: "the run's events cannot be read",
		}, true)
	}
	return e
}

// takeRunEvent applies an event of the run to its answer. It ignores types without a counterpart in
// the protocol. An error means that the event's data is not valid.
func takeRunEvent(c *Conversation, e *effects, now time.Time, a *answer, event domain.Event) error {
	switch event.Type {
	case domain.EventRunRestarted:
		a.attempts.Restarted()
	case domain.EventMessageDelta:
		var said struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(event.Data, &said); err != nil {
			return err
		}
		// A restarted run repeats its text. Only the text that the client lacks is sent.
		fresh, ok := a.attempts.Delta(said.Text)
		if !ok {
			runRestarted(c, e, now, a)
			return nil
		}
		c.grow(e, a, fresh)
	case domain.EventRequiresAction:
		run := domain.Run{}
		if err := json.Unmarshal(event.Data, &run); err != nil {
			return err
		}
		// The connection cannot wait for a person, so the response ends here.
		a.waits = run.RequiredAction
		c.complete(e, now, a, "")
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		return runEnded(c, e, now, a, event.Data)
	}
	return nil
}

// runEnded applies the run's final state. data contains the run object.
func runEnded(c *Conversation, e *effects, now time.Time, a *answer, data []byte) error {
	var reported struct {
		Run domain.Run `json:"run"`
	}
	if err := json.Unmarshal(data, &reported); err != nil {
		return err
	}
	a.final = &reported.Run
	if a.final.ID == "" {
		a.final.ID = a.run
	}
	switch a.final.Status {
	case domain.RunCompleted:
		full := ""
		if a.final.Message != nil {
			full = *a.final.Message
		}

		// The events may lack the end of the text, but the run object contains all of it.
		fresh, ok := a.attempts.Rest(full)
		if !ok {
			runRestarted(c, e, now, a)
			return nil
		}
		c.complete(e, now, a, fresh)
	case domain.RunCancelled:
		c.interrupt(e, now, reasonClient)
	default:
		c.abandon(e, now, openaiapi.Unanswered(a.final), false)
	}
	return nil
}

// grow appends text to an answer.
func (c *Conversation) grow(e *effects, a *answer, fresh string) {
	if fresh == "" {
		return
	}
	c.open(e, a)
	start := len(a.spoken.text)
	a.spoken.text = append(a.spoken.text, fresh...)
	if a.text {
		c.emit(e, "response.output_text.delta", deltaEvent{a.place(), a.spoken.emit(len(a.spoken.text))})
		return
	}
	// Speech has failed, so the client gets the rest as text.
	if a.mute != nil {
		c.transcript(e, a, len(a.spoken.text))
		return
	}
	e.Commands = a.say(e.Commands, start, 0)
}

// maxSay is the maximum number of bytes of text in a command. A bus message has a maximum size, and
// escapes enlarge the text.
const maxSay = 32 << 10

// say appends the commands that make the worker speak the text that begins at byte start. The last
// command is final if the text is complete.
func (a *answer) say(commands []contract.VoiceCommand, start int, skip int64) []contract.VoiceCommand {
	for {
		end := min(len(a.spoken.text), start+maxSay)
		// A command must not end within a character.
		for end < len(a.spoken.text) && !utf8.RuneStart(a.spoken.text[end]) {
			end++
		}
		whole := end == len(a.spoken.text)
		commands = append(commands, contract.VoiceCommand{
			Type: contract.VoiceSay, Answer: a.id, Text: string(a.spoken.text[start:end]), Start: start, Last: whole && a.last, Skip: skip,
		})
		if whole {
			return commands
		}
		start, skip = end, 0
	}
}

// complete ends an answer's text. A spoken answer ends once the worker has spoken its text.
func (c *Conversation) complete(e *effects, now time.Time, a *answer, fresh string) {
	a.last = true
	if fresh != "" || a.final != nil { // for an empty answer, too
		c.open(e, a)
	}
	start := len(a.spoken.text)
	a.spoken.text = append(a.spoken.text, fresh...)
	switch {
	// Nothing has to be spoken.
	case a.text || len(a.spoken.text) == 0:
		if a.text && fresh != "" {
			c.emit(e, "response.output_text.delta", deltaEvent{a.place(), a.spoken.emit(len(a.spoken.text))})
		}
		c.said(e, now, a)
	case a.mute != nil:
		answerUnspoken(c, e, now, a.id, *a.mute)
	default:
		e.Commands = a.say(e.Commands, start, 0)
	}
}

// said ends a response after its text was sent and spoken as far as possible.
func (c *Conversation) said(e *effects, now time.Time, a *answer) {
	if !a.text {
		c.transcript(e, a, len(a.spoken.text))
	}
	a.whole = true
	if a.waits != nil {
		why := openaiapi.WaitsForPerson(a.run, a.waits)
		c.finish(e, now, status{name: statusIncomplete, reason: string(domain.RunRequiresAction), err: &why})
		return
	}
	c.finish(e, now, status{name: statusCompleted})
}

// transcript sends the transcript of an answer up to the byte end that was not sent yet.
func (c *Conversation) transcript(e *effects, a *answer, end int) {
	if fresh := a.spoken.emit(end); fresh != "" {
		c.emit(e, "response.output_audio_transcript.delta", deltaEvent{a.place(), fresh})
	}
}
