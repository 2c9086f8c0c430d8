package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
)

// ContentSecurityPolicy is what the pages allow browsers to load: their own style sheet.
const ContentSecurityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Login is what the login page shows: Problem, when a link did not work, says why.
type Login struct{ Problem string }

// Dashboard is what the dashboard shows: who is signed in where, and the address that examples use.
type Dashboard struct {
	Name, Email                  string
	Organization, OrganizationID string
	Role                         string
	BaseURL                      string
}

//go:embed pages/*.html pages/style.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages/*.html"))

// RenderLogin gives the login page as HTML.
func RenderLogin(data Login) ([]byte, error) { return render("login.html", data) }

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
