package domain

import "strings"

// Agent is a configured agent of one organization.
type Agent struct {
	ID             string       `json:"id"`
	OrganizationID string       `json:"-"`
	Name           string       `json:"name"`
	Description    string       `json:"description"`
	SystemPrompt   string       `json:"systemPrompt"`
	Model          string       `json:"model"`
	FallbackModels []string     `json:"fallbackModels"` // tried in order when the model cannot answer
	Tools          Tools        `json:"tools"`
	AllowedCallers []CallerKind `json:"allowedCallers"`
	Widget         Widget       `json:"widget"`
	Version        int          `json:"version"`
	CreatedAt      Time         `json:"createdAt"`
	UpdatedAt      Time         `json:"updatedAt"`
}

// Template is a predefined agent configuration that every organization and demo visitor may chat with.
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

// Tools is an agent's tool set; a tool that was never named is absent.
type Tools struct {
	WebSearch     *Switch          `json:"webSearch,omitempty"`
	CodeExecution *CodeTool        `json:"codeExecution,omitempty"`
	Knowledge     *KnowledgeTool   `json:"knowledge,omitempty"`
	HTTPRequest   *HTTPRequestTool `json:"httpRequest,omitempty"`
	MCP           *MCPTool         `json:"mcp,omitempty"`
	Voice         *VoiceTool       `json:"voice,omitempty"`
}

// Switch is a tool without options of its own.
type Switch struct {
	Enabled  bool     `json:"enabled"`
	Approval Approval `json:"approval,omitempty"`
}

// CodeTool lets an agent run Python in a sandbox, each call in a new one. With KeepFiles the calls of a session share a
// working folder: what one leaves there the next finds, for as long as the session is kept.
type CodeTool struct {
	Enabled   bool     `json:"enabled"`
	Approval  Approval `json:"approval,omitempty"`
	KeepFiles bool     `json:"keepFiles,omitempty"`
}

// KnowledgeTool lets an agent search its organization's documents: all, only those listed, and only those that have all of the
// metadata.
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

// Endpoint is one HTTP endpoint an agent may call. URL may hold {name} for arguments in its path and query. Header
// values and the signing secret are secrets: stored sealed, shown as "***". With a signing secret, requests are
// signed as Standard Webhooks.
type Endpoint struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Method      string            `json:"method"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers,omitempty"`
	InputSchema any               `json:"inputSchema,omitempty"`
	SideEffect  SideEffect        `json:"sideEffect,omitempty"`
	// SigningSecret is "whsec_" and base64, as Standard Webhooks has it.
	SigningSecret string `json:"signingSecret,omitempty"`
}

// SideEffect says what repeating a call would do.
type SideEffect string

// Side effects: none may be repeated freely, idempotent only with the same key, unsafe never by itself.
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

// MCPServer is one remote MCP server. Header values are secrets, as an Endpoint's are.
type MCPServer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// SideEffect of its tools; empty is unsafe: what a server says of itself is not believed.
	SideEffect SideEffect `json:"sideEffect,omitempty"`
}

// VoiceTool lets people speak with an agent.
type VoiceTool struct {
	Enabled bool   `json:"enabled"`
	Voice   string `json:"voice,omitempty"`
}

// Widget says whether and on which pages an agent's chat may be embedded. With the identity secret the pages' server signs
// who a visitor is; it is stored sealed, and shown as "***".
type Widget struct {
	Enabled        bool     `json:"enabled"`
	AllowedOrigins []string `json:"allowedOrigins"`
	IdentitySecret string   `json:"identitySecret,omitempty"`
}

// Config is the part of an agent or template that a run uses, kept unchanged per version.
type Config struct {
	Name           string   `json:"name"`
	SystemPrompt   string   `json:"systemPrompt"`
	Model          string   `json:"model"`
	FallbackModels []string `json:"fallbackModels,omitempty"`
	Tools          Tools    `json:"tools"`
}

// mcpNameKept is how much of a server's name surely begins the names of its tools; longer ones end in a hash.
const mcpNameKept = 48

// SideEffectFor gives the side effect of a tool by the name that models know it by, "<server>_<tool>"; where several
// servers may be meant, the gravest of theirs. False: no server of the agent has such tools.
func (t MCPTool) SideEffectFor(name string) (SideEffect, bool) {
	gravest, found := SideEffectNone, false
	for _, s := range t.Servers {
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
