package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"parley/shared/store/budgetdb"
	"parley/shared/telemetry/tracing"
)

const (
	// ChecksPerMinute is the default of Deps.ChecksPerMinute.
	ChecksPerMinute = 10

	checkTime = 30 * time.Second // time limit for all connections together
)

// WorkerCaller calls a worker over NATS and returns its reply. capability contains the signed
// claims. The call ends at the deadline.
type WorkerCaller interface {
	Call(ctx context.Context, kind, capability string, body []byte, deadline time.Time) ([]byte, error)
}

// Budgets checks budgets. WithinBudget returns the error budget_exceeded if a budget that applies
// to a run with these arguments is used up. agentID, keyID and automationID may be empty.
type Budgets interface {
	WithinBudget(ctx context.Context, org, agentID, keyID, automationID string) error
}

// ClaimSigner signs claims together with the body to which they belong. Workers act only for claims
// with a valid signature.
type ClaimSigner interface {
	Sign(claims, body []byte) string
}

// checkAgent handles POST /api/agents?id=&action=check: it tries to reach the agent's models, MCP
// servers and search provider, and the hosts of its endpoints. It stores the result as the agent's
// last check. The response is 200 with the check, even if a connection failed. Errors: rate_limited
// after ChecksPerMinute checks in a minute, and budget_exceeded, because the models are really
// called.
func (h *Handler) checkAgent(c *gin.Context) error {
	agentID, err := httpx.RequiredID(c, id.Agent)
	if err != nil {
		return err
	}

	httpx.SetLogIDs(c, agentID, "", "")
	ctx, org := c.Request.Context(), httpx.Caller(c).OrganizationID
	agent, err := h.AgentsDB.Agent(ctx, org, agentID)
	if err != nil {
		return err
	}

	// Begin counts the check at once. A check that fails later counts too, because it has caused
	// connections.
	if h.ChecksPerMinute > 0 {
		if wait := h.checks.Begin(org); wait > 0 {
			return httpx.RateLimited(wait, fmt.Sprintf("rate limit of %d agent checks per minute exceeded", h.ChecksPerMinute))
		}
	}

	// A check is not a run, so a budget that limits only the number of runs does not apply to it.
	keyID := httpx.Caller(c).KeyID
	if err := h.Budgets.WithinBudget(ctx, org, agentID, keyID, ""); err != nil && !errors.Is(err, budgetdb.ErrRunsUsedUp) {
		return err
	}

	// The check is stored with the version of the agent that was checked, so readers can see
	// whether the agent has changed since.
	check, err := h.checkConnections(ctx, org, keyID, agent)
	if err == nil {
		err = h.AgentsDB.SaveCheck(ctx, org, agentID, check)
	}
	if err != nil {
		return err
	}
	return httpx.JSON(c, http.StatusOK, check)
}

// checkConnections lets workers check the agent's models and tools concurrently. If no worker
// responds, the result contains a failed check instead. If too little of a budget is left for the
// calls of the models, checkConnections returns budget_exceeded. A check takes at most checkTime.
// If the caller disconnects, the result is an error and nothing is stored.
func (h *Handler) checkConnections(ctx context.Context, org, keyID string, agent domain.Agent) (domain.AgentCheck, error) {
	deadline := time.Now().Add(checkTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	// Agent workers check the models and tool workers check the tools, because only they have the
	// necessary settings.
	claims := contract.CheckClaims{OrganizationID: org, AgentID: agent.ID, KeyID: keyID, Version: agent.Version, Expires: deadline.UTC()}

	// Each goroutine writes only its own variables, which are read after Wait.
	var models, tools []domain.Check
	var refused error
	var wait sync.WaitGroup
	wait.Go(func() { models, refused = h.callChecks(ctx, contract.KindCheckModels, claims) })
	if connects(agent.Tools) {
		wait.Go(func() { tools, _ = h.callChecks(ctx, contract.KindCheckTools, claims) })
	}
	wait.Wait()

	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return domain.AgentCheck{}, fmt.Errorf("checking connections: %w", err) // the caller has disconnected
	}
	if refused != nil {
		return domain.AgentCheck{}, refused
	}
	check := domain.AgentCheck{Version: agent.Version, CheckedAt: domain.At(time.Now()), OK: true, Checks: append(models, tools...)}
	for _, one := range check.Checks {
		check.OK = check.OK && one.OK
	}
	return check, nil
}

// checkState returns a text that identifies the result of a check, for an agent's entity tag. It
// returns "" if there was no check. The text changes with each check.
func checkState(check *domain.AgentCheck) string {
	if check == nil {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %d %+v", check.Version, check.CheckedAt.UnixNano(), check.Checks)
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// connects reports whether an agent has an enabled tool that connects to other servers. The code
// tool and the knowledge tool connect to no server of the agent's choice.
func connects(t domain.Tools) bool {
	return t.WebSearch != nil && t.WebSearch.Enabled || t.MCP != nil && t.MCP.Enabled || t.HTTPRequest != nil && t.HTTPRequest.Enabled
}

// callChecks lets a worker make the checks of one kind. It returns no error except budget_exceeded;
// any other failure results in a failed check. The failed check has the kind worker and names the
// role that did not respond.
func (h *Handler) callChecks(ctx context.Context, kind string, claims contract.CheckClaims) ([]domain.Check, error) {
	began := time.Now()
	claims.Kind = kind
	reply, err := h.callWorker(ctx, kind, claims)
	switch {
	// Too little of a budget is left for the calls of the models.
	case err == nil && reply.Lacking != nil:
		exceeded := budgetdb.UsedUp(*reply.Lacking)
		if reply.Later {
			exceeded.RetryAfter = time.Until(claims.Expires) // by then, the calls that reserve the rest of the budget have finished
		}
		return nil, exceeded
	case err == nil && !reply.Unavailable:
		return reply.Checks, nil
	}

	role, detail := "agent", "The models were not checked, because no worker with the role agent responded."
	if kind == contract.KindCheckTools {
		role = "tool"
		detail = "The search provider, MCP servers and endpoints were not checked, because no worker with the role tool responded."
	}

	// The cause is only logged: the response must not contain internals of the bus.
	log := h.Log.Warn().Err(err).Str("org_id", claims.OrganizationID).Str("agent_id", claims.AgentID).Str("role", role)
	log.Msg("no worker responded to the check of an agent's connections")
	return []domain.Check{{
		Kind: domain.CheckWorker, Name: role, DurationMS: time.Since(began).Milliseconds(),
		Detail: detail,
	}}, nil
}

// callWorker sends a check to a worker and returns the reply. The call ends at the time at which
// the claims expire. The trace of the request continues in the worker.
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
