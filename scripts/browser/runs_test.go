package browser

import (
	"net/http"
	"testing"
)

// TestRunsAppear watches the list of runs while a scheduler triggers one.
func TestRunsAppear(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	agent := a.agent(t, "Reporter", map[string]any{"model": "offline/echo"})
	key := a.key(t, "Scheduler")
	p := open(t).signIn(a)
	p.visit("/dashboard/runs")
	p.sees("No runs yet")
	a.trigger(t, key, agent, "nightly", "Write the report")
	row := p.in("row", "…Reporter…")
	row.sees("completed")
	row.sees("nightly")
	row.sees("echo: Write the report")
	row.click("link", "Reporter")
	p.sees("echo: Write the report")
}

// TestApproval approves one action of an agent and rejects another.
func TestApproval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		button, ends string
		paid         int
	}{{"Approve", "completed", 1}, {"Deny", "completed", 0}} {
		t.Run(c.button, func(t *testing.T) {
			t.Parallel()
			a := signUp(t)
			bill := c.button + a.email
			waiting := a.chat(t, a.agent(t, "Payer", map[string]any{"tools": a.till()}), "bills", "Use payBill with bill: "+bill)
			p := open(t).signIn(a)
			p.visit("/dashboard/runs")
			row := p.in("row", "…Payer…")
			row.sees("needs you")
			row.click("link", "Payer")
			p.arrives("/dashboard/runs/" + waiting.ID)
			p.sees("payBill")
			p.sees(bill)
			p.click("button", c.button)
			p.sees(c.ends)
			p.isNot("button", c.button)
			var ended run
			a.call(t, http.MethodGet, "/api/runs?wait=20&id="+waiting.ID, nil, &ended)
			if ended.Status != c.ends {
				t.Errorf("run status = %s, want %s", ended.Status, c.ends)
			}
			if paid := a.s.outside.payments(bill); paid != c.paid {
				t.Errorf("paid %d times, want %d", paid, c.paid)
			}
		})
	}
}

// TestApprovalInChat approves an action in the chat.
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
