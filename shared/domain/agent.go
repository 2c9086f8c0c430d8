package domain

import "strings"

// Agent is a configured agent of an organization.
type Agent struct {
	ID             string       `json:"id"`
	OrganizationID string       `json:"-"`
	Name           string       `json:"name"`
	Description    string       `json:"description"`
	SystemPrompt   string       `json:"systemPrompt"`
	Model          string       `json:"model"`
	FallbackModels []string     `json:"fallbackModels"` // tried in order if the model fails
	Tools          Tools        `json:"tools"`
	AllowedCallers []CallerKind `json:"allowedCallers"`
	Widget         Widget       `json:"widget"`
	AnswerSettings
	// AppendSources means that answers in the API under /v1 end in a list of their sources and
	// files.
	AppendSources bool `json:"appendSources"`
	// Suggestions are questions that an empty chat offers. The model does not see them.
	Suggestions []string `json:"suggestions"`
	Version     int      `json:"version"`
	// LastCheck is the result of the last check of the agent's connections; nil if there was none.
	LastCheck *AgentCheck `json:"lastCheck"`
	CreatedAt Time        `json:"createdAt"`
	UpdatedAt Time        `json:"updatedAt"`
}

// Template is a predefined agent with which all organizations and demo visitors may chat.
type Template struct {
	ID                string   `json:"id"`
	Name              string   `json:"name"`
	Description       string   `json:"description"`
	SystemPrompt      string   `json:"-"`
	Model             string   `json:"-"`
	Tools             Tools    `json:"tools"`
	SuggestedMessages []string `json:"suggestedMessages"`
	Version           int      `json:"-"`
}

// Tools is an agent's tool set. A tool that was never configured is nil.
type Tools struct {
	WebSearch     *Switch          `json:"webSearch,omitempty"`
	CodeExecution *CodeTool        `json:"codeExecution,omitempty"`
	Knowledge     *KnowledgeTool   `json:"knowledge,omitempty"`
	HTTPRequest   *HTTPRequestTool `json:"httpRequest,omitempty"`
	MCP           *MCPTool         `json:"mcp,omitempty"`
	Voice         *VoiceTool       `json:"voice,omitempty"`
}

// ToolNames contains the names of the built-in tools, in the order of the fields of Tools. A tool of
// another kind must not have one of these names, because models could not distinguish them.
var ToolNames = []string{"webSearch", "codeExecution", "knowledge", "httpRequest", "mcp", "voice"}

// Switch is the configuration of a tool without further options. Like every tool, it may require
// approval.
type Switch struct {
	Enabled  bool     `json:"enabled"`
	Approval Approval `json:"approval,omitempty"`
}

// CodeTool lets an agent run Python, in a new sandbox for each call. With KeepFiles, the calls of a
// session share a working folder, which is kept for as long as the session.
type CodeTool struct {
	Enabled   bool     `json:"enabled"`
	Approval  Approval `json:"approval,omitempty"`
	KeepFiles bool     `json:"keepFiles,omitempty"`
}

// KnowledgeTool lets an agent search its organization's documents: all documents, or only those in
// DocumentIDs, or only those that have all entries of Metadata.
type KnowledgeTool struct {
	Enabled     bool              `json:"enabled"`
	Approval    Approval          `json:"approval,omitempty"`
	DocumentIDs []string          `json:"documentIds,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// HTTPRequestTool lets an agent call listed HTTP endpoints.
type HTTPRequestTool struct {
	Enabled   bool       `json:"enabled"`
	Approval  Approval   `json:"approval,omitempty"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is an HTTP endpoint that an agent may call. The path and the query of URL may
// contain {name} for arguments. Header values and the signing secret are secrets: they are
// stored sealed and shown as "***". With a signing secret, requests are signed according to
// Standard Webhooks.
type Endpoint struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Method      string            `json:"method"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers,omitempty"`
	InputSchema any               `json:"inputSchema,omitempty"`
	SideEffect  SideEffect        `json:"sideEffect,omitempty"`
	// SigningSecret is "whsec_" followed by base64, as in Standard Webhooks. Empty means that
	// requests are not signed.
	SigningSecret string `json:"signingSecret,omitempty"`
}

// SideEffect determines whether a call may be repeated.
type SideEffect string

// The side effects. A call with "none" may be repeated at any time, a call with "idempotent" only
// with the same idempotency key, and a call with "unsafe" never automatically.
const (
	SideEffectNone       SideEffect = "none"
	SideEffectIdempotent SideEffect = "idempotent"
	SideEffectUnsafe     SideEffect = "unsafe"
)

// MCPTool lets an agent use the tools of remote MCP servers.
type MCPTool struct {
	Enabled  bool        `json:"enabled"`
	Approval Approval    `json:"approval,omitempty"`
	Servers  []MCPServer `json:"servers,omitempty"`
}

// MCPServer is a remote MCP server. Header values are secrets, as in an Endpoint.
type MCPServer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// SideEffect applies to all tools of the server. Empty means unsafe, because the server's own
	// hints are not trusted.
	SideEffect SideEffect `json:"sideEffect,omitempty"`
}

// VoiceTool lets people speak with an agent.
type VoiceTool struct {
	Enabled bool   `json:"enabled"`
	Voice   string `json:"voice,omitempty"`
}

// Widget configures whether and on which pages an agent's chat may be embedded. The site's server
// signs a visitor's identity with the identity secret, which is stored sealed and shown as "***".
type Widget struct {
	Enabled        bool     `json:"enabled"`
	AllowedOrigins []string `json:"allowedOrigins"`
	Attachments    bool     `json:"attachments"` // visitors may attach files to their messages
	IdentitySecret string   `json:"identitySecret,omitempty"`
}

// Config is the part of an agent or template that a run uses. It is stored unchanged per version,
// so a run can be continued after the agent was changed.
type Config struct {
	Name           string   `json:"name"`
	SystemPrompt   string   `json:"systemPrompt"`
	Model          string   `json:"model"`
	FallbackModels []string `json:"fallbackModels,omitempty"`
	Tools          Tools    `json:"tools"`
	AppendSources  bool     `json:"appendSources,omitempty"`

	Answer AnswerSettings `json:"answer,omitzero"`
	// PromptVariables means that the variables in the system prompt are replaced. Configurations
	// that were stored before variables existed lack this field. Their prompts are used unchanged.
	PromptVariables bool `json:"promptVariables,omitempty"`
}

// mcpNameKept is the number of leading characters of a server's name that the names of its tools
// always contain. Longer names are truncated and end in a hash.
const mcpNameKept = 48

// SideEffectFor returns the side effect of the tool with the name that models use,
// "<server>_<tool>". If several servers match, it returns the most dangerous side effect. It
// returns false if no server of the agent matches.
func (t MCPTool) SideEffectFor(name string) (SideEffect, bool) {
	gravest, found := SideEffectNone, false
	for _, s := range t.Servers {
		// Only the part of the prefix that is never truncated is compared, so two servers may
		// match.
		start := s.Name + "_"
		if !strings.HasPrefix(name, start[:min(len(start), mcpNameKept)]) {
			continue
		}
		found = true
		switch {
		case s.SideEffect == "" || s.SideEffect == SideEffectUnsafe:
			gravest = SideEffectUnsafe
		case s.SideEffect == SideEffectIdempotent && gravest == SideEffectNone:
			gravest = SideEffectIdempotent
		}
	}

	return gravest, found
}
