package browser

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// wrong is an HTML page with every kind of fault for which tests of this package fail.
const wrong = `<!doctype html><html lang="en"><head><title>Wrong</title><link rel="icon" href="data:,"></head><body><main><h1>Wrong</h1>
<p style="color: #bbb; width: 500px">Pale and wide</p><img src="/missing.png"><script src="/wrong.js"></script></main></body></html>`

const wrongScript = `console.error("a complaint");
fetch("/broken");
fetch("http://other.invalid/").catch(() => {});
setTimeout(() => { throw new Error("a mistake"); });
new Image().src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
const late = () => document.querySelector("main").prepend(Object.assign(document.createElement("div"), { id: "late", innerText: "Late" }));
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(late, 50))); // late shifts content that was already visible
const style = new CSSStyleSheet();
style.replaceSync("#late { height: 400px }");
document.adoptedStyleSheets = [style];`

// TestHarnessNotices opens a page with every kind of fault and checks that each is reported. A
// fault that goes unnoticed here would go unnoticed in every other test.
func TestHarnessNotices(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'; connect-src *; img-src 'self'")
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, wrong)
		case "/wrong.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, wrongScript)
		case "/broken":
			http.Error(w, "broken", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	p := open(t)
	p.watch.talksTo(strings.TrimPrefix(server.URL, "http://"))
	p.visitURL(server.URL)
	p.sees("Late")
	p.settled()
	faults := strings.Join(p.watch.allFaults(), "\n")
	for _, want := range []string{
		"console: ", "a complaint", "500 for GET " + server.URL + "/broken", "404 for GET " + server.URL + "/missing.png",
		"request to another host: GET http://other.invalid/", "exception: ", "a mistake", "img-src of the content security policy forbids",
	} {
		if !strings.Contains(faults, want) {
			t.Errorf("%q was not detected", want)
		}
	}
	p.watch.forget()

	var rules []string
	for _, v := range p.violations(allRules) {
		rules = append(rules, v.ID)
	}
	for _, want := range []string{"color-contrast", "image-alt"} {
		if !strings.Contains(strings.Join(rules, " "), want) {
			t.Errorf("rules violated according to axe-core = %v, want %s", rules, want)
		}
	}
	var shift float64
	p.js(&shift, `() => shifted`)
	if shift <= budgetShift {
		t.Errorf("layout shift = %.4f, want more than %.2f", shift, budgetShift)
	}
	p.resize(phone)
	if wide := p.tooWide(); !strings.Contains(wide, "p.null to 5") {
		t.Errorf("overflowing content = %q, want the paragraph", wide)
	}
	p.is("heading", "Wrong")
	if p.has("heading", "Right") || p.has("button", "…") {
		t.Error("found text that is not on the page")
	}
}

// TestHarnessClosesDialogs opens the browser's native dialogs. The tests report each dialog as a
// fault and close it, so that it does not block the test.
func TestHarnessClosesDialogs(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.visit("/dashboard")
	p.js(nil, `() => { addEventListener("beforeunload", (e) => e.preventDefault()); setTimeout(() => alert("Look here")); }`)
	p.until("the alert is noticed", func() error {
		if faults := strings.Join(p.watch.allFaults(), "\n"); !strings.Contains(faults, `native dialog (alert) opened: "Look here"`) {
			return fmt.Errorf("faults: %q", faults)
		}
		return nil
	})

	p.until("the page has user activation, without which it may not ask", func() error {
		p.press("Tab")
		var touched bool
		p.js(&touched, `() => navigator.userActivation.hasBeenActive`)
		if !touched {
			return errors.New("the page has no user activation")
		}
		return nil
	})

	p.visit("/dashboard")
	if faults := strings.Join(p.watch.allFaults(), "\n"); !strings.Contains(faults, "native dialog (beforeunload) opened") {
		t.Errorf("faults: %q", faults)
	}

	p.watch.forget()
}

// restless is a page that changes when the mouse moves to its button Keep or presses it. Its
// address names the event and the change. The page lists the buttons that were clicked.
const restless = `<!doctype html><html lang="en"><head><title>Restless</title><link rel="icon" href="data:,"></head><body><main><h1>Restless</h1>
<p><button>Keep</button> <button>Drop</button></p><p><a href="/next">Next</a></p><p role="status"></p></main>
<script>
const [event, change] = location.hash.slice(1).split("-");
const changes = {
	swap: (keep) => keep.parentNode.append(keep),
	replace: (keep) => keep.replaceWith(keep.cloneNode(true)),
	disable: (keep) => { keep.disabled = true; setTimeout(() => { keep.disabled = false; }, 100); },
};
document.querySelector("button").addEventListener(event, (e) => changes[change](e.currentTarget), { once: true });
addEventListener("click", (e) => {
	if (e.target.closest("button")) document.querySelector("[role=status]").textContent += e.target.textContent + ",";
});
</script></body></html>`

// TestHarnessClicksOnce clicks a button and a link of a page that changes between the measurement
// and the click. Each gets exactly one click, and the other button gets none.
func TestHarnessClicksOnce(t *testing.T) {
	t.Parallel()
	var next atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/next" {
			next.Add(1)
		}
		_, _ = io.WriteString(w, restless)
	}))
	t.Cleanup(server.Close)
	p := open(t)
	p.watch.talksTo(strings.TrimPrefix(server.URL, "http://"))
	for i, change := range []string{
		"mousemove-swap", "mousemove-replace", "mousemove-disable", "mousedown-swap", "mousedown-replace", "mousedown-disable",
	} {
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved}) // away from the button
		p.visitURL(fmt.Sprintf("%s/%d#%s", server.URL, i, change))
		p.click("button", "Keep")
		p.settled()
		if clicked, err := p.in("status", "").text(); err != nil || clicked != "Keep," {
			t.Errorf("%s: buttons clicked = %q, %v, want Keep once", change, clicked, err)
		}
	}

	p.click("link", "Next")
	p.arrives("/next")
	p.settled()
	if n := next.Load(); n != 1 {
		t.Errorf("the link was opened %d times", n)
	}
}
