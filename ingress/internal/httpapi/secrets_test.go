package httpapi

import (
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/sealed"
	"parley/shared/sealed/sealedtest"
	"parley/shared/store"
	"parley/shared/store/agentdb"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

// withKeys returns an environment that uses the given database and value of SECRETS_KEY. It
// encrypts stored content.
func withKeys(t *testing.T, dsn, setting string) *runEnv {
	t.Helper()
	s, err := store.Open(dsn, 8)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.Seals.SealContents(sealedtest.Box(t, setting))
	return newRunEnvFor(t, newTestEnvWithKeys(t, dsn, s, unlimited, setting))
}

// unopened returns the metric that counts failed decryptions of values of the given kind.
func (w *testEnv) unopened(t *testing.T, kind sealdb.Kind) float64 {
	t.Helper()
	families, err := w.sealed.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "parley_secrets_unopened_total" && metric.GetLabel()[0].GetValue() == string(kind) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no counter of %s", kind)
	return 0
}

// errorLines returns the number of log lines that report a failed decryption of a value of the
// given kind.
func (w *testEnv) errorLines(kind sealdb.Kind, words ...string) int {
	n := 0
next:
	for line := range strings.Lines(w.log.String()) {
		for _, word := range append(words, `"level":"error"`, `"kind":"`+string(kind)+`"`, "cannot decrypt a stored value") {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		n++
	}
	return n
}

// If a request needs a value that is sealed with a missing key, the response is 503, and the log
// reports the missing key to the operator. After resealing, the old key is no longer needed.
func TestTheKeyOfStoredSecretsIsRemoved(t *testing.T) {
	t.Parallel()
	dsn, both := testkit.Postgres(t), sealedtest.KeyB+","+sealedtest.KeyA
	a := withKeys(t, dsn, sealedtest.KeyA)
	h := a.newTestOrg("red")
	hookID := a.newHookWithDelivery(h)
	widgetID := a.newWidgetAgent(h, widgetPage)
	kept := a.visit(widgetID, signed(widgetID, "4711"), widgetPage).want(t, "signed", 201, "").text(t, "visitor")
	anonymous := a.visit(widgetID, "", widgetPage).want(t, "anonymous", 201, "").text(t, "visitor")
	documentID := a.ok("POST", "/api/knowledge", `{"name":"a.txt","content":"red content"}`, h.key).text(t, "id")
	download := func(a *runEnv) answer {
		return a.from("GET", "/api/knowledge?content=1&id="+documentID, "", h.key)
	}
	body := func(a *runEnv) answer {
		return a.from("GET", "/api/hooks/deliveries?id=d1&hookId="+hookID, "", h.key)
	}
	download(a).want(t, "downloading at first", 200, "")
	body(a).want(t, "a body at first", 200, "")

	keyA := `"key_id":"` + sealedtest.Box(t, sealedtest.KeyA).KeyIDs()[0] + `"`
	gone := withKeys(t, dsn, sealedtest.KeyB)
	for range 2 {
		got := gone.deliver(hookID, "hmac", gone.fresh(), "", `{"a":1}`).want(t, "a delivery", 503, "unavailable")
		if got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Retry-After") == "" {
			t.Errorf("a delivery: %v %s", got.header, got.body)
		}
		if said := got.text(t, "detail"); !strings.Contains(said, "cannot be decrypted") || strings.Contains(said, h.org) {
			t.Errorf("the response to a delivery is %q", said)
		}
	}
	gone.deliver(hookID, "hmac", "d3", "", `{"a":1}`, "X-Signature: 00").want(t, "a stranger's delivery", 503, "unavailable")
	gone.visit(widgetID, signed(widgetID, "4711"), widgetPage).want(t, "a signed visitor", 503, "unavailable")
	gone.visit(widgetID, `"`+kept+`"`, widgetPage).want(t, "a visitor whose name has the key that is gone", 201, "")
	download(gone).want(t, "downloading", 503, "unavailable")
	body(gone).want(t, "a body", 503, "unavailable")
	for _, c := range []struct {
		kind  sealdb.Kind
		id    string
		times int
	}{
		{sealdb.KindHook, `"hook_id":"` + hookID + `"`, 1}, // at the first request, the hook is still cached
		{sealdb.KindWidget, `"agent_id":"` + widgetID + `"`, 1},
		{sealdb.KindContent, `"hash":"`, 1},
		{sealdb.KindDelivery, `"delivery_id":"d1"`, 1},
	} {
		if n := gone.errorLines(c.kind, c.id, keyA, `"org_id":"`+h.org+`"`); n != c.times {
			t.Errorf("%d lines of the log are about the %s, want %d: %s", n, c.kind, c.times, gone.log)
		}
		if n := gone.unopened(t, c.kind); int(n) != c.times {
			t.Errorf("%v values of %s were counted, want %d", n, c.kind, c.times)
		}
	}
	for _, secret := range []string{hookSecret, identityKey, "red content"} {
		if strings.Contains(gone.log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}

	rotating := withKeys(t, dsn, both)
	_, err := sealed.Reseal(t.Context(), rotating.store.Seals, sealedtest.Box(t, both),
		func(v sealdb.Value) { t.Errorf("not opened: %s", v) }, func(sealed.Outcome) {})
	must(t, err)
	// While both keys are configured, a returning visitor of a widget gets a visitor name that is
	// sealed with the new key.
	anonymous = rotating.visit(widgetID, `"`+anonymous+`"`, widgetPage).want(t, "an anonymous visitor, with both", 201, "").text(t, "visitor")

	fresh := withKeys(t, dsn, sealedtest.KeyB)
	fresh.deliver(hookID, "hmac", fresh.fresh(), "", `{"a":1}`).want(t, "a delivery, resealed", 202, "")
	fresh.deliver(hookID, "hmac", fresh.fresh(), "", `{"a":1}`, "X-Signature: 00").want(t, "a stranger's delivery, resealed", 401, "unauthenticated")
	fresh.visit(widgetID, signed(widgetID, "4711"), widgetPage).want(t, "a signed visitor, resealed", 201, "")
	if visitorID, _, ok, err := fresh.widgets().Returning(&agentdb.Widget{OrganizationID: h.org, AgentID: widgetID}, anonymous); !ok || err != nil ||
		!strings.HasPrefix(visitorID, domain.VisitorAnonymous) {
		t.Errorf("the anonymous visitor is %q, %v", visitorID, err)
	}
	if got := download(fresh).want(t, "downloading, resealed", 200, ""); string(got.body) != "red content" {
		t.Errorf("downloaded %q", got.body)
	}
	body(fresh).want(t, "a body, resealed", 200, "")
	if strings.Contains(fresh.log.String(), "cannot decrypt a stored value") {
		t.Errorf("the log says %s", fresh.log)
	}
}

// While its secret is being rotated, a hook has two secrets. If one of them cannot be decrypted,
// the hook still accepts deliveries signed with the other.
func TestAHookWithOneSecretThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	a := withKeys(t, dsn, sealedtest.KeyA)
	hookID := a.newHookWithDelivery(a.newTestOrg("red"))
	a.exec(`UPDATE hooks SET previous_secret = 'v1.0c0c0c0c.abc', previous_until = now() + interval '1 hour' WHERE id = $1`, hookID)
	a.api.hooks.Hooks.Forget(hookID)
	a.deliver(hookID, "hmac", a.fresh(), "", `{"a":1}`).want(t, "a delivery", 202, "")
	if n := a.unopened(t, sealdb.KindHook); n != 1 {
		t.Errorf("%v were counted", n)
	}
	a.exec(`UPDATE hooks SET enabled = false, secret = 'v1.0c0c0c0c.abc' WHERE id = $1`, hookID)
	a.api.hooks.Hooks.Forget(hookID)
	a.deliver(hookID, "hmac", a.fresh(), "", `{"a":1}`).want(t, "a delivery to a disabled hook", 404, "not_found")
}
