package browser

import (
	"crypto/rand"
	"net/http"
	"testing"
)

// TestSignUpSignOutSignIn signs up as a new user, signs out, and signs in again.
func TestSignUpSignOutSignIn(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.watch.expect(http.StatusUnauthorized)
	p.visit("/dashboard/runs")
	p.arrives("/login")
	p.click("link", "Sign up")
	p.arrives("/signup")
	email, password := p.signsUp("Grace Example")
	p.is("heading", "Home")
	p.sees("Grace Example")

	p.click("button", "Account: Grace Example")
	p.click("button", "Sign out")
	p.arrives("/login")
	p.visit("/dashboard/runs") // after the logout, the page redirects to the login form
	p.arrives("/login")
	p.fill("Email address", email)
	p.fill("Password", "not "+password)
	p.click("button", "Sign in")
	p.is("alert", "")
	p.holds("Email address", email)
	p.inspect("login-refused")
	p.fill("Password", password)
	p.click("button", "Sign in")
	p.arrives("/dashboard/runs") // the login returns to the page that was requested before
	p.is("heading", "Runs")
}

// signsUp fills in the form for a new account, and returns the account's email address and
// password.
func (p *page) signsUp(name string) (email, password string) {
	p.t.Helper()
	email, password = rand.Text()+"@example.test", rand.Text()
	p.fill("Your name…", name)
	p.fill("Email address", email)
	p.fill("Choose a password", password)
	p.click("button", "Create account")
	p.arrives("/dashboard")
	return email, password
}
