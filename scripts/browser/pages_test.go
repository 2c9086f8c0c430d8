package browser

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/scripts/internal/api"
)

// TestPublicPages inspects the public pages.
func TestPublicPages(t *testing.T) {
	t.Parallel()
	walk(t, 2, nil, map[string]place{
		"login":   {"/login", "Sign in"},
		"signup":  {"/signup", "Sign up"},
		"docs":    {"/docs", "Documentation"},
		"guide":   {"/docs/webhooks", "Webhooks…"},
		"search":  {"/docs?q=idempotency", "Results…"},
		"api":     {"/docs/api", "Parley…"},
		"schemas": {"/docs/api/schemas", "Schemas"},
		"errors":  {"/docs/errors", "…rrors…"},
		"demo":    {"/dashboard/templates?token=demo", "Templates"},
	}, (*page).look)
}

// TestMissingPages inspects the page that the service shows at a URL that does not exist.
func TestMissingPages(t *testing.T) {
	t.Parallel()
	walk(t, 1, nil, map[string]place{
		"missing": {"/nope", "Page not found"}, "missing-guide": {"/docs/nope", "Page not found"},
	}, func(p *page, name string, at place) {
		p.watch.expect(http.StatusNotFound)
		p.look(name, at)
	})
}

// walk opens tabs, in each of which it visits a part of the places one after the other, because a
// new tab needs more resources than a page. Each place is a subtest, which calls the function each.
// If the account is not nil, the tabs have its login session.
func walk(t *testing.T, tabs int, a *account, places map[string]place, each func(p *page, name string, at place)) {
	t.Helper()
	names := slices.Sorted(maps.Keys(places))
	for i := range tabs {
		t.Run(fmt.Sprint("tab", i+1), func(t *testing.T) {
			t.Parallel()
			p := open(t)
			if a != nil {
				p.signIn(a)
			}
			for n := i; n < len(names); n += tabs {
				t.Run(names[n], func(t *testing.T) {
					defer p.during(t)()
					each(p, names[n], places[names[n]])
				})
			}
		})
	}
}

// guideShare is the number of pages of the documentation of which a short test inspects one.
const guideShare = 3

// TestGuides opens every page of the documentation on a phone, and inspects it. A short test
// inspects a third of the pages, other ones each day. All pages have the same layout.
func TestGuides(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.visit("/docs")
	var chapters map[string][]string
	p.js(&chapters, `() => Object.fromEntries([...document.querySelectorAll("main section")].map((s) =>
		[s.querySelector("h2").textContent, [...s.querySelectorAll("dt a")].map((a) => a.pathname)]))`)
	if len(chapters) == 0 {
		t.Fatal("the documentation has no chapters")
	}
	for chapter, paths := range chapters {
		t.Run(chapter, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			for _, path := range paths {
				name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "-")
				p.resize(phone)
				p.visit(path)
				if complete() || sample(t, name, guideShare) == 0 {
					p.inspect(name)
					continue
				}
				p.settled()
				p.fits(name)
			}
		})
	}
}

// TestLinkPages inspects the pages that links in emails and shared links open.
func TestLinkPages(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	accept := a.invite(t)
	widget := a.agent(t, "Shop", map[string]any{"widget": map[string]any{"enabled": true, "allowedOrigins": []string{a.s.url}}})
	walk(t, 1, nil, map[string]place{
		"accept":  {accept, "Join…"},
		"notice":  {"/accept?token=none", "Something went wrong"},
		"reset":   {strings.TrimPrefix(a.resetLink(t), a.s.url), "Set a new password"},
		"preview": {"/widget/preview?agent=" + widget, "Widget preview"},
	}, func(p *page, name string, at place) {
		if name == "notice" {
			p.watch.expect(http.StatusNotFound)
			p.watch.expect(http.StatusBadRequest)
		}
		p.look(name, at)
		if name == "preview" {
			p.click("button", "Open chat: Shop")
			p.is("dialog", "Shop")
			p.inspect("preview-open")
		}
	})
}

// place contains the path of a page and the heading that the page must have.
type place struct{ path, heading string }

// look loads a page with an empty cache, checks it against the limits for a first load, and
// inspects it.
func (p *page) look(name string, at place) {
	p.t.Helper()
	p.budget(name, at.path)
	p.is("heading", at.heading)
	p.inspect(name)
}

// TestEmptyPages inspects the dashboard of a new account.
func TestEmptyPages(t *testing.T) {
	t.Parallel()
	walk(t, 1, signUp(t), map[string]place{
		"home":        {"/dashboard", "Home"},
		"inbox":       {"/dashboard/inbox", "Inbox"},
		"agents":      {"/dashboard/agents", "Agents"},
		"knowledge":   {"/dashboard/knowledge", "Knowledge"},
		"runs":        {"/dashboard/runs", "Runs"},
		"automations": {"/dashboard/automations", "Automations"},
		"nowhere":     {"/dashboard/nowhere", "Page not found"},
		"foreign":     {"/dashboard/agents/ag_01h455vb4pex5vsknk084sn02q", "…"},
	}, func(p *page, name string, at place) {
		if name == "foreign" {
			p.watch.expect(http.StatusNotFound)
		}
		p.look("empty-"+name, at)
	})
}

// furnished is an account with some data of every kind that the dashboard shows.
type furnished struct {
	*account

	agent, document   string
	answered, waiting api.Run
	automated         api.Run
	question, hook    string
}

// furnish creates an account with some data of every kind. The argument name is a function that
// maps each plain name to the name to use, which may be hostile.
func furnish(t *testing.T, name func(plain string) string) furnished {
	t.Helper()
	f := furnished{account: signUp(t), question: "How many days do I have to return a lamp?"}
	f.document = f.account.document(t, name("returns.txt"), "You may return any lamp within 45 days of its delivery.\n")
	f.agent = f.account.agent(t, name("Shop agent"), map[string]any{
		"description": name("Answers customers."), "tools": map[string]any{"knowledge": on},
	})

	payer := f.account.agent(t, name("Payer"), map[string]any{"tools": f.till()})
	f.answered = f.chat(t, f.agent, name("first"), f.question)
	if len(f.answered.Citations) == 0 {
		t.Fatalf("the answer has no citations: %+v", f.answered)
	}

	key := f.key(t, name("Scheduler"))
	f.automated = f.trigger(t, key, f.agent, name("nightly"), f.question)
	echo := f.account.agent(t, name("Echo"), map[string]any{"model": "offline/echo"})
	f.chat(t, echo, name("second"), name("**Hello**"))
	f.hook = f.account.hook(t, name("Issues"), echo)
	f.deliver(t, f.hook, name("Lamp"))
	f.call(t, http.MethodPost, "/api/notifications", map[string]any{"url": f.s.outside.url + "/pay", "description": name("Pager"), "events": []string{"run.failed"}}, nil)
	f.call(t, http.MethodPost, "/api/budgets", map[string]any{"scope": "automation", "subjectId": name("nightly"), "metric": "runs", "period": "day", "limit": 9}, nil)
	f.waiting = f.chat(t, payer, name("third"), `Use payBill with {"bill": `+quoted(name("17"))+`}`)
	if f.waiting.Status != "requires_action" {
		t.Fatalf("the payer's run does not wait for a person: %+v", f.waiting)
	}
	return f
}

// places returns the dashboard's pages that show the account's data. The keys are short names for
// use in the test's output.
func (f furnished) places() map[string]place {
	return map[string]place{
		"home":          {"/dashboard", "Home"},
		"inbox":         {"/dashboard/inbox", "Inbox"},
		"agents":        {"/dashboard/agents", "Agents"},
		"agent":         {"/dashboard/agents/" + f.agent, "…"},
		"session":       {"/dashboard/agents/" + f.agent + "?session=" + url.QueryEscape(f.answered.SessionID), "…"},
		"settings":      {"/dashboard/agents/" + f.agent + "/settings", "…"},
		"embed":         {"/dashboard/agents/" + f.agent + "/embed", "…"},
		"use":           {"/dashboard/agents/" + f.agent + "/use", "…"},
		"template":      {"/dashboard/templates/tpl_support", "…"},
		"templates":     {"/dashboard/templates", "Templates"},
		"knowledge":     {"/dashboard/knowledge", "Knowledge"},
		"runs":          {"/dashboard/runs", "Runs"},
		"run":           {"/dashboard/runs/" + f.answered.ID, "…"},
		"waiting":       {"/dashboard/runs/" + f.waiting.ID, "…"},
		"automations":   {"/dashboard/automations", "Automations"},
		"hook":          {"/dashboard/automations/" + f.hook, "…"},
		"message":       {"/dashboard/automations/" + f.hook + "/settings", "…"},
		"org":           {"/dashboard/org", "…"},
		"usage":         {"/dashboard/org/usage", "…"},
		"new-hook":      {"/dashboard/automations/new", "New webhook"},
		"hook-setup":    {"/dashboard/automations/" + f.hook + "/setup", "…"},
		"notifications": {"/dashboard/org/notifications", "…"},
	}
}

// TestPages inspects every page of the dashboard. Each page links to its guide, and has one button
// with the name API. The menu and the tabs lead only to pages that this test inspects. On a phone
// with a touch screen, the page's controls are large enough.
func TestPages(t *testing.T) {
	t.Parallel()
	f := furnish(t, func(plain string) string { return plain })
	inspected := map[string]bool{}
	for _, at := range f.places() {
		path, _, _ := strings.Cut(at.path, "?")
		inspected[path] = true
	}
	var checked, scrolling atomic.Int64
	t.Cleanup(func() {
		if checked.Load() == int64(len(f.places())) && scrolling.Load() == 0 {
			t.Error("no page has a row of tabs that scrolls")
		}
	})
	walk(t, 3, f.account, f.places(), func(p *page, name string, at place) {
		p.look(name, at)
		p.linksToGuide()
		if n := p.apiButtons()[0]; n != 1 {
			p.t.Errorf("the page has %d buttons that show its API requests, want 1", n)
		}
		var linked []string
		p.js(&linked, `() => [...document.querySelectorAll("nav a")].map((a) => a.pathname)`)
		for _, path := range linked {
			if !inspected[path] {
				p.t.Errorf("the page links to %s, which is not in places", path)
			}
		}
		scrolling.Add(p.targetsFit(name))
		checked.Add(1)
	})
}

// linksToGuide fails the test unless the page links to an existing section of the documentation.
func (p *page) linksToGuide() {
	p.t.Helper()
	p.is("link", "Read the guide")
	var missing string
	p.js(&missing, `async () => {
		const { href, hash } = [...document.querySelectorAll("a")].find((a) => a.textContent === "Read the guide");
		const response = await fetch(href);
		const guide = await response.text();
		return response.ok && (hash === "" || guide.includes(' id="' + hash.slice(1) + '"')) ? "" : href;
	}`)
	if missing != "" {
		p.t.Errorf("the page links to the guide %s, which does not exist", missing)
	}
}

// TestMenuOnAPhone opens the menu of a phone, goes to another page, changes the theme, and signs
// out.
func TestMenuOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard")
	if p.has("link", "Runs") {
		t.Error("the menu is open")
	}
	p.click("button", "Menu")
	p.sees("Organization")
	p.shot("menu", phone, "light")
	p.click("link", "Runs")
	p.is("heading", "Runs")
	if p.has("link", "Knowledge") {
		t.Error("the menu is open on the next page")
	}

	p.click("button", "Menu")
	p.click("button", "Account…")
	p.choose("Theme", "Dark theme")
	p.click("button", "Set a password")
	setting := p.in("dialog", "Set a password")
	if got := setting.in("region", "the command that prints the link").snippet(); got != "parley reset-password "+a.email {
		t.Errorf("the command to set a password is %q", got)
	}
	p.inspect("set-password")
	p.resize(phone)
	setting.click("button", "Done")
	background := func() (color string) {
		p.js(&color, `() => getComputedStyle(document.body).backgroundColor`)
		return color
	}
	dark := background()
	p.inspect("menu-dark")
	p.resize(phone)
	p.reload()
	if got := background(); got != dark {
		t.Errorf("the background after a reload is %s, want %s", got, dark)
	}
	p.click("button", "Menu")
	p.click("button", "Account…")
	p.choose("Theme", "Light theme")
	if background() == dark {
		t.Error("the light theme has the background of the dark one")
	}
	p.click("button", "Sign out")
	p.arrives("/login")
}

// nameOfDocument is the name that the service gives to a document uploaded with the hostile text as
// its path: the path's last element.
var nameOfDocument = hostile[strings.LastIndex(hostile, "/")+1:]

// hostile is a text that attempts to inject scripts. Tests use it as a name, a message or a
// document.
const hostile = `<img src=x onerror="owned=1"><script>owned=2</script>"><svg onload="owned=3">'{{7*7}}`

// TestHostileText opens every page with hostile names, messages and tool results. The page must
// show them as text and must not execute them.
func TestHostileText(t *testing.T) {
	t.Parallel()
	f := furnish(t, func(plain string) string { return plain + hostile })
	f.call(t, http.MethodPut, "/api/organizations?id="+f.organization(t), map[string]any{"name": "Org " + hostile}, nil)
	shows := map[string]string{
		"agents": "Shop agent" + hostile, "agent": "Shop agent" + hostile, "session": nameOfDocument,
		"settings": "Answers customers." + hostile, "embed": "Shop agent" + hostile, "use": "Shop agent" + hostile, "runs": "Shop agent" + hostile, "run": "first" + hostile,
		"knowledge":   hostile[strings.LastIndex(hostile, "/")+1:], // the service names a document after the last element of its path
		"home":        "Payer" + hostile,
		"inbox":       "17" + strings.ReplaceAll(hostile, `"`, `\"`),
		"waiting":     "17" + strings.ReplaceAll(hostile, `"`, `\"`),
		"automations": "nightly" + hostile, "hook": "Issues" + hostile, "message": "Issue ⟦Lamp" + hostile + "⟧",
		"new-hook": "Shop agent" + hostile, "hook-setup": "Issues" + hostile, "notifications": "Pager" + hostile,
		"org": "Scheduler" + hostile, "usage": "nightly" + hostile, "templates": "Org " + hostile, "template": "Org " + hostile,
	}
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		p := open(t).signIn(f.account)
		for name, at := range f.places() {
			p.visit(at.path)
			p.settled()
			p.sees(shows[name])
			p.unharmed()
		}
		p.visit("/dashboard/runs?session=" + url.QueryEscape(hostile) + "&automation=" + url.QueryEscape(hostile))
		p.holds("Session", hostile)
		p.sees("No runs match these filters")
		p.unharmed()
	})
	t.Run("dialogs", func(t *testing.T) {
		t.Parallel()
		p := open(t).signIn(f.account)
		p.visit("/dashboard/knowledge")
		p.click("button", nameOfDocument)
		p.in("dialog", nameOfDocument).sees("within 45 days")
		p.unharmed()
		hostileSource(p, f.account)
		hostileDelivery(p, f)
		hostileTool(p, f.account)

		p.visit("/dashboard/agents/" + f.agent)
		p.fill("Message", hostile)
		p.press("Enter")
		turn := p.in("article", "Message: …")
		turn.sees(hostile)
		turn.is("button", "Copy answer")
		p.unharmed()

		guest := open(t)
		guest.visit(f.invite(t))
		guest.sees("Org " + hostile)
		guest.unharmed()
	})
}

// hostileSource opens the source of an answer that cites a web page with hostile text.
func hostileSource(p *page, a *account) {
	t := p.t
	t.Helper()
	a.s.outside.publish("/stork", "Stork lamps "+hostile, "The Stork lamp was first made in 1948 in Malmö. "+hostile)
	found := a.chat(t, a.agent(t, "Searcher", map[string]any{"tools": map[string]any{"webSearch": on}}), "stork", "When was the Stork lamp first made?")
	p.visit("/dashboard/runs/" + found.ID)
	p.first("button", "Source 1: Stork lamps "+hostile).hit()
	p.in("dialog", "Stork lamps "+hostile).in("region", "Text of the source").sees(hostile)
	p.unharmed()
}

// hostileDelivery checks the page of a hostile webhook delivery.
func hostileDelivery(p *page, f furnished) {
	p.t.Helper()
	p.visit("/dashboard/automations/" + f.hook)
	p.first("button", "…, delivery…").hit()
	p.in("dialog", "Delivery").in("region", "the payload").sees(strings.ReplaceAll(hostile, `"`, `\"`))
	p.unharmed()
}

// hostileTool checks how pages show a tool's hostile result and the agent's answer that contains
// it.
func hostileTool(p *page, a *account) {
	t := p.t
	t.Helper()
	noted := a.chat(t, a.agent(t, "Reader", map[string]any{"tools": map[string]any{"httpRequest": map[string]any{
		"enabled": true, "endpoints": []any{map[string]any{
			"name": "readNote", "description": "Reads the note.", "method": "GET", "url": a.s.outside.url + "/note", "sideEffect": "none",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
		}},
	}}}), "note", "Use readNote")
	p.visit("/dashboard/runs/" + noted.ID)
	p.settled()
	p.unfold()
	p.sees(strings.ReplaceAll(hostile, `"`, `\"`))
	p.unharmed()
}

// invite returns the path of an invitation link.
func (a *account) invite(t *testing.T) string {
	t.Helper()
	var made struct{ URL string }
	a.call(t, http.MethodPost, "/api/organizations/members", map[string]any{"email": rand.Text() + "@example.test", "role": "member"}, &made)
	return strings.TrimPrefix(made.URL, a.s.url)
}

// unfold opens all collapsed elements.
func (p *page) unfold() {
	p.t.Helper()
	p.js(nil, `() => { for (const e of document.querySelectorAll("details")) e.open = true; }`)
}

// quoted returns a text as JSON.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(raw)
}

// unharmed fails the test if the page executed the hostile text or turned it into elements.
func (p *page) unharmed() {
	p.t.Helper()
	if promised[bool](p, `Promise.resolve("owned" in window)`) {
		p.t.Errorf("%s: a script in hostile text was executed", p.path())
	}

	var made []string
	p.js(&made, `() => {
		const found = [];
		const look = (root) => {
			for (const e of root.querySelectorAll("*")) {
				if (e.shadowRoot) look(e.shadowRoot);
				if (e.matches("img[src=x], svg[onload], [onerror]") || e.nodeName === "SCRIPT" && e.textContent.includes("owned")) found.push(e.outerHTML);
			}
		};
		look(document);
		return found;
	}`)
	if len(made) > 0 {
		p.t.Errorf("%s: hostile text became elements: %v", p.path(), made)
	}
}

// organization returns the ID of the account's organization.
func (a *account) organization(t *testing.T) string {
	t.Helper()
	var session struct{ Organization struct{ ID string } }
	a.call(t, http.MethodGet, "/api/auth/session", nil, &session)
	return session.Organization.ID
}
