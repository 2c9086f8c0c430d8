package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/telemetry/tracing"
)

const (
	// ChecksPerMinute is the default of Deps.ChecksPerMinute.
	ChecksPerMinute = 10

	checkTime = 30 * time.Second // time limit for all connections together
)

// WorkerCaller calls a worker over NATS and returns its reply.
type WorkerCaller interface {
	Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error)
}

// ClaimSigner signs claims together with the body to which they belong.
type ClaimSigner interface {
	Sign(claims, body []byte) string
}

// checkAgent handles POST /api/agents?id=&action=check: it tries the agent's models, MCP servers,
// search provider and endpoints' hosts, and stores the result as the agent's last check.
func (h *Handler) checkAgent(c *gin.Context) {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.SetLogIDs(c, agentID, "", "")
	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	agent, err := h.AgentsDB.Agent(ctx, org, agentID)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	if h.ChecksPerMinute > 0 {
		if wait := h.checks.Begin(org); wait > 0 {
			httpx.Fail(c, httpx.RateLimited(wait, fmt.Sprintf("the organization may check its agents %d times per minute", h.ChecksPerMinute)))
			return
		}
	}

	check, err := h.checkConnections(ctx, org, agent)
	if err == nil {
		err = h.AgentsDB.SaveCheck(ctx, org, agentID, check)
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, check)
}

// checkConnections has workers check the agent's models and tools at the same time. A worker that
// cannot be reached is a failed check in the result.
func (h *Handler) checkConnections(ctx context.Context, org string, agent domain.Agent) (domain.AgentCheck, error) {
	deadline := time.Now().Add(checkTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	// Different workers have the settings for models and for tools.
	var models, tools []domain.Check
	var wait sync.WaitGroup
	wait.Go(func() { models = h.callChecks(ctx, org, agent, contract.KindCheckModels, deadline) })
	if connects(agent.Tools) {
		wait.Go(func() { tools = h.callChecks(ctx, org, agent, contract.KindCheckTools, deadline) })
	}
	wait.Wait()

	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return domain.AgentCheck{}, fmt.Errorf("checking connections: %w", err) // the caller has disconnected
	}
	check := domain.AgentCheck{Version: agent.Version, CheckedAt: domain.At(time.Now()), OK: true, Checks: append(models, tools...)}
	for _, one := range check.Checks {
		check.OK = check.OK && one.OK
	}
	return check, nil
}

// connects reports whether an enabled tool connects to other servers.
func connects(t domain.Tools) bool {
	return t.WebSearch != nil && t.WebSearch.Enabled || t.MCP != nil && t.MCP.Enabled || t.HTTPRequest != nil && t.HTTPRequest.Enabled
}

// callChecks calls a worker to check the connections of one kind. The signed claims name the
// organization, the agent and its version.
func (h *Handler) callChecks(ctx context.Context, org string, agent domain.Agent, kind string, deadline time.Time) []domain.Check {
	began := time.Now()
	reply, err := h.callWorker(ctx, kind, contract.CheckClaims{
		OrganizationID: org, Kind: kind, AgentID: agent.ID, Version: agent.Version, Expires: deadline.UTC(),
	})
	if err == nil && !reply.Unavailable {
		return reply.Checks
	}

	role, missing := "agent", "models"
	if kind == contract.KindCheckTools {
		role, missing = "tool", "search provider, MCP servers and endpoints"
	}
	log := h.Log.Warn().Err(err).Str("org_id", org).Str("agent_id", agent.ID).Str("role", role)
	log.Msg("no worker has checked the connections of an agent")
	return []domain.Check{{
		Kind: domain.CheckWorker, Name: role, DurationMS: time.Since(began).Milliseconds(),
		Detail: "No worker with the role " + role + " has checked the " + missing + ".",
	}}
}

// callWorker sends a check to a worker and returns the reply.
func (h *Handler) callWorker(ctx context.Context, kind string, claims contract.CheckClaims) (reply contract.CheckReply, err error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return reply, fmt.Errorf("writing claims: %w", err)
	}
	ctx = contract.WithTraceparent(ctx, tracing.Traceparent(ctx))
	answer, err := h.Workers.Call(ctx, kind, h.Signer.Sign(raw, nil), nil, claims.Expires)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return reply, fmt.Errorf("reading checks: %w", err)
	}
	return reply, nil
}
