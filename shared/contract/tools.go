package contract

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"parley/shared/domain"
)

// Kinds of tools: each has a subject and a queue group of its own.
const (
	ToolWebSearch     = "webSearch"
	ToolHTTPRequest   = "httpRequest"
	ToolMCP           = "mcp"
	ToolCodeExecution = "codeExecution"
	ToolKnowledge     = "knowledge"
)

// Subject and headers of tool calls.
const (
	SubjectTools     = "tools."
	HeaderDeadline   = "Parley-Deadline"   // when the call must have ended: RFC 3339, UTC, with milliseconds
	HeaderCapability = "Parley-Capability" // what the call may do, sealed with the body's hash
	HeaderStage      = "Parley-Stage"      // of a message back: a ToolStage
)

// ToolStage says what a message from a tool worker means.
type ToolStage string

// The stages of a call. Accepted comes within a second, working at intervals from then on, and one answer ends it.
const (
	StageAccepted ToolStage = "accepted"
	StageWorking  ToolStage = "working"
	StageBusy     ToolStage = "busy"    // not taken: this worker has no place; another may
	StageRefused  ToolStage = "refused" // not taken: the capability does not allow it, or the message is broken
	StageAnswer   ToolStage = "answer"  // the body is a ToolReply
)

// ToolSubject is where calls of a kind of tool are sent.
func ToolSubject(kind string) string { return SubjectTools + kind }

// ToolGroup is the queue group of a kind of tool: one of its workers gets each call.
func ToolGroup(kind string) string { return "tool-" + kind }

// Operations of a tool request.
const (
	OperationCall = "call"
	OperationList = "list" // which tools there are, for kinds whose tools others decide on
)

// ToolRequest is the body of a call.
type ToolRequest struct {
	Operation string          `json:"operation"`
	CallID    string          `json:"callId,omitempty"`
	Name      string          `json:"name,omitempty"` // of the tool, as the model knows it
	Arguments json.RawMessage `json:"arguments,omitempty"`
	EffectKey string          `json:"effectKey,omitempty"` // set when the effect ledger has the call
}

// ToolReply is the answer to a request. Without a Failure the call was carried out; with one, Output may say more of it.
type ToolReply struct {
	Output  json.RawMessage   `json:"output,omitempty"`
	Sources []domain.Citation `json:"sources,omitempty"`
	Tools   []ToolSpec        `json:"tools,omitempty"` // of OperationList
	Failure *ToolFailure      `json:"failure,omitempty"`
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Schema      json.RawMessage   `json:"schema"`
	SideEffect  domain.SideEffect `json:"sideEffect,omitempty"`
}

// ToolFailure is a call that went wrong; Message is made for model and caller.
type ToolFailure struct {
	Message string `json:"message"`
	// Retryable: the cause may pass; the run is tried again later.
	Retryable bool `json:"retryable,omitempty"`
	// Unknown: the call may have had its effect; only the ledger's recovery may go on from here.
	Unknown bool `json:"unknown,omitempty"`
	// Stale: the run is no longer held under the capability's fence; nothing was sent.
	Stale bool `json:"stale,omitempty"`
}

// Capability is what a tool worker trusts about a call: whose it is, and until when. Ids in arguments count
// for nothing.
type Capability struct {
	OrganizationID string    `json:"org"`
	RunID          string    `json:"run"`
	TargetID       string    `json:"target"` // agent or template
	ConfigVersion  int       `json:"version"`
	Fence          int64     `json:"fence"`
	Kind           string    `json:"kind"`
	CallID         string    `json:"call"`
	Expires        time.Time `json:"expires"`
}

// EffectKey is what a receiver knows a call's side effect by: the same however often the call is sent.
func EffectKey(runID, callID string) string {
	return "eff_" + base64.RawURLEncoding.EncodeToString(Hash(runID, callID)[:18])
}
