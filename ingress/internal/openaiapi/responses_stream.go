package openaiapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
)

// ResponseStream turns the events of a run into those of its response:
//
//	response.created, response.in_progress
//	  a tool:    output_item.added ─► its own events ─► output_item.done
//	  the text:  output_item.added, content_part.added ─► output_text.delta, output_text.annotation.added …
//	             ─► output_text.done, content_part.done, output_item.done      once the run has ended
//	response.completed | response.failed | error
//
// Items have the places in which they were told of, in the response at the end too. What was told cannot be taken back
// in this protocol: see [stream.Told].
type ResponseStream struct {
	runID    string
	echo     ResponseEcho
	response *Response // as it was created
	told     stream.Told
	begun    bool
	next     int // sequence number of the next event
	items    []toldItem
	message  int // place of the message among items; -1 before it has one
	cited    int // annotations that were told
	at       int // how many of them the present attempt has told, too
	out      []byte
	err      error
	ended    bool
}

type toldItem struct {
	item Item
	done bool
}

// NewResponseStream makes the encoder of a run's events, from the first on.
func NewResponseStream(runID string, echo ResponseEcho) *ResponseStream {
	return &ResponseStream{runID: runID, echo: echo, message: -1}
}

// Append writes what an event comes to in the protocol to b, and reports whether the stream ends with it.
func (s *ResponseStream) Append(b []byte, e domain.Event) (out []byte, ended bool, err error) {
	if s.ended {
		return b, true, nil
	}
	s.out = b
	if err := s.take(e); err != nil {
		return b, true, fmt.Errorf("encoding event %s: %w", e.ID, err)
	}
	out, s.out = s.out, nil
	return out, s.ended, s.err
}

// Cut writes to b that the stream can tell no more of a run that goes on.
func (s *ResponseStream) Cut(b []byte) (out []byte) {
	s.out = b
	s.fail(cutError(s.runID))
	out, s.out = s.out, nil
	return out
}

func (s *ResponseStream) take(e domain.Event) error {
	if s.response == nil {
		if e.Type != domain.EventRunCreated {
			return errors.New("the log does not begin with its run's creation")
		}
		return s.created(e.Data)
	}
	switch e.Type {
	case domain.EventRunStarted:
		s.begin()
	case domain.EventRunRestarted:
		s.told.Restarted()
		s.at = 0
	case domain.EventMessageDelta:
		return s.delta(e.Data)
	case domain.EventToolStarted, domain.EventToolCompleted:
		return s.tool(e.Data)
	case domain.EventCitationAdded:
		return s.citation(e.Data)
	case domain.EventRequiresAction:
		return s.requiresAction(e.Data)
	case domain.EventRunCompleted, domain.EventRunFailed, domain.EventRunCancelled, domain.EventRunTimedOut:
		return s.end(e.Data)
	}
	return nil
}

func (s *ResponseStream) created(data []byte) error {
	run := domain.Run{ID: s.runID}
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	s.response = newResponse(&run, s.echo)
	s.tell("response.created", responseEvent{s.response})
	return nil
}

// begin tells once that the run goes on: a run that is tried again has gone on all the time, to this reader.
func (s *ResponseStream) begin() {
	if !s.begun {
		s.begun = true
		s.tell("response.in_progress", responseEvent{s.response})
	}
}

func (s *ResponseStream) delta(data []byte) error {
	var said struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return err
	}
	fresh, ok := s.told.Delta(said.Text)
	if !ok {
		s.restarted()
		return nil
	}
	s.text(fresh)
	return nil
}

// text tells a piece of the answer.
func (s *ResponseStream) text(fresh string) {
	if fresh == "" {
		return
	}
	s.openMessage()
	s.tell("response.output_text.delta", deltaEvent{s.part(), fresh, []struct{}{}})
}

// openMessage tells that there is a message, the first time.
func (s *ResponseStream) openMessage() {
	if s.message >= 0 {
		return
	}
	s.message = len(s.items)
	s.add(messageItem{itemHead{messageID(s.runID), typeMessage, itemInProgress}, "assistant", []textPart{}})
	s.tell("response.content_part.added", partEvent{s.part(), newTextPart()})
}

func (s *ResponseStream) part() partPlace {
	return partPlace{ItemID: messageID(s.runID), OutputIndex: s.message}
}

func (s *ResponseStream) citation(data []byte) error {
	var added struct {
		Citation domain.Citation `json:"citation"`
	}
	if err := json.Unmarshal(data, &added); err != nil {
		return err
	}
	s.at++
	if s.at > s.cited {
		s.annotate(added.Citation)
	}
	return nil
}

func (s *ResponseStream) annotate(c domain.Citation) {
	s.openMessage()
	s.tell("response.output_text.annotation.added", annotationEvent{s.part(), s.cited, newAnnotation(c)})
	s.cited++
}

func (s *ResponseStream) requiresAction(data []byte) error {
	run := domain.Run{ID: s.runID}
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	if run.RequiredAction == nil {
		return errors.New("the run waits for nothing")
	}
	s.fail(requiresActionError(s.runID, run.RequiredAction))
	return nil
}

// end tells what of the ended run was not told, and then the whole.
func (s *ResponseStream) end(data []byte) error {
	var told struct {
		Run domain.Run `json:"run"`
	}
	if err := json.Unmarshal(data, &told); err != nil {
		return err
	}
	run := &told.Run
	if run.Status == domain.RunCompleted {
		fresh, ok := s.told.Rest(deref(run.Message))
		if !ok {
			s.restarted()
			return nil
		}
		s.complete(run, fresh)
	}
	s.ended = true
	last := NewResponse(run, s.echo)
	if last.Status == ResponseCompleted {
		last.Output = s.output()
		s.tell("response.completed", responseEvent{last})
		return nil
	}
	s.tell("response.failed", responseEvent{last})
	return nil
}

// complete tells the rest of a run that has its answer: calls of tools, text, annotations; and closes what is open.
func (s *ResponseStream) complete(run *domain.Run, fresh string) {
	s.begin()
	for _, call := range run.ToolCalls {
		s.call(call)
	}
	s.text(fresh)
	s.openMessage() // of an empty answer, too
	for s.cited < len(run.Citations) {
		s.annotate(run.Citations[s.cited])
	}
	answer := answerItem(run)
	s.tell("response.output_text.done", doneEvent{s.part(), answer.Content[0].Text, []struct{}{}})
	s.tell("response.content_part.done", partEvent{s.part(), answer.Content[0]})
	s.close(s.message, answer)
	for i, told := range s.items { // calls of an attempt that is void, which none after it has made
		if !told.done {
			s.close(i, abandoned(told.item))
		}
	}
}

// output gives the items in the places in which they were told of.
func (s *ResponseStream) output() []Item {
	out := make([]Item, len(s.items))
	for i, told := range s.items {
		out[i] = told.item
	}
	return out
}

// restarted ends the stream of a run that answers otherwise than this reader was told.
func (s *ResponseStream) restarted() {
	s.fail(restartedError(s.runID))
}

func (s *ResponseStream) fail(e Error) {
	s.ended = true
	s.tell("error", errorEvent{e.Code, e.Message, e.Param, e})
}

func (s *ResponseStream) add(item Item) {
	s.tell("response.output_item.added", itemEvent{len(s.items), item})
	s.items = append(s.items, toldItem{item: item})
}

func (s *ResponseStream) close(at int, item Item) {
	s.items[at] = toldItem{item: item, done: true}
	s.tell("response.output_item.done", itemEvent{at, item})
}

// tell writes an event: its type and number, and what it says.
func (s *ResponseStream) tell(kind string, says any) {
	body, err := json.Marshal(says)
	if err != nil {
		s.err, s.ended = err, true // a tool's output that is no JSON: not from our journal
		return
	}
	s.out = append(append(s.out, "event: "...), kind...)
	s.out = append(append(append(s.out, "\ndata: {\"type\":\""...), kind...), "\",\"sequence_number\":"...)
	s.out = strconv.AppendInt(s.out, int64(s.next), 10)
	s.out = append(append(append(s.out, ','), body[1:]...), "\n\n"...)
	s.next++
}
