package run

import (
	"encoding/json"
	"fmt"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/stream"
	"parley/shared/domain"
)

// Widget visitors see a run's answer, its citations and its progress. The input and output of
// tools, the usage and the cause of a failure are for the organization only. Every response to a
// visitor about a run passes through this file, which removes that data. A new field of domain.Run
// that visitors must not see has to be removed here.

// visitorFailure replaces every error message, which may name a model, a tool or an account.
const visitorFailure = "The agent could not answer."

// emptyInput replaces the input of every tool call.
var emptyInput = json.RawMessage("{}")

// writeRun responds with a run object, restricted to the data that the caller may see. For callers
// other than visitors it sends body unchanged.
func writeRun(c *gin.Context, status int, body []byte) {
	if httpx.Caller(c).Visitor.ID != "" {
		var err error
		if body, err = runForVisitor(body); err != nil {
			httpx.Fail(c, err)
			return
		}
	}
	httpx.SendBody(c, status, body)
}

// frameFor returns a function that appends a run's events in the form of server-sent events that the caller may see.
func frameFor(who domain.Caller, runID string) func([]byte, domain.Event) []byte {
	if who.Visitor.ID == "" {
		return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, e) }
	}
	return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, eventForVisitor(e)) }
}

// runForVisitor removes the organization's data from a run object. It decodes and renders the
// object, so that fields unknown to this release are not sent.
func runForVisitor(body []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil {
		return nil, fmt.Errorf("reading run for a visitor: %w", err)
	}

	run.Usage, run.AgentVersion, run.Warnings = domain.Usage{}, nil, nil
	for i := range run.ToolCalls {
		hideCallData(&run.ToolCalls[i])
	}

	if run.RequiredAction != nil {
		run.RequiredAction.Input = emptyInput
	}
	if run.Error != nil {
		run.Error.Message, run.Error.Provider = visitorFailure, nil
	}
	return run.Render()
}

// hideCallData removes a tool call's input and output. Its name and its progress stay visible.
func hideCallData(call *domain.ToolCall) { call.Input, call.Output = emptyInput, nil }

// eventForVisitor returns the event with the data that a visitor may see, possibly none. The
// original is shared with other readers and is not modified.
func eventForVisitor(e domain.Event) domain.Event {
	data, err := dataForVisitor(e)
	if err != nil {
		data = []byte("{}") // unreachable: the service rendered the data itself
	}
	e.Data = data
	return e
}

// dataForVisitor returns the data of an event that a visitor may see. Unknown types have no such data.
func dataForVisitor(e domain.Event) ([]byte, error) {
	var visible struct {
		ToolCall       *domain.ToolCall       `json:"toolCall,omitempty"`
		RequiredAction *domain.RequiredAction `json:"requiredAction,omitempty"`
		Run            json.RawMessage        `json:"run,omitempty"`
	}
	switch e.Type {
	case domain.EventRunCreated, domain.EventRunStarted, domain.EventRunRestarted, domain.EventMessageDelta, domain.EventCitationAdded,
		domain.EventOutputDelta:
		return e.Data, nil
	case domain.EventToolStarted, domain.EventToolCompleted, domain.EventRequiresAction,
		domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
	default:
		return []byte("{}"), nil
	}

	// Decoding into a struct that has only the visible fields drops all others.
	err := json.Unmarshal(e.Data, &visible)
	if err == nil && visible.Run != nil {
		visible.Run, err = runForVisitor(visible.Run)
	}
	if err != nil {
		return nil, fmt.Errorf("reading event for a visitor: %w", err)
	}
	if visible.ToolCall != nil {
		hideCallData(visible.ToolCall)
	}
	if visible.RequiredAction != nil {
		visible.RequiredAction.Input = emptyInput
	}
	return json.Marshal(visible)
}
