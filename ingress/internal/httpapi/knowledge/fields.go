package knowledge

import (
	"mime"
	"path"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// Bounds of what is said of documents, in characters and entries.
const (
	maxDocumentName = 255
	maxMIMEType     = 255

	namelessDocument = "document"
	octetStream      = "application/octet-stream"
)

// documentName is what a document is called: the last part of a name, without what cannot be seen in it or turns it
// around. Whoever made the file, or wrote the page that sends it, chose the name: a list, a log and a reader's eye are to take it
// for no more than that.
func documentName(p *httpx.Problems, at, name string) string {
	before := len(p.List)
	p.Text(at, name, 0, len(name)) // it may be a path
	if name != "" && strings.TrimSpace(name) == "" {
		p.Add(at, httpx.CodeInvalidValue, "must not be only white space")
	}
	if len(p.List) > before {
		return ""
	}
	if name = domain.CleanName(name, len(name)); name == "" {
		return namelessDocument
	}
	p.Text(at, name, 1, maxDocumentName)
	return name
}

// documentTypes are the types of documents that can be read, by the extensions of their names.
var documentTypes = map[string]string{
	".pdf":      "application/pdf",
	".docx":     "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx":     "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".xlsx":     "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".epub":     "application/epub+zip",
	".html":     "text/html",
	".htm":      "text/html",
	".md":       "text/markdown",
	".markdown": "text/markdown",
	".txt":      "text/plain",
	".csv":      "text/csv",
	".json":     httpx.ContentJSON,
}

// documentType is the type that a sender says a document to have, or what its name says, or other.
func documentType(p *httpx.Problems, at, said, name, other string) string {
	if said == "" || said == octetStream { // which browsers say of what they do not know
		if known, found := documentTypes[strings.ToLower(path.Ext(name))]; found {
			return known
		}
		return other
	}
	media, parameters, err := mime.ParseMediaType(said)
	if err != nil || !strings.Contains(media, "/") || len(said) > maxMIMEType {
		p.Add(at, httpx.CodeInvalidValue, "must be a media type, such as application/pdf")
		return ""
	}
	kept := map[string]string{}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") { // the only one that helps to read it
		kept["charset"] = charset
	}
	return mime.FormatMediaType(media, kept)
}

// shownDocument is a document as callers see it: lists and objects are never null.
func shownDocument(d domain.Document) domain.Document {
	if d.Notes == nil {
		d.Notes = []string{}
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	return d
}
