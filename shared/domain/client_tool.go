package domain

import (
	"encoding/json"
	"strings"
)

// MaxClientTools is the maximum number of tools of one request.
const MaxClientTools = 128

// ClientTools are the tools that the client of a run executes itself.
type ClientTools struct {
	Tools []ClientTool `json:"tools"`
	// Choice constrains the first model call: auto, none, required, or the name of a tool.
	Choice string `json:"choice,omitempty"`
	// Return means that the run ends with its calls of the client's tools. Otherwise the run waits
	// for the results of these calls.
	Return bool `json:"return,omitempty"`
}

// Values of ClientTools.Choice. Any other value is the name of a tool.
const (
	ChoiceAuto     = "auto"
	ChoiceNone     = "none"
	ChoiceRequired = "required"
)

// AnswerTool is the name of an internal tool. With some model providers, the model calls this tool
// to return an answer that must match a schema. No other tool may have this name.
const AnswerTool = "write_final_answer"

// ClientTool describes a tool of the client. InputSchema is the JSON Schema of its arguments.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// ClientCall is a call of one of the client's tools.
type ClientCall struct {
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Input      json.RawMessage `json:"input"`
}

// ClientResult is the result of a call that the client has made. Output is any JSON value.
type ClientResult struct {
	ToolCallID string          `json:"toolCallId"`
	Output     json.RawMessage `json:"output"`
	IsError    bool            `json:"isError,omitempty"`
}

// CallRound is an answer of the model that calls tools of the client, with the results of the
// calls. It is part of the history that a request contains.
type CallRound struct {
	Text    string         `json:"text,omitempty"`
	Calls   []ClientCall   `json:"calls"`
	Results []ClientResult `json:"results"` // one for each call, in the same order
	// RunID is the run that ended with the calls of the round. The run's journal also has its
	// earlier turns and the calls of the agent's own tools. RunID is empty if another service made
	// the calls.
	RunID string `json:"runId,omitempty"`
}

// OpenRounds splits the history of an input. The result earlier contains the complete exchanges. If
// the last exchange has neither message nor answer, the result open contains its rounds, which
// follow the input's own message. OpenRounds changes nothing in the input.
func (in *Input) OpenRounds() (earlier []Exchange, open []CallRound) {
	last := len(in.History) - 1
	if last < 0 || !in.History[last].Open() {
		return in.History, nil
	}
	return in.History[:last], in.History[last].Rounds
}

// Open reports whether the exchange has rounds but neither message nor answer. If the last exchange
// of a run's history is open, its rounds belong to the run's own message.
func (e *Exchange) Open() bool { return len(e.Rounds) > 0 && e.Message == "" && e.Answer == "" }

// The ids of calls that the client makes contain the run's id: call_<run>_<n>.
const clientCallPrefix, runPrefix = "call_", "run_"

// ClientCallPrefix returns the beginning of the ids of the calls that the client of a run makes.
func ClientCallPrefix(runID string) string {
	return clientCallPrefix + strings.TrimPrefix(runID, runPrefix) + "_"
}

// RunOfClientCall returns the run id that a call's id contains. There may be no run with this id,
// because the call's id may come from another service.
func RunOfClientCall(callID string) string {
	rest, _ := strings.CutPrefix(callID, clientCallPrefix)
	suffix, _, _ := strings.Cut(rest, "_")
	return runPrefix + suffix
}
