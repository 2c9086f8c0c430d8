package browser

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/shared/testkit"
)

// axeScript is axe-core, an accessibility checker.
//
//go:embed testdata/axe/axe.min.js
var axeScript string

// ruleset is a selection of axe-core's rules, in the form of its option runOnly.
type ruleset struct {
	Type   string   `json:"type"`
	Values []string `json:"values"`
}

var (
	allRules    = ruleset{"tag", []string{"wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"}}
	colourRules = ruleset{"rule", []string{"color-contrast", "link-in-text-block"}}
)

// violation is a violation of an axe-core rule.
type violation struct {
	ID, Help string
	Nodes    []struct {
		HTML           string
		Target         []any
		FailureSummary string
	}
}

// inspect checks the current page with axe-core, on a phone and on a desktop, in light and in dark
// mode. A short test checks only one of these four appearances; see appearances. In any case,
// inspect checks that nothing is wider than the phone's window, and that the page and each dialog
// have at most one button with the name API. If BROWSER_SHOTS is set, it saves a picture of each
// appearance.
func (p *page) inspect(name string) {
	p.t.Helper()
	defer p.lookAside()()
	p.settled()
	if n := p.apiButtons(); slices.Max(n) > 1 {
		p.t.Errorf("%s: numbers of buttons API on the page and in its dialogs = %d, want at most 1 each", name, n)
	}
	p.renderAll()

	// The API reference's operations and schemas, and the links to them, all have the same
	// structure, and checking all of them would take minutes. So all except the first ones are
	// removed from the page; TestWholeReference checks them.
	p.js(nil, `() => {
		for (const [parts, kept] of [["article.schema", 8], ["article:not(.schema)", 12], [".index li", 12], ["nav li li", 40]]) {
			for (const part of [...document.querySelectorAll(parts)].slice(kept)) part.remove();
		}
	}`)
	fitted := false
	for _, a := range appearances(p.t, name) {
		p.scheme(a.scheme)
		p.resize(a.size)
		p.settled() // some pages measure their elements and render again
		if a.size == phone {
			p.fits(name)
			fitted = true
		}
		p.shot(name, a.size, a.scheme)
		p.axe(fmt.Sprintf("%s, %d pixels wide, %s", name, a.size.width, a.scheme), a.rules)
		p.t.Logf("axe has checked %s, %d pixels wide, %s", name, a.size.width, a.scheme)
	}

	p.scheme("light")
	if !fitted {
		p.resize(phone)
		p.settled()
		p.fits(name)
	}
	p.resize(desktop)
	p.settled()
}

// appearance is a window size and a colour scheme, with the rules to check in them.
type appearance struct {
	size   screen
	scheme string
	rules  ruleset
}

// appearances returns the appearances in which a page is inspected. A short test inspects one of the
// four; consecutive seeds inspect all of them.
func appearances(tb testing.TB, name string) []appearance {
	tb.Helper()
	if !complete() {
		all := []appearance{{phone, "light", allRules}, {desktop, "dark", allRules}, {phone, "dark", allRules}, {desktop, "light", allRules}}
		return all[sample(tb, name, len(all)):][:1]
	}
	var all []appearance
	for _, scheme := range []string{"light", "dark"} {
		for _, size := range []screen{phone, desktop} {
			all = append(all, appearance{size, scheme, rulesFor(size, scheme)})
		}
	}
	return all
}

// complete reports whether the tests inspect every page in every appearance.
func complete() bool { return !testing.Short() || os.Getenv("BROWSER_SHOTS") != "" }

// sample selects one of n choices for the given name and the seed of the process; see choice.
func sample(tb testing.TB, name string, n int) int {
	tb.Helper()
	return choice(name, int64(testkit.Seed(tb)), n)
}

// choice selects one of n choices for a name and a seed. Consecutive seeds select the choices in
// turn.
func choice(name string, seed int64, n int) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return int((int64(hash.Sum32()) + seed%int64(n)) % int64(n))
}

// TestSamplesAreComplete checks that consecutive seeds select each choice once, and that the names
// are spread over the choices.
func TestSamplesAreComplete(t *testing.T) {
	t.Parallel()
	const n = 4
	first := map[int]bool{}
	for i := range 20 {
		name := fmt.Sprint("page ", i)
		first[choice(name, 0, n)] = true
		chosen := map[int]bool{}
		for seed := range int64(n) {
			chosen[choice(name, 20_000+seed, n)] = true
		}
		if len(chosen) != n {
			t.Errorf("%s: %d consecutive seeds select %v", name, n, chosen)
		}
	}
	if len(first) != n {
		t.Errorf("the first choices of 20 names are %v, want all %d", first, n)
	}
}

// rulesFor returns the rules to check in one of four appearances. Only the rules about colours
// depend on the colour scheme, so the other rules are checked in one scheme for each size.
func rulesFor(size screen, scheme string) ruleset {
	if (size == phone) == (scheme == "dark") {
		return allRules
	}
	return colourRules
}

// renderAll makes the browser render the whole page. Otherwise it does not render content far below
// the window, and axe-core cannot check its positions and colours.
func (p *page) renderAll() {
	p.t.Helper()
	p.js(nil, `() => {
		const all = new CSSStyleSheet();
		all.replaceSync("* { content-visibility: visible !important }");
		document.adoptedStyleSheets.push(all);
	}`)
}

// apiButtons returns the number of visible buttons that show API requests: first the number outside
// of dialogs, then the number in each open dialog.
func (p *page) apiButtons() (numbers []int) {
	p.t.Helper()
	p.js(&numbers, `() => {
		const buttons = [...document.querySelectorAll("button[aria-label='API requests']")].filter((b) => b.getClientRects().length > 0);
		return [null, ...document.querySelectorAll("dialog[open]")].map((dialog) => buttons.filter((b) => b.closest("dialog") === dialog).length);
	}`)
	return numbers
}

// axe fails the test for each violation on the current page.
func (p *page) axe(what string, rules ruleset) {
	p.t.Helper()
	for _, v := range p.violations(rules) {
		var nodes strings.Builder
		for _, n := range v.Nodes {
			fmt.Fprintf(&nodes, "\n\t%v  %s\n\t%s", n.Target, shortened(n.HTML), strings.ReplaceAll(n.FailureSummary, "\n", "\n\t"))
		}
		p.t.Errorf("%s: axe: %s: %s%s", what, v.ID, v.Help, nodes.String())
	}
}

// violations returns axe-core's findings.
func (p *page) violations(rules ruleset) (found []violation) {
	p.t.Helper()
	p.until("running axe-core", func() error {
		var there bool
		if err := p.try(&there, `() => "axe" in globalThis`); err != nil {
			return err
		}
		if !there {
			if err := p.try(nil, "() => { "+axeScript+"\n}"); err != nil {
				return err
			}
		}
		return p.try(&found, `async (rules) => {
			const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
			return violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html, target, failureSummary }) => ({ html, target, failureSummary })) }));
		}`, rules)
	})
	return found
}

// fits fails the test if the page is wider than the window and scrolls horizontally.
func (p *page) fits(what string) {
	p.t.Helper()
	if wide := p.tooWide(); wide != "" {
		p.t.Errorf("%s: %s", what, wide)
	}
}

// tooWide describes the elements that are wider than the window. It returns "" if there are none.
func (p *page) tooWide() string {
	p.t.Helper()
	var at struct {
		Page, Window int
		Wide         []string
	}

	p.js(&at, `() => {
		const cut = (e) => e !== null && e !== document.documentElement && (getComputedStyle(e).overflowX !== "visible" || cut(e.parentElement));
		const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !cut(e.parentElement));
		return {
			Page: document.scrollingElement.scrollWidth, Window: innerWidth,
			Wide: wide.slice(0, 8).map((e) => e.nodeName.toLowerCase() + "." + e.getAttribute("class") + " to " + Math.round(e.getBoundingClientRect().right)),
		};
	}`)
	if at.Page <= at.Window {
		return ""
	}
	return fmt.Sprintf("the page is %d pixels wide, the window %d: %s", at.Page, at.Window, strings.Join(at.Wide, ", "))
}

// shot saves a picture of the whole page if BROWSER_SHOTS names a directory.
func (p *page) shot(name string, s screen, scheme string) {
	p.t.Helper()
	dir := os.Getenv("BROWSER_SHOTS")
	if dir == "" {
		return
	}
	raw, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	p.must(err, "taking a picture")
	p.must(os.MkdirAll(dir, 0o755), "making "+dir)
	p.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, s.width, scheme)), raw, 0o644), "keeping a picture")
}
