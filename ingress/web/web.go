package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy is the policy for pages without scripts. It allows style sheets and images from this host, and forms
// that are sent to this host.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// DashboardSecurityPolicy is the policy for the dashboard. It allows scripts from this host and
// requests to this host, and forbids scripts to turn text into HTML.
const DashboardSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Login is the data for the login page.
type Login struct {
	Problem string // why signing in failed; empty if it did not fail
	Email   string // the email address as typed
	Next    string // path of the page to open after signing in; empty: the dashboard's first page

	OpenID   bool // whether the page offers to sign in with the organization's identity provider
	TakeOver bool // whether the page offers to take over the email address by signing in with the identity provider

	Owner string // email address of the account that this process has created; empty: none, or the client may not see it
	Links bool   // whether each start of the process prints a login link
	Reset string // command that prints a link to set a new password, without the account
}

// Signup is the data for the page that creates an account.
type Signup struct{ Problem, Name, Email, Next string }

// Accept is the data for an invitation's page. SignedIn is true if the browser has a login session
// of the invited person.
type Accept struct {
	Token               string
	Organization, Email string
	As                  string // the role with its indefinite article, for example "a member"
	SignedIn            bool
	Problem             string
}

// Reset is the data for the page that sets a new password.
type Reset struct{ Token, Email, Problem string }

// Notice is the data for a page with a single message. Problem is true if the message reports a failure, and Missing if the
// page does not exist.
type Notice struct {
	Title, Words     string
	Problem, Missing bool
}

// Boot is the data that the dashboard's page contains before its first request. Session is the response to GET
// /api/auth/session, or nil without a session. BaseURL is the base URL that examples use. Reset is
// the command that prints a link to set a new password, without the account. Currency is the
// currency of costs, as an ISO 4217 code.
type Boot struct {
	Session  any    `json:"session"`
	BaseURL  string `json:"baseUrl"`
	Reset    string `json:"reset"`
	Currency string `json:"currency"`
}

// Preview is the data for a page that shows an agent's widget.
type Preview struct{ AgentID string }

//go:embed pages/*.html
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

// RenderLogin returns the login page as HTML.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

// RenderSignup returns the page for a new account as HTML.
func RenderSignup(data Signup) ([]byte, error) { return render("signup.html", data) }

// RenderAccept returns the page of an invitation as HTML.
func RenderAccept(data Accept) ([]byte, error) { return render("accept.html", data) }

// RenderReset returns the page for a new password as HTML.
func RenderReset(data Reset) ([]byte, error) { return render("reset.html", data) }

// RenderNotice returns a page with a single message as HTML.
func RenderNotice(data Notice) ([]byte, error) { return render("notice.html", data) }

// RenderPreview returns a page with an agent's widget as HTML.
func RenderPreview(data Preview) ([]byte, error) { return render("preview.html", data) }

// RenderDashboard returns the dashboard's single page as HTML.
func RenderDashboard(data Boot) ([]byte, error) {
	boot, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("rendering dashboard: %w", err)
	}
	return render("dashboard.html", struct{ Boot string }{string(boot)})
}

func render(page string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", page, err)
	}
	return out.Bytes(), nil
}
