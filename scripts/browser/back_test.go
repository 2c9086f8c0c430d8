package browser

import (
	"net/url"
	"testing"
)

// back presses the browser's Back button.
func (p *page) back() {
	p.t.Helper()
	p.settled()
	p.js(nil, `() => history.back()`)
}

// stays waits until the page has settled. It fails the test unless the page then has the given
// path, with any query.
func (p *page) stays(path string) {
	p.t.Helper()
	p.settled()
	at, err := url.Parse(p.path())
	p.must(err, "parsing the path")
	if at.Path != path {
		p.t.Errorf("path of the page = %s, want %s", at.Path, path)
	}
}

// TestBackClosesSource opens a source and the cited document on a phone. Back closes the panel of
// the source, and leads from the document to the chat. Closing the panel with its button leaves no
// entry in the history.
func TestBackClosesSource(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := "/dashboard/agents/" + a.agent(t, "Handbook", searching)
	a.document(t, "returns.md", "You may return any lamp within 45 days.\n")
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents")
	p.click("link", "Handbook")
	p.fill("Message", "Within how many days may I return a lamp?")
	p.click("button", "Send message")
	p.is("link", "Run details")
	source := func() { p.first("button", "Source 1: returns.md…").hit() }
	panel := p.in("dialog", "returns.md")

	source()
	panel.is("button", "Close source")
	p.back()
	p.isNot("dialog", "returns.md")
	p.stays(agent)
	p.js(nil, `() => history.forward()`) // to the entry of a panel that is closed
	p.stays(agent)
	p.isNot("dialog", "returns.md")

	source()
	panel.click("link", "Open the document")
	panel.is("button", "Download")
	p.stays("/dashboard/knowledge")
	p.back()
	p.arrives(agent)
	p.isNot("dialog", "returns.md")
	p.is("link", "Run details")

	source()
	panel.click("button", "Close source")
	p.isNot("dialog", "returns.md")
	p.back()
	p.arrives("/dashboard/agents")
}

// TestBackClosesDialogs opens dialogs on a phone. Back closes the topmost dialog, and keeps filters
// that were chosen in that dialog. A reload closes all dialogs and leaves no entry for them in the
// history.
func TestBackClosesDialogs(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	a.document(t, "returns.md", "You may return any lamp within 45 days.\n")
	hook := "/dashboard/automations/" + a.hook(t, "Orders", agent)
	a.deliver(t, hook[len("/dashboard/automations/"):], "A lamp")
	p := open(t).signIn(a)
	p.resize(phone)

	p.visit("/dashboard/automations")
	p.click("link", "Orders")
	p.arrives(hook)
	p.first("button", "…delivery…").hit()
	p.in("dialog", "Delivery").sees("Payload")
	p.back()
	p.isNot("dialog", "Delivery")
	p.stays(hook)
	p.first("button", "…delivery…").hit()
	p.in("dialog", "Delivery").sees("Payload")
	p.reload()
	p.is("heading", "Orders")
	p.isNot("dialog", "Delivery")
	p.stays(hook)
	p.back()
	p.arrives("/dashboard/automations")

	p.visit("/dashboard/knowledge")
	p.click("button", "returns.md")
	p.in("dialog", "returns.md").click("button", "Delete")
	p.in("dialog", "Delete “returns.md”?").is("button", "Go back")
	p.back()
	p.isNot("dialog", "Delete “returns.md”?")
	p.is("dialog", "returns.md")
	p.back()
	p.isNot("dialog", "returns.md")
	p.stays("/dashboard/knowledge")

	p.visit("/dashboard/runs")
	p.click("button", "Filters")
	p.in("dialog", "Filters").choose("Status", "Completed")
	p.back()
	p.isNot("dialog", "Filters")
	p.is("button", "Filters (1)")
	if got := p.path(); got != "/dashboard/runs?status=completed" {
		t.Errorf("path of the page after Back = %s", got)
	}

	p.click("button", "Find")
	p.in("dialog", "Find").is("option", "Knowledge…")
	p.enter("page knowledge")
	p.in("dialog", "Find").first("option", "Knowledge…").hit()
	p.arrives("/dashboard/knowledge")
	p.back()
	p.arrives("/dashboard/runs")
	p.isNot("dialog", "Find")
	p.is("button", "Filters (1)")
}

// TestBackKeepsInput presses Back in a dialog with unsaved input, and in a dialog with a secret
// that is shown only once. In the first dialog, the dashboard asks before it discards the input.
// The second dialog stays open. After a dialog has created an agent, Back leads to the list.
func TestBackKeepsInput(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents")
	p.click("button", "Menu")
	p.click("link", "Organization")
	p.click("button", "New key")
	dialog := p.in("dialog", "New API key")
	dialog.fill("Name", "Nightly reports")
	asks := p.in("dialog", "Leave without saving?")
	for _, answer := range []func(){func() { asks.click("button", "Stay") }, p.back} {
		p.back()
		asks.is("button", "Leave")
		answer()
		p.isNot("dialog", "Leave without saving?")
		dialog.holds("Name", "Nightly reports")
	}

	dialog.click("button", "Create key")
	made := p.in("dialog", "Copy the API key “Nightly reports” now")
	made.is("button", "I have saved it")
	p.back()
	p.settled()
	made.click("button", "I have saved it")
	p.isNot("dialog", "Copy the API key “Nightly reports” now")

	p.click("button", "New key")
	dialog.fill("Name", "Other")
	p.back()
	asks.click("button", "Leave")
	p.isNot("dialog", "New API key")
	p.stays("/dashboard/org")
	p.back()
	p.arrives("/dashboard/agents")

	p.click("button", "New agent")
	created := p.in("dialog", "New agent")
	created.fill("Name", "Clerk")
	created.fill("System prompt", "You answer customers.")
	created.click("button", "Create agent")
	p.is("heading", "Clerk")
	p.back()
	p.arrives("/dashboard/agents")
	p.isNot("dialog", "New agent")
}
