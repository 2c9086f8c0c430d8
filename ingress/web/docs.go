package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	text "text/template"

	"parley/ingress/internal/openapi"
)

// Docs is the data of the API reference: the document, and the base address of its examples.
type Docs struct {
	openapi.Reference
	BaseURL string
}

// Errors is the data of the page of error codes. Example is a problem as JSON.
type Errors struct {
	Title, Version, Example string
	Codes                   []openapi.ErrorCode
	Fields, Runs            []openapi.Word
}

// LLMs is the data of the text for language models. Samples are the first requests to try.
type LLMs struct {
	Docs
	Samples []openapi.Sample
}

//go:embed pages/llms.txt pages/favicon.svg
var documents embed.FS

var llms = text.Must(text.ParseFS(documents, "pages/llms.txt"))

// functions are called by the templates.
var functions = template.FuncMap{"credential": credential, "spans": openapi.ParseSpans, "bundled": bundled}

// credential describes the credential of a security scheme.
func credential(scheme string) string {
	return map[string]string{
		"apiKey": "API key", "sessionToken": "session token", "sessionCookie": "session cookie", "clientSecret": "client secret",
		"demo": "demo mode", "widgetToken": "widget token",
	}[scheme]
}

// RenderDocs renders the API reference as HTML.
func RenderDocs(data Docs) ([]byte, error) { return render("docs.html", data) }

// RenderErrors renders the page of error codes as HTML.
func RenderErrors(data Errors) ([]byte, error) { return render("errors.html", data) }

// RenderLLMs renders the text for language models as Markdown.
func RenderLLMs(data LLMs) ([]byte, error) {
	var out bytes.Buffer
	if err := llms.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("rendering llms.txt: %w", err)
	}
	return out.Bytes(), nil
}

// DocsSecurityPolicy lets browsers load the documentation's style sheet only.
const DocsSecurityPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Favicon returns the icon of the service as SVG.
func Favicon() ([]byte, error) {
	picture, err := documents.ReadFile("pages/favicon.svg")
	if err != nil {
		return nil, fmt.Errorf("reading favicon: %w", err)
	}
	return picture, nil
}
