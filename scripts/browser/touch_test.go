package browser

import (
	"errors"
	"fmt"
	"testing"
)

// fingers is the minimum height of an important target on a touch screen, in pixels.
const fingers = 40

// fitsFingers finds the first element that matches a CSS selector. It fails the test unless the
// height in which this element receives taps is at least the constant fingers.
func (p *page) fitsFingers(selector string) {
	p.t.Helper()
	p.until(selector+" fits fingers", func() error {
		var height int
		err := p.try(&height, `(selector) => {
			const target = document.querySelector(selector);
			if (!target) return 0;
			target.scrollIntoView({ block: "center" });
			const { left, top, width, height } = target.getClientRects()[0];
			const receives = (y) => target.contains(document.elementFromPoint(left + width / 2, y));
			const middle = top + height / 2;
			let [up, down] = [0, 0];
			while (up < 40 && receives(middle - up - 1)) up++;
			while (down < 40 && receives(middle + down + 1)) down++;
			return up + down + 1;
		}`, selector)
		if err == nil && height < fingers {
			err = fmt.Errorf("it receives taps in a height of %d pixels, want at least %d", height, fingers)
		}
		return err
	})
}

// TestTargetsForFingers checks the heights of the targets that people use most on a touch screen.
func TestTargetsForFingers(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "returns.md", "You may return any lamp within 45 days of its delivery.\n")
	agent := a.agent(t, "Shop", map[string]any{"tools": map[string]any{"knowledge": on}})
	p := open(t)
	p.resize(phone)
	p.touch()
	p.visit("/login")
	p.fitsFingers(`.after a[href="/signup"]`)
	p.fitsFingers(`.after a[href*="token=demo"]`)
	p.fitsFingers(`button[type="submit"]`)
	p.shot("login-touch", phone, "light")

	p.signIn(a)
	p.visit("/dashboard/agents/" + agent)
	p.fill("Message", "How many days do I have to return a lamp?")
	p.fitsFingers(`[aria-label="Send message"]`)
	p.fitsFingers(`[aria-label="New session"]`)
	p.fitsFingers(".menu button")
	p.click("button", "Send message")
	turn := p.in("article", "Message: How many…")
	turn.is("link", "Run details")
	p.fitsFingers(".answer .cite")
	p.shot("answer-touch", phone, "light")
	turn.in("list", "").click("button", "Source 1: returns.md…")
	p.is("link", "Open the document")
	p.fitsFingers(".whereabouts .button")
	p.shot("source-touch", phone, "light")

	p.visit("/dashboard/templates")
	p.is("heading", "Researcher")
	p.fitsFingers(".template .button.bare")
	p.click("button", "Menu")
	p.click("button", "Account…")
	p.is("button", "Sign out")
	p.fitsFingers(".account > button")
	p.fitsFingers(".account-menu button:last-child")
	p.shot("menu-touch", phone, "light")
}

// TestAnnouncedAnswer asks for an answer with Markdown on a phone. Screen readers get the answer's
// plain text. The columns of the answer's table are at least as wide as their words. The time of
// the answer is updated.
func TestAnnouncedAnswer(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/agents/" + a.agent(t, "Echo", map[string]any{"model": "offline/echo"}))
	p.fill("Message", "some **bold** words\n\n| Field | Description of the field in one sentence | Value |\n|---|---|---|\n"+
		"| customerReference | A reference that the customer has chosen freely and may change at any time | (nothing) |\n")
	p.click("button", "Send message")
	p.until("the answer is announced", func() error {
		var said string
		if err := p.try(&said, `() => document.querySelector(".chat-said > [role=status]").textContent`); err != nil {
			return err
		}
		if said != "Answer: echo: some bold words Field Description of the field in one sentence Value "+
			"customerReference A reference that the customer has chosen freely and may change at any time (nothing)" {
			return errors.New("announced: " + said)
		}
		return nil
	})

	p.is("link", "Run details")
	var broken []string
	p.js(&broken, `() => {
		const broken = [];
		for (const cell of document.querySelectorAll(".answer :is(th, td)")) {
			const range = document.createRange();
			for (const word of cell.textContent.matchAll(/\S+/g)) {
				range.setStart(cell.firstChild, word.index);
				range.setEnd(cell.firstChild, word.index + word[0].length);
				if (range.getClientRects().length > 1) broken.push(word[0]);
			}
		}
		return document.querySelector(".answer td") ? broken : ["no table"];
	}`)
	if len(broken) > 0 {
		t.Errorf("words that break in cells of the table: %q", broken)
	}
	p.shot("table-in-answer", phone, "light")

	const time = `() => document.querySelector(".turn-took time").textContent`
	var before, now string
	p.js(&before, time)
	p.until("the time of the answer is updated", func() error {
		if err := p.try(&now, time); err != nil {
			return err
		}
		if now == before {
			return errors.New("the time is " + now)
		}
		return nil
	})
}
