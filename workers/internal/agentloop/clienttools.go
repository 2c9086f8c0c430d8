package agentloop

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// ClientTools are the tools that the client of a run executes itself. In each turn, the calls of
// the agent's own tools are executed first, and then those of the client's tools. A ClientTools
// belongs to one attempt. A call has the same id in each attempt.
type ClientTools struct {
	Specs    []llm.ToolSpec
	Choice   string // constrains the first model call; see domain.ClientTools
	IDPrefix string // prefix of the ids of calls, which differs between runs because clients identify calls by their ids alone
	// Results returns the client's results of the calls, in the order of the calls. It returns
	// false if the client has not sent them yet. If Results is nil, the run ends with the calls.
	Results func(ctx context.Context, calls []domain.ClientCall) ([]domain.ClientResult, bool, error)
}

// missingNote is the result of a call if the client has sent results but none for this call.
var missingNote = json.RawMessage(`{"error":"There is no result of this call."}`)

// specs returns the specifications of the tools. The receiver may be nil.
func (c *ClientTools) specs() []llm.ToolSpec {
	if c == nil {
		return nil
	}
	return c.Specs
}

// makes reports whether the client must execute a call. It returns false if brokeOff is true,
// because the model may not have completed the call.
func (c *ClientTools) makes(call llm.ToolCall, brokeOff bool) bool {
	return call.Arguments != nil && !brokeOff && slices.ContainsFunc(c.specs(), func(s llm.ToolSpec) bool { return s.Name == call.Name })
}

// order moves the client's calls after the other calls and assigns their ids. It keeps the order
// within both groups. before is the number of the client's calls in earlier turns. The receiver may
// be nil.
func (c *ClientTools) order(t *TurnStep, before int) {
	if c == nil {
		return
	}
	theirs := func(call llm.ToolCall) bool { return c.makes(call, t.BrokeOff) }
	slices.SortStableFunc(t.ToolCalls, func(a, b llm.ToolCall) int {
		switch {
		case theirs(a) == theirs(b):
			return 0
		case theirs(b):
			return -1
		default:
			return 1
		}
	})
	for i, call := range t.ToolCalls {
		if theirs(call) {
			before++
			t.ToolCalls[i].ID = c.IDPrefix + strconv.Itoa(before)
		}
	}
}

// count returns the number of a turn's calls that the client executes. They are the last calls of
// the turn.
func (c *ClientTools) count(t *TurnStep) (n int) {
	for _, call := range t.ToolCalls {
		if c.makes(call, t.BrokeOff) {
			n++
		}
	}
	return n
}

// askClient records the client's results of the pending calls. If there are no results yet, it
// returns a *Parked, and the run waits without occupying a worker. Events of the calls are sent in
// either case.
func (r *run) askClient(ctx context.Context) error {
	calls := make([]domain.ClientCall, len(r.pending))
	for i, call := range r.pending {
		calls[i] = domain.ClientCall{ToolCallID: call.ID, Name: call.Name, Input: call.Arguments}
		r.send(Event{Type: EventToolStarted, Step: r.seq + 1 + i, Tool: clientCall(call, toolRunning)})
	}

	results, known, err := r.in.Client.Results(ctx, calls)
	switch {
	case ctx.Err() != nil:
		return stopped(ctx)
	case err != nil:
		return err
	case !known:
		return &Parked{Kind: domain.ActionClientTools, Calls: calls}
	}

	for i, call := range slices.Clone(r.pending) {
		record := clientCall(call, toolCompleted)
		record.Output = clientOutput(results[i].Output)
		if results[i].IsError {
			record.Status = toolFailed
		}
		if err := r.recordResult(ctx, ctx, callResult{record: *record}); err != nil {
			return err
		}
	}
	return nil
}

// clientCall returns a call of one of the client's tools in the form of the run object.
func clientCall(call llm.ToolCall, status string) *domain.ToolCall {
	return &domain.ToolCall{ID: call.ID, Name: call.Name, Status: status, Input: input(call), Client: true}
}

// clientOutput returns a client's result in a form that the database can store.
func clientOutput(raw json.RawMessage) json.RawMessage {
	output, err := llm.CleanJSON(raw)
	if err != nil {
		return quoted("error", unreadableNote)
	}
	return output
}

// returnCalls ends the run with pending calls that the client must execute. It records their turn
// in Output.Turn, so that a later run with the results can continue from it. The run itself is
// completed.
func (r *run) returnCalls() (Output, error) {
	for i, call := range r.pending {
		pending := clientCall(call, domain.CallPending)
		r.result += jsonSize(pending)
		r.out.ToolCalls = append(r.out.ToolCalls, *pending)
		r.send(Event{Type: EventToolStarted, Step: r.seq + 1 + i, Tool: pending})
	}
	if err := r.checkBytes(); err != nil {
		return r.out, err
	}
	return r.end(llm.StopToolCalls), nil
}

// RoundMessages returns the messages for a round of client tool calls in the history of a request.
// steps is the journal of the run that ended with these calls. With a journal, the messages also
// contain that run's other turns and the calls of the agent's own tools. Without a journal, or if
// the journal does not end with these calls, they contain only the client's calls and results.
func RoundMessages(round domain.CallRound, steps []Step) []llm.Message {
	if messages, ok := journalMessages(round, steps); ok {
		return messages
	}
	first := llm.Message{Role: llm.RoleAssistant, Text: llm.CleanText(round.Text)}
	messages := make([]llm.Message, 1, 1+len(round.Calls))
	for i, call := range round.Calls {
		first.ToolCalls = append(first.ToolCalls, llm.NewToolCall(call.ToolCallID, call.Name, string(call.Input)))
		messages = append(messages, resultMessage(call.ToolCallID, call.Name, &round.Results[i]))
	}
	messages[0] = first
	return messages
}

// resultMessage returns the message with the client's result of a call, or a note if result is nil.
func resultMessage(callID, name string, result *domain.ClientResult) llm.Message {
	out := &llm.ToolResult{CallID: callID, Name: name, Output: missingNote, Failed: true}
	if result != nil {
		out.Output, out.Failed = clientOutput(result.Output), result.IsError
	}
	return llm.Message{Role: llm.RoleTool, Result: out}
}

// journalMessages returns the messages of a run that ended with calls of its client. It returns
// false if the journal does not end with these calls.
func journalMessages(round domain.CallRound, steps []Step) (messages []llm.Message, ok bool) {
	results := make(map[string]*domain.ClientResult, len(round.Results))
	for i := range round.Results {
		results[round.Results[i].ToolCallID] = &round.Results[i]
	}

	var open []llm.ToolCall
	for _, s := range steps {
		switch {
		case s.Turn != nil && len(open) == 0:
			open = s.Turn.ToolCalls
			messages = append(messages, llm.Message{Role: llm.RoleAssistant, Text: s.Turn.Text, ToolCalls: open, Thinking: s.Turn.Thinking})
		case s.Tool != nil && len(open) > 0 && open[0].ID == s.Tool.Call.ID:
			messages = append(messages, toolMessage(s.Tool))
			open = open[1:]
		default:
			return nil, false
		}
	}
	for _, call := range open {
		ok = ok || results[call.ID] != nil
		messages = append(messages, resultMessage(call.ID, call.Name, results[call.ID]))
	}
	return messages, ok
}
