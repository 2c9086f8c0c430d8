package browser

import (
	"net/http"
	"strings"
	"testing"
)

// TestNotifications creates a notification endpoint, sends it a test delivery, and reads its
// deliveries. The service disables an endpoint that returns 410, and the dashboard shows this.
func TestNotifications(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	p := open(t).signIn(a)
	p.visit("/dashboard/org/notifications")
	p.sees("No endpoints yet")
	p.click("button", "New endpoint")
	dialog := p.in("dialog", "New endpoint")
	dialog.fill("URL", a.s.outside.url+"/pay")
	dialog.fill("Description", "The pager")
	p.inspect("new-endpoint")
	dialog.click("button", "Create endpoint")
	made := p.in("dialog", "Copy this secret now")
	if secret := made.in("region", "the secret").snippet(); !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("secret = %s", secret)
	}

	made.click("button", "I have saved it")
	p.click("button", "Send a test to "+a.s.outside.url+"/pay")
	p.click("button", "Messages to "+a.s.outside.url+"/pay")
	p.in("row", "A test…").sees("delivered")
	p.first("button", "A test, message…").hit()
	p.in("dialog", "Message").in("region", "the payload").sees(`"type": "ping"`)
	p.press("Escape")

	var gone struct{ ID string }
	a.call(t, http.MethodPost, "/api/notifications", map[string]any{"url": a.s.outside.url + "/gone", "events": []string{"run.failed"}}, &gone)
	p.visit("/dashboard/org")
	a.call(t, http.MethodPost, "/api/notifications?id="+gone.ID+"&action=test", nil, nil)
	p.sees("The notification endpoint " + a.s.outside.url + "/gone was disabled.")
	p.click("link", "See why")
	p.sees("Parley disabled this endpoint.")
	p.inspect("notifications-disabled")
	p.click("button", "Enable again: "+a.s.outside.url+"/gone")
	p.sees("Endpoint enabled. Waiting messages are being sent.")
}

// TestBudget sets a budget using only the keyboard, and then uses the budget up.
func TestBudget(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Spender", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	end := p.begin(9)
	p.visit("/dashboard/org/usage")
	p.sees("No budgets yet")
	p.tabTo("button", "New budget", 40)
	p.press("Enter")
	dialog := p.in("dialog", "New budget")
	dialog.choose("Applies to", "An agent")
	dialog.choose("Metric", "Runs")
	p.tabTo("textbox", "Limit", 4)
	p.enter("1")
	p.inspect("new-budget")
	p.tabTo("button", "Create budget", 4)
	p.press("Enter")
	p.is("heading", "Spender: runs per month")
	p.sees("0 of 1 used")
	a.chat(t, agent, "first", "Hello")
	p.sees("1 of 1 used")
	p.sees("Used up")
	end()
	if err := a.try(t.Context(), http.MethodPost, "/api/agents?action=chat&id="+agent, map[string]any{"sessionId": "second", "message": "Hello"}, nil); err == nil ||
		!strings.Contains(err.Error(), "budget_exceeded") {
		t.Errorf("starting a run beyond the budget: error = %v", err)
	}

	p.in("row", "…Spender…").sees("1")
	p.inspect("usage-budget")
	p.click("button", "Edit Spender: runs per month")
	edit := p.in("dialog", "Edit the budget")
	edit.fill("Limit", "5")
	edit.click("button", "Save")
	p.sees("1 of 5 used")
	p.click("button", "Delete Spender: runs per month")
	p.in("dialog", "Delete this budget?").click("button", "Delete")
	p.sees("No budgets yet")
}
