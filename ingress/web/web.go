package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy lets browsers load the style sheet of pages without scripts and send their
// forms to the service.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// DashboardSecurityPolicy lets the dashboard run its own scripts and call the service, and forbids
// making HTML of text.
const DashboardSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Login is the data of the login page. Problem is why a login failed; Email is what was typed.
// OpenID offers a login by a provider, and TakeOver taking the address over by it. Next is the page
// requested, empty for the first one.
type Login struct {
	Problem string
	Email   string
	Next    string
	OpenID  bool

	TakeOver bool
}

// Signup is the data of the sign-up page.
type Signup struct{ Problem, Name, Email, Next string }

// Accept is the data of an invitation's page. SignedIn is set if the invited person is logged in
// here.
type Accept struct {
	Token               string
	Organization, Email string
	As                  string // the role, such as "a member"
	SignedIn            bool
	Problem             string
}

// Reset is the data of the page for a new password.
type Reset struct{ Token, Email, Problem string }

// Notice is a page with a message. Problem marks it as a failure.
type Notice struct {
	Title, Words string
	Problem      bool
}

// Boot is the data of the dashboard at its start: the login session as GET /api/auth/session
// returns it, or nil, and the base address of examples.
type Boot struct {
	Session any    `json:"session"`
	BaseURL string `json:"baseUrl"`
}

// Preview is the data of a page with an agent's widget.
type Preview struct{ AgentID string }

//go:embed pages/*.html
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

// RenderLogin renders the login page as HTML.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

// RenderSignup renders the sign-up page as HTML.
func RenderSignup(data Signup) ([]byte, error) { return render("signup.html", data) }

// RenderAccept renders an invitation's page as HTML.
func RenderAccept(data Accept) ([]byte, error) { return render("accept.html", data) }

// RenderReset renders the page for a new password as HTML.
func RenderReset(data Reset) ([]byte, error) { return render("reset.html", data) }

// RenderNotice renders a page with a message as HTML.
func RenderNotice(data Notice) ([]byte, error) { return render("notice.html", data) }

// RenderPreview renders the page with an agent's widget as HTML.
func RenderPreview(data Preview) ([]byte, error) { return render("preview.html", data) }

// RenderDashboard renders the dashboard's page as HTML.
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
