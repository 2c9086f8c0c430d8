package browser

import (
	"fmt"
	"strings"
	"testing"
)

// TestAgentFromTemplate makes an agent from a template, asks it something, and opens what the answer cites.
func TestAgentFromTemplate(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.s.outside.publish("/heron", "Heron lamps", "The Heron lamp was first made in 1931 in Lund. It takes a bulb of at most 7 watts.")
	p := open(t).signIn(a)
	p.visit("/dashboard")
	p.sees("No agents yet")
	p.click("button", "New agent")
	dialog := p.in("dialog", "New agent")
	dialog.click("radio", "Web researcher")
	dialog.fill("Name", "Lamp researcher")
	p.inspect("new-agent")
	dialog.click("button", "Create agent")
	p.is("heading", "Lamp researcher")

	p.fill("Message", "When was the Heron lamp first made?")
	p.press("Enter")
	turn := p.in("article", "Message: When was the Heron…")
	turn.sees("1931")
	turn.is("link", "Run details")
	turn.is("button", "Source 1: Heron lamps")
	p.inspect("answer")
	turn.in("list", "").click("button", "Source 1: Heron lamps")
	source := p.in("dialog", "Heron lamps")
	source.in("region", "Text of the source").sees("first made in 1931")
	var marked string
	p.js(&marked, `() => document.querySelector("dialog mark")?.textContent ?? ""`)
	if !strings.Contains(marked, "1931") {
		t.Errorf("the words that are marked in the source are %q", marked)
	}
	source.is("link", "Open the page…")
	p.inspect("source")
	p.press("Escape")
	p.isNot("dialog", "Heron lamps")
}

// TestQuestionAboutDocument uploads a document and asks about it.
func TestQuestionAboutDocument(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/knowledge")
	p.upload(file(t, "returns.md", "# Returns\n\nYou may return any lamp within 45 days of its delivery.\n"))
	p.in("row", "returns.md…").sees("ready")
	p.visit("/dashboard/agents/" + a.agent(t, "Shop", map[string]any{"tools": map[string]any{"knowledge": on}}))
	p.fill("Message", "How many days do I have to return a lamp?")
	p.click("button", "Send message")
	turn := p.in("article", "Message: How many…")
	turn.sees("45 days")
	turn.in("list", "").click("button", "Source 1: returns.md")
	p.in("dialog", "returns.md").in("region", "Text of the source").sees("within 45 days of its delivery")
}

// numbered is a text whose words tell how far it has come.
func numbered(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = fmt.Sprintf("w%d", i+1)
	}
	return strings.Join(list, " ")
}

// TestAnswerStreams watches an answer that takes seconds being written, leaves in the middle, and finds it whole.
func TestAnswerStreams(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Slow", map[string]any{"model": slowModel})
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + agent)
	said := numbered(40)
	p.fill("Message", "slowly "+said)
	p.press("Enter")
	turn := p.in("article", "Message: slowly…")
	turn.sees("echo: slowly w1 w2 w3")
	p.is("button", "Stop the run")
	if shown, err := turn.text(); err != nil || strings.Count(shown, "w40") > 1 {
		t.Errorf("it is whole at once: %s, %v", shown, err)
	}
	p.reload()
	turn.sees("echo: slowly " + said)
	turn.is("link", "Run details")
	if shown, err := turn.text(); err != nil || strings.Count(shown, "echo: slowly") != 1 {
		t.Errorf("the answer is not there once: %s, %v", shown, err)
	}

	p.fill("Message", "again slowly "+numbered(200))
	p.press("Enter")
	p.in("article", "Message: again slowly…").sees("echo: again slowly w1 w2 w3") // before that it would be taken back
	p.click("button", "Stop the run")
	p.sees("The run was cancelled")
}
