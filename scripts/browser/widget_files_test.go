package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWidgetAttachments attaches files to a visitor's message with the file dialog, by pasting and
// by dropping. The agent reads them, and the widget shows them again after a reload. The page's
// content security policy allows no images from the service.
func TestWidgetAttachments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	origin, holds := widgetPage(t, a.s)
	widget := map[string]any{"enabled": true, "allowedOrigins": []string{origin}, "attachments": true}
	holds(a.agent(t, "Shop", map[string]any{"widget": widget}))
	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
	p.watch.expect(http.StatusUnsupportedMediaType)
	p.visitURL(origin)
	p.click("button", "Open chat: Shop")
	chat := p.in("dialog", "Shop")
	chat.is("button", "Attach files")
	chat.upload(file(t, "lamp.png", lamp(t)))
	attached := chat.in("list", "Attached files")
	attached.is("button", "Remove lamp.png")

	chat.in("field", "Message").focusField()
	if p.paste(`{ "text/plain": "a cell", "text/html": "<table><td>a cell</td></table>" }`) {
		t.Error("the picture of a copied text was attached")
	}
	if !p.paste(`{ "text/html": "<img>" }`) {
		t.Error("a pasted image was not attached")
	}
	attached.is("button", "Remove image.png")

	var at struct{ X, Y float64 }
	p.js(&at, `() => { const box = document.querySelector("agent-chat").shadowRoot.querySelector(".panel").getBoundingClientRect();
		return { X: box.x + box.width / 2, Y: box.y + box.height / 2 }; }`)
	p.dragTo(at.X, at.Y, func() { chat.sees("Drop the files to attach them.") },
		file(t, "returns.md", "# Returns\n\nYou may return any lamp within 45 days of its delivery.\n"))
	attached.is("button", "Remove returns.md")

	large := filepath.Join(t.TempDir(), "large.png")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 21<<20); err != nil {
		t.Fatal(err)
	}
	chat.upload(large, file(t, "program.bin", "\x7fELF\x00\x01"+strings.Repeat("\x00\xff", 200)))
	attached.sees("The file is larger than 20 MiB.")
	attached.sees("This file type is not supported.")
	attached.isNot("button", "Try again…") // because the service would reject the same file again
	chat.fill("Message", "How many days do I have to return a lamp?")
	p.press("Enter")
	chat.sees("Remove the files that were not sent.")

	for _, name := range []string{"large.png", "program.bin", "image.png"} {
		attached.click("button", "Remove "+name)
		attached.isNot("button", "Remove "+name)
	}
	p.focusIs("textbox", "Message")
	p.inspect("widget-attached")
	chat.in("field", "Message").focusField()
	p.press("Enter")
	log := chat.in("log", "Messages")
	log.sees("45 days")
	chat.isNot("button", "Remove lamp.png")
	p.reload()
	log.sees("45 days")
	for _, name := range []string{"lamp.png", "returns.md"} {
		log.in("list", "Attached files").sees(name)
	}
	p.inspect("widget-attached-sent")
}

// interruptedPage serves a page with an agent's widget. The page's first upload fails as if there
// were no connection. The test must call the returned function holds with the agent's ID before it
// opens the page.
func interruptedPage(t *testing.T, s *testEnv) (origin string, holds func(agent string)) {
	t.Helper()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Lumen</title><link rel="icon" href="data:,"><script>
			const { send } = XMLHttpRequest.prototype;
			XMLHttpRequest.prototype.send = function () {
				XMLHttpRequest.prototype.send = send;
				this.onerror();
			};
			</script></head><body><main><h1>Lumen</h1></main><script async src="%s/widget.js" data-agent=%q></script></body></html>`, s.url, agent)
	}))
	t.Cleanup(server.Close)
	return server.URL, func(id string) { agent = id }
}

// TestWidgetFilesThatCannotBeSent uploads a file while the connection is broken. The widget shows
// why the upload failed, and a click on "Try again" repeats the upload.
func TestWidgetFilesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	origin, holds := interruptedPage(t, a.s)
	widget := map[string]any{"enabled": true, "allowedOrigins": []string{origin}, "attachments": true}
	holds(a.agent(t, "Shop", map[string]any{"model": "offline/echo", "widget": widget}))
	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
	p.visitURL(origin)
	p.click("button", "Open chat: Shop")
	chat := p.in("dialog", "Shop")
	chat.is("button", "Attach files")
	chat.upload(file(t, "note.txt", "A note."))
	attached := chat.in("list", "Attached files")
	attached.sees("The file was not sent. Check your connection.")
	p.inspect("widget-unsent")
	attached.click("button", "Try again: note.txt")
	chat.seesNot("The file was not sent.")
	chat.isNot("progressbar", "…") // the file is stored
	chat.fill("Message", "read it")
	p.press("Enter")
	chat.in("log", "Messages").sees("echo: read it")

	// A visitor can send a file without a message.
	chat.upload(file(t, "alone.txt", "A note without a message."))
	chat.is("button", "Remove alone.txt")
	chat.isNot("progressbar", "…") // the file is stored
	chat.click("button", "Send")
	chat.in("log", "Messages").sees("alone.txt")
	chat.isNot("button", "Remove alone.txt")

	// Attached files that were not sent are removed when the visitor starts a new chat.
	chat.upload(file(t, "other.txt", "Another note."))
	chat.is("button", "Remove other.txt")
	chat.click("button", "New chat")
	chat.isNot("button", "Remove other.txt")

	more := make([]string, 11)
	for i := range more {
		more[i] = file(t, "part"+string(rune('a'+i))+".txt", "A part.")
	}
	chat.upload(more...)
	chat.sees("A message can have at most 10 files.")
	chat.is("button", "Remove partj.txt")
	chat.isNot("button", "Remove partk.txt")
	attached.isNot("progressbar", "…") // wait until the uploads are complete, because the files exist only during the test
}

// TestWidgetSuggestions sends a suggested question with a click. The widget shows suggestions only
// while the session is empty.
func TestWidgetSuggestions(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	origin, holds := widgetPage(t, a.s)
	holds(a.agent(t, "Shop", map[string]any{
		"model": "offline/echo", "widget": map[string]any{"enabled": true, "allowedOrigins": []string{origin}},
		"suggestions": []string{"Which lamp dims without a switch?", "<b>Returns</b>", "How long does a delivery to an island in the Baltic Sea take, and can a neighbour accept it?"},
	}))
	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
	p.visitURL(origin)
	p.click("button", "Open chat: Shop")
	chat := p.in("dialog", "Shop")
	suggested := chat.in("list", "Suggestions")
	suggested.is("button", "<b>Returns</b>")
	p.inspect("widget-suggestions")
	p.resize(phone)
	p.settled()
	p.until("nothing in the widget is wider than the window", p.widgetFits)
	p.resize(desktop) // because a reload in a narrow window closes the panel

	suggested.click("button", "Which lamp dims without a switch?")
	chat.in("log", "Messages").sees("echo: Which lamp dims without a switch?")
	chat.isNot("list", "Suggestions")
	p.focusIs("textbox", "Message")
	p.reload()
	chat.in("log", "Messages").sees("echo: Which lamp dims without a switch?")
	chat.isNot("list", "Suggestions")
	chat.click("button", "New chat")
	suggested.is("button", "<b>Returns</b>")
	if chat.has("button", "Attach files") {
		t.Error("the chat attaches files although the agent takes none")
	}
}
