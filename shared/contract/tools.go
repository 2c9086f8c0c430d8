package contract

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"parley/shared/domain"
)

// Kinds of tools. Each has its own subject and queue group.
const (
	ToolWebSearch     = "webSearch"
	ToolHTTPRequest   = "httpRequest"
	ToolMCP           = "mcp"
	ToolCodeExecution = "codeExecution"
	ToolKnowledge     = "knowledge"
	// ToolAttachment prepares the attachments of runs. Workers call it themselves; it is not
	// offered to models.
	ToolAttachment = "attachment"
)

// Subject and headers of tool calls.
const (
	SubjectTools     = "tools."
	HeaderDeadline   = "Parley-Deadline"   // deadline of the call: RFC 3339, UTC, with milliseconds
	HeaderCapability = "Parley-Capability" // sealed Capability, including the body's hash
	HeaderStage      = "Parley-Stage"      // on a message to the caller: a ToolStage
)

// ToolStage is the meaning of a message from a tool worker.
type ToolStage string

// The stages of a call. "accepted" arrives within a second, "working" follows at regular intervals,
// and one "answer" ends the call.
const (
	StageAccepted ToolStage = "accepted"
	StageWorking  ToolStage = "working"
	StageBusy     ToolStage = "busy"    // rejected: this worker has no free slot, but another worker may have one
	StageRefused  ToolStage = "refused" // rejected: the capability does not permit the call, or the message is invalid
	StageAnswer   ToolStage = "answer"  // the body is a ToolReply
)

// ToolSubject returns the subject of calls to one kind of tool.
func ToolSubject(kind string) string { return SubjectTools + kind }

// ToolGroup returns the queue group for one kind of tool. The group delivers each call to only one
// worker.
func ToolGroup(kind string) string { return "tool-" + kind }

// Operations of a tool request.
const (
	OperationCall = "call"
	OperationList = "list" // lists the tools, for kinds whose tools other servers define
)

// ToolRequest is the body of a call.
type ToolRequest struct {
	Operation string          `json:"operation"`
	CallID    string          `json:"callId,omitempty"`
	Name      string          `json:"name,omitempty"` // the tool's name, as the model uses it
	Arguments json.RawMessage `json:"arguments,omitempty"`
	EffectKey string          `json:"effectKey,omitempty"` // set if the call is in the effect ledger
}

// ToolReply is the reply to a request. If Failure is nil, the call was executed. Otherwise, Output
// may contain details of the failure.
type ToolReply struct {
	Output  json.RawMessage   `json:"output,omitempty"`
	Sources []domain.Citation `json:"sources,omitempty"`
	Tools   []ToolSpec        `json:"tools,omitempty"` // result of OperationList
	// Absent lists the servers whose tools OperationList could not list.
	Absent  []AbsentServer `json:"absent,omitempty"`
	Failure *ToolFailure   `json:"failure,omitempty"`
}

// ToolSpec describes a tool to a model.
type ToolSpec struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Schema      json.RawMessage   `json:"schema"`
	SideEffect  domain.SideEffect `json:"sideEffect,omitempty"`
}

// AbsentServer is a server whose tools could not be listed. Reason is public.
type AbsentServer struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ToolFailure is a failed call. Message is for the model and the caller.
type ToolFailure struct {
	Message string `json:"message"`
	// Retryable means that the cause may be temporary; the run is retried later.
	Retryable bool `json:"retryable,omitempty"`
	// Unknown means that the call may have been executed. Only the recovery of the effect ledger
	// may repeat it.
	Unknown bool `json:"unknown,omitempty"`
	// Stale means that the run's lease has a newer fence than the capability. The call was not
	// sent.
	Stale bool `json:"stale,omitempty"`
}

// Capability contains the verified data of a call: the organization, the run and the expiry. Ids in
// the call's arguments are not trusted.
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

// EffectKey returns the idempotency key of a call's side effect, which is the same for every
// attempt.
func EffectKey(runID, callID string) string {
	return "eff_" + base64.RawURLEncoding.EncodeToString(Hash(runID, callID)[:18])
}
