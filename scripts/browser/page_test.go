package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/shared/testkit"
)

// world is the name of the isolated JavaScript world in which the tests' scripts run. These scripts
// access the page's elements, but are invisible to the page's scripts and exempt from its content
// security policy.
const world = "tests"

// watchScript runs in each document before the document's own scripts.
//
//go:embed testdata/watch.js
var watchScript string

// screen is the size of a viewport.
type screen struct{ width, height int64 }

var (
	phone   = screen{360, 800}
	desktop = screen{1280, 900}
)

// page is a tab in a browser with an empty profile. The field named area covers the whole
// page.
type page struct {
	area

	t     *testing.T
	s     *testEnv
	ctx   context.Context //nolint:containedctx // chromedp's handle of a tab is a context
	watch *watch
	found handles

	crashed context.CancelFunc // ends all commands of the tab

	clicks int           // clicks made so far
	aside  time.Duration // time that does not count for journeys, for example in inspect
}

// open opens a new tab. A fault on the tab's page fails the test. If the test fails, the page's
// text is printed.
func open(t *testing.T) *page {
	t.Helper()
	s := withTestEnv(t)
	return s.tab(t, chromium{s.browser})
}

// chromium is a running browser.
type chromium struct {
	handle context.Context //nolint:containedctx // chromedp's handle of a browser is a context
}

// tab opens a new tab of a browser.
func (s *testEnv) tab(t *testing.T, browser chromium) *page {
	t.Helper()
	p := &page{t: t, s: s, watch: newWatch(s.host)}
	p.area = area{p: p}
	ctx, cancel := chromedp.NewContext(browser.handle, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.handleEvent))
	ctx, late := context.WithTimeout(ctx, testkit.Within(4*time.Minute)) // enough for TestWholeReference
	p.ctx, p.crashed = ctx, late
	t.Cleanup(func() { late(); cancel() })
	p.must(chromedp.Do(ctx), "opening a tab")
	t.Cleanup(p.verdict)
	call(p, runtime.AddBinding, runtime.AddBindingParams{Name: "tell", ExecutionContextName: world})
	call(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: watchScript, WorldName: world})
	call(p, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"X-Forwarded-For": s.address()}})
	p.resize(desktop)
	p.scheme("light")
	return p
}

// handleEvent passes an event of the tab to watch. It also closes native dialogs, because they
// would block the tab. No test expects a native dialog.
func (p *page) handleEvent(event any) {
	p.watch.handleEvent(event)
	p.found.handleEvent(event)
	switch event.(type) {
	case *inspector.EventTargetCrashed:
		p.crashed() // otherwise each command would wait for its timeout
	case *cdppage.EventJavascriptDialogOpening:
		go func() { // a command sent on this goroutine would never receive its response
			_, _ = send(p, cdppage.HandleJavaScriptDialog, cdppage.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
}

// must fails the test if err is not nil.
func (p *page) must(err error, step string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", step, err)
	}
}

// call sends a command to the tab. It fails the test if the command fails.
func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := send(p, command, params)
	p.must(err, command.Method)
	return result
}

// send sends a command to the tab. A navigation may interrupt the command, and then no response
// arrives. In this case send returns an error after a timeout, and the caller must send the command
// again. For commands that only read, send returns the error soon after the navigation.
func send[P, R any](p *page, command cdp.Command[P, R], params P) (R, error) {
	within := 12 * time.Second
	switch command.Method {
	case runtime.CommandCallFunctionOn:
		within = 2 * time.Minute // enough for axe-core, which examines the whole page
	case accessibility.CommandQueryAXTree:
		within = 3 * time.Second // often the first command after a navigation; short, so that the command can be repeated within patience
	}
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Within(within))
	defer cancel()
	switch command.Method {
	case dom.CommandGetDocument, cdppage.CommandCreateIsolatedWorld, accessibility.CommandQueryAXTree, dom.CommandResolveNode:
		// These commands change nothing and can be repeated.
		defer p.found.whenGone(func() { time.AfterFunc(time.Second, cancel) })()
	}
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.found.forget() // the error may mean that the document is gone
		return result, fmt.Errorf("%s: %w", command.Method, err)
	}
	return result, nil
}

// visit navigates to a path of the service, as if the user had entered it.
func (p *page) visit(path string) {
	p.t.Helper()
	p.visitURL(p.s.url + path)
}

func (p *page) visitURL(address string) {
	p.t.Helper()
	// After a dialog has closed, the page may still be moving in the browser's history, which would
	// stop the visit. An error means that the page is already navigating.
	_ = p.try(nil, `async () => {
		const moves = () => (history.state?.panels ?? 0) > document.querySelectorAll("dialog[open]").length;
		for (const end = performance.now() + 3000; moves() && performance.now() < end; ) await new Promise((done) => setTimeout(done, 20));
	}`)

	_, err := chromedp.Run(p.ctx, chromedp.NavigateResponse(address))
	p.must(err, "visiting "+address)
}

func (p *page) reload() {
	p.t.Helper()
	p.must(chromedp.Do(p.ctx, chromedp.Reload()), "reloading")
}

// reloaded waits until the page has reloaded. Tests must not query the page during a reload,
// because Chromium 148 then crashes in a few percent of cases.
func (p *page) reloaded() {
	p.t.Helper()
	p.until("the page has reloaded", func() error {
		return p.try(nil, `() => {
			const { type } = performance.getEntriesByType("navigation")[0];
			if (type !== "reload" || document.readyState !== "complete") throw new Error(`+"`navigation type ${type}, state ${document.readyState}`"+`);
		}`)
	})
}

// path returns the page's path and query.
func (p *page) path() string {
	p.t.Helper()
	var at string
	p.js(&at, `() => location.href`)
	return strings.TrimPrefix(at, p.s.url)
}

// arrives waits until the page has the given path, with any query.
func (p *page) arrives(path string) {
	p.t.Helper()
	p.until("the page is at "+path, func() error {
		at, err := url.Parse(p.path())
		if err == nil && at.Path != path {
			err = fmt.Errorf("path of the page = %s", at)
		}
		return err
	})
}

// until calls the function holds repeatedly until this function returns nil. On timeout, and if the
// tab has crashed, until fails the test with the last error that the function returned.
func (p *page) until(what string, holds func() error) {
	p.t.Helper()
	var objection error
	ended := polled(p.t, patience, func() bool { objection = holds(); return objection == nil || p.ctx.Err() != nil })
	if !ended || objection != nil {
		p.t.Fatalf("%s: %v", what, objection)
	}
}

// js calls a function in the page's isolated world for tests, and decodes the result.
func (p *page) js(into any, function string) {
	p.t.Helper()
	// A navigation destroys the isolated world, and the call fails. The call is then repeated in
	// the new document.
	p.until("calling a function in the page", func() error { return p.try(into, function) })
}

// try is like js, but returns an error instead of repeating the call.
func (p *page) try(into any, function string, arguments ...any) error {
	in, err := p.worldID()
	if err != nil {
		return err
	}
	return p.apply(into, runtime.CallFunctionOnParams{FunctionDeclaration: function, ExecutionContextID: in}, arguments...)
}

// handles contains the ID of the isolated world in the current document, so that each command does
// not request it again.
type handles struct {
	mu        sync.Mutex
	documents int                        // number of documents that are gone
	world     runtime.ExecutionContextID // the tests' isolated world; 0: unknown
	waiting   map[*func()]bool           // functions to call when the document is gone
	loading   map[cdp.FrameID]bool       // frames that navigate to another document
}

// handleEvent notes which frames navigate, and when the document is gone.
func (h *handles) handleEvent(event any) {
	switch e := event.(type) {
	case *runtime.EventExecutionContextsCleared:
		h.gone()
	case *runtime.EventExecutionContextDestroyed: // perhaps that of the tests' world
		h.forget()
	case *cdppage.EventFrameRequestedNavigation:
		h.navigates(e.FrameID, true)
	case *cdppage.EventFrameStartedNavigating:
		if !strings.Contains(strings.ToLower(string(e.NavigationType)), "samedocument") {
			h.navigates(e.FrameID, true)
		}
	case *cdppage.EventFrameNavigated:
		h.navigates(e.Frame.ID, false)
	case *cdppage.EventNavigatedWithinDocument:
		h.navigates(e.FrameID, false)
	case *cdppage.EventFrameStoppedLoading:
		h.navigates(e.FrameID, false)
	case *cdppage.EventFrameDetached:
		h.navigates(e.FrameID, false)
	}
}

// navigates notes whether a frame navigates to another document.
func (h *handles) navigates(frame cdp.FrameID, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.loading == nil {
		h.loading = map[cdp.FrameID]bool{}
	}
	if delete(h.loading, frame); now {
		h.loading[frame] = true
	}
}

// still returns an error while a frame navigates. Meanwhile, tests must not query the accessibility
// tree, because Chromium 148 crashes if it replaces the document at that time.
func (h *handles) still() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.loading) > 0 {
		return errors.New("the page navigates")
	}
	return nil
}

// forget forgets the ID, because its document may be gone.
func (h *handles) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.documents++
	h.world = 0
}

// worldID returns the ID of the tests' isolated world, or 0, and the number of documents that are
// gone.
func (h *handles) worldID() (id runtime.ExecutionContextID, documents int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.world, h.documents
}

// store stores the ID of the isolated world, unless further documents are gone.
func (h *handles) store(id runtime.ExecutionContextID, documents int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.documents == documents {
		h.world = id
	}
}

// gone forgets the ID of a document that is gone, and calls the functions that wait for this.
func (h *handles) gone() {
	h.forget()
	h.mu.Lock()
	defer h.mu.Unlock()
	for call := range h.waiting {
		(*call)()
	}
	h.waiting = nil
}

// whenGone calls a function when the current document is gone, unless the returned function is
// called first.
func (h *handles) whenGone(call func()) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = map[*func()]bool{}
	}
	h.waiting[&call] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, &call)
	}
}

// worldID returns the ID of the tests' isolated world in the current document, and creates this
// world if necessary.
func (p *page) worldID() (runtime.ExecutionContextID, error) {
	known, documents := p.found.worldID()
	if known != 0 {
		return known, nil
	}
	frame := cdp.FrameID(chromedp.FromContext(p.ctx).Target.TargetID)
	made, err := send(p, cdppage.CreateIsolatedWorld, cdppage.CreateIsolatedWorldParams{FrameID: frame, WorldName: world})
	if err != nil {
		return 0, err
	}
	p.found.store(made.ExecutionContextID, documents)
	return made.ExecutionContextID, nil
}

// apply calls a function in the page, awaits its promise, and stores the decoded result in the
// argument into. It returns an error if the function throws or if the page navigates meanwhile.
func (p *page) apply(into any, params runtime.CallFunctionOnParams, arguments ...any) error {
	yes := true
	params.ReturnByValue, params.AwaitPromise = &yes, &yes
	for _, argument := range arguments {
		raw, err := json.Marshal(argument)
		if err != nil {
			return fmt.Errorf("encoding an argument: %w", err)
		}
		params.Arguments = append(params.Arguments, &runtime.CallArgument{Value: raw})
	}

	result, err := send(p, runtime.CallFunctionOn, params)
	if err != nil {
		return err
	}
	if thrown := result.ExceptionDetails; thrown != nil {
		return errors.New("a function threw: " + described(thrown))
	}
	if into == nil {
		return nil
	}
	if len(result.Result.Value) == 0 {
		return errors.New("the function returned nothing")
	}
	if err := json.Unmarshal(result.Result.Value, into); err != nil {
		return fmt.Errorf("decoding %s: %w", result.Result.Value, err)
	}
	return nil
}

func (p *page) resize(s screen) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 1})
}

// scheme sets the preferred colour scheme, light or dark. It also reduces motion, because moving
// elements cannot be clicked reliably.
func (p *page) scheme(name string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// keys maps the names of keys that are not letters to the values that chromedp uses for them.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "Space": " ", "Backspace": kb.Backspace, "ArrowDown": kb.ArrowDown, "ArrowUp": kb.ArrowUp,
	"ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight, "Home": kb.Home, "End": kb.End,
}

// press presses keys one after the other. A key is a letter or a name in keys, possibly with
// modifiers as in Shift+Tab and Control+a.
func (p *page) press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		options := []chromedp.KeyOption{rawKeyDown}
		if rest, held := strings.CutPrefix(name, "Shift+"); held {
			name, options = rest, append(options, chromedp.KeyModifiers(kb.ModifierShift))
		}
		if rest, held := strings.CutPrefix(name, "Control+"); held {
			name, options = rest, append(options, chromedp.KeyModifiers(kb.ModifierCtrl))
		}
		if key, named := keys[name]; named {
			name = key
		}
		p.must(chromedp.Do(p.ctx, chromedp.KeyEvent(name, options...)), "pressing "+name)
	}
}

// rawKeyDown changes a key press so that the browser inserts no character if the page handles the
// key, as with a real keyboard. Otherwise, Enter in the field for messages would send the message
// and also start a new line.
func rawKeyDown(event *input.DispatchKeyEventParams) {
	if event.Type == kb.KeyDown {
		event.Type = input.DispatchKeyEventTypeRawKeyDown
	}
}

// enter inserts a text at the cursor.
func (p *page) enter(text string) {
	p.t.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// settled waits until the page has loaded, has no pending requests except streams, and has painted.
func (p *page) settled() {
	p.t.Helper()
	p.until("the page has settled", func() error {
		if err := p.watch.quiet(); err != nil { // checked first, because waiting for a paint is slow
			return err
		}
		var state string
		if err := p.try(&state, `() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(document.readyState))))`); err != nil {
			return err
		}
		if state != "complete" {
			return fmt.Errorf("state of the document = %s", state)
		}
		return p.watch.quiet()
	})
}

// during lets the tab report to a subtest until the returned function is called, which reports the
// tab's faults to the subtest. Nothing that the subtest expects applies to the next subtest.
func (p *page) during(t *testing.T) (end func()) {
	t.Helper()
	outer := p.t
	p.t = t
	p.watch.reset()
	p.resize(desktop)
	p.scheme("light")
	return func() {
		p.verdict()
		p.watch.reset()
		p.t = outer
	}
}

// verdict fails the test for each fault on the page. If the test has failed, verdict also saves a
// screenshot and prints the page's text.
func (p *page) verdict() {
	for _, fault := range p.watch.allFaults() {
		p.t.Errorf("fault on the page: %s", fault)
	}
	if !p.t.Failed() || p.t.Skipped() {
		return
	}
	var stood struct{ Address, Text string }
	if err := p.try(&stood, `() => ({Address: location.href, Text: shown(document)})`); err != nil {
		p.t.Logf("the page no longer responds: %v", err)
		return
	}
	p.t.Logf("at %s\n%s\n--- on the page:\n%s", stood.Address, p.picture(), shortened(stood.Text))
}

// picture saves a screenshot and returns a message that names its file. If saving fails, the
// message contains the error.
func (p *page) picture() string {
	dir := os.Getenv("BROWSER_ARTIFACTS")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "parley-browser-pictures")
	}

	raw, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}

	file := filepath.Join(dir, strings.ReplaceAll(p.t.Name(), "/", "_")+".png")
	if err == nil {
		err = os.WriteFile(file, raw, 0o644)
	}
	if err != nil {
		return fmt.Sprintf("no picture: %v", err)
	}
	return "picture: " + file
}
