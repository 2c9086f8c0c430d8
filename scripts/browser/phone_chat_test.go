package browser

import (
	"errors"
	"fmt"
	"testing"
)

// lowPhone is a phone whose browser shows its own bars.
var lowPhone = screen{360, 740}

// TestSuggestionsOnAPhone opens empty chats on a phone. At least three suggested questions are in the
// window, and the composer covers no suggestion to which the page is scrolled.
func TestSuggestionsOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "returns.md", "You may return any lamp within 45 days.\n") // without a document, the chat offers the samples
	agent := a.agent(t, "Researcher of lamps", map[string]any{
		"description": "Compares what your documents and the web say, and answers with citations, dates and a note on how certain the answer is.",
		"tools":       map[string]any{"knowledge": on},
		"suggestions": []string{
			"Compare what the documents say about how long LED bulbs last.", "Compare how much energy LED bulbs save.",
			"Do LED bulbs flicker on a dimmer?", "How much does an LED bulb cost?",
		},
	})
	p := open(t).signIn(a)
	p.resize(lowPhone)
	p.touch()
	for name, path := range map[string]string{
		"agent": "/dashboard/agents/" + agent, "template": "/dashboard/templates/tpl_researcher", "demo": "/dashboard/templates/tpl_researcher?token=demo",
	} {
		p.visit(path)
		p.is("button", "How much does an LED bulb cost?")
		p.settled()
		var at struct {
			Top     float64 // top edge of the first suggestion
			Visible int     // number of suggestions of which every part is visible
			Covered float64 // height of the part of the last suggestion that the composer covers
		}
		p.js(&at, `() => {
			const edges = () => document.querySelector(".composer").getBoundingClientRect().top;
			const all = [...document.querySelectorAll(".chat-suggestions button")].filter((b) => b.closest("li"));
			const found = { Top: all[0].getBoundingClientRect().top + scrollY, Visible: all.filter((b) => b.getBoundingClientRect().bottom <= edges()).length };
			all.at(-1).scrollIntoView({ block: "nearest" });
			found.Covered = all.at(-1).getBoundingClientRect().bottom - edges();
			scrollTo(0, 0);
			return found;
		}`)
		t.Logf("%s: %+v", name, at)
		if at.Top > 360 || at.Visible < 3 || at.Covered > 0 {
			t.Errorf("%s: suggestions: %+v, want the first at most 360 pixels below the top, three visible and none covered", name, at)
		}
		p.shot("phone-suggestions-"+name, lowPhone, "light")
	}
}

// TestHeadOfAgentOnAPhone opens the page of an agent on a phone. A button shows the agent's
// description and id. The buttons for sessions are in the head of the page, and the bar with the menu
// stays in the window.
func TestHeadOfAgentOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo", "description": "Reports what happened."})
	for i := range 8 {
		a.chat(t, agent, "first", fmt.Sprintf("Question %d", i))
	}
	a.chat(t, agent, "second", "Another question")
	p := open(t).signIn(a)
	p.resize(lowPhone)
	p.visit("/dashboard/agents/" + agent)
	p.is("button", "New session")
	if p.has("link", "Read the guide") {
		t.Error("the description is shown before it was asked for")
	}
	p.click("button", "Details")
	p.visible("Reports what happened. Read the guide")
	p.is("link", "Read the guide")
	p.visible(agent)
	p.inspect("agent-details")
	p.resize(lowPhone)
	p.click("button", "Details")
	p.isNot("link", "Read the guide")

	p.click("button", "Sessions (2)")
	p.in("complementary", "Your sessions").click("button", "Question 7…")
	p.is("article", "Message: Question 0")
	p.until("the chat is scrolled to its end", func() error {
		if p.scrolled() == 0 {
			return errors.New("the chat is at its top")
		}
		return nil
	})
	p.visible("Menu")
	p.click("button", "Menu")
	p.visible("Knowledge")
	p.shot("phone-menu-scrolled", lowPhone, "light")
	p.press("Escape")
	p.js(nil, `() => scrollTo(0, 0)`)
	p.click("button", "New session")
	p.isNot("article", "Message: Question 0")

	p.resize(desktop)
	p.in("complementary", "Your sessions").is("button", "New session")
	p.is("link", "Read the guide")
}

// TestMessagesCoverNoComposer adds the sample documents on the page of a chat. The page then shows
// a short message, which covers neither the composer nor the bar with the menu.
func TestMessagesCoverNoComposer(t *testing.T) {
	t.Parallel()
	for _, s := range []screen{lowPhone, desktop} {
		p := open(t).signIn(signUp(t))
		p.resize(s)
		p.visit("/dashboard/templates/tpl_support")
		p.click("button", "Add the sample documents")
		p.until("the message is beside the composer and the bar", func() error {
			var covers string
			err := p.try(&covers, `() => {
				const message = document.querySelector(".toast")?.getBoundingClientRect();
				if (!message) return "no message is shown";
				for (const name of [".composer", ".rail"]) {
					const { left, right, top, bottom } = document.querySelector(name).getBoundingClientRect();
					if (message.left < right && message.right > left && message.top < bottom && message.bottom > top) return "the message covers the " + name;
				}
				return "";
			}`)
			if err == nil && covers != "" {
				err = errors.New(covers)
			}
			return err
		})
		p.shot("message-in-chat", s, "light")
	}
}
