package httpapi

import (
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openapi"
	"parley/ingress/internal/ratelimit"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store"
)

// each calls f with a sample request for every operation, except for probes and metrics, which are
// not rate-limited.
func each(f func(o openapi.Operation, target, body string)) {
	for _, group := range openapi.Read().Groups {
		for _, o := range group.Operations {
			if group.Name == "Operations" {
				continue
			}
			samples := o.Samples
			sample := samples[len(samples)-1]
			f(o, sample.Target(), sample.Body)
		}
	}
}

// TestEveryOperationIsLimited sends a sample of every operation as a caller who has reached the
// limit.
func TestEveryOperationIsLimited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, ratelimit.Settings{Demo: 1, User: 2, System: 3})
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	for _, who := range []string{ada.auth, key, key} { // the key belongs to ada
		w.do("GET", "/api/agents", "", who).want(t, "within the limit", 200, "")
	}
	w.do("GET", "/api/agents/templates", "", "X-Tenant-Id: tenant_demo").want(t, "within the demo limit", 200, "")
	each(func(o openapi.Operation, target, body string) {
		who := ada.auth
		switch {
		case o.ID == "runAutomation":
			return // requests are counted only after the check for replays; see TestReplaysAreFreeWhenTheLimitIsReached
		case o.ID == "openFileLink":
			return // requests have no caller: see TestLinksToFiles
		case o.ID == "receiveDelivery":
			return // a delivery over the limit is accepted; see TestDeliveriesOverTheLimit
		case len(o.Credentials) == 0:
			who = "X-Tenant-Id: tenant_demo"
		case o.ID == "postMcp":
			who = key
		}
		w.do(o.Method, target, body, who).want(t, o.ID, 429, "rate_limited")
	})
}

// TestEveryOperationWithoutDatabase sends a sample of every operation while the database is
// unreachable. The callers are still identified, because their identities are cached. The error is
// unavailable.
func TestEveryOperationWithoutDatabase(t *testing.T) {
	t.Parallel()
	w := newRunEnvFor(t, newTestEnv(t, manyRequests))
	ada := w.signUp("ada@example.com")
	key, _ := w.key(ada, domain.KeyScopeOrganization)
	for _, who := range []string{ada.auth, key} {
		w.do("GET", "/api/agents", "", who).want(t, "while it can be reached", 200, "")
	}
	away, err := store.Open("postgres://nobody@127.0.0.1:1/nowhere?sslmode=disable", 1)
	must(t, err)
	t.Cleanup(func() { _ = away.Close() })
	w.rebuild(func(d *Deps) {
		d.Store, d.Dispatch = away, dispatch.New(dispatch.Config{BacklogMax: 1}, away, w.bus, zerolog.Nop())
	})
	each(func(o openapi.Operation, target, body string) {
		if slices.Contains([]string{"runAutomation", "createCompletion", "createResponse", "createWidgetSession", "beginOidc", "finishOidc"}, o.ID) {
			return // other tests cover these operations, which need a running dispatcher, a page of a website, or an OpenID provider
		}
		who := ada.auth
		switch {
		case o.ID == "openFileLink": // the sample contains a token that this service has not signed
			target = fileLink(t, w.api.runs.Links.URL(ada.org, id.New(id.File)))
		case len(o.Credentials) == 0:
			who = "X-Unknown: x"
		case o.ID == "postMcp":
			who = key
		}
		switch o.ID {
		case "getEvents", "getModelList", "createEmbeddings": // these use no database; TestFailedEmbeddings covers failed calls of workers
			w.do(o.Method, target, body, who).want(t, o.ID, 200, "")
			return
		}
		a := w.do(o.Method, target, body, who).want(t, o.ID, 503, "unavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", o.ID)
		}
	})
}

// TestProbesWithoutBody sends HEAD requests, which some probes use.
func TestProbesWithoutBody(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, manyRequests)
	w.do("HEAD", "/healthz", "").want(t, "alive", 200, "")
	w.do("HEAD", "/readyz", "").want(t, "ready", 200, "")
	w.rebuild(func(d *Deps) { d.Draining = func() bool { return true } })
	w.do("HEAD", "/readyz", "").want(t, "draining", 503, "")
}
