package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store/agentdb"
)

const page = "https://www.example.com"

// fakeWidgets stores widgets in memory and counts reads.
type fakeWidgets struct {
	mu     sync.Mutex
	agents map[string]*agentdb.Widget
	reads  int
	err    error
}

func (f *fakeWidgets) Widgets(_ context.Context, ids []string) (map[string]*agentdb.Widget, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	out := map[string]*agentdb.Widget{}
	for _, agentID := range ids {
		if w := f.agents[agentID]; w != nil {
			copied := *w
			out[agentID] = &copied
		}
	}
	return out, f.err
}

func (f *fakeWidgets) WidgetOrigins(_ context.Context, origins []string) (map[string]*agentdb.Origin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	out := map[string]*agentdb.Origin{}
	for _, w := range f.agents {
		for _, origin := range origins {
			if strings.Contains(strings.Join(w.Origins, " ")+" ", origin+" ") {
				out[origin] = &agentdb.Origin{}
			}
		}
	}
	return out, f.err
}

// widgetEnv is a resolver with the widget of one agent. Its clock shows the time that the test has
// set.
type widgetEnv struct {
	*Resolver
	lookup *fakeWidgets
	box    *secrets.Box
	widget *agentdb.Widget
	clock  time.Time
}

// watchFor returns a sealed.Watch that decrypts stored secrets with box. Its reports of secrets
// that cannot be decrypted are discarded.
func watchFor(t *testing.T, box *secrets.Box) *sealed.Watch {
	t.Helper()
	watch, err := sealed.NewWatch(box, prometheus.NewRegistry(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return watch
}

func newWidgetEnv(t *testing.T) *widgetEnv {
	t.Helper()
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	w := &agentdb.Widget{AgentID: id.New(id.Agent), OrganizationID: id.New(id.Organization), Name: "n", Origins: []string{page}}
	w.Secret = box.Seal("the secret", secrets.WidgetIdentity(w.OrganizationID, w.AgentID))
	l := &widgetEnv{lookup: &fakeWidgets{agents: map[string]*agentdb.Widget{w.AgentID: w}}, box: box, widget: w, clock: time.Now()}
	widgets := NewWidgets(l.lookup, box, watchFor(t, box))
	l.Resolver = New(&fakeLookup{}, widgets, nil)
	l.now, widgets.now = func() time.Time { return l.clock }, func() time.Time { return l.clock }
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(t.Context()) })
	t.Cleanup(wg.Wait)
	return l
}

func (l *widgetEnv) resolve(t *testing.T, need Need, token string, headers ...string) (Identity, error) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	req.RemoteAddr = "192.0.2.7:1"
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Origin", page)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if need < 0 {
		return l.Again(req)
	}
	return l.Resolve(req, need)
}

const again = Need(-1)

func TestWidgetTokensAllowOnlyPublicOperations(t *testing.T) {
	t.Parallel()
	l := newWidgetEnv(t)
	token, expires := l.Widgets().NewToken(l.widget.AgentID, page, "id:ada")
	for need, want := range map[Need]apierr.Code{
		NeedDemo: "", NeedPublic: "", NeedVisitor: "", again: "", NeedUser: apierr.PermissionDenied, NeedNobody: apierr.PermissionDenied,
		NeedPage: apierr.PermissionDenied, NeedKey: apierr.ServerToServerOnly,
	} {
		ident, err := l.resolve(t, need, token)
		if (err == nil) != (want == "") || err != nil && apierr.CodeFor(err) != want {
			t.Errorf("need %d: %v", need, err)
		}
		if want != "" {
			if ident.Caller != (domain.Caller{}) || ident.Via != ViaWidget && need != NeedKey {
				t.Errorf("need %d: refused as %+v", need, ident)
			}
			continue
		}
		caller := domain.Caller{
			Kind: domain.CallerUser, OrganizationID: l.widget.OrganizationID, Credential: "widget:" + l.widget.AgentID + ":id:ada",
			Visitor: domain.Visitor{ID: "id:ada", AgentID: l.widget.AgentID, Origin: page, Client: "192.0.2.7"},
		}
		if ident.Caller != caller || ident.Caller.Principal() != "widget:id:ada" || ident.Via != ViaWidget || ident.Token != "" || len(ident.Organizations) > 0 ||
			!ident.Until.Equal(l.clock.Add(remember)) {
			t.Errorf("need %d: %+v", need, ident)
		}
	}
	if err := func() error { _, err := l.resolve(t, NeedKey, token, "Origin", ""); return err }(); apierr.CodeFor(err) != apierr.ServerToServerOnly {
		t.Errorf("with an empty origin: %v", err)
	}
	if _, err := l.resolve(t, NeedUpload, token); apierr.CodeFor(err) != apierr.PermissionDenied {
		t.Errorf("an upload for a widget without attachments: %v", err)
	}
	l.widget.Attachments = true
	l.Widgets().Forget(l.widget.AgentID)
	if ident, err := l.resolve(t, NeedUpload, token); err != nil || !ident.Caller.Visitor.Attachments {
		t.Errorf("an upload: %+v, %v", ident, err)
	}
	if left := expires.Sub(l.clock); left <= WidgetTokenLife-time.Second || left > WidgetTokenLife {
		t.Errorf("valid for %s", left)
	}
	l.clock = expires
	if _, err := l.resolve(t, NeedDemo, token); apierr.CodeFor(err) != apierr.Unauthenticated {
		t.Errorf("after its expiry: %v", err)
	}
	if _, err := l.resolve(t, again, token); err != nil {
		t.Errorf("during a stream that outlasts it: %v", err)
	}
	if _, err := l.resolve(t, again, token, "Origin", "https://other.example.com"); apierr.CodeFor(err) != apierr.PermissionDenied {
		t.Errorf("from another page: %v", err)
	}
}

func TestBadWidgetTokens(t *testing.T) {
	t.Parallel()
	l := newWidgetEnv(t)
	for name, token := range map[string]string{
		"no claims": l.box.SealWidgetToken(nil), "no object": l.box.SealWidgetToken([]byte(`"x"`)), "empty claims": l.box.SealWidgetToken([]byte(`{}`)),
		"unsealed": "wt_e30", "empty": "wt_",
	} {
		if ident, err := l.resolve(t, NeedDemo, token); apierr.CodeFor(err) != apierr.Unauthenticated || ident.Via != ViaWidget || ident.Caller.Visitor.ID != "" {
			t.Errorf("%s: %+v, %v", name, ident, err)
		}
	}
	without := New(&fakeLookup{}, nil, nil)
	token, _ := l.Widgets().NewToken(l.widget.AgentID, page, "id:ada")
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	if _, err := without.Resolve(req, NeedDemo); apierr.CodeFor(err) != apierr.Unauthenticated {
		t.Errorf("a resolver without widgets: %v", err)
	}
	l.lookup.mu.Lock()
	l.lookup.err = apierr.New(apierr.Unavailable, "away")
	l.lookup.mu.Unlock()
	if _, err := l.resolve(t, NeedDemo, token); apierr.CodeFor(err) != apierr.Unavailable {
		t.Errorf("without a database: %v", err)
	}
}

// Widgets are cached for 4 s, and the absence of a widget for 1 s. Therefore a change takes effect
// within 5 s, and a new widget works after at most a second.
func TestWidgetsAreCachedBriefly(t *testing.T) {
	t.Parallel()
	l := newWidgetEnv(t)
	w, ctx := l.Widgets(), t.Context()
	look := func(origin string) (embedded, listed bool) {
		t.Helper()
		found, err := w.Embedded(ctx, l.widget.AgentID, origin)
		if err != nil {
			t.Fatal(err)
		}
		if listed, err = w.Listed(ctx, origin); err != nil {
			t.Fatal(err)
		}
		return found != nil, listed
	}
	want := func(when, origin string, want bool, reads int) {
		t.Helper()
		before := l.lookup.reads
		embedded, listed := look(origin)
		if embedded != want || listed != want || l.lookup.reads-before != reads {
			t.Errorf("%s: %v, %v after %d reads, want %v after %d", when, embedded, listed, l.lookup.reads-before, want, reads)
		}
	}
	set := func(origins ...string) {
		l.lookup.mu.Lock()
		defer l.lookup.mu.Unlock()
		changed := *l.widget
		changed.Origins = origins
		l.lookup.agents[l.widget.AgentID] = &changed
	}
	want("at first", page, true, 2)
	want("remembered", page, true, 0)
	set("https://new.example.com")
	l.clock = l.clock.Add(remember - 1)
	want("still remembered", page, true, 0)
	l.clock = l.clock.Add(1)
	want("taken off", page, false, 2)
	set(page)
	w.Forget(l.widget.AgentID)
	l.clock = l.clock.Add(unlisted - 1)
	if _, listed := look(page); listed {
		t.Error("the absence of a widget expired too soon")
	}
	l.clock = l.clock.Add(1)
	want("listed again", page, true, 1) // only the origin is read again, because the widget is still cached
	set()
	w.Forget(l.widget.AgentID, page)
	want("forgotten", page, false, 2)
	l.lookup.err = errors.New("secret words of a driver")
	w.Forget(l.widget.AgentID, page)
	if _, err := w.Listed(ctx, page); err == nil {
		t.Error("a widget that cannot be read is listed")
	}
}

func TestSignedVisitors(t *testing.T) {
	t.Parallel()
	l := newWidgetEnv(t)
	w := l.Widgets()
	sign := func(text string) string {
		mac := hmac.New(sha256.New, []byte("the secret"))
		mac.Write([]byte(text))
		return hex.EncodeToString(mac.Sum(nil))
	}
	good := sign(l.widget.AgentID + "\n4711")
	visitorID, name, err := w.Identify(l.widget, Signed{"4711", strings.ToUpper(good)})
	if err != nil || visitorID != "id:4711" {
		t.Errorf("%q, %v", visitorID, err)
	}
	sibling, foreign, silent := *l.widget, *l.widget, *l.widget
	sibling.AgentID, foreign.OrganizationID, silent.Secret = id.New(id.Agent), id.New(id.Organization), ""
	for what, c := range map[string]struct {
		of  *agentdb.Widget
		who Signed
	}{
		"another's": {l.widget, Signed{"4712", good}}, "cut short": {l.widget, Signed{"4711", good[:62]}}, "none": {l.widget, Signed{"4711", ""}},
		"no hexadecimal": {l.widget, Signed{"4711", "x" + good[1:]}}, "without the agent": {l.widget, Signed{"4711", sign("4711")}},
		"for the agent without a secret": {&silent, Signed{"4711", good}},
	} {
		if got, _, err := w.Identify(c.of, c.who); apierr.CodeFor(err) != apierr.PermissionDenied {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	for what, of := range map[string]*agentdb.Widget{"another agent's": &sibling, "another organization's": &foreign} {
		// An encrypted secret cannot be decrypted after it was copied to another agent or
		// organization.
		if got, _, err := w.Identify(of, Signed{"4711", sign(of.AgentID + "\n4711")}); err == nil {
			t.Errorf("%s secret opened: %q", what, got)
		}
		if got, _, ok, _ := w.Returning(of, name); ok {
			t.Errorf("%s name: %q", what, got)
		}
	}
	if got, _, ok, _ := w.Returning(l.widget, name); !ok || got != "id:4711" {
		t.Errorf("the returning visitor is %q", got)
	}
	anonymous, kept := w.NewVisitor(l.widget)
	if got, _, ok, _ := w.Returning(l.widget, kept); !ok || got != anonymous || !strings.HasPrefix(anonymous, "anonymous:") {
		t.Errorf("the returning visitor is %q, want %q", got, anonymous)
	}
	if _, fresh, ok, err := w.Returning(l.widget, kept); !ok || err != nil || fresh != kept {
		t.Errorf("the visitor token became %q, %v", fresh, err)
	}
	rotated, err := secrets.NewBox(strings.Repeat("cd", 32) + "," + strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	later := NewWidgets(l.lookup, rotated, watchFor(t, rotated))
	if got, fresh, ok, err := later.Returning(l.widget, kept); !ok || err != nil || got != anonymous || fresh == kept || !rotated.HasCurrentKey(fresh) {
		t.Errorf("with a new key the visitor is %q with the token %q, %v", got, fresh, err)
	}
	for what, change := range map[string]func(*agentdb.Widget){
		"another agent": func(w *agentdb.Widget) { w.AgentID = id.New(id.Agent) }, "another organization": func(w *agentdb.Widget) { w.OrganizationID = id.New(id.Organization) },
	} {
		foreign := *l.widget
		change(&foreign)
		if got, _, ok, _ := w.Returning(&foreign, kept); ok {
			t.Errorf("the visitor %s is accepted by %s", got, what)
		}
	}
	if got, _, ok, _ := w.Returning(&silent, kept); !ok || got != anonymous {
		t.Errorf("without a secret the returning visitor is %q", got)
	}
	if got, _, ok, _ := w.Returning(&silent, name); ok {
		t.Errorf("without the secret that signed it, the visitor %q was accepted", got)
	}
	for _, sealed := range []string{`{}`, `{"i":"id:4711"}`, `"x"`, ``} {
		if got, _, ok, _ := w.Returning(l.widget, l.box.SealVisitorToken([]byte(sealed), visitorContext(l.widget))); ok {
			t.Errorf("%s is %q", sealed, got)
		}
	}
}
