package browser

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// visible waits until the element that contains exactly the given text is in the window, and no
// other element covers it.
func (p *page) visible(words string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q is visible", words), func() error {
		var at string
		err := p.try(&at, `(words) => {
			const shown = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
			const found = [...shown.querySelectorAll("*")].findLast((e) => e.textContent.trim() === words && e.getClientRects().length > 0);
			if (!found) return "no element has this text";
			const { left, top, bottom, width } = found.getBoundingClientRect();
			for (const y of [top + 1, bottom - 1]) {
				const there = document.elementFromPoint(left + Math.min(width, 8) / 2, y);
				if (!found.contains(there)) return `+"`${Math.round(y)} px from the top of the window is ${there?.className ?? \"nothing\"}`"+`;
			}
			return "";
		}`, words)
		if err == nil && at != "" {
			err = errors.New(at)
		}
		return err
	})
}

// touch makes the tab emulate a touch screen, on which some targets are larger.
func (p *page) touch() {
	p.t.Helper()
	p.touched(true)
}

// touched starts or stops the emulation of a touch screen.
func (p *page) touched(enabled bool) {
	p.t.Helper()
	call(p, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: enabled})
}

// scrolled returns the position to which the page is scrolled.
func (p *page) scrolled() (y int) {
	p.t.Helper()
	p.js(&y, `() => Math.round(scrollY)`)
	return y
}

// TestBackRestoresScroll opens pages from lists that are scrolled down. The pages begin at their
// top, and the browser's Back button shows the list at the same position, with the same number of
// rows. A reload also keeps the position.
func TestBackRestoresScroll(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	for i := range 22 {
		a.agent(t, fmt.Sprintf("Agent %d", i), map[string]any{"model": "offline/echo"})
	}
	for i := range 10 {
		a.chat(t, agent, fmt.Sprintf("session %d", i), fmt.Sprintf("Question %d", i))
	}
	p := open(t).signIn(a)
	p.resize(phone)
	opened := map[string]string{"/dashboard/agents": "Use it", "/dashboard/runs": "Read the guide"} // a link on the page that opens
	for list, row := range map[string]string{"/dashboard/agents": "Reporter", "/dashboard/runs": "Question 0"} {
		p.visit(list)
		more := list == "/dashboard/agents"
		if more {
			p.click("button", "Show more") // the first page of the list does not contain the row
		}
		p.sees(row)
		p.settled()
		p.clickText(row) // scrolls to the row
		p.is("link", opened[list])
		p.until("the page begins at its top", func() error {
			if y := p.scrolled(); y != 0 || p.path() == list {
				return fmt.Errorf("%s is scrolled to %d", p.path(), y)
			}
			return nil
		})
		p.settled()
		if y := p.scrolled(); y != 0 {
			t.Errorf("%s, which was opened from %s, is scrolled to %d", p.path(), list, y)
		}
		p.js(nil, `() => history.back()`)
		p.arrives(list)
		p.settled()
		p.visible(row)
		if more {
			continue // a reload loads only the first page of the list
		}
		was := p.scrolled()
		p.reload()
		p.settled()
		p.visible(row)
		if y := p.scrolled(); y != was {
			t.Errorf("%s is scrolled to %d, and to %d after a reload", list, was, y)
		}
	}
}

// TestFaultOnAPhone adds an invalid origin in a field at the bottom of a phone's window. The field
// receives the focus, and its error is in the window.
func TestFaultOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Shop", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents/" + agent + "/embed")
	p.fill("Add an origin", "www.example.com/index.html")
	// Scroll until the hint and the error of the field are below the window.
	p.js(nil, `() => scrollBy(0, document.activeElement.getBoundingClientRect().bottom - innerHeight)`)
	for range 2 {
		p.press("Enter")
		p.focusIs("textbox", "Add an origin")
		var message string
		p.js(&message, `() => document.querySelector(".fault").textContent`)
		p.visible(message)
	}
}

// TestWebhookOnAPhone creates a webhook on a phone and sends a test delivery. The form is short, and
// the result of the test is in the window.
func TestWebhookOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	private := a.agent(t, "Diary", map[string]any{"model": "offline/echo", "allowedCallers": []string{"user"}})
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/automations/new")
	p.click("link", "Diary") // its settings allow automations
	p.arrives("/dashboard/agents/" + private + "/settings")
	p.js(nil, `() => history.back()`)
	p.is("button", "Create webhook")
	p.settled()
	var height float64
	p.js(&height, `() => document.documentElement.scrollHeight`)
	if height > 2500 {
		t.Errorf("the form is %.0f pixels high, want at most 2500", height)
	}
	p.shot("new-hook-short", phone, "light")

	p.fill("Name", "Orders")
	p.isNot("textbox", "Secret")
	p.clickText("API key, secret, answers and coalescing")
	p.fill("Secret", "x")
	p.clickText("API key, secret, answers and coalescing")
	p.isNot("textbox", "Secret")
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Create webhook")
	p.focusIs("textbox", "Secret") // the error opens the folded settings
	p.fill("Secret", "")
	p.click("button", "Create webhook")
	made := p.in("dialog", "Set up “Orders” at the sender")
	made.is("button", "Copy: the secret")
	p.settled()
	p.shot("hook-made", phone, "light")
	made.click("button", "Done")
	p.sees("The first delivery appears here as soon as it arrives")

	p.click("button", "Send a test")
	dialog := p.in("dialog", "Send a test")
	for range 2 {
		dialog.click("button", "Send")
		dialog.sees("The agent runs")
		p.visible("Open run")
	}
	p.shot("hook-tested", phone, "light")
	p.visible("Send a test") // the head of the dialog, with its close button
	dialog.first("button", "Close").hit()
	p.isNot("dialog", "Send a test")
}

// TestRunOnAPhone opens the page of a run on a phone. The question and the answer come before the
// figures and the timeline. In a wide window, the question and the answer follow the figures and
// the timeline.
func TestRunOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	run := a.chat(t, a.agent(t, "Reporter", map[string]any{"model": "offline/echo"}), "first", "How tall is the tower?")
	p := open(t).signIn(a)
	for size, want := range map[screen]string{phone: "Message, Answer, Timeline, Details", desktop: "Timeline, Message, Answer, Details"} {
		p.resize(size)
		p.visit("/dashboard/runs/" + run.ID)
		p.is("heading", "Timeline")
		var order []string
		p.js(&order, `() => [...document.querySelectorAll("main h2")].map((h) => h.textContent)`)
		if got := strings.Join(order, ", "); got != want {
			t.Errorf("at %d pixels, the page shows %s, want %s", size.width, got, want)
		}
	}
	p.resize(phone)
	p.visible("echo: How tall is the tower?")

	// On a touch screen, a tap opens a part of the timeline. After the part has been closed, no
	// label stays on the chart.
	p.touch()
	p.click("button", "Turn 1…")
	p.in("region", "Turn 1").sees("Duration")
	p.shot("run-part", phone, "light")
	p.in("region", "Turn 1").click("button", "Close Turn 1")
	p.isNot("region", "Turn 1")
	var touch, labelled bool
	p.js(&touch, `() => matchMedia("(hover: none)").matches`)
	p.js(&labelled, `() => document.querySelector(".timeline .detail").getClientRects().length > 0`)
	if !touch || labelled {
		t.Errorf("the screen is touched = %t, a label is shown = %t", touch, labelled)
	}
}

// targetsFit checks the controls of the page on a phone with a touch screen: buttons, fields and the
// links outside of texts are at least 24 pixels wide and high. Rows of tabs that do not fit have
// shadows; targetsFit returns their number.
func (p *page) targetsFit(name string) (scrolling int64) {
	p.t.Helper()
	p.resize(phone)
	p.touch()
	defer p.touched(false)
	p.reload() // a page may decide about its layout when it is loaded
	p.settled()
	p.shot("phone-"+name, phone, "light")
	var found struct {
		Small []string
		Tabs  []string
	}
	p.js(&found, `() => {
		const text = (e) => (e?.textContent ?? "").trim();
		const small = (e) => {
			const { width, height } = e.getBoundingClientRect();
			const larger = [e, ...(e.labels ?? [])].some((part) => getComputedStyle(part, "::after").position === "absolute"); // an invisible part receives taps, too
			const inText = getComputedStyle(e).display === "inline" && text(e.parentElement) !== text(e);
			return Math.min(width, height) < 24 && width > 0 && !larger && !inText && !e.closest(".skip");
		};
		return {
			Small: [...document.querySelectorAll("a, button, input, select, textarea, summary")].filter(small).map((e) => {
				const { width, height } = e.getBoundingClientRect();
				return `+"`${e.localName} ${e.ariaLabel ?? text(e)} in .${e.parentElement.className}: ${width} × ${height}`"+`;
			}),
			Tabs: [...document.querySelectorAll(".tabs")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => getComputedStyle(e).backgroundImage),
		};
	}`)
	for _, small := range found.Small {
		p.t.Errorf("%s: a target is small: %s", name, small)
	}
	for _, image := range found.Tabs {
		scrolling++
		if strings.Count(image, "linear-gradient") != 4 {
			p.t.Errorf("%s: a row of tabs that scrolls has the background %s", name, image)
		}
	}
	return scrolling
}
