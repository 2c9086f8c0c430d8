package browser

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/scripts/internal/api"
)

// clickText clicks the element of the area that contains exactly the given text.
func (a area) clickText(words string) {
	a.p.t.Helper()
	a.p.until(fmt.Sprintf("clicking %q in %s", words, a), func() error {
		var at []float64
		function := `function () {
			const found = [...this.querySelectorAll("*")].findLast((e) => e.textContent.trim() === ` + quoted(words) + `);
			if (!found) return [];
			found.scrollIntoView({ block: "center" });
			const { left, top, width, height } = found.getBoundingClientRect();
			return [left + width / 2, top + height / 2];
		}`
		if err := a.ask(&at, function); err != nil {
			return err
		}
		if len(at) == 0 {
			return errors.New("no element has this text")
		}
		return a.p.mouse(at[0], at[1])
	})
}

// TestComposerOfEmptyChat checks that the message field of a chat without messages is at the bottom
// of the window.
func TestComposerOfEmptyChat(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Quiet", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	for _, s := range []screen{phone, desktop} {
		p.resize(s)
		for _, path := range []string{"/dashboard/agents/" + agent, "/dashboard/templates/tpl_support"} {
			p.visit(path)
			p.is("textbox", "Message")
			p.settled()
			var gap float64
			p.js(&gap, `() => innerHeight - document.querySelector(".composer").getBoundingClientRect().bottom`)
			if gap < -1 || gap > 1 {
				t.Errorf("%s at %d pixels: the composer is %.0f pixels above the end of the window", path, s.width, gap)
			}
		}
	}
}

// TestComposerOnAPhone checks that the field for messages has room on a phone, and almost the width
// of the window when it has text. All of the composer's buttons must be in the window and large
// enough to touch.
func TestComposerOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Quiet", map[string]any{"model": "offline/echo", "tools": map[string]any{"voice": on}})
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents/" + agent)
	for _, name := range []string{"Attach files", "Speak", "Send message"} {
		p.is("button", name)
	}
	const question = "A question that is long enough to need more than a single line of the field on a phone"
	for text, want := range map[string]float64{"": 150, question: 280} {
		p.fill("Message", text)
		p.settled()
		var at struct {
			Field   float64
			Buttons []float64
		}
		p.js(&at, `() => ({
			Field: document.getElementById("chat-message").getBoundingClientRect().width,
			Buttons: [...document.querySelectorAll(".composer-box button")].map((b) => {
				const { left, right, width, height } = b.getBoundingClientRect();
				return left >= 0 && right <= innerWidth ? Math.min(width, height) : 0;
			}),
		})`)
		if at.Field < want {
			t.Errorf("with the text %q, the field is %.0f pixels wide, want at least %.0f", text, at.Field, want)
		}
		if len(at.Buttons) != 3 || slices.Min(at.Buttons) < 24 {
			t.Errorf("with the text %q, sizes of the buttons in the window = %v, want three of at least 24 pixels", text, at.Buttons)
		}
	}
	p.fill("Message", question)
	p.inspect("composer")
}

// TestSaveBarCoversNothing changes the last control of a form, which is at the bottom of the
// window. The bar that offers to save the changes then appears there, and must not cover the
// control.
func TestSaveBarCoversNothing(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Quiet", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	for _, s := range []screen{phone, desktop} {
		p.resize(s)
		p.visit("/dashboard/agents/" + agent + "/settings")
		p.is("switch", "Voice")
		p.settled()
		var at []float64
		p.js(&at, `() => {
			const control = [...document.querySelectorAll("main input[type=checkbox]")].at(-1);
			control.scrollIntoView({ block: "end" });
			const { left, top, width, height } = control.getBoundingClientRect();
			return [left + width / 2, top + height / 2];
		}`)
		p.must(p.mouse(at[0], at[1]), "clicking the last control")
		p.is("region", "Unsaved changes")
		p.until("the control is above the bar", func() error {
			var gap float64
			p.js(&gap, `() => document.querySelector(".savebar").getBoundingClientRect().top - document.activeElement.getBoundingClientRect().bottom`)
			if gap < 0 {
				return fmt.Errorf("at %d pixels, the bar covers %.0f pixels of the control", s.width, -gap)
			}
			return nil
		})
		p.shot("savebar", s, "light")
		p.click("button", "Discard")
		p.isNot("region", "Unsaved changes")
	}
}

// TestRowsOpen clicks table rows outside their links. Each click opens the same page or dialog as
// the row's link.
func TestRowsOpen(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	a.document(t, "hours.md", "Open from nine to five.\n")
	p := open(t).signIn(a)
	p.visit("/dashboard/agents")
	row := p.in("row", "Clerk…")
	row.is("link", "Settings of Clerk")
	var line string
	p.js(&line, `() => getComputedStyle(document.querySelector("th a")).textDecorationLine`)
	if line != "underline" {
		t.Errorf("the link to an agent has the decoration %q, want underline", line)
	}
	row.clickText("offline/echo")
	p.arrives("/dashboard/agents/" + agent)
	p.visit("/dashboard/knowledge")
	p.in("row", "hours.md…").clickText("ready")
	p.is("dialog", "hours.md")
}

// TestRunsOfAutomation opens the list of an automation's last runs, and then a run from the list.
func TestRunsOfAutomation(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	started := a.trigger(t, a.key(t, "Scheduler"), agent, "nightly", "Write the report")
	p := open(t).signIn(a)
	p.visit("/dashboard/automations")
	if p.has("button", "Deliveries") {
		t.Error("the page calls the runs of a schedule deliveries")
	}
	p.click("button", "Last runs of nightly")
	p.in("list", "Last runs of nightly").sees("completed")
	p.inspect("automation-runs")
	p.in("list", "Last runs of nightly").first("link", "…").hit()
	p.arrives("/dashboard/runs/" + started.ID)
}

// TestUseIt checks the tab with examples for calling an agent. The tab shows one example at a time.
// The rest of the page is short, on a desktop and on a phone.
func TestUseIt(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	for size, most := range map[screen]float64{desktop: 1100, phone: 1700} {
		p.resize(size)
		p.visit("/dashboard/agents/" + agent + "/use")
		for tab, shows := range map[string]string{
			"Chat": `"sessionId":"demo-1"`, "Stream": `"stream":true`, "SDKs and clients": "parley-sdk", "Speak": "/v1/realtime", "Scheduler": "run-automation",
		} {
			p.click("tab", tab)
			p.in("tabpanel", tab).sees(shows)
			p.settled()
			p.shot("use-"+strings.Fields(tab)[0], size, "light")
			var heights []float64
			p.js(&heights, `() => [document.documentElement, ...document.querySelectorAll("main pre")].map((e) => e.scrollHeight)`)
			if len(heights) != 2 || heights[0]-heights[1] > most {
				t.Errorf("%s at %d pixels: heights of the page and its examples = %.0f, want one example, and at most %.0f without it",
					tab, size.width, heights, most)
			}
		}
	}
	p.click("tab", "Chat")
	p.is("tabpanel", "Chat")
	p.press("ArrowRight")
	p.focusIs("tab", "Stream")
}

// TestEmptyCharts opens the usage page of a new organization. Instead of data, each chart shows a
// text that explains it.
func TestEmptyCharts(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/org/usage")
	p.sees("No runs in this period. Each bar shows the number of runs of one day, by result.")
	p.sees("No run finished in this period.")
	var labels int
	p.js(&labels, `() => [...document.querySelectorAll("svg")].find((s) => s.getAttribute("role") === "img").querySelectorAll("text").length`)
	if labels < 3+3 {
		t.Errorf("the axes have %d labels, want at least 6", labels)
	}
	p.inspect("usage-empty")
}

// TestUsageByAgent selects an agent in the list of usage per agent. The list shows a template by
// its name. A template cannot be selected, because the filter accepts only agents.
func TestUsageByAgent(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Shop", map[string]any{"model": "offline/echo"})
	a.chat(t, agent, "s", "Hello")
	var answered api.Run
	a.call(t, http.MethodPost, "/api/agents?action=chat&template=tpl_support", map[string]any{"sessionId": "t", "message": "Hello"}, &answered)

	p := open(t).signIn(a)
	p.visit("/dashboard/org/usage")
	usage := p.in("table", "Usage…")
	usage.sees("Customer support")
	if usage.has("button", "Only Customer support") {
		t.Error("a template can be selected")
	}
	usage.click("button", "Only Shop")
	p.isNot("table", "Usage…")
	p.isNot("alert", "…")
	p.holds("Agent", agent)
}
