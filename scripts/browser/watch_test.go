package browser

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// calm is the time without pending requests after which the tests consider a page loaded.
const calm = 150 * time.Millisecond

// watch receives all events of a tab and records the faults on its page.
type watch struct {
	mu       sync.Mutex
	hosts    []string // hosts that the page may call
	refusals []int64  // HTTP error statuses that the test expects
	origin   bool     // whether the test expects the service to reject the page's origin
	refused  bool     // whether the service has rejected the page's origin
	faults   []string
	requests map[network.RequestID]*request
	changed  time.Time
	frames   []string // the latest WebSocket frames sent
}

// framesKept is the maximum number of WebSocket frames to keep, which is a few seconds of speech.
const framesKept = 200

// request is a request that the page has made.
type request struct {
	what   string
	bytes  int64
	over   bool
	stream bool
	loader cdp.LoaderID // the document that sent the request
}

func newWatch(host string) *watch {
	return &watch{hosts: []string{host}, requests: map[network.RequestID]*request{}}
}

// talksTo allows the page to send requests to another host.
func (w *watch) talksTo(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, host)
}

// expect marks an error status as expected, so that responses with this status do not count as
// faults.
func (w *watch) expect(status int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, status)
}

// expectForbiddenOrigin marks the rejection of the page's origin as expected, so that it does not
// count as a fault.
func (w *watch) expectForbiddenOrigin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.origin = true
	w.refusals = append(w.refusals, http.StatusForbidden, http.StatusMethodNotAllowed)
}

// forbidden reports whether the service has rejected the page's origin.
func (w *watch) forbidden() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// allFaults returns the faults.
func (w *watch) allFaults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

// forget discards the faults recorded so far.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = nil
}

// reset discards the faults and the requests recorded so far, and everything that the test expects.
func (w *watch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals, w.origin, w.refused = nil, false, false
	w.faults, w.frames = nil, nil
	w.requests = map[network.RequestID]*request{}
}

// quiet returns an error while requests are pending, and for a short time (calm) after the last
// request has finished.
func (w *watch) quiet() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if !r.over && !r.stream {
			return errors.New("waiting for " + r.what)
		}
	}
	if time.Since(w.changed) < calm {
		return errors.New("a request finished just now")
	}
	return nil
}

// hasAsked reports whether the page has sent a request whose URL contains all parts.
func (w *watch) hasAsked(parts ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(r.what, part) }) {
			return true
		}
	}
	return false
}

// weight returns the number of the page's requests, the number of transferred bytes, and a
// printable list of the requests.
func (w *watch) weight() (requests int, bytes int64, list string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, r := range w.requests {
		requests++
		bytes += r.bytes
		lines = append(lines, fmt.Sprintf("%8d  %s", r.bytes, r.what))
	}
	slices.Sort(lines)
	return requests, bytes, strings.Join(lines, "\n")
}

// sent returns and clears the recorded WebSocket frames.
func (w *watch) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	frames := w.frames
	w.frames = nil
	return frames
}

// handleEvent records an event of the tab. It must not send commands, because it runs on the
// goroutine that reads events and responses.
func (w *watch) handleEvent(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.changes(event)
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			w.faultf("console: %s", arguments(e.Args))
		}
	case *runtime.EventExceptionThrown:
		w.faultf("exception: %s", described(e.ExceptionDetails))
	case *runtime.EventBindingCalled:
		w.faultf("%s", e.Payload)
	case *log.EventEntryAdded:
		// Errors of network requests are skipped here, because the method named changes reports
		// them with more detail.
		refusal := w.origin && strings.Contains(e.Entry.Text, "blocked by CORS policy")
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork && !refusal {
			w.faultf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *inspector.EventTargetCrashed:
		w.faultf("the tab crashed")
	case *cdppage.EventJavascriptDialogOpening:
		w.faultf("native dialog (%s) opened: %q", e.Type, e.Message)
	}
}

// The method named changes handles an event of a request, a WebSocket or a navigation.
func (w *watch) changes(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		w.asked(e)
	case *network.EventResponseReceived:
		w.answered(e)
	case *network.EventDataReceived:
		if r := w.requests[e.RequestID]; r != nil {
			r.bytes += e.EncodedDataLength
		}
	case *network.EventLoadingFinished:
		if r := w.requests[e.RequestID]; r != nil {
			r.bytes, r.over = int64(e.EncodedDataLength), true
			w.changed = time.Now()
		}
	case *network.EventLoadingFailed:
		w.failed(e)
	case *network.EventWebSocketCreated:
		if at, err := url.Parse(e.URL); err != nil || !slices.Contains(w.hosts, at.Host) {
			w.faultf("WebSocket to another host: %s", e.URL)
		}
	case *network.EventWebSocketFrameSent:
		w.frames = append(w.frames[max(0, len(w.frames)+1-framesKept):], string(e.Response.PayloadData))
	case *cdppage.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			for _, r := range w.requests { // so that quiet does not wait for requests of the previous document
				r.over = r.over || r.loader != e.Frame.LoaderID
			}
		}
	}
}

func (w *watch) asked(e *network.EventRequestWillBeSent) {
	at, err := url.Parse(e.Request.URL)
	if err != nil || at.Scheme == "data" || at.Scheme == "blob" || at.Scheme == "about" {
		return
	}

	w.changed = time.Now()
	what := e.Request.Method + " " + e.Request.URL
	if !slices.Contains(w.hosts, at.Host) {
		w.faultf("request to another host: %s", what)
	}

	id := e.RequestID
	if e.RedirectResponse != nil { // the request after a redirect has the same ID as the redirected request
		id += "'"
	}

	// The request for the page's icon counts as finished from the start, because Chromium does not
	// report the end of a repeated request for an icon.
	w.requests[id] = &request{what: what, loader: e.LoaderID, over: id != e.RequestID || strings.HasPrefix(at.Path, "/favicon")}
	if id != e.RequestID {
		w.requests[e.RequestID].what = what
	}
}

func (w *watch) answered(e *network.EventResponseReceived) {
	r := w.requests[e.RequestID]
	if r == nil {
		return
	}
	r.bytes = int64(e.Response.EncodedDataLength)
	r.stream = e.Response.MimeType == "text/event-stream"
	if e.Response.Status >= 400 && !slices.Contains(w.refusals, e.Response.Status) {
		w.faultf("%d for %s", e.Response.Status, r.what)
	}
}

func (w *watch) failed(e *network.EventLoadingFailed) {
	w.changed = time.Now()
	r := w.requests[e.RequestID]
	if r == nil {
		return
	}
	r.over = true
	refusal := e.CorsErrorStatus != nil && w.origin
	w.refused = w.refused || refusal
	// A request that a navigation or the page itself has canceled is not a fault.
	if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" && !refusal {
		w.faultf("%s failed: %s %s", r.what, e.ErrorText, e.BlockedReason)
	}
}

func (w *watch) faultf(format string, values ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, values...))
}

// arguments formats the arguments of a console call.
func arguments(values []*runtime.RemoteObject) string {
	var words []string
	for _, v := range values {
		words = append(words, strings.TrimSpace(v.Description+" "+string(v.Value)))
	}
	return strings.Join(words, " ")
}

// described formats an exception and its position.
func described(thrown *runtime.ExceptionDetails) string {
	text := thrown.Text
	if thrown.Exception != nil {
		text += " " + arguments([]*runtime.RemoteObject{thrown.Exception})
	}
	return fmt.Sprintf("%s (%s:%d:%d)", text, thrown.URL, thrown.LineNumber+1, thrown.ColumnNumber+1)
}
