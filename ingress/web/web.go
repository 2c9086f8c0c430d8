package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy is the policy for pages without scripts. It allows style sheets and images
// from this host, and forms that are sent to this host. Pages with this policy cannot be embedded
// in frames.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// DashboardSecurityPolicy is the policy for the dashboard. It allows scripts from this host and
// requests to this host, and forbids scripts to turn text into HTML. Images may also be created by
// scripts, from blobs.
const DashboardSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Login is the data for the login page. All texts are escaped by the template.
type Login struct {
	Problem string // why signing in failed; empty if it did not fail
	Email   string // the email address as typed
	Next    string // path of the page to open after signing in; empty: the dashboard's first page

	OpenID   bool // whether the page offers to sign in with the organization's identity provider
	TakeOver bool // whether the page offers to take over the email address by signing in with the identity provider

	Owner string // email address of the account that this process has created; empty: none, or the client may not see it
	Links bool   // whether each start of the process prints a login link
	Reset string // command that prints a link to set a new password; the account must be appended to it
}

// Signup is the data for the page that creates an account. Problem is "" before the first attempt;
// the other fields contain the person's input.
type Signup struct{ Problem, Name, Email, Next string }

// Accept is the data for an invitation's page. SignedIn is true if the browser has a login session
// of the invited person. Email is the invited address.
type Accept struct {
	// Token of the invitation's link, which the form sends back.
	Token               string
	Organization, Email string
	As                  string // the role with its indefinite article, for example "a member"
	SignedIn            bool
	Problem             string
}

// Reset is the data for the page that sets a new password. Email is the address of the account.
type Reset struct{ Token, Email, Problem string }

// Notice is the data for a page with a single message. Problem is true if the message reports a
// failure, and Missing if the page does not exist. Title is the page's title, and Words its
// message.
type Notice struct {
	Title, Words     string
	Problem, Missing bool
}

// Boot is the data that the dashboard's page contains before its first request. Session is the
// response to GET /api/auth/session, or nil without a session. BaseURL is the base URL that
// examples use. Reset is the command that prints a link to set a new password; the account must be
// appended. Currency is the currency of costs, as an ISO 4217 code. Scripts read the data from an
// element of the page.
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

// pages are the templates of all pages. They are parsed when the process starts, so a faulty
// template ends the process at once.
var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

// RenderLogin returns the login page as HTML. The page works without scripts.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

// RenderSignup returns the page for a new account as HTML. The page works without scripts.
func RenderSignup(data Signup) ([]byte, error) { return render("signup.html", data) }

// RenderAccept returns the page of an invitation as HTML. It has forms to accept and to decline.
func RenderAccept(data Accept) ([]byte, error) { return render("accept.html", data) }

// RenderReset returns the page for a new password as HTML. It has a single field.
func RenderReset(data Reset) ([]byte, error) { return render("reset.html", data) }

// RenderNotice returns a page with a single message as HTML. It has links to the dashboard and the
// documentation.
func RenderNotice(data Notice) ([]byte, error) { return render("notice.html", data) }

// RenderPreview returns a page with an agent's widget as HTML. The page loads the widget's script,
// as other sites do.
func RenderPreview(data Preview) ([]byte, error) { return render("preview.html", data) }

// RenderDashboard returns the dashboard's single page as HTML. The boot data is part of the page,
// so that the dashboard starts without a request.
func RenderDashboard(data Boot) ([]byte, error) {
	boot, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("rendering dashboard: %w", err)
	}
	return render("dashboard.html", struct{ Boot string }{string(boot)})
}

// render returns a page. The error names the page. Values are escaped by the template, according to
// their position.
func render(page string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", page, err)
	}
	return out.Bytes(), nil
}
