package parley

import (
	"context"
	"net/http"
)

const agentsPath = "/api/agents"

// Agents creates, reads, lists, changes and deletes the organization's agents. Changes need the
// role admin; members may read.
type Agents struct{ group }

// AgentQuery selects agents. The field Q selects the agents whose names contain its value. The zero
// value selects all agents.
type AgentQuery struct {
	Paging

	Q string
}

// Create creates an agent, from scratch or from a template. The argument contains the agent's
// secrets; results contain "***" instead. The request is not repeated if the service may have
// executed it.
func (a Agents) Create(ctx context.Context, agent NewAgent) (*Agent, error) {
	return call[Agent](ctx, a.group, Request{Method: http.MethodPost, Path: agentsPath, Body: agent})
}

// Get reads an agent. If no agent has the id, the error is an *APIError with the status 404.
func (a Agents) Get(ctx context.Context, id string) (*Agent, error) {
	return one[Agent](ctx, a.group, agentsPath, id)
}

// List lists agents, newest first. No request is made before the first page is read.
func (a Agents) List(query AgentQuery) Pages[Agent] {
	return list[Agent](a.group, agentsPath, params("q", query.Q), query.Paging)
}

// Update changes an agent. Omitted fields keep their values. If change.Version is set and the agent
// has another version, the change fails. If change.Version is nil, the request is repeated after a
// lost connection.
func (a Agents) Update(ctx context.Context, id string, change AgentChange) (*Agent, error) {
	return act[Agent](ctx, a.group, Request{Method: http.MethodPut, Path: agentsPath, Body: change, Keyed: change.Version == nil}, id, "")
}

// Delete deletes an agent. Its queued runs are cancelled. Finished runs stay readable.
func (a Agents) Delete(ctx context.Context, id string) error {
	return remove(ctx, a.group, agentsPath, id, nil)
}

// ImportEndpoints adds the operations of an OpenAPI 3 document to an agent's endpoints. Operations
// that cannot be imported are listed in the result with the reason. The request is not repeated if
// the service may have executed it.
func (a Agents) ImportEndpoints(ctx context.Context, id string, from OpenAPIImport) (*ImportedEndpoints, error) {
	return act[ImportedEndpoints](ctx, a.group, Request{Method: http.MethodPost, Path: agentsPath, Body: from}, id, "import-openapi")
}

// Check tries the connections of an agent to its models, MCP servers, search provider and
// endpoints, and returns the results. It takes at most 30 seconds. The models are really called, so
// the check counts against budgets. A failed connection is part of the result and not an error.
func (a Agents) Check(ctx context.Context, id string) (*AgentCheck, error) {
	return act[AgentCheck](ctx, a.group, Request{Method: http.MethodPost, Path: agentsPath}, id, "check")
}

// Preview returns a system prompt in which variables are replaced by the values that they would
// have. The request may contain the prompt; otherwise it is the agent's prompt. Preview starts no
// run.
func (a Agents) Preview(ctx context.Context, id string, of PromptPreviewRequest) (*PromptPreview, error) {
	return act[PromptPreview](ctx, a.group, Request{Method: http.MethodPost, Path: agentsPath, Body: of}, id, "preview")
}

// Templates returns the templates. Every caller may chat with them.
type Templates struct{ group }

const templatesPath = "/api/agents/templates"

// Get reads a template. If no template has the id, the error is an *APIError with the status 404.
func (t Templates) Get(ctx context.Context, id string) (*Template, error) {
	return one[Template](ctx, t.group, templatesPath, id)
}

// List lists templates.
func (t Templates) List(paging Paging) Pages[Template] {
	return list[Template](t.group, templatesPath, params(), paging)
}
