package realtime

import (
	"encoding/json"
	"strings"
	"time"

	"parley/ingress/internal/openaiapi"
)

// createResponse handles a request for a response. The response begins when all transcripts have
// arrived. Only one response can be in progress or requested; for another request, the client gets
// the error codeActive. If there is nothing to answer, the client gets the error codeNothing.
func createResponse(c *Conversation, e *effects, now time.Time, r *request) {
	asked := &ask{eventID: r.id, text: c.session.text}
	if o, ok := r.object.object("response"); ok {
		readAsk(c, o, asked)
	}
	if c.faulty(e, r) {
		return
	}
	// The protocol allows only one response in progress.
	if c.now != nil || c.asked != nil {
		c.refuse(e, r.id, codeActive, "", "another response is in progress: wait for its response.done, or cancel it")
		return
	}
	c.asked = asked
	c.next(e, now)
}

// readAsk parses the settings in a request for a response. It rejects settings that would change
// the agent. Faults are added to o. Missing settings keep the values of the session. Settings of
// the response do not change the session.
func readAsk(c *Conversation, o object, asked *ask) {
	asked.text = modality(o, asked.text)
	refuseTools(o)
	refuseMoved(o, betaResponse)
	conversation := "auto"
	if o.text("conversation", &conversation, maxName) && conversation != "auto" {
		o.wrong("conversation", codeUnsupported, "must be auto: every response is part of the conversation")
	}
	if o.has("input") {
		o.wrong("input", codeUnsupported, "is not supported; each response answers the items of the conversation")
	}

	var instructions string
	if o.text("instructions", &instructions, maxInstructions) && strings.TrimSpace(instructions) != "" {
		asked.instructions = &instructions
		if !c.items.instructionsFit(instructions, "") {
			o.wrong("instructions", codeTooLong, "must have at most %d characters, including the text of system items", maxInstructions)
		}
	}
	if audio, ok := o.object("audio"); ok {
		if output, ok := audio.object("output"); ok {
			checkFormat(output)
			voice(output, &asked.voice)
		}
	}
	if o.has("metadata") {
		if json.Unmarshal(o.members["metadata"], &asked.metadata) != nil {
			o.wrong("metadata", codeType, "must be an object with string values")
		}
		openaiapi.CheckMetadata(asked.metadata, func(field, code, message string, args ...any) { o.wrong(field, code, message, args...) })
	}
}

// cancelResponse cancels the response in progress. If the event names no response, cancelResponse
// can also cancel a requested response that has not begun. The client then gets response.done with
// the status cancelled.
func cancelResponse(c *Conversation, e *effects, now time.Time, r *request) {
	var name string
	r.object.text("response_id", &name, maxName)
	if c.faulty(e, r) {
		return
	}
	switch {
	case c.now != nil && (name == "" || name == c.now.response):
		c.interrupt(e, now, reasonClient)
	// A response that has not begun has no id, so only an event without an id can refer to it.
	case c.now == nil && c.asked != nil && name == "":
		withdraw(c, e)
	default:
		c.refuse(e, r.id, codeNotActive, "", "no response with this id is in progress")
	}
}

// withdraw cancels a response that was requested and still waits for a transcript. No run exists
// yet. The client still gets response.created and response.done, because it waits for these events.
func withdraw(c *Conversation, e *effects) {
	a := &answer{response: c.newID("resp"), text: c.asked.text, voice: c.asked.voice, metadata: c.asked.metadata}
	c.asked = nil
	c.emit(e, "response.created", responseEvent{c.shownResponse(a, status{name: statusInProgress})})
	c.emit(e, "response.done", responseEvent{c.shownResponse(a, status{name: statusCancelled, reason: reasonClient})})
}
