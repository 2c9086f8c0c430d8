package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy is what the pages without scripts allow browsers to load, their own style sheet, and where their forms go.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// DashboardSecurityPolicy is what the dashboard allows browsers to do: to run and ask what is ours, and to make no HTML of text.
const DashboardSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Login is what the login page shows: Problem, when signing in did not work, says why; Email is what was typed;
// OpenID offers to sign in by a provider, TakeOver to take the address over by that; Next is the page that was asked for,
// empty for the first one.
type Login struct {
	Problem string
	Email   string
	Next    string
	OpenID  bool

	TakeOver bool
}

// Signup is what the page for a new account shows.
type Signup struct{ Problem, Name, Email, Next string }

// Accept is what the page of an invitation shows. SignedIn says that the invited person holds a session here already.
type Accept struct {
	Token               string
	Organization, Email string
	As                  string // the role, such as "a member"
	SignedIn            bool
	Problem             string
}

// Reset is what the page for a new password shows.
type Reset struct{ Token, Email, Problem string }

// Notice is a page that only says something. Problem says that it is about a failure.
type Notice struct {
	Title, Words string
	Problem      bool
}

// Boot is what the dashboard knows before its first request: who is signed in, as GET /api/auth/session says it, or nil, and
// the address that examples use.
type Boot struct {
	Session any    `json:"session"`
	BaseURL string `json:"baseUrl"`
}

// Preview is a page that holds the widget of an agent.
type Preview struct{ AgentID string }

//go:embed pages/*.html
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

// RenderLogin gives the login page as HTML.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

// RenderSignup gives the page for a new account as HTML.
func RenderSignup(data Signup) ([]byte, error) { return render("signup.html", data) }

// RenderAccept gives the page of an invitation as HTML.
func RenderAccept(data Accept) ([]byte, error) { return render("accept.html", data) }

// RenderReset gives the page for a new password as HTML.
func RenderReset(data Reset) ([]byte, error) { return render("reset.html", data) }

// RenderNotice gives a page that only says something as HTML.
func RenderNotice(data Notice) ([]byte, error) { return render("notice.html", data) }

// RenderPreview gives the page that holds an agent's widget as HTML.
func RenderPreview(data Preview) ([]byte, error) { return render("preview.html", data) }

// RenderDashboard gives the dashboard's one page as HTML.
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
