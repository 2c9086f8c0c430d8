package browser

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"parley/scripts/internal/api"
	"parley/shared/domain"
)

// title waits until the window's title begins with the given text or, if wanted is false, until the
// title does not begin with this text.
func (p *page) title(begins string, wanted bool) {
	p.t.Helper()
	p.until("reading the title", func() error {
		var title string
		if err := p.try(&title, `() => document.title`); err != nil {
			return err
		}
		if strings.HasPrefix(title, begins) != wanted {
			return errors.New("title = " + title)
		}
		return nil
	})
}

// TestFirstSteps completes the steps that Home suggests to a new account. Home counts the completed
// steps. The list disappears when the user hides it or has completed all steps.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Counter", nil)
	p := open(t).signIn(a)
	p.visit("/dashboard")
	steps := p.in("region", "First steps")
	steps.sees("0 of 5 done")
	p.in("region", "Last 7 days").sees("No cost in the last seven days.")
	steps.click("link", "Chat with an agent")
	p.is("heading", "Counter")
	p.fill("Message", "What is 6 times 7?")
	p.press("Enter")
	p.in("article", "…6 times 7…").sees("42")
	p.click("link", "Home")
	steps.sees("1 of 5 done")
	newest := p.in("region", "Newest runs")
	newest.is("link", "Counter")
	newest.sees("What is 6 times 7?")
	p.inspect("home-steps")

	b := open(t).signIn(a) // a second browser, in which the user has not hidden the list
	b.visit("/dashboard")
	steps.click("button", "Hide the first steps")
	p.isNot("heading", "First steps")
	p.reload()
	p.is("heading", "Newest runs")
	if p.has("heading", "First steps") {
		t.Error("the first steps are back after a reload")
	}

	a.document(t, "returns.md", "You may return any lamp within 45 days.\n")
	a.trigger(t, a.key(t, "Scheduler"), agent, "nightly", "What is 1 plus 1?")
	b.in("region", "First steps").sees("4 of 5 done")
	a.call(t, http.MethodPut, "/api/agents?id="+agent, map[string]any{"widget": map[string]any{"enabled": true, "allowedOrigins": []string{"https://shop.example"}}}, nil)
	b.reload()
	b.is("heading", "Newest runs")
	if b.has("heading", "First steps") {
		t.Error("all steps are done, and the list is still shown")
	}
}

// TestHomeShowsCosts checks that Home shows costs with their currency: the cost of the last week, also
// as a plot that is readable on a phone, and a budget that is used up.
func TestHomeShowsCosts(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.chat(t, a.agent(t, "Priced", map[string]any{"model": slowModel}), "s", "Hello")
	var usage struct {
		Currency string
		Totals   struct{ CostMicros int64 }
	}
	a.call(t, http.MethodGet, "/api/usage?days=7", nil, &usage)
	if usage.Totals.CostMicros == 0 || usage.Currency != "EUR" {
		t.Fatalf("usage: %+v", usage)
	}
	a.call(t, http.MethodPost, "/api/budgets", map[string]any{"scope": "organization", "metric": "costMicros", "period": "month", "limit": usage.Totals.CostMicros}, nil)

	cost := "€" + strings.TrimSuffix(domain.Money(usage.Totals.CostMicros, usage.Currency), " "+usage.Currency)
	p := open(t).signIn(a)
	p.resize(phone)
	p.visit("/dashboard")
	p.in("region", "Needs you").sees(cost + " of " + cost + " per month.")
	week := p.in("region", "Last 7 days")
	week.sees("Cost " + cost)
	week.sees("Cost EUR per day")
	var bar struct {
		Says                string
		Height, Right, Text float64
	}
	p.js(&bar, `() => {
		const chart = document.querySelector(".week .chart:last-child");
		const bars = chart.querySelectorAll(".part.cost");
		const at = bars[0].getBoundingClientRect();
		const texts = [...chart.querySelectorAll("text")].map((text) => text.getBoundingClientRect().height).filter((height) => height > 0);
		return { Says: [...bars].map((bar) => bar.parentElement.querySelector("title").textContent).join(), Height: at.height, Right: at.right, Text: Math.min(...texts) };
	}`)
	if !strings.HasSuffix(bar.Says, ": "+cost) || bar.Height < 30 || bar.Right > float64(phone.width) || bar.Text < 9 {
		t.Errorf("the plot of costs: %+v, want a bar of %s", bar, cost)
	}
	p.inspect("home-costs")
}

// TestBudgetOnAPhone creates a budget for costs whose limit is written with a decimal comma. The
// dialog says that no run has had a cost.
func TestBudgetOnAPhone(t *testing.T) {
	t.Parallel()
	p := open(t).signIn(signUp(t))
	p.resize(phone)
	p.visit("/dashboard")
	p.in("region", "Last 7 days").is("link", "sets prices")
	var below float64 // height of the part of the text that is below the plot's axis
	p.js(&below, `() => {
		const empty = [...document.querySelectorAll(".chart-empty")].at(-1);
		const dates = empty.parentElement.querySelectorAll("text");
		return empty.firstElementChild.getBoundingClientRect().bottom - dates[dates.length - 1].getBoundingClientRect().top;
	}`)
	if below > 0 {
		t.Errorf("the text of the empty plot covers %.0f pixels of the dates", below)
	}
	p.shot("home-without-costs", phone, "light")
	p.visit("/dashboard/org/usage")
	p.sees("Show as a table") // the plots move the budgets
	p.click("button", "New budget")
	dialog := p.in("dialog", "New budget")
	dialog.sees("No run of the last 30 days had a cost")
	dialog.sees("The offline model is free")
	var mode string
	p.js(&mode, `() => [...document.querySelectorAll("dialog input")].at(-1).inputMode`)
	if mode != "decimal" {
		t.Errorf("the keyboard of the field for the limit is %q, want decimal", mode)
	}
	dialog.fill("Limit", "1,000")
	dialog.sees("Limit must be an amount, such as 0.50 or 0,50")
	p.inspect("budget-without-costs")
	p.resize(phone)
	dialog.fill("Limit", "0,5")
	dialog.click("button", "Create budget")
	p.sees("€0 of €0.50 used")

	p.visit("/docs/settings#models")
	p.is("heading", "Models")
}

// TestInbox starts a run that needs an approval while another page is open. The window's title and
// the menu show the number of waiting runs, and the run is approved in the inbox.
func TestInbox(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	payer := a.agent(t, "Payer", map[string]any{"tools": a.till()})
	p := open(t).signIn(a)
	p.visit("/dashboard/inbox")
	p.sees("Nothing is waiting for you")
	p.inspect("inbox-empty")
	p.title("(", false)
	p.click("link", "Templates")
	p.is("heading", "Templates")
	bill := "inbox" + a.email
	waiting := a.chat(t, payer, "bills", "Use payBill with bill: "+bill)
	end := p.begin(7)
	p.title("(1) Templates", true)
	p.click("link", "Inbox 1 waiting")
	decision := p.in("region", "Decision 1: Payer")
	decision.sees(bill)
	p.inspect("inbox")
	p.click("link", "Home")
	p.click("link", "1 run is waiting for your decision")
	decision.click("button", "Approve")
	p.sees("Nothing is waiting for you")
	p.title("(", false)
	end()
	p.is("link", "Inbox")
	var ended api.Run
	a.call(t, http.MethodGet, "/api/runs?wait=20&id="+waiting.ID, nil, &ended)
	if paid := a.s.outside.payments(bill); ended.Status != "completed" || paid != 1 {
		t.Errorf("status %s, paid %d times", ended.Status, paid)
	}
}

// TestInboxLeavesOutClientTools checks that a run that waits for its client's tool results is not
// in the inbox. The run's page and the chat name the calls, and ask for no decision.
func TestInboxLeavesOutClientTools(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Forecaster", nil)
	var waiting api.Run
	a.call(t, http.MethodPost, "/api/agents?action=chat&id="+agent, map[string]any{
		"sessionId": "weather", "message": "Call weather with city: Bern",
		"tools": []any{map[string]any{"name": "weather", "inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
		}}},
	}, &waiting)
	p := open(t).signIn(a)
	p.visit("/dashboard/inbox")
	p.sees("Nothing is waiting for you")
	p.is("link", "Inbox")
	p.visit("/dashboard/runs/" + waiting.ID)
	p.sees("waits for client")
	seesCalls := func() {
		calls := p.in("region", "The run is waiting for its client")
		calls.sees("Waiting for the client")
		calls.sees("weather")
		calls.sees("Bern")
		p.seesNot("decision")
	}
	seesCalls()
	p.visit("/dashboard/agents/" + agent + "?session=weather")
	seesCalls()
	p.sees("The agent is waiting for tool results from the program that started the run.") // for screen readers
}

// TestHomeLeadsToTheFault follows Home's links to an unreadable document and to a budget that is
// used up.
func TestHomeLeadsToTheFault(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Spender", map[string]any{"model": "offline/echo"})
	a.chat(t, agent, "s", "Hello")
	var broken, budget struct{ ID string }
	a.call(t, http.MethodPost, "/api/knowledge", map[string]any{"name": "scan.pdf", "content": "%PDF-1.7 broken", "mimeType": "application/pdf"}, &broken)
	a.call(t, http.MethodPost, "/api/budgets", map[string]any{"scope": "agent", "subjectId": agent, "metric": "runs", "period": "month", "limit": 1}, &budget)
	p := open(t).signIn(a)
	p.visit("/dashboard")
	needs := p.in("region", "Needs you")
	needs.click("link", "Budget of Spender: 100 % used")
	p.is("heading", "Budgets")
	p.until("the budget has the focus", func() error {
		var id string
		if err := p.try(&id, `() => focused()?.id ?? ""`); err != nil {
			return err
		}
		if id != budget.ID {
			return errors.New("focused: " + id)
		}
		return nil
	})
	p.click("link", "Home")
	needs.click("link", "1 document could not be read")
	p.is("dialog", "scan.pdf")
}
