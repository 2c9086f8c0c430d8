package browser

import "testing"

// TestFinder opens an agent, a run, a document, a page and an action by typing, and looks at the finder in light and dark.
func TestFinder(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Lighthouse keeper", map[string]any{"model": "offline/echo"})
	a.document(t, "tides.txt", "High water is at noon.")
	found := a.chat(t, agent, "first", "When is high water?")
	p := open(t).signIn(a)
	for _, c := range []struct{ typed, option, path string }{
		{"lighthouse", "Lighthouse keeper…", "/dashboard/agents/" + agent},
		{found.ID, found.ID + "…", "/dashboard/runs/" + found.ID},
		{"page automations", "Automations…", "/dashboard/automations"},
		{"new webhook", "New webhook…", "/dashboard/automations/new"},
		{"tides", "tides.txt…", "/dashboard/knowledge"},
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
}

// TestShortcuts uses the keys of all pages, which do nothing while a person types.
func TestShortcuts(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	p.visit("/dashboard/runs")
	p.is("searchbox", "Automation")
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
