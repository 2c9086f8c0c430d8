package httpapi

import (
	"testing"
	"time"

	"parley/shared/domain"
)

// All demo visitors share one budget. Replays and authenticated callers are not affected.
func TestDemoBudget(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	now := time.Now()
	a.api.Limiter.DemoTokens, a.api.Now = 100, func() time.Time { return now }
	const target, body = "/api/agents?action=chat&template=tpl_support", `{"sessionId":"s","message":"m"}`
	demo, later := "X-Tenant-Id: tenant_demo", "Prefer: respond-async"
	a.do("POST", target, body, demo, later, "Idempotency-Key: k").want(t, "a chat within the budget", 202, "")
	a.exec(`UPDATE runs SET input_tokens = 60, output_tokens = 40 WHERE org_id = $1`, domain.DemoOrganization)
	now = now.Add(10 * time.Second)
	refused := a.do("POST", target, body, demo, later).want(t, "a chat beyond it", 429, "budget_exceeded")
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	a.do("POST", target, body, demo, later, "X-Forwarded-For: 203.0.113.9").want(t, "another visitor's", 429, "budget_exceeded")
	a.do("POST", target, body, demo, later, "Idempotency-Key: k").want(t, "the first one again", 202, "")
	a.do("POST", target, body, h.owner.auth, later).want(t, "a caller's own", 202, "")
	a.exec(`UPDATE runs SET created_at = created_at - interval '1 day' WHERE org_id = $1`, domain.DemoOrganization)
	now = now.Add(10 * time.Second)
	a.do("POST", target, body, demo, later).want(t, "a day later", 202, "")
}
