package browser

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestPublicPages looks at what anybody may see.
func TestPublicPages(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]place{
		"login":  {"/login", "Sign in"},
		"signup": {"/signup", "Sign up"},
		"docs":   {"/docs", "Parley…"},
		"errors": {"/docs/errors", "…rrors…"},
		"demo":   {"/dashboard/templates?token=demo", "Templates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			p.look(name, at)
		})
	}
}

// place is an address and the heading of the page that it leads to.
type place struct{ path, heading string }

// look goes to a place as a browser that was never there, within the budget, and inspects what is shown.
func (p *page) look(name string, at place) {
	p.t.Helper()
	p.budget(at.path)
	p.is("heading", at.heading)
	p.inspect(name)
}

// TestEmptyPages looks at the dashboard of somebody who has just signed up.
func TestEmptyPages(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	for name, at := range map[string]place{
		"agents":      {"/dashboard", "Agents"},
		"knowledge":   {"/dashboard/knowledge", "Knowledge"},
		"runs":        {"/dashboard/runs", "Runs"},
		"automations": {"/dashboard/automations", "Automations"},
		"nowhere":     {"/dashboard/nowhere", "There is no such page"},
		"foreign":     {"/dashboard/agents/ag_01h455vb4pex5vsknk084sn02q", "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t).signIn(a)
			if name == "foreign" {
				p.watch.expect(http.StatusNotFound)
			}
			p.look("empty-"+name, at)
		})
	}
}

// furnished is an account that has some of everything.
type furnished struct {
	*account

	agent, document      string
	answered, waiting    run
	coded                run
	automated            run
	question, citedWords string
}

// furnish makes some of everything, under names that hold hostile text when a test wants that.
func furnish(t *testing.T, name func(plain string) string) furnished {
	t.Helper()
	f := furnished{account: signUp(t), question: "How many days do I have to return a lamp?", citedWords: "within 45 days"}
	f.document = f.account.document(t, name("returns.md"), "# Returns\n\nYou may return any lamp within 45 days of its delivery.\n")
	f.agent = f.account.agent(t, name("Shop agent"), map[string]any{
		"description": name("Answers customers."), "tools": map[string]any{"knowledge": on},
	})
	payer := f.account.agent(t, name("Payer"), map[string]any{"tools": f.till()})
	f.answered = f.chat(t, f.agent, name("first"), f.question)
	if len(f.answered.Citations) == 0 {
		t.Fatalf("the agent cites nothing: %+v", f.answered)
	}
	key := f.key(t, name("Scheduler"))
	f.automated = f.trigger(t, key, f.agent, name("nightly"), f.question)
	f.coded = f.chat(t, f.account.agent(t, name("Echo"), map[string]any{"model": "offline/echo"}), name("second"), name("**Hello**"))
	f.waiting = f.chat(t, payer, name("third"), `Use payBill with {"bill": `+quoted(name("17"))+`}`)
	if f.waiting.Status != "requires_action" {
		t.Fatalf("the payer waits for nobody: %+v", f.waiting)
	}
	return f
}

// places are the pages of the dashboard with something on them.
func (f furnished) places() map[string]place {
	return map[string]place{
		"agents":      {"/dashboard", "Agents"},
		"agent":       {"/dashboard/agents/" + f.agent, "…"},
		"template":    {"/dashboard/templates/tpl_support", "…"},
		"templates":   {"/dashboard/templates", "Templates"},
		"knowledge":   {"/dashboard/knowledge", "Knowledge"},
		"runs":        {"/dashboard/runs", "Runs"},
		"run":         {"/dashboard/runs/" + f.answered.ID, "…"},
		"waiting":     {"/dashboard/runs/" + f.waiting.ID, "…"},
		"automations": {"/dashboard/automations", "Automations"},
		"org":         {"/dashboard/org", "…"},
	}
}

// TestPages looks at every page of the dashboard.
func TestPages(t *testing.T) {
	t.Parallel()
	f := furnish(t, func(plain string) string { return plain })
	for name, at := range f.places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t).signIn(f.account)
			p.look(name, at)
		})
	}
}

// hostile is what somebody would have run who may write a name, a message or a document.
const hostile = `<img src=x onerror="owned=1"><script>owned=2</script>"><svg onload="owned=3">'{{7*7}}`

// TestHostileText shows names, messages and what tools said as text on every page; none of it is carried out.
func TestHostileText(t *testing.T) {
	t.Parallel()
	f := furnish(t, func(plain string) string { return plain + hostile })
	f.call(t, http.MethodPut, "/api/organizations?id="+f.organization(t), map[string]any{"name": "Org " + hostile}, nil)
	shows := map[string]string{
		"agents": "Shop agent" + hostile, "agent": "Shop agent" + hostile, "runs": "Shop agent" + hostile, "run": "first" + hostile,
		"knowledge":   hostile[strings.LastIndex(hostile, "/")+1:], // of a path the last part is a document's name
		"waiting":     "17" + strings.ReplaceAll(hostile, `"`, `\"`),
		"automations": "nightly" + hostile, "org": "Scheduler" + hostile, "templates": "Org " + hostile, "template": "Org " + hostile,
	}
	for name, at := range f.places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t).signIn(f.account)
			p.visit(at.path)
			p.settled()
			p.sees(shows[name])
			p.unharmed()
		})
	}
	t.Run("source", func(t *testing.T) {
		t.Parallel()
		p := open(t).signIn(f.account)
		p.visit("/dashboard/runs?sessionId=" + url.QueryEscape("first"+hostile) + "&automationId=" + url.QueryEscape(hostile))
		p.settled()
		p.unharmed()
	})
}

// quoted is a text as JSON.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(raw)
}

// unharmed fails the test when a text was taken for something else.
func (p *page) unharmed() {
	p.t.Helper()
	if promised[bool](p, `Promise.resolve("owned" in window)`) {
		p.t.Error("a script that came as text was carried out")
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
		p.t.Errorf("text became elements: %v", made)
	}
}

// organization is the id of the account's own.
func (a *account) organization(t *testing.T) string {
	t.Helper()
	var session struct{ Organization struct{ ID string } }
	a.call(t, http.MethodGet, "/api/auth/session", nil, &session)
	return session.Organization.ID
}
