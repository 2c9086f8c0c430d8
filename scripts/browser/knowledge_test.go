package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKnowledge uploads a file, waits until it has been processed, searches in it, and deletes it.
func TestKnowledge(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/knowledge")
	p.sees("No documents yet")
	p.upload(file(t, "opening hours.md", "# Opening hours\n\nThe workshop in Alder Street is open from 9:30 on weekdays.\n"))
	row := p.in("row", "opening hours.md…")
	row.sees("ready") // updated by an event, without a reload
	p.fill("…", "When does the workshop open?")
	p.press("Enter")
	p.sees("open from 9:30 on weekdays")
	row.click("button", "opening hours.md")
	dialog := p.in("dialog", "opening hours.md")
	dialog.sees("open from 9:30 on weekdays")
	dialog.sees("in English")
	p.inspect("document")
	dialog.click("button", "Delete")
	p.in("dialog", "Delete “opening hours.md”?").click("button", "Delete")
	p.sees("No documents yet")

	// Add a text.
	p.click("button", "Add text or URL")
	add := p.in("dialog", "Add a document")
	add.fill("Name", "returns.md")
	add.fill("Text", "Lamps may be returned within 45 days.")
	add.click("button", "Add document")
	p.in("row", "returns.md…").sees("ready")
}

// TestKnowledgeOnAPhone checks the order of the page's buttons, and uploads a text file whose name
// suggests a PDF document. The list and the document's dialog show a note about the file's format.
// The close button of the dialog is beside the title.
func TestKnowledgeOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/knowledge")
	p.upload(file(t, "broken.pdf", "Not a PDF document.\n"))
	row := p.in("row", "broken.pdf…")
	row.sees("The file's name suggests a PDF document, but the file is plain text and was read as such.")
	row.seesNot("Pages")

	p.until("the buttons are in order", func() error {
		var at struct {
			Title, API, Upload, Add struct{ Left, Top, Bottom float64 }
		}
		err := p.try(&at, `() => {
			const header = document.querySelector(".page-header"), [add] = header.querySelectorAll(".actions > .button:not(.primary)");
			const rect = (e) => { const { left, top, bottom } = e.getBoundingClientRect(); return { Left: left, Top: top, Bottom: bottom } };
			const [title, api, upload] = ["h1", ".api", ".primary"].map((e) => rect(header.querySelector(e)));
			return { Title: title, API: api, Upload: upload, Add: rect(add) };
		}`)
		if err == nil && (at.API.Top > at.Title.Bottom || at.Upload.Left > at.Add.Left || at.Upload.Top > at.Add.Top) {
			err = fmt.Errorf("the API button is not beside the title, or the upload button is not the first: %+v", at)
		}
		return err
	})

	row.click("button", "broken.pdf")
	dialog := p.in("dialog", "broken.pdf")
	dialog.sees("was read as such")
	var at struct{ Right, Below float64 }
	p.js(&at, `() => {
		const [close, title] = [".dialog-head .row > :last-child", ".dialog-head h2"].map((e) => document.querySelector(e).getBoundingClientRect());
		return { Right: innerWidth - close.right, Below: close.top - title.bottom };
	}`)
	if at.Right > 32 || at.Below > 0 {
		t.Errorf("the close button is %.0f pixels from the right edge and %.0f pixels below the title", at.Right, at.Below)
	}
}

// TestAskAboutDocument uploads a document on a phone and asks about it with two taps. The dialog of
// the document also offers other agents that read the document. Without such an agent, the list of
// documents offers to create an agent.
func TestAskAboutDocument(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/knowledge")
	p.upload(file(t, "heron lamp.md", "The heron lamp weighs 412 grams and has a brass foot.\n"))
	row := p.in("row", "heron lamp.md…")
	row.is("link", "Create an agent that reads documents")

	a.agent(t, "Oldest", map[string]any{"model": "offline/echo", "tools": map[string]any{"knowledge": on}})
	a.agent(t, "Handbook", searching)
	a.agent(t, "Scheduled", map[string]any{"tools": map[string]any{"knowledge": on}, "allowedCallers": []string{"system"}})
	shelf := map[string]any{"enabled": true, "metadata": map[string]string{"shelf": "2"}}
	a.agent(t, "Other documents", map[string]any{"tools": map[string]any{"knowledge": shelf}})
	a.agent(t, "Counter", nil)
	p.reload()
	p.upload(file(t, "crane lamp.md", "The crane lamp weighs 530 grams and has an oak foot.\n"))
	row = p.in("row", "crane lamp.md…")
	row.is("button", "Ask an agent about it: crane lamp.md")
	p.settled()
	p.shot("ask-in-row", phone, "light")
	before := p.clicks
	row.click("button", "Ask an agent about it: crane lamp.md")
	p.is("heading", "Handbook")
	p.holds("Message", "What are the main points of “crane lamp.md”?")
	p.click("button", "Send message")
	if taps := p.clicks - before; taps != 2 {
		t.Errorf("%d taps lead to the question, want 2", taps)
	}
	turn := p.in("article", "Message: What are the main points…")
	turn.sees("530 grams")
	turn.first("button", "Source 1: crane lamp.md…").hit()
	p.in("dialog", "crane lamp.md").is("link", "Open the document")

	p.visit("/dashboard/knowledge")
	p.in("row", "heron lamp.md…").isNot("button", "Ask an agent about it: heron lamp.md") // it was added earlier
	p.click("button", "heron lamp.md")
	dialog := p.in("dialog", "heron lamp.md")
	dialog.sees("Opens Handbook with a question that you can change.")
	p.inspect("document-ask")
	p.resize(phone)
	p.clickText("Ask another agent")
	dialog.isNot("button", "Scheduled")
	dialog.isNot("button", "Other documents")
	dialog.isNot("button", "Counter")
	dialog.click("button", "Oldest")
	p.is("heading", "Oldest")
	p.holds("Message", "What are the main points of “heron lamp.md”?")
	p.back()
	p.arrives("/dashboard/knowledge")
	p.isNot("dialog", "heron lamp.md")
}

// TestFoundPassageIsCut searches for a long passage and a short one. The page truncates the long
// passage at an empty line and marks only this passage as truncated.
func TestFoundPassageIsCut(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "long.md", "Lamps are oiled.\n\nBulbs are dusted.\n\nShades are brushed.\n\nWires are straightened.\n\nFeet are felted.\n")
	a.document(t, "short.md", "Clocks are wound on Mondays.\n")
	p := open(t).signIn(a)
	p.visit("/dashboard/knowledge")
	for query, more := range map[string]bool{"Lamps are oiled": true, "Clocks are wound": false} {
		p.fill("Search the documents", query)
		p.press("Enter")
		p.in("region", "Search").in("list", "").sees(query)
		p.settled()
		p.inspect("found-" + query[:5])
		var shown string
		p.js(&shown, `() => document.querySelector(".found li").innerText`)
		if said := strings.HasSuffix(strings.TrimSpace(shown), "…"); said != more {
			t.Errorf("passage marked as truncated = %t, want %t: %s", said, more, shown)
		}
	}
}

// file creates a file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
