package browser

import (
	"errors"
	"testing"
)

// TestFinder types into the dashboard's finder, which opens an agent, a run and a page, and starts
// an action. It also inspects the finder in light and dark mode.
func TestFinder(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Lighthouse keeper", map[string]any{"model": "offline/echo"})
	found := a.chat(t, agent, "first", "When is high water?")
	hook := a.hook(t, "Harbour office", agent)
	a.trigger(t, a.key(t, "Scheduler"), agent, "tide-table", "Write the table")
	p := open(t).signIn(a)
	for _, c := range []struct{ typed, option, path string }{
		{"lighthouse", "Lighthouse keeper…", "/dashboard/agents/" + agent},
		{found.ID, found.ID + "…", "/dashboard/runs/" + found.ID},
		{"page automations", "Automations…", "/dashboard/automations"},
		{"new webhook", "New webhook…", "/dashboard/automations/new"},
		{"harbour", "Harbour office…", "/dashboard/automations/" + hook},
		{"automation tide", "tide-table…", "/dashboard/runs"},
	} {
		p.visit("/dashboard")
		p.is("button", "Find")
		p.press("Control+k")
		p.focusIs("combobox", "")
		p.enter(c.typed)
		p.in("dialog", "Find").first("option", c.option).hit()
		p.arrives(c.path)
		p.isNot("dialog", "Find")
	}

	p.visit("/dashboard")
	p.is("button", "Find")
	p.press("Control+k")
	p.in("dialog", "Find").is("option", "New webhook…")
	p.inspect("finder")
	p.resize(phone)
	var cut bool
	p.js(&cut, `() => {
		const field = document.querySelector("dialog input");
		const pen = document.createElement("canvas").getContext("2d");
		const { font, paddingLeft, paddingRight } = getComputedStyle(field);
		pen.font = font;
		return pen.measureText(field.placeholder).width > field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
	}`)
	if cut {
		t.Error("the placeholder does not fit on a phone")
	}

	field := func() (top float64) {
		p.js(&top, `() => document.querySelector("dialog input").getBoundingClientRect().top`)
		return top
	}
	was := field()
	p.enter("a text that no name contains, wider than a phone")
	p.in("dialog", "Find").sees("Nothing has this name")
	p.shot("finder-nothing", phone, "light")
	if top := field(); top != was {
		t.Errorf("the field has moved from %.0f to %.0f pixels below the top of the window", was, top)
	}
	p.js(&cut, `() => [...document.querySelectorAll("dialog .found")].some((e) => e.scrollWidth > e.clientWidth)`)
	if cut {
		t.Error("a label is cut off")
	}
}

// TestFinderOpensDocuments finds documents by words of their names, in any order, and opens them
// from the documents' page and from another page. The service does the search, so the finder also
// finds documents that no page has loaded.
func TestFinderOpensDocuments(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.document(t, "Tides of the north.txt", "High water is at noon.")
	a.document(t, "Winds of the north.txt", "The wind is from the west.")
	p := open(t).signIn(a)
	p.visit("/dashboard")
	p.is("button", "Find")
	for _, c := range []struct{ typed, asked, name, text string }{
		{"north tides", "north+tides", "Tides of the north.txt", "High water is at noon."},
		{"document north winds", "north+winds", "Winds of the north.txt", "The wind is from the west."},
	} {
		p.press("Control+k")
		p.focusIs("combobox", "")
		p.enter(c.typed)
		p.until("the service is asked for "+c.asked, func() error {
			if !p.watch.hasAsked("/api/knowledge?", "q="+c.asked) {
				return errors.New("no such request")
			}
			return nil
		})
		p.in("dialog", "Find").first("option", c.name+"…").hit()
		p.in("dialog", c.name).sees(c.text)
		p.press("Escape")
		p.isNot("dialog", c.name)
	}
}

// TestShortcuts uses the keyboard shortcuts that work on every page. They have no effect while the
// user types into a field.
func TestShortcuts(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/runs")
	p.is("searchbox", "Search")
	p.press("/")
	p.focusIs("searchbox", "")
	p.press("?")
	p.isNot("dialog", "Keyboard shortcuts")
	p.visit("/dashboard/org")
	p.is("button", "New key")
	p.press("?")
	p.is("dialog", "Keyboard shortcuts")
	p.inspect("shortcuts")
}
