package openaiapi

import (
	"cmp"
	"encoding/json"
	"slices"

	"parley/shared/domain"
)

// talk builds the exchanges of a conversation from its messages. Each message of the user that
// follows an answer begins a new exchange:
//
//	user … ─► (assistant with calls ─► tool …) … ─► assistant …
//
// A talk belongs to one request. The current exchange is in questions, rounds and answers; finish
// returns it.
type talk struct {
	// Records errors; the messages after an error are still read.
	wrong Wrong
	// Finished exchanges, the oldest first.
	done []domain.Exchange
	// User messages of the current exchange.
	questions []Said
	// Calls and results of the current exchange.
	rounds []domain.CallRound
	// Answers after the last round.
	answers []Said

	texts   []Said         // messages with the text of the last round
	field   string         // path of the first call in the last round, for errors
	open    map[string]int // calls of the last round that have no result yet, by id
	closed  int            // number of results in the last round
	results []Result       // results of calls that the request does not contain
}

// Result is the result of a call that the request does not contain. Field is the path of the call's
// id in the request. The caller looks for the call in an earlier response.
type Result struct {
	domain.ClientResult

	Field string
}

// add adds a message to the conversation. The message must not be empty. Answers before the first
// question are ignored, because a history must begin with a question.
func (t *talk) add(s Said) {
	switch {
	case s.Result != nil:
		t.result(s)
	case len(s.Calls) > 0:
		t.call(s)
	case s.Role == RoleUser:
		if t.endRound(); len(t.answers)+len(t.rounds) > 0 {
			t.endExchange()
		}
		t.questions = append(t.questions, s)
	case len(t.open) > 0: // text between calls and their results belongs to the round of the calls
		t.texts = append(t.texts, s)
	case len(t.questions) > 0: // an answer without a question is ignored
		t.endRound()
		t.answers = append(t.answers, s)
	}
}

// call adds calls. Calls without a result or text between them belong to the same round. Text
// before the calls, or between the calls and their results, belongs to the round. An id that is used
// twice within a round is an error.
func (t *talk) call(s Said) {
	if len(t.questions) == 0 {
		t.wrong(s.Field, codeInvalidValue, "must follow a user message")
		return
	}
	if t.closed > 0 || len(t.open) == 0 || len(t.answers) > 0 || s.Text != "" {
		t.endRound()
		t.rounds = append(t.rounds, domain.CallRound{})
		t.texts = slices.Concat(t.answers, []Said{s})
		t.answers, t.field, t.closed, t.open = nil, s.Field, 0, map[string]int{}
	}
	round := &t.rounds[len(t.rounds)-1]
	for _, c := range s.Calls {
		if _, twice := t.open[c.ToolCallID]; twice {
			t.wrong(s.Field, codeInvalidValue, "contains the id %s twice", c.ToolCallID)
			continue
		}
		t.open[c.ToolCallID] = len(round.Calls)
		round.Calls = append(round.Calls, c)
		round.Results = append(round.Results, domain.ClientResult{ToolCallID: c.ToolCallID})
	}
}

// result adds the result of a call. Only the results at the beginning of a response's input may
// belong to calls outside of the request.
func (t *talk) result(s Said) {
	at, known := t.open[s.Result.ToolCallID]
	switch {
	case known:
		t.rounds[len(t.rounds)-1].Results[at] = *s.Result
		t.closed++
		delete(t.open, s.Result.ToolCallID)
	case s.Outside && len(t.done)+len(t.questions) == 0:
		t.results = append(t.results, Result{*s.Result, s.Field})
	default:
		t.wrong(s.Field, codeInvalidValue, "no call with this id waits for a result here")
	}
}

// endRound stores the text of the last round, and records an error if a call of this round has no
// result. One error for each round is enough, so it names one of the missing results.
func (t *talk) endRound() {
	if len(t.texts) > 0 {
		t.rounds[len(t.rounds)-1].Text = oneText(t.texts)
		t.texts = nil
	}
	for id, at := range t.open {
		name := t.rounds[len(t.rounds)-1].Calls[at].Name
		t.wrong(t.field, codeInvalidValue, "the result of the call %s of the tool %q is missing", id, name)
		break
	}
	t.open = nil
}

// endExchange adds the current exchange to the history. A question without text is replaced by
// AttachedText.
func (t *talk) endExchange() {
	question := cmp.Or(oneText(t.questions), AttachedText)
	t.done = append(t.done, domain.Exchange{Message: question, Rounds: t.rounds, Answer: oneText(t.answers)})
	t.questions, t.rounds, t.answers = nil, nil, nil
}

// finish returns the message to answer and the history. It returns false if the last message is
// neither a message of the user nor the result of a call. The message is empty if it has only
// files, or AttachedText if the request also has results of earlier calls. If calls follow the
// message, their rounds are the last entry of the history. A conversation may consist only of
// results whose calls are in an earlier response.
func (t *talk) finish() (message string, history []domain.Exchange, ok bool) {
	t.endRound()
	if len(t.answers) > 0 || len(t.questions) == 0 {
		return "", nil, len(t.results) > 0 && len(t.done)+len(t.answers)+len(t.questions) == 0
	}
	if len(t.rounds) > 0 {
		t.done = append(t.done, domain.Exchange{Rounds: t.rounds})
	}
	if message = oneText(t.questions); len(t.results) > 0 {
		message = cmp.Or(message, AttachedText) // an empty message would look like a missing one
	}
	return message, t.done, true
}

// MessageCall is a tool call in a message of the assistant. Function is nil for calls of other
// types, which are rejected.
type MessageCall struct {
	ID       string        `json:"id" required:"true"`
	Type     *string       `json:"type"`
	Function *FunctionSent `json:"function"`
}

// FunctionSent is a function call in a message that a client sends back.
type FunctionSent struct {
	Name      string `json:"name" required:"true"`
	Arguments string `json:"arguments" required:"true"`
}

// readCalls converts the tool calls of a message. Calls of other types are omitted and reported to
// the function wrong.
func readCalls(calls []MessageCall, at string, wrong Wrong) (out []domain.ClientCall) {
	for i, call := range calls {
		if call.Function == nil {
			wrong(index(at, i)+".type", CodeUnsupported, "must be function: other calls are not supported")
			continue
		}
		out = append(out, newCall(call.ID, call.Function.Name, call.Function.Arguments, index(at, i)+".id", wrong))
	}
	return out
}

// maxCallID is the maximum length of a call's id, in bytes.
const maxCallID = 200

// newCall returns a call. The text in arguments should be JSON, but it comes from a model and may
// be invalid. Invalid JSON becomes a JSON string, because the model must see what it wrote. An
// empty text becomes an empty object.
func newCall(id, name, arguments, field string, wrong Wrong) domain.ClientCall {
	if id == "" || len(id) > maxCallID {
		wrong(field, codeInvalidValue, "must have 1 to %d bytes", maxCallID)
	}
	call := domain.ClientCall{ToolCallID: id, Name: name, Input: json.RawMessage(arguments)}
	if arguments == "" {
		call.Input = json.RawMessage("{}")
	} else if !json.Valid(call.Input) {
		call.Input = quote(arguments)
	}
	return call
}

// newResult returns the result of a call. The argument text may be JSON. Only objects and lists are
// taken as JSON: the text "1" stays a text. Invalid JSON becomes a JSON string.
func newResult(callID, text string) *domain.ClientResult {
	raw := json.RawMessage(text)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' || !json.Valid(raw) {
		raw = quote(text)
	}
	return &domain.ClientResult{ToolCallID: callID, Output: raw}
}

// quote returns a text as JSON.
func quote(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil { // marshaling a string never fails
		return json.RawMessage(`""`)
	}
	return raw
}
