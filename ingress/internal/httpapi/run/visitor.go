package run

import (
	"encoding/json"
	"fmt"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/stream"
	"parley/shared/domain"
)

// What the visitors of a widget are shown of runs: the answer, its citations, and how far it is. What tools were given and
// gave, what the run used and why it failed is the organization's. All that a visitor gets of a run goes through here, and
// nothing that is not named here gets through.

// failedForVisitors stands for the words of any failure, which may name a model, a tool or an account.
const failedForVisitors = "The agent could not answer."

// nothingGiven is the input of every tool's call.
var nothingGiven = json.RawMessage("{}")

// writeRun answers with a run object as the caller may see it; for all but visitors that is body as it is.
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

// frameFor gives what writes events of a run for the caller.
func frameFor(who domain.Caller, runID string) func([]byte, domain.Event) []byte {
	if who.Visitor.ID == "" {
		return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, e) }
	}
	return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, eventForVisitor(e)) }
}

// runForVisitor renders a run object anew, so that a field of later releases is none of the visitor's until it is here.
func runForVisitor(body []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil {
		return nil, fmt.Errorf("reading run for a visitor: %w", err)
	}
	run.Usage = domain.Usage{}
	for i := range run.ToolCalls {
		bareCall(&run.ToolCalls[i])
	}
	if run.RequiredAction != nil {
		run.RequiredAction.Input = nothingGiven
	}
	if run.Error != nil {
		run.Error.Message = failedForVisitors
	}
	return run.Render()
}

func bareCall(call *domain.ToolCall) { call.Input, call.Output = nothingGiven, nil }

// eventForVisitor is an event in its place with what a visitor may see of its data, which may be nothing. The data is
// shared with other readers and stays as it is.
func eventForVisitor(e domain.Event) domain.Event {
	data, err := dataForVisitor(e)
	if err != nil {
		data = []byte("{}") // not reached: what is told was rendered by the service
	}
	e.Data = data
	return e
}

func dataForVisitor(e domain.Event) ([]byte, error) {
	var told struct {
		ToolCall       *domain.ToolCall       `json:"toolCall,omitempty"`
		RequiredAction *domain.RequiredAction `json:"requiredAction,omitempty"`
		Run            json.RawMessage        `json:"run,omitempty"`
	}
	switch e.Type {
	case domain.EventRunCreated, domain.EventRunStarted, domain.EventRunRestarted, domain.EventMessageDelta, domain.EventCitationAdded:
		return e.Data, nil
	case domain.EventToolStarted, domain.EventToolCompleted, domain.EventRequiresAction,
		domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
	default:
		return []byte("{}"), nil
	}
	err := json.Unmarshal(e.Data, &told)
	if err == nil && told.Run != nil {
		told.Run, err = runForVisitor(told.Run)
	}
	if err != nil {
		return nil, fmt.Errorf("reading event for a visitor: %w", err)
	}
	if told.ToolCall != nil {
		bareCall(told.ToolCall)
	}
	if told.RequiredAction != nil {
		told.RequiredAction.Input = nothingGiven
	}
	return json.Marshal(told)
}
