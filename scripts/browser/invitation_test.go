package browser

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// resetLink creates a password reset link for the account, as an operator does. Using the link
// verifies the account's email address.
func (a *account) resetLink(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), "reset-password", a.email)
	cmd.Env = append(os.Environ(), "DATA_DIR="+filepath.Join(a.s.dir, "data"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("creating a reset link: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestOwnInvitations accepts and declines invitations in the dashboard, and leaves an organization
// again. A user whose email address is not verified can neither accept nor decline.
func TestOwnInvitations(t *testing.T) {
	t.Parallel()
	host, other, guest := signUp(t), signUp(t), signUp(t)
	host.call(t, http.MethodPut, "/api/organizations?id="+host.organization(t), map[string]any{"name": "Host"}, nil)
	other.call(t, http.MethodPut, "/api/organizations?id="+other.organization(t), map[string]any{"name": "Other"}, nil)
	for _, inviting := range []*account{host, other} {
		inviting.call(t, http.MethodPost, "/api/organizations/members", map[string]any{"email": guest.email, "role": "member"}, nil)
	}

	host.agent(t, "Shared agent", map[string]any{"model": "offline/echo"})

	alone := open(t).signIn(host)
	alone.visit("/dashboard/org")
	alone.sees("You are the only owner. To leave, first make another member an owner.")
	var disabled bool
	alone.js(&disabled, `() => [...document.querySelectorAll("button")].find((b) => b.ariaLabel?.startsWith("Leave: ")).disabled`)
	if !disabled {
		t.Error("the only owner can press Leave")
	}

	unproven := open(t).signIn(guest)
	unproven.visit("/dashboard/org")
	unproven.sees("open the link that you received")
	unproven.inspect("org-unproven")
	unproven.watch.expect(401) // the password reset below revokes the session

	p := open(t)
	p.visitURL(guest.resetLink(t))
	p.inspect("reset")
	p.fill("New password", "another long password")
	p.click("button", "Set password and sign in")
	p.arrives("/dashboard")
	p.visit("/dashboard/org")
	p.is("button", "Accept the invitation from Host")
	p.inspect("org-invited")
	p.click("button", "Decline the invitation from Other")
	p.in("dialog", "Decline the invitation from “Other”?").click("button", "Decline")
	p.sees("You declined the invitation from “Other”.")
	p.click("button", "Accept the invitation from Host")
	p.arrives("/dashboard")
	p.click("link", "Agents")
	p.is("link", "Shared agent")
	p.visit("/dashboard/org")
	p.sees("You have no open invitations.")
	p.click("button", "Leave: "+guest.email)
	p.in("dialog", "Leave the organization?").click("button", "Leave")
	p.arrives("/dashboard")
	p.click("link", "Agents")
	p.is("heading", "No agents yet")
	if p.has("link", "Shared agent") {
		t.Error("a former member still sees the organization's agents")
	}
}
