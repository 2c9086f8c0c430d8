package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// This file determines which data of a run a caller sees.
//
// Widget visitors may see a run's answer, its citations and its progress. The input and output of
// tools, the usage and the cause of a failure belong to the organization. The functions in this
// file remove them from responses to visitors. They must also remove each new field of domain.Run
// that is not for visitors.
//
// If a model provider rejects a call, only admins may see the provider's response. It is not part
// of the stored run, because members and the receivers of events and notifications can see the
// stored run. Responses to admins contain it in addition.

// visitorFailure replaces the message of every error in responses to visitors, because messages may
// name a model, a tool or an account.
const visitorFailure = "The agent could not answer."

// emptyInput replaces the input of every tool call.
var emptyInput = json.RawMessage("{}")

// sendRun responds with a run object that contains the data that the caller may see. body is the
// rendered run. sendRun does not change body, because other requests may share it.
func (h *Handler) sendRun(c *gin.Context, status int, body []byte) error {
	who := httpx.Caller(c)
	switch {
	case who.Visitor.ID != "":
		var err error
		if body, err = runForVisitor(body); err != nil {
			return err
		}

	// Decode only failed runs, because decoding a large run is expensive and most runs have not
	// failed.
	case seesProviders(who) && bytes.Contains(body[:min(len(body), 100)], failedStatus):
		explained, err := explainFailure(c.Request.Context(), h.RunsDB, who.OrganizationID, body)
		if err != nil {
			// The response without the provider's answer is still useful.
			h.Log.Warn().Err(err).Msg("cannot read why a provider refused; answering without it")
			break
		}
		body = explained
	}
	return httpx.WriteBody(c, status, body)
}

// seesProviders reports whether the caller may see the responses of model providers. Responses of
// providers may contain data about the operator's account.
func seesProviders(who domain.Caller) bool {
	return who.Visitor.ID == "" && who.Role.AtLeast(domain.RoleAdmin)
}

// failedStatus is the text that follows the id at the beginning of the JSON of a failed run. The
// beginning of a rendered run is fixed, so a search for this text suffices.
var failedStatus = []byte(`","status":"failed",`)

// explainFailure adds the model provider's response, if one is stored, to the error of a failed
// run. It returns body unchanged if no response is stored.
func explainFailure(ctx context.Context, runs *rundb.Store, org string, body []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil || run.Error == nil {
		return body, err
	}

	refusal, err := runs.Refusal(ctx, org, run.ID, run.Error.Code)
	if err != nil || refusal == nil {
		return body, err
	}

	run.Error.Provider = refusal
	return run.Render()
}

// frameFor returns a function that appends a run's events as server-sent events, restricted to the
// data that the caller may see. The function that is returned never changes the event.
func frameFor(who domain.Caller, runID string) func([]byte, domain.Event) []byte {
	if who.Visitor.ID == "" {
		return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, e) }
	}
	return func(b []byte, e domain.Event) []byte { return stream.AppendFrame(b, runID, eventForVisitor(e)) }
}

// runForVisitor removes the organization's data from a run object. It decodes and renders the
// object, which also removes fields that this release does not know. The result has no usage,
// version, warnings and settings, and no data of tool calls. An error has the message
// visitorFailure.
func runForVisitor(body []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(body, &run); err != nil {
		return nil, fmt.Errorf("reading run for a visitor: %w", err)
	}

	run.Usage, run.AgentVersion, run.Warnings, run.Settings = domain.Usage{}, nil, nil, nil
	for i := range run.ToolCalls {
		hideCallData(&run.ToolCalls[i])
	}

	if run.RequiredAction != nil {
		hideActionData(run.RequiredAction)
	}
	if run.Error != nil {
		run.Error.Message, run.Error.Provider = visitorFailure, nil
	}
	return run.Render()
}

// hideCallData removes the input and output from the argument call. The name and progress of the
// call stay visible.
func hideCallData(call *domain.ToolCall) { call.Input, call.Output = emptyInput, nil }

// hideActionData removes the input of the tool calls for which a run waits from the argument
// action.
func hideActionData(action *domain.RequiredAction) {
	action.Input = emptyInput
	for i := range action.Calls {
		action.Calls[i].Input = emptyInput
	}
}

// eventForVisitor returns a copy of an event that contains only the data that a visitor may see. It
// does not modify the event itself, which other readers share. If the data cannot be decoded, the
// copy has empty data.
func eventForVisitor(e domain.Event) domain.Event {
	data, err := dataForVisitor(e)
	if err != nil {
		data = []byte("{}") // unreachable: the service rendered the data itself
	}
	e.Data = data
	return e
}

// dataForVisitor returns the part of an event's data that a visitor may see. For an event of an
// unknown type, it returns an empty object. New types of events must be added here before visitors
// see them.
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

	// Decoding drops all fields that the struct does not have.
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
		hideActionData(visible.RequiredAction)
	}
	return json.Marshal(visible)
}
