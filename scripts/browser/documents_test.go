package browser

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// TestDocumentedPages puts each HTML block of the documentation into a page on another origin. The
// page must then show an agent's chat.
func TestDocumentedPages(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	root := testkit.Root(t)
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}

	shown := 0
	for _, path := range append(documents, filepath.Join(root, "README.md")) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := fenced.Read(filepath.Base(path), string(raw))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if b.Language == "html" {
				shown++
				t.Run(b.String(), func(t *testing.T) {
					t.Parallel()
					a.showsChat(t, b.Text)
				})
			}
		}
	}

	if shown == 0 {
		t.Error("no document contains an HTML block")
	}
}

// documentedSecret is the secret with which the visitor's signature in the documentation's example
// was made.
const documentedSecret = "a secret for the names of visitors, long enough"

// showsChat serves a document's HTML in a page on another origin and chats with the agent there.
// One of the account's agents replaces the agent named in the HTML.
func (a *account) showsChat(t *testing.T, html string) {
	t.Helper()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		mac := hmac.New(sha256.New, []byte(documentedSecret))
		_, _ = io.WriteString(mac, agent+"\n4711")
		own := strings.NewReplacer("http://127.0.0.1:8080", a.s.url, "https://parley.example.com", a.s.url, "ag_…", agent,
			"43b1…", hex.EncodeToString(mac.Sum(nil))).Replace(html)
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ours</title><link rel="icon" href="data:,"></head>`+
			`<body><main><h1>Ours</h1></main>%s</body></html>`, own)
	}))

	t.Cleanup(server.Close)
	agent = a.agent(t, "Snippet", map[string]any{"widget": map[string]any{
		"enabled": true, "allowedOrigins": []string{server.URL}, "identitySecret": documentedSecret,
	}})

	p := open(t).withoutAddress()
	p.watch.talksTo(strings.TrimPrefix(server.URL, "http://"))
	p.visitURL(server.URL)
	opener, field, send := "Open chat: Snippet", "Message", "Send"
	if strings.Contains(html, `data-lang="de"`) {
		opener, field, send = "Chat öffnen: Snippet", "Nachricht", "Senden"
	}
	title := "Ask us" // the HTML block that calls the widget's commands sets this title, and opens the chat itself
	if !strings.Contains(html, title) {
		title = "Snippet"
		p.click("button", opener)
	}

	chat := p.in("dialog", title)
	chat.fill(field, "What is 6 * 7?")
	chat.click("button", send)
	chat.sees("42")
}
