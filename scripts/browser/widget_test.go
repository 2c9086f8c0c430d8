package browser

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
)

// widgetPage serves a page on another origin with an agent's widget. The page's content security
// policy allows only scripts from the service and requests to the service. The test must call the
// returned function holds with the agent's ID before it opens the page.
func widgetPage(t *testing.T, s *testEnv) (origin string, holds func(agent string)) {
	t.Helper()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			earlyPage(w, r, s.url, agent)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", fmt.Sprintf(
			"default-src 'none'; img-src data:; script-src %[1]s; connect-src %[1]s; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'", s.url))
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`+
			`<title>Lumen</title><link rel="icon" href="data:,"></head><body><main><h1>Lumen and Reed</h1></main>`+
			`<img name="currentScript" alt=""><img name="body" alt=""><img name="createElement" alt="">`+ // shadow the document's own properties
			`<script async src="%[1]s/widget.js" data-agent="%[2]s"></script><script async src="%[1]s/widget.js" data-agent="%[2]s"></script></body></html>`, s.url, agent)
	}))

	t.Cleanup(server.Close)
	return server.URL, func(id string) { agent = id }
}

// earlyPage serves a page that calls the widget's commands in its head, before the widget's script
// has loaded.
func earlyPage(w http.ResponseWriter, r *http.Request, service, agent string) {
	if r.URL.Path == "/commands.js" {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = fmt.Fprintf(w, `window.agentChat = function () { (agentChat.q = agentChat.q || []).push(arguments); };
			agentChat("boot", {agent: %q}); agentChat("open"); agentChat("send", "said early"); agentChat("send", "and again");`, agent)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Early</title><link rel="icon" href="data:,">`+
		`<script src="/commands.js"></script><script src="%s/widget.js"></script></head><body><main><h1>Early</h1></main></body></html>`, service)
}

// withoutAddress makes the browser omit the header in which tests send the client address. A
// cross-origin request with this header would fail.
func (p *page) withoutAddress() *page {
	p.t.Helper()
	call(p, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{}})
	return p
}

// TestWidgetElsewhere chats with an agent on a page of another origin, and reloads the page in the
// middle of an answer. On an origin that the agent does not allow, the service rejects the widget.
func TestWidgetElsewhere(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	origin, holds := widgetPage(t, a.s)
	agent := a.agent(t, "Shop", map[string]any{"model": slowModel, "widget": map[string]any{"enabled": true, "allowedOrigins": []string{origin}}})
	holds(agent)
	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
	p.visitURL(origin)
	p.click("button", "Open chat: Shop")
	chat := p.in("dialog", "Shop")
	said := numbered(40)
	chat.fill("Message", "slowly "+said)
	chat.click("button", "Send")
	chat.sees("echo: slowly w1 w2 w3")
	p.reload()
	chat.sees("echo: slowly " + said)
	shown, err := chat.in("log", "Messages").text()
	if err != nil || strings.Count(shown, "echo: slowly") != 1 {
		t.Errorf("the answer does not appear exactly once: %s, %v", shown, err)
	}

	p.inspect("widget")
	chat.fill("Message", "<b>**bold** "+hostile)
	p.press("Enter")
	chat.sees("echo: <b>bold " + hostile)
	p.unharmed()

	p.visitURL(origin + "/early")
	chat = p.in("dialog", "Shop")
	chat.sees("echo: said early")
	chat.sees("echo: and again")

	other, holds := widgetPage(t, a.s)
	holds(agent)
	q := open(t).withoutAddress()
	q.watch.talksTo(strings.TrimPrefix(other, "http://"))
	q.watch.expectForbiddenOrigin()
	q.visitURL(other)
	q.until("the origin is rejected", func() error {
		if !q.watch.forbidden() {
			return errors.New("the origin was not rejected")
		}
		return nil
	})

	q.settled()
	if q.has("button", "…") {
		t.Error("the widget appears on an origin that the agent does not list")
	}
}

// TestWidgetStop stops an answer. Its run is cancelled, and the text so far stays. The next message
// gets an answer.
func TestWidgetStop(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	origin, holds := widgetPage(t, a.s)
	agent := a.agent(t, "Shop", map[string]any{"model": slowModel, "widget": map[string]any{"enabled": true, "allowedOrigins": []string{origin}}})
	holds(agent)
	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
	p.visitURL(origin)
	p.click("button", "Open chat: Shop")
	chat := p.in("dialog", "Shop")
	chat.fill("Message", "slowly "+numbered(2000))
	chat.click("button", "Send")
	chat.sees("echo: slowly w1 w2 w3 w4 w5 w6 w7 w8") // waits, because a click immediately after Send would be a part of a double click
	p.inspect("widget-stop")
	chat.click("button", "Stop")
	chat.sees("Answer stopped.")
	chat.is("button", "Send")
	shown, err := chat.in("log", "Messages").text()
	if err != nil || !strings.Contains(shown, "echo: slowly w1 w2 w3") {
		t.Errorf("the text so far does not stay: %s, %v", shown, err)
	}
	var runs struct {
		Data []struct{ Status string }
	}
	a.call(t, http.MethodGet, "/api/runs?agentId="+agent, nil, &runs)
	if len(runs.Data) != 1 || runs.Data[0].Status != "cancelled" {
		t.Errorf("the agent's runs are %+v, want a cancelled run", runs.Data)
	}

	chat.fill("Message", "again")
	chat.click("button", "Send")
	chat.sees("echo: again")
	p.reload()
	chat.sees("Answer stopped.")
	var calm bool
	function := `function () {
		const [note, status] = [this.querySelector(".note"), this.getRootNode().querySelector(".status")];
		return getComputedStyle(note).color === getComputedStyle(status).color;
	}`
	p.must(chat.in("log", "Messages").ask(&calm, function), "reading the note's colour")
	if !calm {
		t.Error("the note about a stopped answer has the colour of an error")
	}
}

// TestWidgetIsSmall checks the script's compressed size.
func TestWidgetIsSmall(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/widget.js", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("Accept-Encoding", "gzip")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("Content-Encoding = %q: %v", res.Header.Get("Content-Encoding"), err)
	}

	plain, err := gzip.NewReader(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}

	script, err := io.ReadAll(plain)
	if err != nil || !strings.Contains(string(script), "agent-chat") {
		t.Fatalf("widget.js does not look like the widget: %.100q %v", script, err)
	}

	t.Logf("widget.js: %d bytes, %d compressed", len(script), len(raw))
	if len(raw) > widgetBytes {
		t.Errorf("compressed size = %d bytes, want at most %d", len(raw), widgetBytes)
	}
}
