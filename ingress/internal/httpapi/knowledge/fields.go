package knowledge

import (
	"mime"
	"path"
	"strings"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// Maximum lengths of a document's fields, in characters.
const (
	// Name of a document.
	maxDocumentName = 255
	// Media type with its parameters.
	maxMIMEType = 255

	// Name of a document whose name has only invisible characters.
	defaultName = "document"
	// Media type of content with an unknown type.
	octetStream = "application/octet-stream"
)

// documentName returns the last element of a path, without invisible and bidirectional characters.
// Senders may choose any name, but the result can safely be shown in lists and written to logs.
// Problems are added to p under the path at; the result is then "". A name of more than
// maxDocumentName characters is a problem.
func documentName(p *httpx.Problems, at, name string) string {
	before := len(p.List)
	p.Text(at, name, 0, len(name)) // a path may be longer than a name, so only its encoding is checked here
	if name != "" && strings.TrimSpace(name) == "" {
		p.Add(at, httpx.CodeInvalidValue, "must not be only white space")
	}
	if len(p.List) > before {
		return ""
	}
	if name = domain.CleanName(name, len(name)); name == "" {
		return defaultName
	}

	p.Text(at, name, 1, maxDocumentName)
	return name
}

// documentTypes maps file extensions to the media types from which the service can extract text.
// Keys are in lower case.
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

// documentType returns the declared media type of a document. If none is declared, it returns the
// type for the name's extension. If the extension is unknown, it returns the argument other. It
// removes the parameters of a declared type, except charset. An invalid type is added to p as a
// problem at the path at, and the result is "".
func documentType(p *httpx.Problems, at, declared, name, other string) string {
	if declared == "" || declared == octetStream { // browsers declare octetStream for unknown types
		if known, found := documentTypes[strings.ToLower(path.Ext(name))]; found {
			return known
		}
		return other
	}

	media, parameters, err := mime.ParseMediaType(declared)
	if err != nil || !strings.Contains(media, "/") || len(declared) > maxMIMEType {
		p.Add(at, httpx.CodeInvalidValue, "must be a media type, such as application/pdf")
		return ""
	}

	kept := map[string]string{}
	// Remove all parameters of the media type except charset, the only one needed to read the
	// document.
	if charset, present := parameters["charset"]; present && !strings.EqualFold(charset, "utf-8") {
		kept["charset"] = charset
	}
	return mime.FormatMediaType(media, kept)
}

// shownDocument returns a document in the form of responses, in which lists and objects are never
// null. It does not change d's lists and maps.
func shownDocument(d domain.Document) domain.Document {
	if d.Notes == nil {
		d.Notes = []string{}
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	return d
}
