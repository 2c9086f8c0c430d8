package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
)

const (
	searchMost = 120
	cancelTime = 10 * time.Second
)

// getAgents is GET /api/agents: the organization's agents, newest first, or with ?id= one of them.
func (a *api) getAgents(c *gin.Context) {
	agentID, one, err := idOf(c, id.Agent)
	if err != nil {
		fail(c, err)
		return
	}
	if one {
		a.getAgent(c, agentID)
		return
	}
	p, err := pageOf(c, id.Agent)
	if err != nil {
		fail(c, err)
		return
	}
	found := &problems{}
	q, _ := single(c, "q", found)
	found.text("q", q, 0, searchMost)
	if err := found.err(); err != nil {
		fail(c, err)
		return
	}
	agents, err := a.Store.Agents(c.Request.Context(), caller(c).OrganizationID, q, p.after, p.limit+1)
	if err != nil {
		fail(c, err)
		return
	}
	for i := range agents {
		agents[i] = a.shown(agents[i])
	}
	writeJSON(c, http.StatusOK, listOf(agents, p, func(a domain.Agent) string { return a.ID }))
}

func (a *api) getAgent(c *gin.Context, agentID string) {
	about(c, agentID, "", "")
	agent, err := a.Store.Agent(c.Request.Context(), caller(c).OrganizationID, agentID)
	if err != nil {
		fail(c, err)
		return
	}
	writeVersion(c, http.StatusOK, agent.Version, a.shown(agent))
}

// createAgent is POST /api/agents: an agent from scratch, or from a template and what differs from it.
func (a *api) createAgent(c *gin.Context) {
	body, found, err := collect[createAgentBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	if err := a.toolDocuments(c, found, &body.agentFields, domain.Tools{}); err != nil {
		fail(c, err)
		return
	}
	agent, err := a.newAgent(c.Request.Context(), caller(c).OrganizationID, body, found)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, agent.ID, "", "")
	writeVersion(c, http.StatusCreated, agent.Version, a.shown(agent))
}

func (a *api) newAgent(ctx context.Context, org string, body createAgentBody, found *problems) (domain.Agent, error) {
	agent := domain.Agent{
		ID: id.New(id.Agent), AllowedCallers: defaultCallers(),
		Widget: domain.Widget{AllowedOrigins: []string{}},
	}
	if body.TemplateID.Set {
		if err := found.err(); err != nil { // what is wrong by itself, before what depends on the template
			return agent, err
		}
		t, err := a.Store.Template(ctx, body.TemplateID.Value)
		if apierr.CodeOf(err) == apierr.NotFound {
			err = apierr.Invalid("templateId", codeInvalidValue, "is no template")
		}
		if err != nil {
			return agent, err
		}
		agent.Name, agent.Description, agent.SystemPrompt, agent.Model, agent.Tools = t.Name, t.Description, t.SystemPrompt, t.Model, t.Tools
	}
	body.apply(&agent, a.seals(org, agent.ID), found)
	if err := found.err(); err != nil {
		return agent, err
	}
	stored, err := a.Store.CreateAgent(ctx, org, agent)
	a.forgetWidget(agent)
	return stored, err
}

// updateAgent is PUT /api/agents?id=: fields left out keep their value.
func (a *api) updateAgent(c *gin.Context) {
	agentID, err := requiredID(c, id.Agent)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, agentID, "", "")
	body, err := bind[updateAgentBody](c)
	if err != nil {
		fail(c, err)
		return
	}
	condition, err := preconditionOf(c.Request.Header)
	if err != nil {
		fail(c, err)
		return
	}
	org := caller(c).OrganizationID
	if err := a.boundDocuments(c, agentID, &body); err != nil {
		fail(c, err)
		return
	}
	agent, err := a.Store.UpdateAgent(c.Request.Context(), org, agentID, body.Version.or(0), func(agent *domain.Agent) error {
		if err := condition.check(agent.Version); err != nil {
			return err
		}
		found := &problems{}
		if err := unchanged(found, body, agent); err != nil {
			return err
		}
		if body.Model.Set && body.Model.Value == a.DefaultModel && agent.Model == "" {
			body.Model.Set = false // sent back as it was shown: the agent goes on with whatever the default is
		}
		body.apply(agent, a.seals(org, agentID), found)
		return found.err()
	})
	if err != nil {
		fail(c, err)
		return
	}
	a.forgetWidget(agent)
	writeVersion(c, http.StatusOK, agent.Version, a.shown(agent))
}

// boundDocuments checks the documents that a change binds an agent to.
func (a *api) boundDocuments(c *gin.Context, agentID string, body *updateAgentBody) error {
	if body.Tools.Value.Knowledge.Value.DocumentIDs.Value == nil {
		return nil
	}
	agent, err := a.Store.Agent(c.Request.Context(), caller(c).OrganizationID, agentID)
	if err != nil {
		return err
	}
	found := &problems{}
	if err := a.toolDocuments(c, found, &body.agentFields, agent.Tools); err != nil {
		return err
	}
	return found.err()
}

// deleteAgent is DELETE /api/agents?id=: its queued runs are cancelled, its finished ones stay.
func (a *api) deleteAgent(c *gin.Context) {
	agentID, err := requiredID(c, id.Agent)
	if err != nil {
		fail(c, err)
		return
	}
	about(c, agentID, "", "")
	condition, err := preconditionOf(c.Request.Header)
	if err != nil {
		fail(c, err)
		return
	}
	// Once it has begun it is carried through, whether or not the caller waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), cancelTime)
	defer cancel()
	if err := a.dropAgent(ctx, caller(c).OrganizationID, agentID, condition); err != nil {
		fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, deleted(agentID))
}

// dropAgent cancels what is queued before and after the deletion: before, so that nothing is lost when
// cancelling fails and the caller tries again; after, for what was accepted in between.
func (a *api) dropAgent(ctx context.Context, org, agentID string, condition precondition) error {
	agent, err := a.Store.Agent(ctx, org, agentID)
	if err == nil {
		err = condition.check(agent.Version)
	}
	if err != nil {
		return err
	}
	defer a.forgetWidget(agent)
	if err := a.Runs.CancelQueued(ctx, org, agentID); err != nil {
		return fmt.Errorf("cancelling queued runs: %w", err)
	}
	if err := a.Store.DeleteAgent(ctx, org, agentID, condition.check); err != nil {
		return err
	}
	if err := a.Runs.CancelQueued(ctx, org, agentID); err != nil {
		return fmt.Errorf("cancelling queued runs: %w", err)
	}
	return nil
}

// sealer seals the secrets of one agent: of its tools' headers and signatures.
func (a *api) sealer(org, agentID string) func(string) string {
	place := secrets.AgentHeaders(org, agentID)
	return func(secret string) string { return a.Secrets.Seal(secret, place) }
}

// seals seal what an agent keeps secret, each kind for a place of its own.
type seals struct{ headers, identity func(string) string }

func (a *api) seals(org, agentID string) seals {
	place := secrets.WidgetIdentity(org, agentID)
	return seals{a.sealer(org, agentID), func(secret string) string { return a.Secrets.Seal(secret, place) }}
}

// shown is an agent as callers see it: secrets hidden, lists never null, and the default model by name.
func (a *api) shown(agent domain.Agent) domain.Agent {
	if agent.Model == "" {
		agent.Model = a.DefaultModel
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
	return agent
}

func hide(headers map[string]string) {
	for name := range headers {
		headers[name] = hidden
	}
}
