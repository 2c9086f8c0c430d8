package browser

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestAgentFromTemplate signs up, creates an agent from a template, sends it a question, and opens
// the source that the answer cites.
func TestAgentFromTemplate(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.s.outside.publish("/heron", "Heron lamps", "The Heron lamp was first made in 1931 in Lund. It takes a bulb of at most 7 watts.")
	end := p.begin(2)
	p.visit("/signup")
	p.signsUp("Grace Example")
	p.click("link", "Agents")
	p.sees("No agents yet")
	p.click("button", "New agent")
	dialog := p.in("dialog", "New agent")
	dialog.click("radio", "Researcher")
	dialog.fill("Name", "Lamp researcher")
	p.inspect("new-agent")
	dialog.click("button", "Create agent")
	p.is("heading", "Lamp researcher")

	p.fill("Message", "Search the web: When was the Heron lamp first made?")
	p.press("Enter")
	turn := p.in("article", "Message: Search the web: When was…")
	turn.sees("1931")
	turn.is("button", "Source 1: Heron lamps")
	end()
	turn.is("link", "Run details")
	p.inspect("answer")
	const place = `() => { const { top, left, width } = document.querySelector("article").getBoundingClientRect(); return [top + scrollY, left, width] }`
	var before, after []float64
	p.js(&before, place)
	turn.in("list", "").click("button", "Source 1: Heron lamps…")
	source := p.in("dialog", "Heron lamps")
	source.in("region", "Text of the source").sees("first made in 1931")
	if p.js(&after, place); !slices.Equal(before, after) {
		t.Errorf("the answer moves from %v to %v when a source is opened", before, after)
	}

	var marked string
	p.js(&marked, `() => document.querySelector("dialog mark")?.textContent ?? ""`)
	if !strings.Contains(marked, "1931") {
		t.Errorf("words marked in the source = %q", marked)
	}

	source.is("link", "Open the page…")
	p.inspect("source")
	p.press("Escape")
	p.isNot("dialog", "Heron lamps")
}

// numbered returns a text of the given number of words: w1, w2, and so on.
func numbered(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = fmt.Sprintf("w%d", i+1)
	}
	return strings.Join(list, " ")
}

// TestAnswerStreams watches a slow answer appear word by word, and leaves the page before the
// answer ends. When the test returns to the page, the answer is complete.
func TestAnswerStreams(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Slow", map[string]any{"model": slowModel})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	said := numbered(70)
	p.fill("Message", "slowly "+said)
	p.press("Enter")
	turn := p.in("article", "Message: slowly…")
	turn.sees("echo: slowly w1 w2 w3")
	p.is("button", "Stop the run")
	if shown, err := turn.text(); err != nil || strings.Count(shown, "w70") > 1 {
		t.Errorf("the answer did not stream: %s, %v", shown, err)
	}

	p.click("link", "Settings")
	p.holds("Name", "Slow")
	p.click("link", "Playground") // the Playground shows the same session
	turn.sees("echo: slowly")
	p.reload()
	turn.sees("echo: slowly " + said)
	turn.is("link", "Run details")
	if shown, err := turn.text(); err != nil || strings.Count(shown, "echo: slowly") != 1 {
		t.Errorf("the answer does not appear exactly once: %s, %v", shown, err)
	}

	p.fill("Message", "again slowly "+numbered(200))
	p.press("Enter")
	p.in("article", "Message: again slowly…").sees("echo: again slowly w1 w2 w3")
	p.in("complementary", "Your sessions").is("button", "again slowly w1 w2…") // the session gets its name while the run executes
	p.click("button", "Stop the run")
	p.sees("The run was cancelled")
}

// TestTwoTabs opens a session in two windows. Each window shows the messages that are sent in the
// other window, in order and once. A run that was started in one window can be stopped in the other
// window.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Slow", map[string]any{"model": slowModel})
	p, other := open(t).signIn(a), open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	p.fill("Message", "one")
	p.press("Enter")
	p.in("article", "Message: one").sees("echo: one")

	var address string
	p.js(&address, `() => location.href`)
	other.visitURL(address)
	other.in("article", "Message: one").sees("echo: one")

	p.fill("Message", "two slowly "+numbered(400))
	p.press("Enter")
	other.in("article", "Message: two…").sees("echo: two slowly w1 w2 w3")
	other.click("button", "Stop the run")
	p.sees("The run was cancelled")
	other.sees("The run was cancelled") // Enter sends nothing while a run is in progress

	other.fill("Message", "three")
	other.press("Enter")
	three := p.in("article", "Message: three")
	three.sees("echo: three")
	three.is("link", "Run details") // the run has finished
	p.fill("Message", "four")
	p.press("Enter")
	for _, at := range []*page{p, other} {
		at.in("article", "Message: four").is("link", "Run details")
		shown, err := at.in("log", "Messages").text()
		if err != nil {
			t.Fatal(err)
		}
		end := 0
		for _, answer := range []string{"echo: one", "echo: two slowly w1 w2 w3", "echo: three", "echo: four"} {
			if at := strings.Index(shown, answer); at < end || strings.Count(shown, answer) != 1 {
				t.Errorf("%q is at %d of the messages, want it once and after %d: %s", answer, at, end, shown)
			} else {
				end = at
			}
		}
	}
}

// TestRefusedMessage sends a message that the service rejects because the budget is used up. The
// input field keeps the message, even after a reload.
func TestRefusedMessage(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Spender", map[string]any{"model": "offline/echo"})
	var budget struct{ ID string }
	nothing := map[string]any{"scope": "organization", "metric": "runs", "period": "month", "limit": 0}
	a.call(t, http.MethodPost, "/api/budgets", nothing, &budget)
	p := open(t).signIn(a)
	p.watch.expect(http.StatusTooManyRequests)
	p.watch.expect(http.StatusNotFound) // the session does not exist yet
	p.visit("/dashboard/agents/" + agent)
	p.fill("Message", "Hello")
	p.press("Enter")
	turn := p.in("article", "Message: Hello")
	turn.sees("Budget used up")
	turn.seesNot(budget.ID)
	turn.is("link", "Change the budget")
	p.inspect("refused")
	a.call(t, http.MethodDelete, "/api/budgets?id="+budget.ID, nil, nil)
	p.reload()
	turn.is("button", "Discard message")
	turn.click("button", "Send again")
	turn.sees("echo: Hello")
}

// TestSignedOutMeanwhile signs the user out in another browser while the user writes or sends a
// message. After the next login, the input field still contains the message.
func TestSignedOutMeanwhile(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%t", sent), func(t *testing.T) {
			t.Parallel()
			a := signUp(t)
			at := "/dashboard/agents/" + a.agent(t, "Counter", nil)
			p := open(t).signIn(a)
			p.watch.expect(http.StatusUnauthorized)
			p.visit(at)
			p.fill("Message", "What is 6 times 7?")
			a.call(t, http.MethodPost, "/api/auth/logout", nil, nil)
			if sent {
				p.watch.expect(http.StatusNotFound) // the session does not exist yet
				p.click("button", "Send message")
			} else {
				p.visit(at)
			}
			p.arrives("/login")
			p.fill("Email address", a.email)
			p.fill("Password", a.password)
			p.click("button", "Sign in")
			p.arrives(at)
			if !sent {
				p.holds("Message", "What is 6 times 7?")
				p.click("button", "Send message")
			}
			p.in("article", "…6 times 7…").sees("42")
			p.holds("Message", "")
		})
	}
}
