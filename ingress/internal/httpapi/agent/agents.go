package agent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
)

const (
	cancelTimeout = 10 * time.Second
)

// getAgents handles GET /api/agents: it returns the organization's agents, newest first, or with
// ?id= one agent.
func (h *Handler) getAgents(c *gin.Context) error {
	agentID, one, err := httpx.QueryID(c, id.Agent)
	if err != nil {
		return err
	}
	if one {
		return h.getAgent(c, agentID)
	}

	p, err := httpx.ReadPage(c, id.Agent)
	if err != nil {
		return err
	}

	found := &httpx.Problems{}
	q, _ := httpx.QueryValue(c, "q", found)
	found.Text("q", q, 0, httpx.MaxSearch)
	if err := found.Err(); err != nil {
		return err
	}

	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	sizes, err := h.AgentsDB.AgentSizes(ctx, org, q, p.After, p.Limit+1)
	if err == nil {
		err = httpx.ReservePage(c, sizes, &p)
	}

	var agents []domain.Agent
	if err == nil {
		agents, err = h.AgentsDB.Agents(ctx, org, q, p.After, p.Limit+1)
	}
	if err != nil {
		return err
	}

	shown := make([]shownAgent, len(agents))
	for i := range agents {
		shown[i] = h.shown(agents[i])
	}

	return httpx.JSON(c, http.StatusOK, httpx.NewList(shown, p, func(a shownAgent) string { return a.ID }))
}

// getAgent responds with one agent.
func (h *Handler) getAgent(c *gin.Context, agentID string) error {
	httpx.SetLogIDs(c, agentID, "", "")
	agent, err := h.AgentsDB.Agent(c.Request.Context(), httpx.Caller(c).OrganizationID, agentID)
	if err != nil {
		return err
	}
	h.writeAgent(c, http.StatusOK, agent)
	return nil
}

// writeAgent responds with an agent. The entity tag consists of the agent's version and the result
// of its last check, because a check does not change the version.
func (h *Handler) writeAgent(c *gin.Context, status int, agent domain.Agent) {
	httpx.WriteVersion(c, status, agent.Version, checkState(agent.LastCheck), h.shown(agent))
}

// createAgent handles POST /api/agents: it creates an agent from the body, or from a template and
// the fields that differ from it.
func (h *Handler) createAgent(c *gin.Context) error {
	body, found, err := httpx.Collect[createAgentBody](c)
	if err != nil {
		return err
	}
	if err := h.checkToolDocuments(c, found, &body.agentFields, domain.Tools{}); err != nil {
		return err
	}

	agent, err := h.newAgent(c.Request.Context(), httpx.Caller(c).OrganizationID, body, found)
	if err != nil {
		return err
	}

	httpx.SetLogIDs(c, agent.ID, "", "")
	h.writeAgent(c, http.StatusCreated, agent)
	return nil
}

// newAgent creates an agent from a body and, if the body names one, a template. found contains the
// problems of the body so far. newAgent returns one error for these and for all other problems.
func (h *Handler) newAgent(ctx context.Context, org string, body createAgentBody, found *httpx.Problems) (domain.Agent, error) {
	agent := domain.Agent{
		ID: id.New(id.Agent), AllowedCallers: defaultCallers(),
		Widget: domain.Widget{AllowedOrigins: []string{}},
	}
	if body.TemplateID.Set {
		if err := found.Err(); err != nil { // report the problems of the body first, because further problems depend on the template
			return agent, err
		}
		t, err := h.AgentsDB.Template(ctx, body.TemplateID.Value)
		if apierr.CodeFor(err) == apierr.NotFound {
			err = apierr.Invalid("templateId", httpx.CodeInvalidValue, "is not the id of a template")
		}
		if err != nil {
			return agent, err
		}
		agent.Name, agent.Description, agent.SystemPrompt, agent.Model, agent.Tools = t.Name, t.Description, t.SystemPrompt, t.Model, t.Tools
		agent.Suggestions = t.SuggestedMessages
	}

	body.apply(&agent, h.seals(org, agent.ID), found)
	h.checkModels(&agent, found)
	if err := found.Err(); err != nil {
		return agent, err
	}

	stored, err := h.AgentsDB.CreateAgent(ctx, org, agent)
	h.Auth.Widgets().Forget(agent.ID, agent.Widget.AllowedOrigins...)
	return stored, err
}

// updateAgent handles PUT /api/agents?id=. Missing fields stay unchanged.
func (h *Handler) updateAgent(c *gin.Context) error {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		return err
	}

	httpx.SetLogIDs(c, agentID, "", "")
	body, err := httpx.Bind[updateAgentBody](c)
	if err != nil {
		return err
	}

	condition, err := httpx.ReadPrecondition(c.Request.Header)
	if err != nil {
		return err
	}

	org := httpx.Caller(c).OrganizationID
	if err := h.checkBoundDocuments(c, agentID, &body); err != nil {
		return err
	}

	agent, err := h.AgentsDB.UpdateAgent(c.Request.Context(), org, agentID, body.Version.Or(0), func(agent *domain.Agent) error {
		if err := condition.Check(agent.Version); err != nil {
			return err
		}
		found := &httpx.Problems{}
		if err := httpx.Unchanged(found, body, agent); err != nil {
			return err
		}
		before := *agent
		if body.Model.Set && body.Model.Value == h.DefaultModel && agent.Model == "" {
			body.Model.Set = false // responses show this name for the default model; a client that sends it back still means the default
		}
		body.apply(agent, h.seals(org, agentID), found)
		if needsModelCheck(&before, agent) {
			h.checkModels(agent, found)
		}
		return found.Err()
	})
	if err != nil {
		return err
	}

	h.Auth.Widgets().Forget(agent.ID, agent.Widget.AllowedOrigins...)
	h.writeAgent(c, http.StatusOK, agent)
	return nil
}

// checkBoundDocuments returns an error if a change restricts the agent's searches to documents that
// do not exist.
func (h *Handler) checkBoundDocuments(c *gin.Context, agentID string, body *updateAgentBody) error {
	if body.Tools.Value.Knowledge.Value.DocumentIDs.Value == nil {
		return nil
	}

	agent, err := h.AgentsDB.Agent(c.Request.Context(), httpx.Caller(c).OrganizationID, agentID)
	if err != nil {
		return err
	}

	found := &httpx.Problems{}
	if err := h.checkToolDocuments(c, found, &body.agentFields, agent.Tools); err != nil {
		return err
	}
	return found.Err()
}

// deleteAgent handles DELETE /api/agents?id=. It cancels the agent's queued runs. Finished runs are
// kept.
func (h *Handler) deleteAgent(c *gin.Context) error {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		return err
	}

	httpx.SetLogIDs(c, agentID, "", "")
	condition, err := httpx.ReadPrecondition(c.Request.Header)
	if err != nil {
		return err
	}

	// The deletion continues if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), cancelTimeout)
	defer cancel()
	if err := h.dropAgent(ctx, httpx.Caller(c).OrganizationID, agentID, condition); err != nil {
		return err
	}

	return httpx.JSON(c, http.StatusOK, httpx.Deleted(agentID))
}

// dropAgent deletes an agent and cancels its queued runs before and after the deletion. If the
// first cancellation fails, nothing is deleted, and the caller can retry. The second cancellation
// is for runs that were accepted after the first.
func (h *Handler) dropAgent(ctx context.Context, org, agentID string, condition httpx.Precondition) error {
	agent, err := h.AgentsDB.Agent(ctx, org, agentID)
	if err == nil {
		err = condition.Check(agent.Version)
	}
	if err != nil {
		return err
	}
	defer h.Auth.Widgets().Forget(agent.ID, agent.Widget.AllowedOrigins...)

	if err := h.Runs.CancelQueued(ctx, org, agentID); err != nil {
		return fmt.Errorf("cancelling queued runs: %w", err)
	}
	if err := h.AgentsDB.DeleteAgent(ctx, org, agentID, condition.Check); err != nil {
		return err
	}
	if err := h.Runs.CancelQueued(ctx, org, agentID); err != nil {
		return fmt.Errorf("cancelling queued runs: %w", err)
	}
	return nil
}

// sealer returns a function that encrypts the secrets of one agent's tools.
func (h *Handler) sealer(org, agentID string) func(string) string {
	location := secrets.AgentHeaders(org, agentID)
	return func(secret string) string { return h.Secrets.Seal(secret, location) }
}

// seals contains functions that encrypt an agent's secrets. Each kind of secrets has its own
// encryption context.
type seals struct{ headers, identity func(string) string }

// seals returns the functions for one agent. The encryption contexts contain the organization and
// the agent, so that an encrypted secret cannot be used anywhere else.
func (h *Handler) seals(org, agentID string) seals {
	location := secrets.WidgetIdentity(org, agentID)
	return seals{h.sealer(org, agentID), func(secret string) string { return h.Secrets.Seal(secret, location) }}
}

// shown returns an agent in the form of responses: secrets are hidden, lists are never null, and an
// agent without a model has the name of the default model.
func (h *Handler) shown(agent domain.Agent) shownAgent {
	if agent.Model == "" {
		agent.Model = h.DefaultModel
	}
	if agent.FallbackModels == nil {
		agent.FallbackModels = []string{}
	}
	if agent.Widget.AllowedOrigins == nil {
		agent.Widget.AllowedOrigins = []string{}
	}
	if agent.Widget.IdentitySecret != "" {
		agent.Widget.IdentitySecret = hidden
	}
	if t := agent.Tools.HTTPRequest; t != nil {
		for i := range t.Endpoints {
			hide(t.Endpoints[i].Headers)
			if t.Endpoints[i].SigningSecret != "" {
				t.Endpoints[i].SigningSecret = hidden
			}
		}
	}

	if t := agent.Tools.MCP; t != nil {
		for i := range t.Servers {
			hide(t.Servers[i].Headers)
		}
	}

	return withSettings(agent)
}

// hide replaces the value of each header in place with the placeholder for secrets.
func hide(headers map[string]string) {
	for name := range headers {
		headers[name] = hidden
	}
}

// checkToolDocuments adds a problem for each nonexistent document in the list to which a body
// restricts the agent's searches. It always accepts documents that are already in the agent's list.
func (h *Handler) checkToolDocuments(c *gin.Context, found *httpx.Problems, f *agentFields, previous domain.Tools) error {
	ids := f.Tools.Value.Knowledge.Value.DocumentIDs.Value
	if ids == nil {
		return nil
	}
	var old []string
	if previous.Knowledge != nil {
		old = previous.Knowledge.DocumentIDs
	}
	return h.CheckDocuments(c, found, "tools.knowledge.documentIds", *ids, old)
}
