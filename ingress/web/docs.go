package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	text "text/template"

	"parley/ingress/internal/openapi"
)

// Docs is what the reference shows: the document, and the address that its examples use.
type Docs struct {
	openapi.Reference
	BaseURL string
}

// Errors is what the page of error codes shows: Example is a problem as JSON.
type Errors struct {
	Title, Version, Example string
	Codes                   []openapi.ErrorCode
	Fields, Runs            []openapi.Word
}

// LLMs is what the text for language models shows: Samples are the requests to begin with.
type LLMs struct {
	Docs
	Samples []openapi.Sample
}

//go:embed pages/llms.txt pages/favicon.svg
var documents embed.FS

var llms = text.Must(text.ParseFS(documents, "pages/llms.txt"))

// functions are what the templates call.
var functions = template.FuncMap{"credential": credential, "spans": openapi.ParseSpans, "bundled": bundled}

// credential says in words what a security scheme of the document takes.
func credential(scheme string) string {
	return map[string]string{
		"apiKey": "API key", "sessionToken": "session token", "sessionCookie": "session cookie", "clientSecret": "client secret",
		"demo": "demo mode", "widgetToken": "widget token",
	}[scheme]
}

// RenderDocs gives the reference as HTML.
func RenderDocs(data Docs) ([]byte, error) { return render("docs.html", data) }

// RenderErrors gives the page of error codes as HTML.
func RenderErrors(data Errors) ([]byte, error) { return render("errors.html", data) }

// RenderLLMs gives the text for language models, in Markdown.
func RenderLLMs(data LLMs) ([]byte, error) {
	var out bytes.Buffer
	if err := llms.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("rendering llms.txt: %w", err)
	}
	return out.Bytes(), nil
}

// DocsSecurityPolicy is what the documentation lets browsers load: its own style sheet.
const DocsSecurityPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Favicon gives the picture that stands for the service, as SVG.
func Favicon() ([]byte, error) {
	picture, err := documents.ReadFile("pages/favicon.svg")
	if err != nil {
		return nil, fmt.Errorf("reading favicon: %w", err)
	}
	return picture, nil
}
