package openaiapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"parley/ingress/internal/stream"
	"parley/shared/domain"
)

// ResponseStream encodes the events of a run as events of its response:
//
//	response.created, response.in_progress
//	  a tool:    output_item.added ─► its own events ─► output_item.done
//	  the text:  output_item.added, content_part.added ─► output_text.delta, output_text.annotation.added …
//	             ─► output_text.done, content_part.done, output_item.done      once the run has ended
//	response.completed | response.incomplete | response.failed, error | error
//
// Items keep the order in which they were sent, also in the final response. The protocol cannot
// retract text that was sent: see [stream.SentText]. A ResponseStream is used by one goroutine.
// Errors of write are kept in err, and Append returns them.
type ResponseStream struct {
	runID string
	// Fields of the request that the response repeats.
	echo     ResponseEcho
	response *Response // the response in its initial state
	// Text that was sent, to omit repeated text of a restarted run.
	sent stream.SentText
	// Whether response.in_progress was sent.
	begun bool
	next  int // sequence number of the next event
	// Items in the order in which they were sent.
	items   []sentItem
	message int // index of the message in items; -1 if it has not begun
	cited   int // number of annotations sent
	at      int // number of annotations that the current attempt has reported, including repeated ones
	// Buffer of the current call of Append or Cut.
	out []byte
	err error
	// Whether the last event was written; later events are ignored.
	ended bool
}

// sentItem is an item whose start was sent. The field done reports whether its end was sent, too.
type sentItem struct {
	item Item
	done bool
}

// NewResponseStream returns an encoder, which must receive all events of the run in order. The
// first event must be run.created.
func NewResponseStream(runID string, echo ResponseEcho) *ResponseStream {
	return &ResponseStream{runID: runID, echo: echo, message: -1}
}

// Append appends the encoding of an event to b. ended reports whether the stream ends with this
// event. After the end it appends nothing. After an error the stream is broken and must be closed.
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

// Cut appends an error to b. The error says that the stream ends although the run continues. The
// caller uses Cut when the ingress stops or the connection to the event log is lost.
func (s *ResponseStream) Cut(b []byte) (out []byte) {
	s.out = b
	s.fail(interruptedError(s.runID))
	out, s.out = s.out, nil
	return out
}

// take encodes an event. It ignores event types that have no counterpart in the protocol. The first
// event must be run.created, because all other events need the response.
func (s *ResponseStream) take(e domain.Event) error {
	if s.response == nil {
		if e.Type != domain.EventRunCreated {
			return errors.New("the event log does not begin with run.created")
		}
		return s.created(e.Data)
	}
	switch e.Type {
	case domain.EventRunStarted:
		s.begin()
	case domain.EventRunRestarted:
		s.sent.Restarted()
		// A new attempt repeats the citations of the previous one from the beginning.
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

// created writes response.created. The response contains the fields that do not depend on the
// result.
func (s *ResponseStream) created(data []byte) error {
	run := domain.Run{ID: s.runID}
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	s.response = newResponse(&run, s.echo)
	s.write("response.created", responseEvent{s.response})
	return nil
}

// begin writes response.in_progress when the run starts for the first time. It writes nothing when
// the run is retried.
func (s *ResponseStream) begin() {
	if !s.begun {
		s.begun = true
		s.write("response.in_progress", responseEvent{s.response})
	}
}

// delta writes the part of a text event that was not sent before. If a restarted run has produced a
// different text, the stream ends with an error.
func (s *ResponseStream) delta(data []byte) error {
	var said struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return err
	}
	fresh, ok := s.sent.Delta(said.Text)
	if !ok {
		s.endContradicted()
		return nil
	}
	s.text(fresh)
	return nil
}

// text writes a piece of the answer's text. It begins the message if necessary. An empty piece
// writes nothing.
func (s *ResponseStream) text(fresh string) {
	if fresh == "" {
		return
	}
	s.openMessage()
	s.write("response.output_text.delta", deltaEvent{s.part(), fresh, []struct{}{}})
}

// openMessage writes the start of the message, unless it was written before.
func (s *ResponseStream) openMessage() {
	if s.message >= 0 {
		return
	}
	s.message = len(s.items)
	s.add(messageItem{itemHead{messageID(s.runID), typeMessage, itemInProgress}, "assistant", []textPart{}})
	s.write("response.content_part.added", partEvent{s.part(), newTextPart()})
}

// part returns the fields with which events identify the text of the message.
func (s *ResponseStream) part() partRef {
	return partRef{ItemID: messageID(s.runID), OutputIndex: s.message}
}

// citation writes a citation, unless an earlier attempt has reported it. Attempts are compared by
// the number of citations: a repeated attempt reports the same citations in the same order.
func (s *ResponseStream) citation(data []byte) error {
	var added struct {
		Citation domain.Citation `json:"citation"`
	}
	if err := json.Unmarshal(data, &added); err != nil {
		return err
	}
	a, ok := newAnnotation(added.Citation)
	if !ok {
		return nil
	}
	s.at++
	if s.at > s.cited {
		s.annotate(a)
	}
	return nil
}

// annotate writes an annotation of the message.
func (s *ResponseStream) annotate(a annotation) {
	s.openMessage()
	s.write("response.output_text.annotation.added", annotationEvent{s.part(), s.cited, a})
	s.cited++
}

// requiresAction ends the stream with an error, because the protocol cannot represent a run that
// waits for a person. The run continues after the decision. The client reads the answer with
// another request.
func (s *ResponseStream) requiresAction(data []byte) error {
	run := domain.Run{ID: s.runID}
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	if run.RequiredAction == nil {
		return errors.New("the run has no required action")
	}
	s.fail(requiresActionError(s.runID, run.RequiredAction))
	return nil
}

// end writes the remaining events of a finished run, and then an event with the whole response. The
// final response of a completed run has the items in the order in which they were sent.
func (s *ResponseStream) end(data []byte) error {
	var sent struct {
		Run domain.Run `json:"run"`
	}
	if err := json.Unmarshal(data, &sent); err != nil {
		return err
	}
	run := &sent.Run
	if run.Status == domain.RunCompleted {
		fresh, ok := s.sent.Rest(deref(run.Message))
		if !ok {
			s.endContradicted()
			return nil
		}
		s.complete(run, fresh)
	}
	s.ended = true
	last := NewResponse(run, s.echo)
	switch last.Status {
	case ResponseCompleted:
		last.Output = s.output()
		s.write("response.completed", responseEvent{last})
	case ResponseIncomplete:
		last.Output = s.output()
		s.write("response.incomplete", responseEvent{last})
	default:
		s.write("response.failed", responseEvent{last})
		s.fail(Unanswered(run)) // written in addition, because some clients ignore response.failed
	}
	return nil
}

// complete writes the remaining events of a completed run, such as tool calls, text and
// annotations. It closes open items. The argument fresh is the part of the text that was not sent
// yet.
func (s *ResponseStream) complete(run *domain.Run, fresh string) {
	s.begin()
	for _, call := range run.ToolCalls {
		s.call(call)
	}
	if s.message >= 0 || !callOnly(run) {
		s.completeMessage(run, fresh)
	}
	for i, sent := range s.items { // calls that an attempt began and no later attempt has repeated
		if !sent.done {
			s.close(i, abandoned(sent.item))
		}
	}
}

// completeMessage writes the rest of the message and the events that end it. The order is text,
// appendix, annotations, end of the text, end of the item. Citations that were sent before are not
// repeated.
func (s *ResponseStream) completeMessage(run *domain.Run, fresh string) {
	shown := s.echo.View.answer(run)
	s.text(fresh)
	s.text(shown.appendix)
	s.openMessage() // a message is sent even if the answer is empty
	answer := answerItem(run, shown)
	for s.cited < len(answer.Content[0].Annotations) {
		s.annotate(answer.Content[0].Annotations[s.cited])
	}
	s.write("response.output_text.done", doneEvent{s.part(), answer.Content[0].Text, []struct{}{}})
	s.write("response.content_part.done", partEvent{s.part(), answer.Content[0]})
	s.close(s.message, answer)
}

// output returns the items in the order in which they were sent.
func (s *ResponseStream) output() []Item {
	out := make([]Item, len(s.items))
	for i, sent := range s.items {
		out[i] = sent.item
	}
	return out
}

// endContradicted ends the stream with an error, because the run's text differs from the text that
// was sent.
func (s *ResponseStream) endContradicted() {
	s.fail(restartedError(s.runID))
}

// fail writes an error and ends the stream.
func (s *ResponseStream) fail(e Error) {
	s.ended = true
	s.write("error", errorEvent{e.Code, e.Message, e.Param, e})
}

// add writes the start of an item. Its index is the number of items that were sent before.
func (s *ResponseStream) add(item Item) {
	s.write("response.output_item.added", itemEvent{len(s.items), item})
	s.items = append(s.items, sentItem{item: item})
}

// close writes the end of an item with its final content. The argument item replaces the item that
// was stored at the start.
func (s *ResponseStream) close(at int, item Item) {
	s.items[at] = sentItem{item: item, done: true}
	s.write("response.output_item.done", itemEvent{at, item})
}

// write writes an event with its type, its sequence number and the given content. It inserts the
// type and the number before the first member of the content, so the argument says must be an
// object with at least one member.
func (s *ResponseStream) write(kind string, says any) {
	body, err := json.Marshal(says)
	if err != nil {
		s.err, s.ended = err, true // happens only if a tool's output is not valid JSON, and stored outputs are always valid
		return
	}
	s.out = append(append(s.out, "event: "...), kind...)
	s.out = append(append(append(s.out, "\ndata: {\"type\":\""...), kind...), "\",\"sequence_number\":"...)
	s.out = strconv.AppendInt(s.out, int64(s.next), 10)
	s.out = append(append(append(s.out, ','), body[1:]...), "\n\n"...)
	s.next++
}
