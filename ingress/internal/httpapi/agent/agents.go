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
	// cancelTimeout is the maximum time for deleting an agent and cancelling its runs.
	cancelTimeout = 10 * time.Second
)

// getAgents handles GET /api/agents: it returns the organization's agents, newest first, or with
// ?id= one agent. The parameter q selects agents by their name. Members get all agents of their
// organization, with hidden secrets.
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

	// Read the sizes first. If the page is large, wait for capacity before reading its agents.
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

// getAgent responds with one agent. The entity tag allows a conditional read and a later
// conditional change.
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
// of its last check, because a check does not change the version. GET, POST and PUT all respond
// with writeAgent, so their entity tags can be compared.
func (h *Handler) writeAgent(c *gin.Context, status int, agent domain.Agent) {
	httpx.WriteVersion(c, status, agent.Version, checkState(agent.LastCheck), h.shown(agent))
}

// createAgent handles POST /api/agents: it creates an agent from the body, or from a template and
// the fields that differ from it. The status is 201. The documents to which the agent's searches
// are restricted must exist. Fields of the body override the fields of the template.
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
// problems of the body so far. newAgent returns one error for these and for all other problems. The
// id is created here, because the secrets of the agent are encrypted for its id. If the template
// does not exist, that is a problem of templateId.
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

	// Apply the body after the template, so that its fields take precedence.
	body.apply(&agent, h.seals(org, agent.ID), found)
	h.checkModels(&agent, found)
	if err := found.Err(); err != nil {
		return agent, err
	}

	stored, err := h.AgentsDB.CreateAgent(ctx, org, agent)

	// A visitor may have requested this agent's widget before the agent was stored. Remove the
	// cached result that there is no widget.
	h.Auth.Widgets().Forget(agent.ID, agent.Widget.AllowedOrigins...)
	return stored, err
}

// updateAgent handles PUT /api/agents?id=. Missing fields stay unchanged. The request can require a
// version in two ways: with If-Match, and with the field version. Each change of the agent
// increases the version. The response is 200 with the new agent.
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

	// Checking documents needs queries, so it comes before the update, which holds a lock on the
	// agent.
	if err := h.checkBoundDocuments(c, agentID, &body); err != nil {
		return err
	}

	agent, err := h.AgentsDB.UpdateAgent(c.Request.Context(), org, agentID, body.Version.Or(0), func(agent *domain.Agent) error {
		if err := condition.Check(agent.Version); err != nil {
			return err
		}

		// This function runs in the transaction of the update and gets the agent as stored. If the
		// function returns an error, the agent stays unchanged.
		found := &httpx.Problems{}
		if err := httpx.Unchanged(found, body, agent); err != nil {
			return err
		}

		// Keep the agent as it was, because models are checked only if the request changes them.
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

	// The new origins apply immediately in this process.
	h.Auth.Widgets().Forget(agent.ID, agent.Widget.AllowedOrigins...)
	h.writeAgent(c, http.StatusOK, agent)
	return nil
}

// checkBoundDocuments returns an error if a change restricts the agent's searches to documents that
// do not exist. Documents that the agent's list already contains are accepted, even if they were
// deleted in the meantime.
func (h *Handler) checkBoundDocuments(c *gin.Context, agentID string, body *updateAgentBody) error {
	if body.Tools.Value.Knowledge.Value.DocumentIDs.Value == nil {
		return nil
	}

	// The list before the change is needed for the comparison. The list may change before the
	// update. The only consequence is that a deleted document may be accepted.
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
// kept. If-Match makes the deletion conditional. After an error, the client can repeat the request.
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
// is for runs that were accepted after the first. The error precondition_failed means that the
// agent has another version. Runs that have started continue.
func (h *Handler) dropAgent(ctx context.Context, org, agentID string, condition httpx.Precondition) error {
	// Check the version before the first cancellation, so that a rejected request cancels nothing.
	agent, err := h.AgentsDB.Agent(ctx, org, agentID)
	if err == nil {
		err = condition.Check(agent.Version)
	}
	if err != nil {
		return err
	}

	// Forget the widget even after an error, because the deletion may have been committed.
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

// sealer returns a function that encrypts the secrets of one agent's tools. A result can be
// decrypted only by a process with the same keys.
func (h *Handler) sealer(org, agentID string) func(string) string {
	location := secrets.AgentHeaders(org, agentID)
	return func(secret string) string { return h.Secrets.Seal(secret, location) }
}

// seals contains functions that encrypt an agent's secrets. Each kind of secrets has its own
// encryption context. The function headers encrypts headers and signing secrets of tools, and
// identity encrypts the secret of the widget. The functions differ only in the context, which must
// be the same for decryption.
type seals struct{ headers, identity func(string) string }

// seals returns the functions for one agent. The encryption contexts contain the organization and
// the agent, so that an encrypted secret cannot be used anywhere else. agentID may be the id of an
// agent that is not stored yet.
func (h *Handler) seals(org, agentID string) seals {
	location := secrets.WidgetIdentity(org, agentID)
	return seals{h.sealer(org, agentID), func(secret string) string { return h.Secrets.Seal(secret, location) }}
}

// shown returns an agent in the form of responses: secrets are hidden, lists are never null, and an
// agent without a model has the name of the default model. It changes the argument's lists and
// maps, so the agent must not be used for anything else afterwards.
func (h *Handler) shown(agent domain.Agent) shownAgent {
	// Clients show the name of the model, and do not know which model is the default.
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

// hide overwrites the value of each header with the placeholder for secrets. A reader learns which
// headers are set, but not their values.
func hide(headers map[string]string) {
	for name := range headers {
		headers[name] = hidden
	}
}

// checkToolDocuments adds a problem for each nonexistent document in the list to which a body
// restricts the agent's searches. It always accepts documents that are already in the agent's list.
// previous contains the agent's tools before the change. A body without such a list causes no
// query.
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
