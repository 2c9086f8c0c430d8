package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
)

// TestDialogKeepsTypedText closes a dialog in every way that a user can. A dialog that contains
// typed text closes only after a confirmation.
func TestDialogKeepsTypedText(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/dashboard/agents")
	p.click("button", "New agent")
	dialog := p.in("dialog", "New agent")
	dialog.is("field", "Name")
	p.outside()
	p.isNot("dialog", "New agent") // nothing was typed
	p.focusIs("button", "New agent")
	p.click("button", "New agent")
	dialog.fill("Name", "Half an agent")
	asks := p.in("dialog", "Leave without saving?")
	for _, leave := range []func(){
		p.outside, func() { p.press("Escape") }, func() { dialog.click("button", "Close") },
	} {
		leave()
		asks.is("button", "Leave")
		p.press("Escape")
		p.isNot("dialog", "Leave without saving?")
		dialog.holds("Name", "Half an agent")
	}

	p.press("Escape")
	p.inspect("leave-dialog")
	asks.click("button", "Leave")
	p.isNot("dialog", "New agent")
	p.focusIs("button", "New agent")
	p.click("button", "New agent")
	dialog.holds("Name", "")
}

// TestDialogFootStays opens a dialog that is taller than the window. The dialog's buttons stay
// visible and do not cover its fields.
func TestDialogFootStays(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.visit("/dashboard/agents")
	for _, s := range []screen{{360, 640}, {1280, 600}} {
		p.resize(s)
		p.click("button", "New agent")
		dialog := p.in("dialog", "New agent")
		dialog.is("radio", "Researcher")
		p.settled()
		p.shot("tall-dialog", s, "light")
		var room float64
		p.js(&room, `() => innerHeight - document.querySelector(".dialog-foot .primary").getBoundingClientRect().bottom`)
		if room < 0 {
			t.Errorf("in a %v window the button is %.0f pixels below the edge", s, -room)
		}
		p.tabTo("textbox", "System prompt", 8)
		p.js(&room, `() => {
			const [foot, field] = [document.querySelector(".dialog-foot"), document.activeElement].map((e) => e.getBoundingClientRect());
			return foot.top - field.bottom;
		}`)
		if room < 0 {
			t.Errorf("in a %v window the buttons cover %.0f pixels of the field", s, -room)
		}
		p.press("Escape")
		p.isNot("dialog", "New agent")
	}
}

// TestNewAgentFieldsStay opens the dialog for agents while its templates are loading. Their arrival
// moves no field.
func TestNewAgentFieldsStay(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	templates := fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*/api/agents/templates*"}}}
	dialog := p.in("dialog", "New agent")
	top := func() (y float64) {
		p.until("measuring the field", func() error {
			return dialog.in("textbox", "Name").ask(&y, `function () { return this.getBoundingClientRect().top }`)
		})
		return y
	}
	for _, s := range []screen{phone, desktop} {
		p.resize(s)
		call(p, fetch.Enable, templates) // pauses these requests
		p.visit("/dashboard/agents?new=1")
		dialog.sees("Loading")
		was := top()
		p.shot("new-agent-loading", s, "light")
		call(p, fetch.Disable, cdp.Empty{}) // continues them
		dialog.is("radio", "Researcher")
		p.settled()
		p.shot("new-agent-loaded", s, "light")
		if now := top(); now != was {
			t.Errorf("in a %v window the field Name has moved from %.0f to %.0f pixels", s, was, now)
		}
	}
}

// outside clicks outside the open dialog.
func (p *page) outside() {
	p.t.Helper()
	p.settled()
	p.must(p.mouse(5, 5), "clicking outside")
}

// TestDialogFocus opens dialogs with forms. The first field has the focus, so that people can type
// immediately. If the form is submitted with invalid input, the first invalid field receives the
// focus.
func TestDialogFocus(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.watch.expect(http.StatusBadRequest)
	for _, c := range []struct{ path, open, title, role, field, submit, invalid string }{
		{"/dashboard/knowledge", "Add text or URL", "", "combobox", "Source", "", ""},
		{"/dashboard/agents", "New agent", "New agent", "radio", "An empty agent", "Create agent", "Name"},
		{"/dashboard/org", "Invite a member", "", "textbox", "Email address", "", ""},
		{"/dashboard/org", "New key", "New API key", "textbox", "Name", "Create key", "Name"},
		{"/dashboard/org/notifications", "New endpoint", "New endpoint", "textbox", "URL", "Create endpoint", "URL"},
	} {
		p.visit(c.path)
		p.click("button", c.open)
		p.focusIs(c.role, c.field)
		if c.submit == "" {
			continue
		}
		for range 2 {
			p.in("dialog", c.title).click("button", c.submit)
			p.focusIs("textbox", c.invalid)
		}
	}

	dialog := p.in("dialog", "New endpoint") // several fields are invalid simultaneously
	dialog.fill("URL", "https://example.com/")
	dialog.click("checkbox", "A run failed or timed out…")
	dialog.click("checkbox", "A run is waiting for a person…")
	dialog.click("button", "Create endpoint")
	p.focusIs("checkbox", "A run completed…")
}
