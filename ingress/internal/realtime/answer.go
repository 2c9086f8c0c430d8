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

// Begun reports to the conversation that the run of a turn was accepted. The response begins now:
// the client gets response.created. If the response has already ended, the effects cancel the run.
// A response that the user interrupted meanwhile is cancelled at once.
func (c *Conversation) Begun(now time.Time, name, runID string) Effects {
	var e effects
	a := c.now

	// The response ended before its run was accepted, so the run is not needed.
	if a == nil || a.id != name || a.begun {
		e.End = append(e.End, Ended{Answer: name, RunID: runID, Cancel: true})
		return e
	}
	c.active = now
	a.begun, a.run, a.response, a.given = true, runID, openaiapi.ResponseID(runID), nil
	c.emit(&e, "response.created", responseEvent{c.shownResponse(a, status{name: statusInProgress})})
	// The user interrupted the answer before its run was accepted.
	if a.dropped != "" {
		c.interrupt(&e, now, a.dropped)
	}
	return e
}

// Refused reports to the conversation that the run of a turn was rejected. The client gets
// response.created and then response.done with the status failed. The items of the turn are not
// passed to another run.
func (c *Conversation) Refused(now time.Time, name string, refusal *apierr.Error) Effects {
	var e effects
	a := c.now
	if a == nil || a.id != name || a.begun {
		return e
	}
	c.active = now
	// No run has received these items, so the client may delete them again.
	for _, it := range a.given {
		it.refused = true
	}
	a.given = nil
	// A response without a run has no run id from which its id can be derived.
	a.response = c.newID("resp")
	c.emit(&e, "response.created", responseEvent{c.shownResponse(a, status{name: statusInProgress})})
	why := openaiapi.Refused(statusFor(refusal.Code), refusal)
	c.finish(&e, now, status{name: statusFailed, err: &why})
	return e
}

// open sends the start of an answer's message, and adds the message's item at the end of the
// conversation. It does nothing if the start was sent before.
func (c *Conversation) open(e *effects, a *answer) {
	if a.opened {
		return
	}
	a.opened = true
	it := a.message(status{name: statusInProgress})
	c.emit(e, "response.output_item.added", outputItemEvent{ResponseID: a.response, Item: it.shown()})
	c.added(e, len(c.items), it, false)
	c.emit(e, "response.content_part.added", partEvent{a.partRef(), a.part("")})
}

// Run handles an event of an answer's run. Events of an earlier answer, and events after the end of
// the text, are ignored. The caller must pass the events in their order. If an event cannot be
// parsed, the response fails and its run is cancelled.
func (c *Conversation) Run(now time.Time, name string, event domain.Event) Effects {
	var e effects
	a := c.now

	// The event belongs to an earlier answer, or the text of this answer is already complete.
	if a == nil || a.id != name || !a.begun || a.last {
		return e
	}
	c.active = now
	if err := takeRunEvent(c, &e, now, a, event); err != nil { // a run with a malformed log cannot be repaired here
		c.abandon(&e, now, openaiapi.Error{
			Type: openaiapi.TypeServer, Code: string(apierr.Internal), Message: "the run's events cannot be read",
		}, true)
	}
	return e
}

// takeRunEvent applies an event of the run to the run's answer. It ignores types without a
// counterpart in the protocol. It returns an error if the data of the event is malformed. The
// argument now is the time of the event. takeRunEvent may end the response.
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
		// A restarted run repeats its text. Only the text that the client does not have is sent.
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
		// A voice connection cannot wait for a person's decision, so the response ends here.
		a.waits = run.RequiredAction
		c.complete(e, now, a, "")
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		return runEnded(c, e, now, a, event.Data)
	}
	return nil
}

// runEnded applies the final state of the run to the answer. data contains the run object. A
// completed run completes the text; the response may end later, after the speech. Any other final
// state ends the response.
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

		// The last events of the text may be missing, but the run object contains the whole text.
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

// grow appends text to an answer and sends it. If the answer is spoken, the text goes to the
// worker, and the client gets its transcript with the audio. The message is begun if necessary.
func (c *Conversation) grow(e *effects, a *answer, fresh string) {
	if fresh == "" {
		return
	}
	c.open(e, a)
	start := len(a.spoken.text)
	a.spoken.text = append(a.spoken.text, fresh...)
	if a.text {
		c.emit(e, "response.output_text.delta", deltaEvent{a.partRef(), a.spoken.emit(len(a.spoken.text))})
		return
	}
	// Speech synthesis has failed, so the client gets the rest as text.
	if a.mute != nil {
		c.transcript(e, a, len(a.spoken.text))
		return
	}
	e.Commands = a.say(e.Commands, start, 0)
}

// maxSay is the maximum size of the text in a command, in bytes. It leaves room for escapes,
// because the size of a bus message is limited.
const maxSay = 32 << 10

// say appends the commands that make the worker speak the text of an answer from the byte offset
// start. If the text is complete, the last command is marked as final. skip is the number of
// samples of the first command that were received already; the worker leaves them out. The commands
// have at most maxSay bytes of text, plus the rest of a character.
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

// complete ends the text of an answer. A spoken answer ends later, when the worker has spoken its
// text. The argument fresh is the last part of the text, which no event has reported. A text answer
// ends at once. If synthesis has failed before, the response fails now.
func (c *Conversation) complete(e *effects, now time.Time, a *answer, fresh string) {
	a.last = true
	if fresh != "" || a.final != nil { // an answer without text has a message, too
		c.open(e, a)
	}
	start := len(a.spoken.text)
	a.spoken.text = append(a.spoken.text, fresh...)
	switch {
	// There is no text to speak.
	case a.text || len(a.spoken.text) == 0:
		if a.text && fresh != "" {
			c.emit(e, "response.output_text.delta", deltaEvent{a.partRef(), a.spoken.emit(len(a.spoken.text))})
		}
		c.said(e, now, a)
	case a.mute != nil:
		answerUnspoken(c, e, now, a.id, *a.mute)
	default:
		e.Commands = a.say(e.Commands, start, 0)
	}
}

// said ends a response whose text was sent and, unless it is a text answer, also spoken. If the run
// waits for a person, the response gets the status incomplete, and the client gets an error that
// names the run.
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

// transcript sends the part of an answer's transcript that was not sent before. The argument end is
// the byte offset at which the part ends. The method transcript sends nothing if all text up to end
// was sent.
func (c *Conversation) transcript(e *effects, a *answer, end int) {
	if fresh := a.spoken.emit(end); fresh != "" {
		c.emit(e, "response.output_audio_transcript.delta", deltaEvent{a.partRef(), fresh})
	}
}
