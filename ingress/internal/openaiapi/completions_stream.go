package openaiapi

import (
	"encoding/json"
	"fmt"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
)

// CompletionStream encodes the events of a run as chunks of a completion:
//
//	role ─► content … ─► tool_calls … ─► finish_reason, annotations ─► usage, if requested ─► [DONE]
//
// A stream that fails ends with an error instead, without [DONE]. A CompletionStream is used by one
// goroutine. After an error of Append the stream is broken and must be closed.
type CompletionStream struct {
	runID string
	usage bool // whether the client requested the usage
	view  View
	// Fields of all chunks; created sets the time and the model.
	head chunkHead
	// Text that was sent, to omit repeated text of a restarted run.
	sent  stream.SentText
	calls map[string]bool // ids of the client's calls that were sent
	// Whether the last chunk or an error was written.
	ended bool
}

// NewCompletionStream returns an encoder, which must receive all events of the run in order. The
// first event must be run.created, because it contains the fields of all chunks.
func NewCompletionStream(runID string, wantsUsage bool, view View) *CompletionStream {
	head := chunkHead{ID: completionID(runID), Object: "chat.completion.chunk"}
	return &CompletionStream{runID: runID, usage: wantsUsage, view: view, head: head, calls: map[string]bool{}}
}

// chunkHead contains the fields that all chunks of a stream have.
type chunkHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// chunk is a part of a completion. Choices is empty in the chunk with the usage.
type chunk struct {
	chunkHead
	Choices []chunkChoice `json:"choices"`
	Parley  *RunNames     `json:"parley,omitempty"`
}

// chunkWithUsage is a chunk of a stream with usage. The usage is null in all chunks except the
// last.
type chunkWithUsage struct {
	chunk
	Usage *TokenCounts `json:"usage"`
}

// chunkChoice is the only choice in a chunk.
type chunkChoice struct {
	Index        int        `json:"index"`
	Delta        chunkDelta `json:"delta"`
	Logprobs     *struct{}  `json:"logprobs"`
	FinishReason *string    `json:"finish_reason"`
}

// chunkDelta is the part of the message that a chunk adds. Content is missing if the chunk adds no
// text.
type chunkDelta struct {
	Role        string       `json:"role,omitempty"`
	Content     *string      `json:"content,omitempty"`
	Annotations []Annotation `json:"annotations,omitempty"`

	ToolCalls []CompletionCall `json:"tool_calls,omitempty"`
}

// Append appends the encoding of an event to b. ended reports whether the stream ends with this
// event. After the end it appends nothing. An error means that the data of the event is invalid.
func (s *CompletionStream) Append(b []byte, e domain.Event) (out []byte, ended bool, err error) {
	if s.ended {
		return b, true, nil
	}
	if out, err = s.take(b, e); err != nil {
		return b, true, fmt.Errorf("encoding event %s: %w", e.ID, err)
	}
	return out, s.ended, nil
}

// Cut appends an error to b. The error says that the stream ends although the run continues. The
// caller uses Cut when the ingress stops or the connection to the event log is lost.
func (s *CompletionStream) Cut(b []byte) []byte { return s.fail(b, interruptedError(s.runID)) }

// take encodes an event. It ignores types of events that have no counterpart in the protocol. A run
// that requires an action ends the stream with an error, although the run continues after the
// decision.
func (s *CompletionStream) take(b []byte, e domain.Event) ([]byte, error) {
	switch e.Type {
	case domain.EventRunCreated:
		return s.created(b, e.Data)
	case domain.EventRunRestarted:
		s.sent.Restarted()
	case domain.EventMessageDelta:
		var d struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return b, err
		}
		fresh, ok := s.sent.Delta(d.Text)
		return s.text(b, fresh, ok)
	case domain.EventToolStarted:
		var said struct {
			ToolCall domain.ToolCall `json:"toolCall"`
		}
		if err := json.Unmarshal(e.Data, &said); err != nil {
			return b, err
		}
		return s.call(b, said.ToolCall)
	case domain.EventRequiresAction:
		run := domain.Run{ID: s.runID, Status: domain.RunRequiresAction}
		if err := json.Unmarshal(e.Data, &run); err != nil {
			return b, err
		}
		return s.fail(b, Unanswered(&run)), nil
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		var end struct {
			Run domain.Run `json:"run"`
		}
		if err := json.Unmarshal(e.Data, &end); err != nil {
			return b, err
		}
		return s.end(b, &end.Run)
	}
	return b, nil
}

// created writes the first chunk, which has the role and no text.
func (s *CompletionStream) created(b, data []byte) ([]byte, error) {
	var run domain.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return b, err
	}
	s.head.Created, s.head.Model = run.CreatedAt.Unix(), modelFor(&run)
	return s.choice(b, chunkChoice{Delta: chunkDelta{Role: RoleAssistant, Content: new("")}}, nil)
}

// text writes a piece of the answer. If ok is false, a restarted run has produced a different text,
// and the stream fails. An empty piece writes nothing.
func (s *CompletionStream) text(b []byte, fresh string, ok bool) ([]byte, error) {
	switch {
	case !ok:
		return s.fail(b, restartedError(s.runID)), nil
	case fresh == "":
		return b, nil
	}
	return s.choice(b, chunkChoice{Delta: chunkDelta{Content: &fresh}}, nil)
}

// call writes a call for the client, unless it was sent before. An attempt that continues a run
// after a failure repeats earlier calls. The index of a call is its position among the calls of the
// stream.
func (s *CompletionStream) call(b []byte, call domain.ToolCall) ([]byte, error) {
	if !call.Client || s.calls[call.ID] {
		return b, nil
	}
	at, sent := len(s.calls), newCompletionCall(call)
	s.calls[call.ID], sent.Index = true, &at
	return s.choice(b, chunkChoice{Delta: chunkDelta{ToolCalls: []CompletionCall{sent}}}, nil)
}

// end writes the remaining answer and the last chunks. If the run has no answer, it writes the
// reason as an error. The order is text, appendix, calls, finish reason, usage. The method end sets
// the field ended.
func (s *CompletionStream) end(b []byte, run *domain.Run) ([]byte, error) {
	if run.Status != domain.RunCompleted {
		return s.fail(b, Unanswered(run)), nil
	}
	// Pieces of the text may be missing from the stream, but the run contains the whole text.
	fresh, ok := s.sent.Rest(deref(run.Message))
	b, err := s.text(b, fresh, ok)
	if err != nil || !ok {
		return b, err
	}
	answer := s.view.answer(run)
	if b, err = s.text(b, answer.appendix, true); err != nil {
		return b, err
	}
	for _, call := range run.ClientCalls() {
		if b, err = s.call(b, call); err != nil {
			return b, err
		}
	}
	last := chunkChoice{FinishReason: new(finishReason(run)), Delta: chunkDelta{Annotations: s.view.annotations(run, answer)}}
	names := &RunNames{run.ID, run.SessionID}
	if b, err = s.choice(b, last, names); err != nil {
		return b, err
	}
	if s.usage {
		counts := tokenCounts(run.Usage)
		if b, err = appendData(b, chunkWithUsage{chunk{s.head, []chunkChoice{}, names}, &counts}); err != nil {
			return b, err
		}
	}
	s.ended = true
	return append(b, "data: [DONE]\n\n"...), nil
}

// choice writes a chunk. If the argument names is not nil, the chunk contains its ids.
func (s *CompletionStream) choice(b []byte, c chunkChoice, names *RunNames) ([]byte, error) {
	out := chunk{s.head, []chunkChoice{c}, names}
	if s.usage {
		return appendData(b, chunkWithUsage{out, nil})
	}
	return appendData(b, out)
}

// fail writes an error and ends the stream. The error has the form of an error response, which the
// client libraries raise as an exception.
func (s *CompletionStream) fail(b []byte, e Error) []byte {
	s.ended = true
	return appendEvent(b, e.Body())
}

// appendData appends a value as a server-sent event.
func appendData(b []byte, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return b, err
	}
	return appendEvent(b, data), nil
}

// appendEvent appends JSON as a server-sent event. JSON contains no line break, so one data line is
// enough.
func appendEvent(b, data []byte) []byte {
	b = append(b, "data: "...)
	b = append(b, data...)
	return append(b, "\n\n"...)
}
