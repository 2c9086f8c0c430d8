package browser

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// languagePage serves a page in the given language. The argument attributes is added to the
// widget's script element, and may set another language for the widget. The test must call the
// returned function holds with the agent's ID before it opens the page.
func languagePage(t *testing.T, s *testEnv, language, attributes string) (origin string, holds func(agent string)) {
	t.Helper()
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang=%q><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`+
			`<title>Lumen</title><link rel="icon" href="data:,"></head><body><main><h1>Lumen</h1></main>`+
			`<script async src="%s/widget.js" data-agent=%q %s></script></body></html>`, language, s.url, agent, attributes)
	}))
	t.Cleanup(server.Close)
	return server.URL, func(id string) { agent = id }
}

// TestWidgetLanguages chats in German and Spanish. The widget takes its language from the page or
// from the attribute data-lang of its script element. On a phone, nothing is wider than the window.
func TestWidgetLanguages(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	for name, in := range map[string]struct {
		page, attributes                                       string
		open, greeting, field, send, messages, failed, restart string
		attach, remove, empty                                  string
	}{
		"german": {
			page: "en", attributes: `data-lang="de-AT"`,
			open: "Chat öffnen: Lampenberatung", greeting: "Wie kann ich helfen?", field: "Nachricht", send: "Senden", messages: "Nachrichten",
			failed: "Keine Antwort. Senden Sie die Nachricht noch einmal.", restart: "Neuer Chat",
			attach: "Dateien anhängen", remove: "leer.txt entfernen", empty: "Die Datei ist leer.",
		},
		"spanish": {
			page: "es-MX",
			open: "Abrir el chat: Lampenberatung", greeting: "¿En qué puedo ayudar?", field: "Mensaje", send: "Enviar", messages: "Mensajes",
			failed: "No hay respuesta. Vuelva a enviar el mensaje.", restart: "Nuevo chat",
			attach: "Adjuntar archivos", remove: "Quitar leer.txt", empty: "El archivo está vacío.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin, holds := languagePage(t, a.s, in.page, in.attributes)
			holds(a.agent(t, "Lampenberatung", map[string]any{"model": slowModel, "widget": map[string]any{"enabled": true, "allowedOrigins": []string{origin}, "attachments": true}}))
			p := open(t).withoutAddress()
			p.watch.talksTo(strings.TrimPrefix(origin, "http://"))
			p.visitURL(origin)
			p.click("button", in.open)
			chat := p.in("dialog", "Lampenberatung")
			chat.sees(in.greeting)
			chat.fill(in.field, "fault 400: Lumen")
			chat.click("button", in.send)
			chat.in("log", in.messages).sees(in.failed)
			chat.is("button", in.attach)
			chat.upload(file(t, "leer.txt", ""))
			chat.is("button", in.remove)
			chat.sees(in.empty)

			p.inspect("widget-" + name)
			p.resize(phone)
			p.settled()
			p.until("nothing in the widget is wider than the window", p.widgetFits)
			chat.click("button", in.restart)
			chat.seesNot(in.failed) // the text must be absent even for screen readers
		})
	}
}

// widgetFits returns an error if elements of the widget are cut off or reach beyond the window. The
// error names these elements.
func (p *page) widgetFits() error {
	var wide []string
	p.js(&wide, `() => [...document.querySelector("agent-chat").shadowRoot.querySelectorAll("*:not(.unseen)")]
		.filter((e) => e.getBoundingClientRect().right > innerWidth + 1 || e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1)
		.map((e) => e.nodeName + "." + e.getAttribute("class"))`)
	if len(wide) > 0 {
		return errors.New("too wide: " + strings.Join(wide, ", "))
	}
	return nil
}
