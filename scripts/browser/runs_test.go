package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"parley/scripts/internal/api"
)

// TestRunsFound filters the list of runs by words, trigger and time. It opens the filtered list by
// its URL and exports it.
func TestRunsFound(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	key := a.key(t, "Scheduler")
	a.trigger(t, key, agent, "nightly", "Write the report about lighthouses")
	a.chat(t, agent, "first", "How tall is the tower?")
	p := open(t).signIn(a)
	end := p.begin(8)
	p.visit("/dashboard/runs")
	p.sees("Write the report about lighthouses") // the run's question, shown beside its answer
	p.sees("echo: Write the report about lighthouses")
	p.sees("Runs per hour")
	p.isNot("combobox", "Trigger") // this filter is shown only on demand
	p.inspect("runs-filters")

	p.fill("Search", "LIGHTHOUSE")
	p.sees("echo: Write the report about lighthouses")
	p.isNot("row", "…How tall…")
	p.click("link", "Reporter")
	p.click("button", "Turn 1…")
	p.in("region", "Turn 1").sees("Duration")
	end()
	p.visit("/dashboard/runs?q=LIGHTHOUSE")
	p.sees("echo: Write the report about lighthouses")
	p.clickText("More filters")
	p.choose("Trigger", "chat")
	p.sees("No runs match these filters")
	p.choose("Trigger", "schedule")
	p.sees("echo: Write the report about lighthouses")
	p.reload() // keeps the filters, because they are in the URL
	p.holds("Trigger", "schedule")
	p.sees("echo: Write the report about lighthouses")
	p.isNot("row", "…How tall…")
	p.click("button", "Clear filters")
	p.is("row", "…How tall…")

	p.visit("/dashboard/runs?to=2020-01-01T00:00:00.000Z")
	p.sees("No runs match these filters")
	p.visit("/dashboard/runs?q=lighthouse")
	p.sees("echo: Write the report about lighthouses")
	// The filtered list shows this run, although its words become searchable only some time after
	// it has finished.
	a.trigger(t, key, agent, "nightly", "Count the lighthouse keepers")
	p.sees("echo: Count the lighthouse keepers")
	// A script in a page cannot read a downloaded file. So the page's functions for downloads are
	// replaced by functions that store each file's name and content.
	_, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`{
		const noted = document.documentElement.dataset;
		URL.createObjectURL = (blob) => (blob.text().then((text) => (noted.content = text)), "#");
		HTMLAnchorElement.prototype.click = function () { noted.name = this.download };
	} true`))
	p.must(err, "replacing functions of the page")
	for _, c := range []struct{ button, name string }{{"Export as CSV", "runs.csv"}, {"Export as JSON Lines", "runs.jsonl"}} {
		p.click("button", c.button)
		p.until("reading the export", func() error {
			var saved struct{ Name, Content string }
			err := p.try(&saved, `() => {
				const { name, content } = document.documentElement.dataset;
				return { Name: name ?? "", Content: content ?? "" } }`)
			if err != nil {
				return err
			}
			if saved.Name != c.name || !strings.Contains(saved.Content, "about lighthouses") || strings.Contains(saved.Content, "How tall") {
				return fmt.Errorf("export = %q, want %s with one run", saved, c.name)
			}
			return nil
		})
	}
}

// TestFiltersOnAPhone filters the list of runs on a phone. The filters are in a dialog, so that the
// list's first row is visible without scrolling.
func TestFiltersOnAPhone(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	key := a.key(t, "Scheduler")
	a.trigger(t, key, agent, "nightly", "Write the report about lighthouses")
	a.chat(t, agent, "first", "How tall is the tower?")
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard/runs")
	p.is("row", "…How tall…")
	p.listBeginsOnTheScreen()
	var cut []string
	p.js(&cut, `() => [...document.querySelectorAll(".run-trigger")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)`)
	if len(cut) > 0 {
		t.Errorf("truncated triggers: %v", cut)
	}
	p.click("button", "Filters")
	filters := p.in("dialog", "Filters")
	filters.is("button", "Export as CSV")
	filters.choose("Trigger", "schedule")
	p.axe("filters on a phone", allRules)
	p.fits("filters on a phone")
	p.shot("filters-dialog", phone, "light")
	filters.click("button", "Show runs")
	p.isNot("dialog", "Filters")
	p.is("button", "Filters (1)")
	p.is("row", "…lighthouses…")
	p.isNot("row", "…How tall…")
	p.listBeginsOnTheScreen()
	p.click("button", "Clear filters")
	p.is("row", "…How tall…")
	p.fill("Search", "lighthouses")
	p.isNot("row", "…How tall…")
	p.listBeginsOnTheScreen()
}

// listBeginsOnTheScreen fails the test if the first run in the list is not visible without
// scrolling.
func (p *page) listBeginsOnTheScreen() {
	p.t.Helper()
	var at struct{ Row, Screen float64 }
	p.js(&at, `() => ({ Row: document.querySelector(".run-rows tbody tr").getBoundingClientRect().bottom + scrollY, Screen: innerHeight })`)
	if at.Row > at.Screen {
		p.t.Errorf("the first run ends at %.0f pixels, on a screen of %.0f", at.Row, at.Screen)
	}
}

// TestNeedsYou filters the list for runs that wait for a person, and for runs that wait for the
// results of their client's tools. If the filter also contains words, the page says that a search
// finds only finished runs.
func TestNeedsYou(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	payer := a.agent(t, "Payer", map[string]any{"tools": a.till()})
	forecaster := a.agent(t, "Forecaster", nil)
	a.chat(t, payer, "bills", "Use payBill with bill: needs"+a.email)
	a.call(t, http.MethodPost, "/api/agents?action=chat&id="+forecaster, map[string]any{
		"sessionId": "weather", "message": "Call weather with city: Bern",
		"tools": []any{map[string]any{"name": "weather", "inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
		}}},
	}, nil)
	p := open(t).signIn(a)
	p.visit("/dashboard/runs?status=requires_action") // links of earlier releases have this form
	p.is("row", "…Payer…")
	p.isNot("row", "…Forecaster…")
	p.choose("Status", "Waiting for the client")
	p.is("row", "…Forecaster…")
	p.isNot("row", "…Payer…")
	p.reload()
	p.is("row", "…Forecaster…")
	p.isNot("row", "…Payer…")
	p.fill("Search", "weather")
	p.sees("A search finds finished runs only")
}

// TestFailedCallIsPlain opens a completed run, one of whose tool calls failed. The page and the chat
// show that the call failed, without the emphasis of a failed run.
func TestFailedCallIsPlain(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reader", map[string]any{"tools": map[string]any{"httpRequest": map[string]any{
		"enabled": true, "endpoints": []any{map[string]any{
			"name": "readStock", "description": "Reads the stock.", "method": "GET", "url": "http://127.0.0.1:1/stock", "sideEffect": "none", // an address that tools may not reach
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
		}},
	}}})
	asked := a.chat(t, agent, "stock", "Use readStock")
	if asked.Status != "completed" {
		t.Fatalf("the run is %s: %s", asked.Status, asked.Message)
	}
	p := open(t).signIn(a)
	for _, path := range []string{"/dashboard/runs/" + asked.ID, "/dashboard/agents/" + agent + "?session=" + url.QueryEscape(asked.SessionID)} {
		p.visit(path)
		p.in("group", "Tool calls").sees("failed")
		p.settled()
		var emphasized int
		p.js(&emphasized, `() => document.querySelectorAll("main .calls .status, main .status.bad, main .problem").length`)
		if emphasized > 0 {
			t.Errorf("%s: %d elements emphasize the failed call", path, emphasized)
		}
	}
	p.inspect("failed-call")
}

// TestApproval approves one tool call of an agent and rejects another.
func TestApproval(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	payer := a.agent(t, "Payer", map[string]any{"tools": a.till()})
	p := open(t).signIn(a)
	for _, c := range []struct {
		button string
		paid   int
	}{{"Approve", 1}, {"Deny", 0}} {
		bill := c.button + a.email
		waiting := a.chat(t, payer, "bills "+c.button, "Use payBill with bill: "+bill)
		p.visit("/dashboard/runs")
		row := p.in("row", "…Use payBill with bill: "+c.button+"…")
		row.sees("needs you")
		row.click("link", "Payer")
		p.arrives("/dashboard/runs/" + waiting.ID)
		p.sees("payBill")
		p.sees(bill)
		p.click("button", c.button)
		p.sees("completed")
		p.isNot("button", c.button)
		var ended api.Run
		a.call(t, http.MethodGet, "/api/runs?wait=20&id="+waiting.ID, nil, &ended)
		if ended.Status != "completed" {
			t.Errorf("run status = %s, want completed", ended.Status)
		}
		if paid := a.s.outside.payments(bill); paid != c.paid {
			t.Errorf("paid %d times, want %d", paid, c.paid)
		}
	}
}

// TestApprovalInChat approves a tool call of an agent in the chat.
func TestApprovalInChat(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	bill := "in chat " + a.email
	p := open(t).signIn(a)
	p.visit("/dashboard/agents/" + a.agent(t, "Payer", map[string]any{"tools": a.till()}))
	p.resize(phone)
	p.fill("Message", `Use payBill with {"bill": `+quoted(bill)+`}`)
	p.click("button", "Send message")
	turn := p.in("article", "Message: Use payBill…")
	turn.sees("Allow the agent to use payBill?")
	turn.sees("Without a decision, the run fails in 24 hours.")
	if paid := a.s.outside.payments(bill); paid != 0 {
		t.Errorf("paid %d times before the decision, want 0", paid)
	}

	p.inspect("approval-in-chat")
	p.resize(phone)
	p.settled()
	var whole bool
	p.js(&whole, `() => [...document.querySelectorAll("summary .status")].every((s) => {
		const [badge, line] = [s.getBoundingClientRect(), s.closest("summary").getBoundingClientRect()];
		return badge.left >= line.left - 1 && badge.right <= line.right + 1 && s.scrollWidth <= s.clientWidth + 1 })`)
	if !whole {
		t.Error("a call's status is truncated in a narrow window")
	}

	turn.click("button", "Approve")
	turn.is("button", "Copy answer")
	if paid := a.s.outside.payments(bill); paid != 1 {
		t.Errorf("paid %d times, want 1", paid)
	}
}
