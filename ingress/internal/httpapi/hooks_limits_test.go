package httpapi

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/hook"
	"parley/ingress/internal/httpapi/transfer"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
)

// Deliveries that cannot start a run count against the rate limit. Deliveries over the limit are
// not logged.
func TestFilteredDeliveriesCount(t *testing.T) {
	t.Parallel()
	a := newRunEnvFor(t, newTestEnv(t, ratelimit.Settings{Demo: 1, User: 50, System: 51, Widget: unlimited.Widget}))
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github", `"filter":[{"path":"a","op":"eq","value":1}]`)
	for range 120 {
		got := a.deliver(hookID, "github", a.fresh(), "push", `{"a":2}`).want(t, "filtered", 202, "")
		if got.text(t, "status") != "filtered" || got.json(t, "runId") != nil {
			t.Errorf("filtered: %s", got.body)
		}
	}
	for range 5 {
		a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, "one to run", 202, "")
	}
	var logged, bodies, held int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FILTER (WHERE status = 'filtered'), count(body) FILTER (WHERE status = 'filtered'),
		(SELECT count(*) FROM open_runs WHERE not_before IS NOT NULL) FROM deliveries`).Scan(&logged, &bodies, &held))
	if logged == 0 || logged == 120 || bodies != 0 || held == 0 {
		t.Errorf("%d are logged, %d with their bodies; %d runs are put off", logged, bodies, held)
	}
}

// A delivery whose run is refused counts against the rate limit, too.
func TestRefusedDeliveriesCount(t *testing.T) {
	t.Parallel()
	a := newRunEnvFor(t, newTestEnv(t, ratelimit.Settings{Demo: 1, User: 50, System: 51, Widget: unlimited.Widget}))
	for code, change := range map[string]func(h *testOrg, agentID string){
		"not_found": func(h *testOrg, agentID string) { a.ok("DELETE", "/api/agents?id="+agentID, "", h.key) },
		"caller_not_allowed": func(h *testOrg, agentID string) {
			a.ok("PUT", "/api/agents?id="+agentID, `{"allowedCallers":["user"]}`, h.key)
		},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			h := a.newTestOrg(code)
			agentID := a.newAgent(h)
			hookID := a.ok("POST", "/api/hooks", hookBody(agentID, "github"), h.key).text(t, "id")
			change(h, agentID)
			var first string
			for n := range 120 {
				got := a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, code, 202, "")
				if n == 0 {
					first = got.text(t, "error.message")
				}
				if got.text(t, "status") != "refused" || got.text(t, "error.code") != code || got.text(t, "error.message") != first || got.json(t, "runId") != nil {
					t.Fatalf("delivery %d: %s", n, got.body)
				}
			}
			var logged int
			must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM deliveries WHERE hook_id = $1`, hookID).Scan(&logged))
			if logged == 0 || logged == 120 {
				t.Errorf("%d are logged", logged)
			}
		})
	}
}

// A budget is used up, but this ingress process has cached that there are no budgets. A delivery
// therefore passes the first check, but its run is refused. The delivery is logged as refused.
func TestABudgetIsUsedUpDuringADelivery(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookIDs := []string{a.newHook(h, "github"), a.newHook(h, "github", `"coalesce":{"key":"{{a}}","windowSeconds":60,"maxWaitSeconds":60}`)}
	for _, hookID := range hookIDs { // from now on, the process has cached that there are no budgets
		a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, "before", 202, "")
	}
	a.exec(`INSERT INTO budgets (id, org_id, scope, metric, period, most) VALUES ('bud_x', $1, 'organization', 'runs', 'day', 1)`, h.org)
	for _, hookID := range hookIDs {
		got := a.deliver(hookID, "github", a.fresh(), "push", `{"a":2}`).want(t, "after", 202, "")
		if got.text(t, "status") != "refused" || got.text(t, "error.code") != "budget_exceeded" || got.json(t, "runId") != nil {
			t.Errorf("after: %s", got.body)
		}
		if log := a.ok("GET", "/api/hooks/deliveries?status=refused&hookId="+hookID, "", h.key); log.json(t, "data.0.id") == nil {
			t.Errorf("the log: %s", log.body)
		}
	}
}

// callbackBody is a body that calls the function do at the beginning of the first read.
type callbackBody struct {
	io.Reader

	do func(room int)
}

func (m *callbackBody) Read(p []byte) (int, error) {
	if m.do != nil {
		m.do(len(p))
		m.do = nil
	}
	return m.Reader.Read(p)
}

// deliverDuring sends a delivery as GitHub does, and calls the function do while the body arrives.
// It returns the status of the response.
func (a *runEnv) deliverDuring(hookID, body string, do func(room int)) int {
	req := a.delivery(hookID, "github", a.fresh(), "push", body)
	req.Body, req.ContentLength = io.NopCloser(&callbackBody{strings.NewReader(body), do}), int64(len(body))
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, req)
	return rec.Code
}

// If a hook is disabled or deleted, or its key is revoked, while a delivery's body arrives, the
// delivery is rejected.
func TestAHookIsDisabledDuringADelivery(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	for what, change := range map[string]func(hookID string){
		"disabled": func(hookID string) { a.ok("PUT", "/api/hooks?id="+hookID, `{"enabled":false}`, h.key) },
		"deleted":  func(hookID string) { a.ok("DELETE", "/api/hooks?id="+hookID, "", h.key) },
		"its key revoked": func(hookID string) {
			_, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
			a.ok("PUT", "/api/hooks?id="+hookID, `{"keyId":"`+keyID+`"}`, h.key)
			a.ok("DELETE", "/api/keys?id="+keyID, "", h.owner.auth, h.header)
		},
	} {
		for _, body := range []string{`{"a":1}`, `{"a":"` + strings.Repeat("x", 2*transfer.SmallBody) + `"}`} {
			hookID := a.newHook(h, "github")
			if status := a.deliverDuring(hookID, body, nil); status != 202 {
				t.Errorf("%s, before: %d", what, status)
			}
			if status := a.deliverDuring(hookID, body, func(int) { change(hookID) }); status != 404 {
				t.Errorf("%s, %d bytes: %d", what, len(body), status)
			}
		}
	}
}

// A body occupies memory only for the bytes that have arrived, whatever its Content-Length is. A
// large body takes a slot.
func TestBodiesUseMemoryAsTheyArrive(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	hookID := a.newHook(h, "github")
	for _, size := range []int{transfer.SmallBody - 20, transfer.SmallBody + 1} {
		room, slots := 0, 0
		status := a.deliverDuring(hookID, `{"a":"`+strings.Repeat("x", size)+`"}`, func(n int) {
			a.api.hooks.Medium.Mu.Lock()
			defer a.api.hooks.Medium.Mu.Unlock()
			room, slots = n, len(a.api.hooks.Medium.Open)
		})
		if status != 202 || room > 2*hook.DeliveryBegins || (slots == 1) != (size > transfer.SmallBody) {
			t.Errorf("%d bytes: %d, room for %d bytes at first, %d places", size, status, room, slots)
		}
	}
}

func TestHooksContinueWithARotatedKey(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	_, keyID := a.newKey(h, h.owner, domain.KeyScopeOrganization)
	hookID := a.newHook(h, "github", `"keyId":"`+keyID+`"`)
	rotated := a.ok("POST", "/api/keys?action=rotate&id="+keyID, `{"overlapSeconds":0}`, h.owner.auth, h.header)
	if hook := a.ok("GET", "/api/hooks?id="+hookID, "", h.key); hook.text(t, "keyId") != rotated.text(t, "id") {
		t.Errorf("the hook: %s", hook.body)
	}
	a.deliver(hookID, "github", a.fresh(), "push", `{"a":1}`).want(t, "after its key was rotated", 202, "")
	eventually(t, "the cleanup finds the key in use", func() bool {
		return a.ok("GET", "/api/keys?limit=1", "", h.key).json(t, "data.0.lastUsedAt") != nil
	})
}
