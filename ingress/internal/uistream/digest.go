package uistream

import (
	"encoding/json"
	"fmt"
	"strconv"

	"parley/shared/domain"
)

// These types are the pieces of a stream. All protocols have the same pieces. The field n is the
// number of a text part; the first part has number 1.
type (
	// First piece; threadID and theirRunID are the client's names.
	runStarted struct{ runID, sessionID, threadID, theirRunID string }
	// Beginning of a text part.
	textBegun struct{ n int }
	// Text that is appended to the part.
	textAdded struct {
		n    int
		text string
	}
	// End of a text part.
	textEnded struct{ n int }
	// Tool call with its input.
	toolBegun struct {
		id   string
		call domain.ToolCall
	}
	// Tool call with its result.
	toolEnded struct {
		id   string
		call domain.ToolCall
	}
	// Citation in the answer.
	cited struct {
		citation domain.Citation
		first    bool // whether this is the first citation of the source
	}
	// Structured answer.
	outputAdded struct {
		runID string
		data  json.RawMessage
	}
	// Wait for a person's decision.
	awaited struct{ action domain.RequiredAction }
	// End of a run that did not fail.
	ended struct {
		run                  domain.Run
		threadID, theirRunID string
	}
	// End with an error, of the run or of the stream.
	failed struct{ code, message string }
)

// sentCall is a tool call that was sent to the client. It is kept for the whole stream, because a
// later attempt may repeat the call.
type sentCall struct {
	// Id in the stream.
	id    string
	asked string // name and input of the tool
	// Whether the result was sent.
	ended bool
}

// eventData contains the fields that the data of any event may have. Each type of event sets some
// of them.
type eventData struct {
	SessionID      string                 `json:"sessionId"`
	Text           string                 `json:"text"`
	ToolCall       *domain.ToolCall       `json:"toolCall"`
	Citation       *domain.Citation       `json:"citation"`
	RequiredAction *domain.RequiredAction `json:"requiredAction"`
	Run            *domain.Run            `json:"run"`
	Data           json.RawMessage        `json:"data"`
}

// digest converts an event to the pieces of the stream that were not sent before. It returns an
// error if the data of the event is invalid. digest also returns the pieces of events that the
// client has received before it reconnected; Append drops these pieces.
func (e *Encoder) digest(event domain.Event) ([]any, error) {
	e.reached = e.reached || event.ID == e.reader.Last
	var t eventData
	if err := json.Unmarshal(event.Data, &t); err != nil {
		return nil, fmt.Errorf("reading event %s: %w", event.ID, err)
	}

	// The log lacks text that the client has received, so later text cannot be compared with that
	// text.
	if e.lost && event.ID.After(e.reader.Last) {
		return e.endContradicted(), nil
	}
	return e.encode(event, t), nil
}

// encode returns the pieces of the stream that represent an event. It also keeps track of what was
// sent. An unknown event has no pieces.
func (e *Encoder) encode(event domain.Event, t eventData) []any {
	switch event.Type {
	case domain.EventRunCreated:
		return e.begin(t.SessionID)
	case domain.EventRunRestarted:
		return e.restart(event.ID)
	case domain.EventMessageDelta:
		fresh, ok := e.eventData.Delta(t.Text)
		return e.text(nil, fresh, ok)
	case domain.EventToolStarted, domain.EventToolCompleted:
		return e.tool(t.ToolCall, event.Type == domain.EventToolCompleted)
	case domain.EventCitationAdded:
		return e.cite(t.Citation)
	case domain.EventOutputDelta:
		return e.output(t.Data)
	case domain.EventRequiresAction:
		if t.RequiredAction != nil {
			return append(e.endText(nil), awaited{*t.RequiredAction})
		}
	case domain.EventRunCompleted, domain.EventRunCancelled, domain.EventRunFailed, domain.EventRunTimedOut:
		return e.end(t.Run)
	}
	return nil // clients do not see the event, or a later release has added its type
}

// begin returns the first piece of a stream. It contains the names that the client has given to the
// session and the run, or else their ids. It also completes the names in e.reader.
func (e *Encoder) begin(sessionID string) []any {
	if e.reader.ThreadID == "" {
		e.reader.ThreadID = sessionID
	}
	if e.reader.RunID == "" {
		e.reader.RunID = e.runID
	}
	return []any{runStarted{runID: e.runID, sessionID: sessionID, threadID: e.reader.ThreadID, theirRunID: e.reader.RunID}}
}

// restart handles the start of another attempt. The log does not contain events of earlier
// attempts. If the client has received such events, the encoder cannot determine which events are
// new to the client. restart returns pieces only if the stream ends.
func (e *Encoder) restart(at domain.EventID) []any {
	if e.reader.Last.After(domain.StartedID) && (!at.After(e.reader.Last) || !e.reached) {
		e.lost = true
		if at.After(e.reader.Last) {
			return e.endContradicted()
		}
	}
	e.eventData.Restarted()
	return nil
}

// text appends the new part of the answer's text to pieces. fresh is that part, and ok is false if
// the text contradicts the part that was sent.
func (e *Encoder) text(pieces []any, fresh string, ok bool) []any {
	if !ok {
		return append(pieces, e.endContradicted()...)
	}
	if fresh == "" {
		return pieces
	}

	if !e.open {
		e.open = true
		e.texts++
		pieces = append(pieces, textBegun{e.texts})
	}

	return append(pieces, textAdded{e.texts, fresh})
}

// endText appends the end of the open text part, if there is one. A tool call or an answer's end
// closes the text part.
func (e *Encoder) endText(pieces []any) []any {
	if e.open {
		e.open = false
		pieces = append(pieces, textEnded{e.texts})
	}
	return pieces
}

// tool returns the pieces of a tool call: first its input and then its result. If another attempt
// repeats the call, tool does not return them again. A call with the same id but a different input
// counts as a new call. The argument over is true if the call has a result. The pieces of a call
// follow the end of the text before it.
func (e *Encoder) tool(call *domain.ToolCall, over bool) []any {
	if call == nil {
		return nil
	}

	var pieces []any
	asked := call.Name + " " + string(call.Input)
	known := e.calls[call.ID]
	if known == nil || known.asked != asked {
		e.called++
		name := call.ID

		// A new call needs an id that the client does not know yet.
		if known != nil {
			name += "_" + strconv.Itoa(e.called)
		}
		known = &sentCall{id: name, asked: asked}
		e.calls[call.ID] = known
		pieces = append(e.endText(pieces), toolBegun{known.id, *call})
	}

	if over && !known.ended {
		known.ended = true
		pieces = append(pieces, toolEnded{known.id, *call})
	}
	return pieces
}

// cite returns a citation, unless an earlier attempt has already sent it. Citations are compared as
// JSON. The field first is true for the first citation of a source.
func (e *Encoder) cite(citation *domain.Citation) []any {
	if citation == nil {
		return nil
	}
	name, err := json.Marshal(citation)
	if err != nil || e.cited[string(name)] {
		return nil
	}
	first := !e.sources[citation.ID]
	e.cited[string(name)], e.sources[citation.ID] = true, true
	return []any{cited{*citation, first}}
}

// output returns the validated structured answer, unless an earlier attempt has already sent it.
// The open text part is ended first.
func (e *Encoder) output(data json.RawMessage) []any {
	if e.answered || data == nil {
		return nil
	}
	e.answered = true
	return append(e.endText(nil), outputAdded{e.runID, data})
}

// end returns the last pieces of a stream: the rest of the answer, and the outcome of the run. It
// is called once. The text of the answer is compared with the text that was sent.
func (e *Encoder) end(run *domain.Run) []any {
	if run == nil {
		return nil // every outcome has a JSON form, so this is unreachable
	}

	// Events may lack the end of the text, so take the rest from the run.
	var pieces []any
	if run.Status == domain.RunCompleted && run.Message != nil {
		fresh, ok := e.eventData.Rest(*run.Message)
		if pieces = e.text(pieces, fresh, ok); !ok {
			return pieces
		}
	}

	pieces = e.endText(pieces)
	e.done = true
	switch {
	case run.Status == domain.RunCompleted || run.Status == domain.RunCancelled:
		return append(pieces, ended{*run, e.reader.ThreadID, e.reader.RunID})
	case run.Error != nil:
		return append(pieces, failed{run.Error.Code, run.Error.Message})
	default:
		return append(pieces, failed{string(run.Status), "The run ended without an answer."})
	}
}

// endContradicted ends a stream with an error, because the client has received text that is no
// longer valid. The message names the run, so that the client can read the answer in another way.
func (e *Encoder) endContradicted() []any {
	return e.breakOff("stream_restarted", "The run was restarted and continues, but its new answer differs from this stream. "+
		"Read the answer with GET /api/runs?id="+e.runID+", or with the same request and Idempotency-Key.")
}

// breakOff ends the stream with an error while the run continues. The open text part is ended
// first, as the protocols require.
func (e *Encoder) breakOff(code, message string) []any {
	e.done = true
	return append(e.endText(nil), failed{code, message})
}
