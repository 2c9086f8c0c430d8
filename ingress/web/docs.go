package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	text "text/template"

	"parley/ingress/internal/guides"
	"parley/ingress/internal/openapi"
)

// Docs is the data for the two pages of the API reference: the document, and the base URL that its
// examples use. The two pages show different parts of the document.
type Docs struct {
	openapi.Reference
	BaseURL string
}

// Guides is the data for the documentation's first page and for its pages. Page is nil on the first
// page, which shows the results of a search if Query is not empty. BaseURL is the base URL that the
// code on the pages uses.
type Guides struct {
	Title, Version string
	BaseURL        string
	Chapters       []guides.Chapter
	Page           *guides.Page
	Query          string
	// Sections that were found; nil without a search.
	Results []guides.Result
}

// At returns the path of the page, or "" on the first page. The navigation uses it to mark the
// current page.
func (g Guides) At() string {
	if g.Page == nil {
		return ""
	}
	return g.Page.Path
}

// Errors is the data for the page of error codes. Example is a problem document as JSON. Fields and
// Runs are the codes of invalid fields and of failed runs.
type Errors struct {
	Title, Version, Example string
	Codes                   []openapi.ErrorCode
	Fields, Runs            []openapi.Word
}

// LLMs is the data for the text for language models. Samples are example requests. The text has the
// same contents as the API reference, in Markdown.
type LLMs struct {
	Docs
	Samples []openapi.Sample
}

//go:embed pages/llms.txt pages/favicon.svg
var documents embed.FS

// llms is the template of the text for language models. Its values are not escaped, because the
// result is not HTML.
var llms = text.Must(text.ParseFS(documents, "pages/llms.txt"))

// functions are the functions that templates may call. An error of a function ends the rendering.
var functions = template.FuncMap{
	"credential": credential, "spans": openapi.ParseSpans, "bundled": bundled, "slug": slug, "text": formatText, "tries": tries,
}

// slug returns the URL fragment that leads to a chapter with the given title. Titles of chapters
// are single words.
func slug(title string) string { return strings.ToLower(title) }

// tries reports whether the console of the API reference can send requests of an operation. This is
// the case if a login session or the demo suffices, or if no credential is needed. credentials are
// the names of the security schemes; none means that no credential is needed.
func tries(credentials []string) bool {
	return len(credentials) == 0 || slices.Contains(credentials, "sessionCookie") || slices.Contains(credentials, "demo")
}

// credential returns the name that the pages show for a security scheme's credential. It returns ""
// for an unknown scheme.
func credential(scheme string) string {
	return map[string]string{
		"apiKey": "API key", "sessionToken": "session token", "sessionCookie": "session cookie", "clientSecret": "client secret",
		"demo": "demo mode", "widgetToken": "widget token",
	}[scheme]
}

// RenderDocs returns the API reference as HTML, without the fields of its schemas. The result is
// the same for all readers.
func RenderDocs(data Docs) ([]byte, error) { return render("docs.html", data) }

// RenderSchemas returns the page that lists the schemas of the API reference and their fields, as
// HTML. Each schema has an anchor; see openapi.Schema.Link.
func RenderSchemas(data Docs) ([]byte, error) { return render("schemas.html", data) }

// RenderGuides returns the documentation's first page, or one of its pages, as HTML. The URL in the
// code of a page is replaced by data.BaseURL.
func RenderGuides(data Guides) ([]byte, error) {
	if data.Page == nil {
		return render("guides.html", data)
	}

	// Copy the page, which is shared by all requests.
	page := *data.Page
	page.Body = template.HTML(strings.ReplaceAll( //nolint:gosec // the body is HTML, and the URL is escaped
		string(page.Body), guides.LocalURL, template.HTMLEscapeString(data.BaseURL)))
	data.Page = &page
	return render("guide.html", data)
}

// RenderErrors returns the page of error codes as HTML. The type in each error response links to
// it.
func RenderErrors(data Errors) ([]byte, error) { return render("errors.html", data) }

// RenderLLMs returns the text for language models, in Markdown. The text is UTF-8.
func RenderLLMs(data LLMs) ([]byte, error) {
	var out bytes.Buffer
	if err := llms.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("rendering llms.txt: %w", err)
	}
	return out.Bytes(), nil
}

// DocsSecurityPolicy is the Content-Security-Policy of the documentation. It allows style sheets and scripts from this host, the
// form of the search, and requests to this host.
const DocsSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// FaviconSecurityPolicy is the Content-Security-Policy of the service's icon, which loads nothing and
// contains no styles.
const FaviconSecurityPolicy = "default-src 'none'"

// Favicon returns the service's icon, as SVG. The icon has styles for light and dark.
func Favicon() ([]byte, error) {
	picture, err := documents.ReadFile("pages/favicon.svg")
	if err != nil {
		return nil, fmt.Errorf("reading favicon: %w", err)
	}
	return picture, nil
}
