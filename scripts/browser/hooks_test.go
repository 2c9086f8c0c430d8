package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestWebhook creates a hook, runs the page's example commands, which send deliveries to the hook,
// and opens the run that a delivery started.
func TestWebhook(t *testing.T) {
	t.Parallel()
	needsCommands(t)

	a := signUp(t)
	a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	end := p.begin(5)
	p.visit("/dashboard/automations")
	p.sees("No webhooks yet")
	p.click("link", "New webhook")
	p.click("radio", "Signed (HMAC)")
	p.fill("Message", "Order {{data.id}} of {{data.nobody}}{{data.customer.name}}")
	p.sees("Order ⟦ord_1042⟧ of empty⟦Kim Larsen⟧")
	p.click("button", "Insert data.currency")
	p.holds("Message", "Order {{data.id}} of {{data.nobody}}{{data.customer.name}}{{data.currency}}")
	p.watch.expect(http.StatusBadRequest) // the hook has no name yet
	p.click("button", "Create webhook")
	p.focusIs("textbox", "Name")
	p.fill("Name", "Orders")
	p.inspect("new-hook-filled")
	p.click("button", "Create webhook")
	made := p.in("dialog", "Set up “Orders” at the sender")
	made.sees("in the header X-Signature of each delivery")
	secret := made.in("region", "the secret").snippet()
	if out := delivered(t, made.in("region", "a command that sends a delivery").snippet(), ""); !strings.Contains(out, `"accepted"`) {
		t.Fatalf("response to the command with the secret: %s", out)
	}
	made.click("button", "Done")
	p.is("heading", "Orders")
	p.in("row", "…, delivery sha256:…").sees("accepted")
	p.visit(p.path() + "/setup")
	command := p.in("region", "a command that sends a delivery").snippet()
	if out := delivered(t, command, secret); !strings.Contains(out, `"accepted"`) {
		t.Fatalf("%s\noutput = %s", command, out)
	}

	if out := delivered(t, command, "another"); !strings.Contains(out, `"unauthenticated"`) {
		t.Fatalf("response to a delivery with another secret: %s", out)
	}

	const reason = "the signature does not match the body and the webhook's secret"
	p.sees("The newest delivery was rejected") // the page on which the secret is set shows this text
	p.sees(": " + reason + "; sent from ")
	p.inspect("hook-rejected")
	p.click("link", "Deliveries")
	rejection := p.in("row", "…, rejected: "+reason+"…")
	rejection.sees(reason)
	rejection.seesNot("rejected:verified") // an ID that only the service's log uses
	p.in("navigation", "Pages").click("link", "Automations")
	p.in("row", "Orders…").sees("rejected")
	p.in("row", "Orders…").clickText("Signed (HMAC)") // a click anywhere in a row opens the row's hook
	p.is("heading", "Orders")
	row := p.in("row", "…, delivery sha256:…")
	row.sees("accepted")
	row.sees("received 2 times")
	p.inspect("hook-deliveries")
	row.first("button", "…, delivery…").hit()
	one := p.in("dialog", "Delivery")
	one.in("region", "the payload").sees(`"id": "ord_1042"`)
	one.click("button", "Redeliver")
	p.isNot("dialog", "Delivery")
	p.is("button", "…~redelivered-1")
	p.first("link", "Open run").hit()
	p.sees("echo: Order ⟦ord_1042⟧ of ⟦Kim Larsen⟧")
	end()
	var gap float64
	p.js(&gap, `() => {
		const text = document.querySelector(".asked-text");
		return text.nextElementSibling.getBoundingClientRect().top - text.getBoundingClientRect().bottom;
	}`)
	if gap < 8 {
		t.Errorf("the message is %.0f pixels above its data, want at least 8", gap)
	}
}

// TestWebhookCommands creates a hook for each source, and runs the command that the hook's setup
// page shows. The command must sign its delivery in the same way as the source signs its
// deliveries. For GitHub, the page also shows the values to enter there.
func TestWebhookCommands(t *testing.T) {
	t.Parallel()
	needsCommands(t)
	a := signUp(t)
	agent := a.agent(t, "Clerk", map[string]any{"model": "offline/echo"})
	p := open(t).signIn(a)
	for source, secret := range map[string]string{
		"github": "it's a secret", "stripe": "whsec_of-stripe", "slack": "8f742231b10e8888abcd99yyyzzz85a5", "hmac": "sixteen characters", "token": "sixteen-characters",
		"standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	} {
		var made struct{ ID, URL string }
		a.call(t, http.MethodPost, "/api/hooks", map[string]any{
			"name": source, "agentId": agent, "keyId": a.keyID(t), "source": source, "secret": secret, "messageTemplate": "A delivery",
		}, &made)
		p.visit("/dashboard/automations/" + made.ID + "/setup")
		command := p.in("region", "a command that sends a delivery").snippet()
		if out := delivered(t, command, secret); !strings.Contains(out, `"accepted"`) {
			t.Errorf("%s\noutput = %s", command, out)
		}
		if source == "github" {
			p.sees("Payload URL")
			if url, kind := p.in("region", "the URL").snippet(), p.in("region", "the content type").snippet(); url != made.URL || kind != "application/json" {
				t.Errorf("the values for GitHub are %q and %q, want %q and application/json", url, kind, made.URL)
			}
		}
	}
}

// TestWebhookSettings filters, tests, disables and deletes a hook.
func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	id := a.hook(t, "Issues", a.agent(t, "Triage", map[string]any{"model": "offline/echo"}))
	p := open(t).signIn(a)
	p.visit("/dashboard/automations/" + id)
	p.sees("No deliveries yet")
	p.click("button", "Send a test")
	dialog := p.in("dialog", "Send a test")
	dialog.click("button", "Send")
	dialog.sees("The agent runs")
	p.press("Escape")
	p.in("table", "Deliveries").sees("accepted")

	p.click("link", "Settings")
	p.click("button", "Add a condition")
	p.fill("Path of condition 1", "action")
	p.fill("Value of condition 1", "closed")
	p.sees("A delivery like this is filtered out")
	p.clickText("API key, answers and coalescing")
	p.click("switch", "Coalesce deliveries into one run")
	p.fill("Wait at most (seconds)", "5")
	p.watch.expect(http.StatusBadRequest) // the service rejects the value, because it is shorter than the coalescing window
	p.click("button", "Save")
	p.is("alert", "")
	p.fill("Wait at most (seconds)", "30")
	p.inspect("hook-settings")
	p.click("button", "Save")
	p.sees("Saved.")
	p.click("button", "Send a test")
	dialog.click("button", "Send")
	dialog.sees("The filter excludes the test delivery")
	p.press("Escape")

	p.click("button", "Disable")
	p.in("dialog", "Disable “Issues”?").click("button", "Disable")
	p.sees("This webhook is disabled")
	p.click("button", "Enable")
	p.is("button", "Disable") // waits until the buttons have moved
	p.click("button", "Delete")
	p.in("dialog", "Delete “Issues”?").click("button", "Delete")
	p.arrives("/dashboard/automations")
	p.sees("No webhooks yet")
}

// TestWebhookSchema creates a hook whose answers must match a schema, tries the schema, and removes
// it in the settings.
func TestWebhookSchema(t *testing.T) {
	t.Parallel()
	a := signUp(t)
	a.agent(t, "Cashier", map[string]any{"model": "offline"})
	a.agent(t, "Robot", map[string]any{"model": "offline", "allowedCallers": []string{"system"}})
	p := open(t).signIn(a)
	p.visit("/dashboard/automations/new")
	p.choose("Agent", "Cashier")
	p.fill("Name", "Orders")
	p.clickText("API key, secret, answers and coalescing")
	p.fill("JSON Schema", `{"type":"object",`)
	p.sees("JSON Schema must be valid JSON")
	p.in("button", "Try").disabled(true)
	p.fill("JSON Schema", `{"type":"sum"}`)
	p.watch.expect(http.StatusBadRequest)
	p.click("button", "Create webhook")
	p.sees("JSON Schema is not a usable JSON Schema")
	p.focusIs("textbox", "JSON Schema")
	p.inspect("hook-schema-wrong")

	p.fill("JSON Schema", schemaOfTotal)
	p.seesNot("JSON Schema is not a usable JSON Schema")
	p.fill("Test message", "The total is 42 euros.")
	p.click("button", "Try")
	p.in("group", "Data").sees(`"total": 42`)
	p.inspect("hook-schema")
	p.choose("Agent", "Robot")
	p.sees("only automations may run this agent")
	p.choose("Agent", "Cashier")
	p.click("button", "Create webhook")
	p.in("dialog", "Set up “Orders” at the sender").click("button", "Done")

	var hooks struct {
		Data []struct {
			ID           string
			OutputSchema json.RawMessage
		}
	}
	a.call(t, http.MethodGet, "/api/hooks", nil, &hooks)
	if len(hooks.Data) != 1 || string(hooks.Data[0].OutputSchema) != schemaOfTotal {
		t.Fatalf("stored: %+v", hooks.Data)
	}
	a.deliver(t, hooks.Data[0].ID, "The total is 7 euros.")
	p.visit("/dashboard/automations/" + hooks.Data[0].ID)
	p.first("link", "Open run").hit()
	p.sees(`"total"`)

	p.visit("/dashboard/automations/" + hooks.Data[0].ID + "/settings")
	p.fill("JSON Schema", "")
	p.click("button", "Save")
	p.sees("Saved.")
	a.call(t, http.MethodGet, "/api/hooks", nil, &hooks)
	if string(hooks.Data[0].OutputSchema) != "null" {
		t.Errorf("after removal: %s", hooks.Data[0].OutputSchema)
	}
}

// delivered runs a command in a shell and returns its output. The command finds the hook's secret
// in an environment variable.
func delivered(t *testing.T, command, secret string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", "-c", command)
	run.Env = append(os.Environ(), "SECRET="+secret, "no_proxy=*")
	var complaint bytes.Buffer
	run.Stderr = &complaint
	printed, err := run.Output()
	if err != nil {
		t.Fatalf("%s\n%v: %s", command, err, complaint.String())
	}
	return string(printed)
}

// needsCommands skips the test if a program that the shown commands use is missing.
func needsCommands(t *testing.T) {
	t.Helper()
	for _, program := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: deliveries shown on the pages: %v", err)
		}
	}
}

// keyID creates an API key for hooks and returns its id.
func (a *account) keyID(t *testing.T) string {
	t.Helper()
	var key struct{ ID string }
	a.call(t, http.MethodPost, "/api/keys", map[string]any{"name": "Key of a hook", "scope": "organization"}, &key)
	return key.ID
}

// hook creates a hook for GitHub without a filter.
func (a *account) hook(t *testing.T, name, agent string) (id string) {
	t.Helper()
	var made struct{ ID string }
	a.call(t, http.MethodPost, "/api/hooks", map[string]any{
		"name": name, "agentId": agent, "keyId": a.keyID(t), "source": "github", "messageTemplate": "Issue {{issue.title}}",
	}, &made)
	return made.ID
}

// deliver sends a delivery as the hook's source would.
func (a *account) deliver(t *testing.T, hook, title string) {
	t.Helper()
	payload := map[string]any{"action": "opened", "issue": map[string]any{"title": title}}
	a.call(t, http.MethodPost, fmt.Sprintf("/api/hooks?id=%s&action=test", hook), map[string]any{"event": "issues", "payload": payload}, nil)
}
