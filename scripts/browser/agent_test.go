package browser

import (
	"errors"
	"math"
	"net/http"
	"testing"
)

// TestAgentSettings changes an agent's settings in the dashboard. Saving them does not overwrite a
// change that someone else made in the meantime.
func TestAgentSettings(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Draft", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.watch.expect(http.StatusBadRequest)
	p.fill("Name", "")
	p.click("button", "Save changes")
	p.in("region", "Unsaved changes").in("alert", "…").sees("Name must not be empty")
	p.inspect("settings-wrong")
	p.fill("Name", "Final")
	p.click("switch", "Knowledge")
	p.choose("Ask a person first", "Before each call")
	p.choose("Model", "offline") // one of the models that the service offers
	p.choose("Model", "Another model …")
	p.fill("Model name", "openai/unlisted")
	p.click("button", "Save changes")
	p.is("region", "Saved changes")
	p.is("heading", "Final")
	p.reload()
	p.holds("Name", "Final")
	p.holds("Ask a person first", "always")
	p.holds("Model name", "openai/unlisted")

	p.watch.expect(http.StatusConflict)
	a.call(t, http.MethodPut, "/api/agents?id="+agent, map[string]any{"description": "Somebody else's"}, nil)
	p.fill("Name", "Mine")
	p.click("button", "Save changes")
	p.sees("Someone else changed this agent")
	p.inspect("settings-conflict")
	p.click("button", "Apply my changes on top of theirs")
	p.click("button", "Save changes")
	p.is("heading", "Mine")
	p.is("region", "Saved changes")
	var now struct{ Name, Description string }
	a.call(t, http.MethodGet, "/api/agents?id="+agent, nil, &now)
	if now.Name != "Mine" || now.Description != "Somebody else's" {
		t.Errorf("saved: %+v", now)
	}
}

// TestSettingsIndex uses the list of sections beside an agent's settings. The list marks the chosen
// section, and does not move while the pointer is over it.
func TestSettingsIndex(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Long", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	index := p.in("navigation", "Settings")
	place := func(name string) (at struct{ Top, Scrolled float64 }) {
		p.until("reading the place of "+name, func() error {
			return index.in("link", name).ask(&at, `function () { return { Top: this.getBoundingClientRect().top, Scrolled: scrollY } }`)
		})
		return at
	}
	current := func(want string) {
		p.until("the current section is "+want, func() error {
			var got string
			err := index.ask(&got, `function () { return this.querySelector("[aria-current]")?.textContent ?? "" }`)
			if err == nil && got != want {
				err = errors.New(got)
			}
			return err
		})
	}
	p.is("textbox", "Name")
	current("Basics")
	for _, name := range []string{"Model", "Connections", "Delete"} {
		before := place(name)
		index.click("link", name)
		current(name)
		if after := place(name); after.Scrolled == 0 || math.Abs(after.Top-before.Top) > 1 {
			t.Errorf("%s: the link moves from %v to %v", name, before, after)
		}
	}
	p.inspect("settings-index")
}

// TestSuggestedQuestions saves suggested questions and starts a chat with one of them.
func TestSuggestedQuestions(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Host", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.fill("Suggested questions", "When do you open?\nWhen do you open?")
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Save changes")
	p.sees("Question 2 is given twice")
	p.inspect("suggestions-wrong")
	p.fill("Suggested questions", "When do you open?\n\nWhere are you?")
	p.seesNot("Question 2 is given twice")
	p.click("button", "Save changes")
	p.is("region", "Saved changes")
	p.click("link", "Playground")
	p.is("button", "Where are you?")
	p.inspect("suggestions")
	p.click("button", "When do you open?")
	p.in("article", "Message: When do you open?").sees("echo: When do you open?")
	p.isNot("button", "Where are you?")
}

// TestLeavingAsks leaves an agent's settings page with unsaved changes. The dashboard discards the
// changes only after a confirmation.
func TestLeavingAsks(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Keeper", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.fill("Description", "Not saved")
	p.click("link", "Use it")
	p.arrives("/dashboard/agents/" + agent + "/use")
	p.click("link", "Settings")
	p.click("link", "Knowledge")
	asks := p.in("dialog", "Leave without saving?")
	asks.sees("Description")
	asks.click("button", "Stay")
	p.isNot("dialog", "Leave without saving?")
	p.holds("Description", "Not saved")
	p.click("link", "Runs")
	asks.click("button", "Leave")
	p.arrives("/dashboard/runs")
	p.visit("/dashboard/agents/" + agent + "/settings")
	p.holds("Description", "")
}

// TestPreviewOfWidget chooses the look of a widget and talks to the agent in the preview, before
// any origin is allowed. A reload keeps the look. Then the test allows the service's own origin,
// and opens a page that contains the widget.
func TestPreviewOfWidget(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Greeter", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	end := p.begin(6)
	p.visit("/dashboard/agents/" + agent + "/embed")
	p.sees(`<script async src="` + a.s.url + `/widget.js" data-agent="` + agent + `"></script>`)
	p.fill("Add an origin", "not an origin")
	p.click("button", "Add")
	p.sees("Not an origin: not, an, origin.")

	p.fill("Greeting", `Ask us "anything"`)
	p.sees(`data-greeting="Ask us &quot;anything&quot;"></script>`)
	seePreview := func() { p.js(nil, `() => document.querySelector(".widget-preview").scrollIntoView()`) } // which loads the widget
	seePreview()
	preview := p.in("group", "Preview of the widget")
	preview.sees(`Ask us "anything"`)
	preview.fill("Message", "Hello before")
	p.press("Enter")
	preview.in("log", "Messages").sees("echo: Hello before")
	p.isNot("region", "Unsaved changes")
	p.inspect("embed-preview")
	p.click("link", "Use it")
	p.click("link", "Embed")
	p.holds("Greeting", `Ask us "anything"`)
	p.reload()
	p.holds("Greeting", `Ask us "anything"`)
	p.sees("is not stored with the agent")
	p.resize(phone)
	var span float64
	p.js(&span, `() => {
		const [preview, colour] = [".widget-preview", ".colour"].map((e) => document.querySelector(e).getBoundingClientRect());
		return colour.bottom - preview.top;
	}`)
	if span < 0 || span > 740 {
		t.Errorf("from the top of the preview to the field for the colour = %.0f pixels, want at most a phone's window", span)
	}
	p.resize(desktop)

	p.fill("Add an origin", a.s.url)
	p.click("button", "Add")
	p.sees("The widget is off, so no page can show it.")
	p.click("switch", "Widget")
	p.seesNot("The widget is off")
	p.click("switch", "Attachments")
	seePreview()
	preview.in("region", "Greeter").upload(file(t, "note.txt", "A note."))
	preview.is("button", "Remove note.txt")
	preview.fill("Message", "Hello with a file")
	p.press("Enter")
	preview.in("log", "Messages").sees("echo: Hello with a file")
	p.click("button", "Save changes")
	p.is("region", "Saved changes")
	p.is("link", "Open a test page with the widget")
	p.visit("/widget/preview?agent=" + agent)
	p.click("button", "Open chat: Greeter")
	chat := p.in("dialog", "Greeter")
	chat.fill("Message", "Hello there")
	p.press("Enter")
	chat.in("log", "Messages").sees("echo: Hello there")
	end()
	p.press("Escape")
	p.isNot("dialog", "Greeter")
	p.focusIs("button", "Open chat: Greeter…") // the button's name announces an answer that was completed while the panel was closed
}

// TestInvitation invites a user to an organization as a viewer. The invited user can read
// everything and change nothing.
func TestInvitation(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Shared agent", map[string]any{"model": "offline/echo"})
	p, guest := open(t).signIn(a), open(t)
	end := p.begin(10, guest)
	p.visit("/dashboard/org")
	p.click("button", "Invite a member")
	dialog := p.in("dialog", "Invite a member")
	dialog.fill("Email address", "guest-of-"+a.email)
	dialog.click("button", "Invite")
	link := p.in("dialog", "Invitation for guest-of-"+a.email).in("region", "the link").snippet()

	guest.visitURL(link)
	guest.fill("Your name…", "Guest")
	guest.fill("Choose a password", "a long password")
	guest.click("button", "Create account and join")
	guest.arrives("/dashboard")
	guest.choose("Organization", "Ada Example's organization")
	guest.click("link", "Agents")
	guest.is("link", "Shared agent")
	end()
	if guest.has("button", "New agent") || guest.has("link", "Automations") {
		t.Error("a member sees controls that only admins may use")
	}

	guest.click("link", "Organization")
	guest.is("heading", "Organization")
	guest.inspect("org-as-member")
}
