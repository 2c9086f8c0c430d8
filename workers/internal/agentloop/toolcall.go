package agentloop

import (
	"context"
	"encoding/json"
	"errors"

	"parley/shared/domain"
	"parley/workers/internal/llm"
	"parley/workers/internal/tool"
)

// What the model is told when a call could not be carried out.
const (
	malformedNote  = "The arguments were not one JSON object. Write them again."
	unknownNote    = "There is no such tool."
	failedNote     = "The tool failed."
	unreadableNote = "The tool's output could not be read."
)

// maxSources bounds the sources of one call that are kept.
const maxSources = 100

// callTools carries out the calls still pending, one after the other, recording each.
func (r *run) callTools(ctx context.Context) error {
	for len(r.pending) > 0 {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		call := r.pending[0]
		started := domain.ToolCall{ID: call.ID, Name: call.Name, Status: toolRunning, Input: input(call)}
		r.send(Event{Type: EventToolStarted, Step: r.seq + 1, Tool: &started})

		step, err := r.callTool(ctx, call, started)
		if err != nil {
			return err
		}
		if err := r.record(ctx, Step{Kind: StepToolCall, Tool: step}); err != nil {
			return err
		}
		r.takeTool(step)
		r.send(Event{Type: EventToolCompleted, Step: r.seq, Tool: &step.Call})
		if err := r.checkBytes(); err != nil {
			return err
		}
	}
	return nil
}

// callTool makes one call; its error ends the attempt, a failure the model can be told is a step like any other.
func (r *run) callTool(ctx context.Context, call llm.ToolCall, record domain.ToolCall) (*ToolStep, error) {
	began := r.loop.now()
	result, err := r.carryOut(ctx, call)
	record.DurationMS = milliseconds(r.loop.now().Sub(began))
	if ctx.Err() != nil {
		return nil, stopped(ctx) // whatever came of it, another worker or nobody is to go on
	}
	if err != nil {
		if lost := toolUnavailable(call.Name, err); lost != nil {
			return nil, lost
		}
		return failedStep(record, note(err)), nil
	}
	output := result.Output
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	if record.Output, err = llm.CleanJSON(output); err == nil {
		record.Status = toolCompleted
		return &ToolStep{Call: record, Sources: r.number(result.Sources)}, nil
	}
	return failedStep(record, unreadableNote), nil
}

func (r *run) carryOut(ctx context.Context, call llm.ToolCall) (tool.Result, error) {
	if call.Arguments == nil {
		return tool.Result{}, &tool.Error{Message: malformedNote}
	}
	t, ok := r.in.Tools.Lookup(call.Name)
	if !ok {
		return tool.Result{}, &tool.Error{Message: unknownNote}
	}
	return t.Call(ctx, tool.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments})
}

// note gives what the model may be told of a tool's error.
func note(err error) string {
	var e *tool.Error
	if errors.As(err, &e) && e.Message != "" {
		return llm.CleanText(e.Message)
	}
	return failedNote
}

func failedStep(record domain.ToolCall, message string) *ToolStep {
	record.Status = toolFailed
	record.Output = quoted("error", message)
	return &ToolStep{Call: record}
}

// takeTool takes a finished call into the run's state.
func (r *run) takeTool(s *ToolStep) {
	result := &llm.ToolResult{
		CallID: s.Call.ID, Name: s.Call.Name, Output: s.Call.Output, Sources: s.Sources, Failed: s.Call.Status == toolFailed,
	}
	message := llm.Message{Role: llm.RoleTool, Result: result}
	r.messages = append(r.messages, message)
	r.bytes += int64(message.Size())
	r.pending = r.pending[1:]
	r.out.ToolCalls = append(r.out.ToolCalls, s.Call)
	for _, source := range s.Sources {
		if numberOf(source, r.sources) == 0 {
			r.sources = append(r.sources, source)
		}
	}
}

// input gives a call's arguments for the run object; malformed ones as the text that they were.
func input(call llm.ToolCall) json.RawMessage {
	if call.Arguments != nil {
		return call.Arguments
	}
	return quoted("malformed", call.Malformed)
}

func quoted(key, text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{key: text})
	if err != nil { // texts always marshal
		return json.RawMessage("{}")
	}
	return b
}
