package browser

import (
	"fmt"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"

	"parley/shared/testkit"
)

// TestReferenceSendsRequests sends the API reference's example requests with the browser's login
// session. It also searches the documentation.
func TestReferenceSendsRequests(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Lamp expert", nil)
	p := open(t).signIn(a)

	end := p.begin(12)
	p.visit("/docs/api#getAgents")
	p.click("button", "Try it: List agents, or get one (List)")
	list := p.in("form", "Request: List agents, or get one (List)")
	list.click("button", "Send")
	list.sees("200")
	list.sees("Lamp expert")

	p.visit("/docs")
	p.fill("Search the documentation", "rotating secrets_key")
	p.click("button", "Search")
	p.click("link", "Operations: Rotating SECRETS_KEY")
	p.arrives("/docs/operations")
	p.is("heading", "Operations")
	end()

	p.visit("/dashboard/knowledge")
	p.click("link", "Read the guide")
	p.arrives("/docs/knowledge")
}

// TestReferenceLinksSchemas follows the link of an operation's response to the schema of the
// response, and from there to the schema of its entries. A link to a schema on the page of the
// operations leads to the same place.
func TestReferenceLinksSchemas(t *testing.T) {
	t.Parallel()
	p := open(t)
	shown := func() (name string) {
		p.js(&name, `() => document.querySelector("article:target h2")?.textContent ?? "none"`)
		return name
	}
	p.visit("/docs/api#getAgents")
	p.in("article", "List agents, or get one").click("link", "AgentList")
	p.arrives("/docs/api/schemas")
	p.settled()
	if got := shown(); got != "AgentList" {
		t.Errorf("the link leads to the schema %s, want AgentList", got)
	}
	p.sees("The bodies of requests and responses")

	p.visit("/docs/api#schema-Passage")
	var target string
	p.js(&target, `() => document.querySelector("a:target")?.textContent ?? "none"`)
	if target != "Passage" {
		t.Errorf("#schema-Passage leads to %s", target)
	}
	p.in("region", "Schemas").click("link", "Passage")
	p.arrives("/docs/api/schemas")
	p.settled()
	if got := shown(); got != "Passage" {
		t.Errorf("the link leads to the schema %s, want Passage", got)
	}
	p.click("link", "API reference")
	p.arrives("/docs/api")
}

// TestWholeReference checks all operations and schemas of the API reference with axe-core. Other
// tests check only the first ones.
func TestWholeReference(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	for _, size := range []screen{phone, desktop} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%d-%s", size.width, scheme), func(t *testing.T) {
				t.Parallel()
				p := open(t)
				p.resize(size)
				p.scheme(scheme)
				for _, path := range []string{"/docs/api", "/docs/api/schemas"} {
					p.visit(path)
					p.renderAll()
					p.unfold()
					p.settled()
					p.fits("the whole page " + path)
					p.axe("the whole page "+path, rulesFor(size, scheme))
				}
			})
		}
	}
}

// TestGuideExplainsVariables reads guides on a phone. They explain the variables of their code, and
// the code contains the service's URL. Tables and code, except drawings, fit the screen.
func TestGuideExplainsVariables(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/docs/guides/cron")
	p.clickText("Set $PARLEY_BASE_URL, $PARLEY_API_KEY and $AGENT_ID first")
	p.sees("export PARLEY_BASE_URL=" + a.s.url)
	p.seesNot("http://127.0.0.1:8080")
	p.inspect("guide-variables")

	p.resize(phone)
	p.visit("/docs/webhooks")
	p.is("heading", "Webhooks that start runs")
	var label string
	p.js(&label, `() => getComputedStyle([...document.querySelectorAll("td")].find((cell) => cell.textContent === "X-GitHub-Event"), "::before").content`)
	if !strings.HasPrefix(label, `"event (@event)`) && !strings.HasPrefix(label, "attr(data-label)") { // browsers differ
		t.Errorf("the label of a cell is %s", label)
	}
	var wide []string
	p.js(&wide, `() => [...document.querySelectorAll("main .scroll, main pre:not(:has(> .language-text))")].filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent)`)
	if len(wide) > 0 {
		t.Errorf("wider than a phone's screen: %q", wide)
	}
	p.click("link", "API reference") // the only link with this name
	p.arrives("/docs/api")
}

// atBody is a script that records a document's colour scheme when its body is created, before the
// browser paints it.
const atBody = `new MutationObserver((_, watching) => {
	if (!document.body) return;
	globalThis.schemeAtBody = document.documentElement.style.colorScheme;
	watching.disconnect();
}).observe(document, { childList: true, subtree: true });`

// TestDocumentationFollowsTheme opens pages of the documentation with a theme that was chosen in
// the dashboard and that differs from the system's. The first paint has this theme.
func TestDocumentationFollowsTheme(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	call(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: atBody, WorldName: world})
	for system, chosen := range map[string]string{"light": "dark", "dark": "light"} {
		p.scheme(system)
		p.visit("/dashboard")
		p.click("button", "Account…")
		p.choose("Theme", map[string]string{"dark": "Dark theme", "light": "Light theme"}[chosen])
		var want string
		p.js(&want, `() => getComputedStyle(document.body).backgroundColor`)

		for _, path := range []string{"/docs", "/docs/webhooks", "/docs/api", "/docs/api/schemas", "/docs/errors"} {
			p.visit(path)
			p.settled()
			var got struct{ Background, AtBody string }
			p.js(&got, `() => ({ Background: getComputedStyle(document.body).backgroundColor, AtBody: schemeAtBody })`)
			if got.Background != want || got.AtBody != chosen {
				t.Errorf("%s with the %s theme: background = %s, want %s; scheme at the body = %q", path, chosen, got.Background, want, got.AtBody)
			}
			if path == "/docs/webhooks" {
				p.axe("the guide with the "+chosen+" theme", colourRules)
				p.shot("guide-chosen-"+chosen, desktop, system)
			}
		}
	}
}

// TestGuideCopiesCode copies the first code block of a guide. If the browser blocks copying, the
// page selects the code block. The page leads back to the dashboard.
func TestGuideCopiesCode(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/docs/quickstart")
	const stub = `new Promise((done) => { navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }; done(true); })`
	promised[bool](p, stub)
	p.first("button", "Copy").hit()
	p.is("button", "Copied")
	shown := promised[string](p, `Promise.resolve(document.querySelector("main pre code").textContent.trimEnd())`)
	if copied := promised[string](p, `Promise.resolve(globalThis.copied ?? "")`); copied != shown || !strings.Contains(copied, "PARLEY_API_KEY") {
		t.Errorf("copied %q, want %q", copied, shown)
	}

	promised[bool](p, `new Promise((done) => { navigator.clipboard.writeText = async () => { throw new Error("blocked"); }; done(true); })`)
	p.first("button", "Cop…").hit() // the button's text may still be "Copied"
	p.is("button", "Selected. Press Ctrl+C.")
	if selected := promised[string](p, `Promise.resolve(getSelection().toString().trimEnd())`); selected != shown {
		t.Errorf("selected %q, want %q", selected, shown)
	}

	for _, path := range []string{"/docs", "/docs/api", "/docs/api/schemas", "/docs/errors", "/docs/quickstart"} {
		p.visit(path)
		p.is("link", "Dashboard")
	}
	p.click("link", "Dashboard")
	p.is("heading", "Home")
}
