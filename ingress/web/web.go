package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy is what the pages allow browsers to load, their own style sheet, and where their forms go.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Login is what the login page shows: Problem, when signing in did not work, says why; Email is what was typed;
// OpenID offers to sign in by a provider.
type Login struct {
	Problem string
	Email   string
	OpenID  bool
}

// Accept is what the page of an invitation shows. SignedIn says that the invited person holds a session here
// already, Known that their address has an account.
type Accept struct {
	Token               string
	Organization, Email string
	As                  string // the role, such as "a member"
	SignedIn, Known     bool
	Problem             string
}

// Reset is what the page for a new password shows.
type Reset struct{ Token, Email, Problem string }

// Notice is a page that only says something.
type Notice struct{ Words string }

// Dashboard is what the dashboard shows: who is signed in where, and the address that examples use.
type Dashboard struct {
	Name, Email                  string
	Organization, OrganizationID string
	Role                         string
	BaseURL                      string
}

//go:embed pages/*.html pages/style.css
var files embed.FS

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

// RenderLogin gives the login page as HTML.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

// RenderAccept gives the page of an invitation as HTML.
func RenderAccept(data Accept) ([]byte, error) { return render("accept.html", data) }

// RenderReset gives the page for a new password as HTML.
func RenderReset(data Reset) ([]byte, error) { return render("reset.html", data) }

// RenderNotice gives a page that only says something as HTML.
func RenderNotice(data Notice) ([]byte, error) { return render("notice.html", data) }

// RenderDashboard gives the dashboard page as HTML.
func RenderDashboard(data Dashboard) ([]byte, error) { return render("dashboard.html", data) }

// StyleSheet gives the pages' CSS.
func StyleSheet() ([]byte, error) {
	css, err := files.ReadFile("pages/style.css")
	if err != nil {
		return nil, fmt.Errorf("reading style sheet: %w", err)
	}
	return css, nil
}

func render(page string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", page, err)
	}
	return out.Bytes(), nil
}
