package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"parley/shared/testkit"
)

// area is a part of a page, identified by a path of roles and names. For each use, the part is
// looked up again, because the page may have replaced its elements meanwhile.
type area struct {
	p    *page
	path []step
}

// step is an element's role and name in the accessibility tree. In a name, "…" at the beginning or
// end is a wildcard; an empty name matches any name.
type step struct {
	role, name string
	first      bool // use the first of several matches
}

func (s step) String() string { return fmt.Sprintf("%s %q", s.role, s.name) }

// fits reports whether an element's name matches the step's name, in which "…" at either end is a
// wildcard.
func (s step) fits(name string) bool {
	if s.name == "…" {
		return true
	}

	want, after := strings.CutSuffix(s.name, "…")
	want, before := strings.CutPrefix(want, "…")
	switch {
	case before && after:
		return strings.Contains(name, want)
	case before:
		return strings.HasSuffix(name, want)
	case after:
		return strings.HasPrefix(name, want)
	}
	return name == want
}

// in returns the part of the area that has the given role and name.
func (a area) in(role, name string) area {
	path := append(append([]step(nil), a.path...), step{role: role, name: name})
	return area{p: a.p, path: path}
}

// first returns the first part of the area that has the given role and name; the method in requires
// that there is only one such part.
func (a area) first(role, name string) area {
	found := a.in(role, name)
	found.path[len(found.path)-1].first = true
	return found
}

func (a area) String() string {
	if len(a.path) == 0 {
		return "the page"
	}
	words := make([]string, len(a.path))
	for i, s := range a.path {
		words[i] = s.String()
	}
	return strings.Join(words, " › ")
}

// fields are the roles of input elements.
var fields = []string{"textbox", "searchbox", "spinbutton", "combobox", "listbox"}

// matches returns the descendants of root that match a step. The result others contains the names
// of the elements that have the step's role but another name; error messages list these names.
func (a area) matches(root cdp.BackendNodeID, s step) (found []cdp.BackendNodeID, others []string, err error) {
	roles := []string{s.role}
	if s.role == "field" {
		if found, err = a.fieldsNamed(root, s); len(found) > 0 || err != nil {
			return found, nil, err
		}
		roles = fields
	}

	for _, role := range roles {
		if err := a.p.found.still(); err != nil {
			return nil, nil, err
		}
		result, err := send(a.p, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{BackendNodeID: root, Role: role})
		if err != nil {
			return nil, nil, err
		}
		for _, node := range result.Nodes {
			if node.Ignored || node.BackendDOMNodeID == 0 || node.BackendDOMNodeID == root {
				continue
			}
			name, err := a.p.nameFor(node)
			if err != nil {
				return nil, nil, err
			}
			if s.name == "" || s.fits(name) {
				found = append(found, node.BackendDOMNodeID)
			} else {
				others = append(others, fmt.Sprintf("%q", shortened(name)))
			}
		}
	}
	return found, others, nil
}

// fieldsNamed returns the input elements whose name is exactly that of a step. The browser compares
// the names, which is faster than one query for each role.
func (a area) fieldsNamed(root cdp.BackendNodeID, s step) (found []cdp.BackendNodeID, err error) {
	if s.name == "" || strings.HasPrefix(s.name, "…") || strings.HasSuffix(s.name, "…") {
		return nil, nil
	}
	result, err := send(a.p, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{BackendNodeID: root, AccessibleName: s.name})
	if err != nil {
		return nil, err
	}
	for _, node := range result.Nodes {
		if !node.Ignored && node.BackendDOMNodeID != 0 && node.BackendDOMNodeID != root && slices.Contains(fields, text(node.Role)) {
			found = append(found, node.BackendDOMNodeID)
		}
	}
	return found, nil
}

// nameFor returns an element's accessible name. For an element without a name, such as a table row,
// it returns the element's text.
func (p *page) nameFor(node *accessibility.Node) (string, error) {
	name := text(node.Name)
	if name == "" {
		object, err := p.object(node.BackendDOMNodeID)
		if err != nil {
			return "", err
		}
		if err := p.ask(object, &name, `function () { return shown(this) }`); err != nil {
			return "", err
		}
	}
	return strings.Join(strings.Fields(name), " "), nil
}

func text(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var s string
	if err := json.Unmarshal(v.Value, &s); err != nil {
		return string(v.Value)
	}
	return s
}

// node returns the element that matches the area's path. It returns an error if no element or
// several elements match.
func (a area) node() (cdp.BackendNodeID, error) {
	found, err := a.nodes()
	if err != nil {
		return 0, err
	}
	if len(found) > 1 {
		return 0, fmt.Errorf("found %d elements for %s, want 1", len(found), a)
	}
	return found[0], nil
}

// nodes returns all elements that match the area's path. It returns an error if no element matches.
func (a area) nodes() ([]cdp.BackendNodeID, error) {
	if err := a.p.found.still(); err != nil {
		return nil, err
	}
	document, err := send(a.p, dom.GetDocument, dom.GetDocumentParams{})
	if err != nil {
		return nil, err
	}

	found := []cdp.BackendNodeID{document.Root.BackendNodeID}
	for _, s := range a.path {
		if len(found) > 1 {
			return nil, fmt.Errorf("found %d elements above %s in %s, want 1", len(found), s, a)
		}
		next, others, err := a.matches(found[0], s)
		if err != nil {
			return nil, err
		}
		if len(next) == 0 {
			return nil, fmt.Errorf("found no %s; elements with this role: %s", s, strings.Join(others, ", "))
		}
		if found = next; s.first {
			found = next[:1]
		}
	}
	return found, nil
}

// object returns a handle of the area's element in the isolated world, where the tests' scripts
// run.
func (a area) object() (runtime.RemoteObjectID, error) {
	node, err := a.node()
	if err != nil {
		return "", err
	}
	return a.p.object(node)
}

func (p *page) object(node cdp.BackendNodeID) (runtime.RemoteObjectID, error) {
	in, err := p.worldID()
	if err != nil {
		return "", err
	}
	resolved, err := send(p, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node, ExecutionContextID: in})
	if err != nil {
		return "", err
	}
	return resolved.Object.ObjectID, nil
}

// ask calls a JavaScript function that gets the area's element as `this`, and decodes the result.
func (a area) ask(into any, function string) error {
	object, err := a.object()
	if err != nil {
		return err
	}
	return a.p.ask(object, into, function)
}

// ask calls a JavaScript function that gets an element as `this`, and decodes the result.
func (p *page) ask(element runtime.RemoteObjectID, into any, function string) error {
	return p.apply(into, runtime.CallFunctionOnParams{FunctionDeclaration: function, ObjectID: element})
}

// is waits until the area has a part with the given role and name.
func (a area) is(role, name string) {
	a.p.t.Helper()
	here := a.in(role, name)
	a.p.until("looking for "+here.String(), func() error { _, err := here.nodes(); return err })
}

// isNot waits until the area has no part with the given role and name.
func (a area) isNot(role, name string) {
	a.p.t.Helper()
	here := a.in(role, name)
	a.p.until("waiting for the removal of "+here.String(), func() error {
		if _, err := here.nodes(); err == nil {
			return errors.New("the element is still there")
		}
		return nil
	})
}

// has reports, without waiting, whether the area has a part with the given role and name.
func (a area) has(role, name string) bool {
	_, err := a.in(role, name).nodes()
	return err == nil
}

// text returns the visible text of the area.
func (a area) text() (string, error) {
	var shown string
	err := a.ask(&shown, `function () { return shown(this) }`)
	return strings.Join(strings.Fields(shown), " "), err
}

// sees waits until the given text appears in the area. Line breaks count as spaces.
func (a area) sees(words string) {
	a.p.t.Helper()
	words = strings.Join(strings.Fields(words), " ")
	a.p.until(fmt.Sprintf("looking for %q in %s", words, a), func() error {
		shown, err := a.text()
		if err == nil && !strings.Contains(shown, words) {
			err = fmt.Errorf("text on the page = %s", shortened(shown))
		}
		return err
	})
}

// seesNot waits until the area does not contain the given text.
func (a area) seesNot(words string) {
	a.p.t.Helper()
	a.p.until(fmt.Sprintf("waiting until %q is gone from %s", words, a), func() error {
		shown, err := a.text()
		if err == nil && strings.Contains(shown, words) {
			err = fmt.Errorf("text on the page = %s", shortened(shown))
		}
		return err
	})
}

func shortened(s string) string {
	const limit = 1500
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}

// click waits until the element with the given role and name is visible and not covered by another
// element, and clicks it.
func (a area) click(role, name string) {
	a.p.t.Helper()
	a.in(role, name).hit()
}

// hit scrolls to the area's element and clicks it as soon as it is visible, enabled, not covered
// and at rest. If the click does not reach the element, because the page has changed meanwhile, hit
// clicks again. It adds the click to the page's count of clicks; see journey.
func (a area) hit() {
	a.p.t.Helper()
	a.p.until("clicking "+a.String(), func() error { _, err := a.tryHit(); return err })
	a.p.clicks++
}

// tryHit is like hit, but returns an error instead of waiting. It returns a handle of the clicked
// element.
func (a area) tryHit() (runtime.RemoteObjectID, error) {
	object, err := a.object()
	if err != nil {
		return "", err
	}
	var at struct {
		X, Y float64
		Why  string
	}
	if err := a.p.ask(object, &at, `function () { return target(this) }`); err != nil {
		return "", err
	}
	if at.Why != "" {
		return "", errors.New(at.Why)
	}
	if err := a.p.mouse(at.X, at.Y); err != nil {
		return "", err
	}
	return object, a.p.reached(object)
}

// reached returns an error if the last click did not reach the element that the function target in
// the page has measured. If the document is gone, the click has reached a link or a form. A page that
// does not answer is also taken as reached, because a second click could do something twice.
func (p *page) reached(element runtime.RemoteObjectID) error {
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Within(3*time.Second))
	defer cancel()
	defer p.found.whenGone(cancel)()

	yes := true
	result, err := chromedp.Call(ctx, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		ObjectID: element, FunctionDeclaration: `function () { return missed() }`, AwaitPromise: &yes, ReturnByValue: &yes,
	})
	if err != nil {
		p.found.forget()
		return nil
	}
	if thrown := result.ExceptionDetails; thrown != nil {
		return errors.New("a function threw: " + described(thrown))
	}
	var missed string
	if err := json.Unmarshal(result.Result.Value, &missed); err != nil {
		return fmt.Errorf("decoding %s: %w", result.Result.Value, err)
	}
	if missed != "" {
		return errors.New(missed)
	}
	return nil
}

func (p *page) mouse(x, y float64) error {
	for _, event := range []input.DispatchMouseEventParams{
		{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y},
		{Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1},
		{Type: input.DispatchMouseEventTypeMouseReleased, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1},
	} {
		if _, err := send(p, input.DispatchMouseEvent, event); err != nil {
			return err
		}
	}
	return nil
}

// fill replaces the text in the field that has the given label.
func (a area) fill(label, words string) {
	a.p.t.Helper()
	a.in("field", label).focusField()
	a.p.press("Control+a", "Backspace")
	a.p.enter(words)
	a.holds(label, words)
}

// focusField clicks a field until it has the focus. One click may miss the field, because the
// page's layout may be changing.
func (a area) focusField() {
	a.p.t.Helper()
	a.p.until("focusing "+a.String(), func() error {
		object, err := a.tryHit()
		if err != nil {
			return err
		}
		var has bool
		err = a.p.ask(object, &has, `function () { return focused() === this }`)
		if err == nil && !has {
			err = errors.New("the focus is elsewhere")
		}
		return err
	})
	a.p.clicks++
}

// holds waits until the field with the given label contains the given text and nothing else.
func (a area) holds(label, words string) {
	a.p.t.Helper()
	field := a.in("field", label)
	a.p.until(fmt.Sprintf("looking for %q in %s", words, field), func() error {
		var value string
		err := field.ask(&value, `function () { return this.value ?? this.innerText }`)
		if err == nil && value != words {
			err = fmt.Errorf("value = %q", value)
		}
		return err
	})
}

// choose selects an option from the list that has the given label. It uses the arrow keys, because
// the popup with the options belongs to the browser and not to the page.
func (a area) choose(label, option string) {
	a.p.t.Helper()
	list := a.in("field", label)
	var at struct {
		Now, Wanted int
		Options     []string
	}

	a.p.until("reading "+list.String(), func() error {
		err := list.ask(&at, `function () {
			this.focus();
			const options = [...this.options].map((o) => o.label.trim());
			return { Now: this.selectedIndex, Wanted: options.indexOf(`+quoted(option)+`), Options: options };
		}`)
		if err == nil && at.Wanted < 0 {
			err = fmt.Errorf("options = %q", at.Options)
		}
		return err
	})

	for ; at.Now < at.Wanted; at.Now++ {
		a.p.press("ArrowDown")
	}

	for ; at.Now > at.Wanted; at.Now-- {
		a.p.press("ArrowUp")
	}
}

// upload selects files in the area's only file input, as a user does with the browser's file
// dialog.
func (a area) upload(files ...string) {
	a.p.t.Helper()
	a.p.until("giving files to "+a.String(), func() error {
		object, err := a.object()
		if err != nil {
			return err
		}
		found, err := send(a.p, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			ObjectID: object, FunctionDeclaration: `function () { return this.querySelector("input[type=file]") }`,
		})
		if err != nil {
			return err
		}
		if found.Result.ObjectID == "" {
			return errors.New("found no file input")
		}
		_, err = send(a.p, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: files, ObjectID: found.Result.ObjectID})
		if err != nil {
			return err
		}
		return nil
	})
}

// focus returns the focused element as a screen reader reports it.
func (p *page) focus() step {
	p.t.Helper()
	var at step
	p.until("looking for the focus", func() error {
		in, err := p.worldID()
		if err != nil {
			return err
		}
		element, err := send(p, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: `() => focused()`, ExecutionContextID: in,
		})
		if err != nil {
			return err
		}
		if element.Result.ObjectID == "" {
			return errors.New("no element has the focus")
		}
		no := false
		tree, err := send(p, accessibility.GetPartialAXTree,
			accessibility.GetPartialAXTreeParams{ObjectID: element.Result.ObjectID, FetchRelatives: &no})
		if err != nil || len(tree.Nodes) == 0 {
			return err
		}
		at = step{role: text(tree.Nodes[0].Role), name: strings.Join(strings.Fields(text(tree.Nodes[0].Name)), " ")}
		return nil
	})
	return at
}

// focusIs waits until the element with the given role and name has the focus.
func (p *page) focusIs(role, name string) {
	p.t.Helper()
	want := step{role: role, name: name}
	p.until("waiting for the focus on "+want.String(), func() error {
		if at := p.focus(); at.role != role || name != "" && !want.fits(at.name) {
			return fmt.Errorf("focused element = %s", at)
		}
		return nil
	})
}

// tabTo presses Tab until the element with the given role and name has the focus. It fails the test
// after limit presses.
func (p *page) tabTo(role, name string, limit int) {
	p.t.Helper()
	want, seen := step{role: role, name: name}, []string{}
	for range limit {
		p.press("Tab")
		at := p.focus()
		if at.role == role && want.fits(at.name) {
			return
		}
		seen = append(seen, at.String())
	}
	p.t.Fatalf("%d presses of Tab did not reach %s; the focus was on %s", limit, want, strings.Join(seen, ", "))
}
