package parse

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/charset"
	"parley/workers/internal/parse/pack"
)

// kind is the detected type of a document, with a note for the person who uploaded the document.
// note is "" unless the extension of the name contradicts the content.
type kind struct{ mimeType, note string }

// detect returns the type of a document. It examines the first bytes, the names in an archive and,
// for text, the document's name. There may be no reader for the type.
//
// It fails with the code no_text for an empty document, with the code password_protected for an
// encrypted Office document, and with the errors of package pack.
func detect(in Input) (kind, error) {
	content := in.Content
	if len(bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\xEF\xBB\xBF")))) == 0 {
		return kind{}, &document.Failure{Code: document.NoText, Message: "The document is empty."}
	}

	// A signature in the content is more reliable than the document's name.
	var is string
	var err error
	switch {
	case isPDF(content):
		is = PDF
	case isArchive(content):
		is, err = detectArchive(content)
	case isCompound(content):
		is, err = detectCompound(content)
	default:
		is = detectText(in)
	}
	if err != nil {
		return kind{}, err
	}
	return kind{mimeType: is, note: extensionNote(in.Name, is)}, nil
}

// IsText reports whether a document is neither a PDF nor an archive. Such a document is text, or
// its format is not supported.
func IsText(content []byte) bool {
	return !isPDF(content) && !isArchive(content) && !isCompound(content)
}

// isPDF reports whether a document is a PDF. The signature need not come first, because some
// programs write other bytes before it.
func isPDF(content []byte) bool {
	return bytes.Contains(content[:min(len(content), 1024)], []byte("%PDF-"))
}

// isArchive reports whether a document is a ZIP archive. An empty archive has a signature of its
// own.
func isArchive(content []byte) bool {
	return bytes.HasPrefix(content, []byte("PK\x03\x04")) || bytes.HasPrefix(content, []byte("PK\x05\x06"))
}

// isCompound reports whether a document has Microsoft's compound format, which is used for old
// Office documents and for encrypted ones.
func isCompound(content []byte) bool {
	return bytes.HasPrefix(content, []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"))
}

// extensionNote returns a note if the extension of a file's name contradicts the file's content,
// and otherwise "".
func extensionNote(name, is string) string {
	// Texts often have the extension of another text format, so such an extension needs no note.
	said, ok := extensions[extension(name)]
	if !ok || said == is || isTextType(said) && isTextType(is) || typeNames[is] == "" {
		return ""
	}
	return fmt.Sprintf("The file's name suggests %s, but the file is %s and was read as such.", typeNames[said], typeNames[is])
}

// isTextType reports whether a supported format is a text format. The content of a document often
// does not show which text format it has.
func isTextType(mimeType string) bool {
	switch mimeType {
	case HTML, Markdown, Text, CSV, TSV, JSON, JSONLines:
		return true
	default:
		return false
	}
}

// extension returns the extension of a file's name in lower case, including the dot.
func extension(name string) string { return strings.ToLower(path.Ext(strings.TrimSpace(Clean(name)))) }

// mainParts maps the content type of an Office package's main part to the package's MIME type.
// Templates and documents with macros are read like ordinary documents.
var mainParts = []struct{ part, is string }{
	{"wordprocessingml.document.main+xml", DOCX},
	{"wordprocessingml.template.main+xml", DOCX},
	{"ms-word.document.macroenabled.main+xml", DOCX},
	{"ms-word.template.macroenabledtemplate.main+xml", DOCX},
	{"presentationml.presentation.main+xml", PPTX},
	{"presentationml.slideshow.main+xml", PPTX},
	{"presentationml.template.main+xml", PPTX},
	{"ms-powerpoint.presentation.macroenabled.main+xml", PPTX},
	{"ms-powerpoint.slideshow.macroenabled.main+xml", PPTX},
	{"spreadsheetml.sheet.main+xml", XLSX},
	{"spreadsheetml.template.main+xml", XLSX},
	{"ms-excel.sheet.macroenabled.main+xml", XLSX},
	{"ms-excel.template.macroenabled.main+xml", XLSX},
	{"ms-excel.sheet.binary.macroenabled.main", xlsb},
	{"ms-package.xps-fixeddocumentsequence+xml", "application/vnd.ms-xpsdocument"},
}

// detectArchive returns the type of a ZIP archive: an Office format, EPUB, another format that is
// based on ZIP, or application/zip. Its errors are those of package pack.
func detectArchive(content []byte) (string, error) {
	a, err := pack.Open(content)
	if err != nil {
		return "", err
	}

	// An Office package contains a part that lists the types of its other parts.
	types, err := optional(a, "[Content_Types].xml")
	if err != nil {
		return "", err
	}

	// Some programs capitalize content types differently.
	lower := bytes.ToLower(types)
	for _, m := range mainParts {
		if bytes.Contains(lower, []byte(m.part)) {
			return m.is, nil
		}
	}

	// EPUB and OpenDocument packages state their type in a separate part.
	declared, err := optional(a, "mimetype")
	if err != nil {
		return "", err
	}

	switch is := strings.TrimSpace(string(declared[:min(len(declared), 100)])); {
	case is == EPUB || a.Has("META-INF/container.xml"):
		return EPUB, nil
	case strings.HasPrefix(is, "application/vnd.oasis.opendocument"), strings.HasPrefix(is, "application/vnd.sun.xml"):
		return is, nil
	case a.Has("Index/Document.iwa"):
		return iwork, nil
	}

	// The library also recognizes Office formats if the main part is missing, but such documents
	// cannot be read.
	if m := mimetype.Detect(content); typeNames[base(m.String())] != "" && !m.Is(DOCX) && !m.Is(PPTX) && !m.Is(XLSX) && !m.Is(EPUB) {
		return base(m.String()), nil
	}
	return "application/zip", nil
}

// optional returns the content of a part of an archive, or an empty one if the part is missing.
func optional(a *pack.Archive, name string) ([]byte, error) {
	content, err := a.Read(name)
	if errors.Is(err, pack.ErrNoPart) {
		return nil, nil
	}
	return content, err
}

// detectCompound returns the type of a file in Microsoft's compound format. It does not parse the
// file's directory, but searches the whole file for names that the directory may contain. If it
// finds none, it uses the type that the library detects.
func detectCompound(content []byte) (string, error) {
	has := func(name string) bool { return bytes.Contains(content, utf16Name(name)) }
	// An encrypted document contains the original package in a stream with the name
	// EncryptedPackage.
	switch {
	case has("EncryptedPackage"):
		return "", &document.Failure{
			Code: document.Encrypted, Message: "The document is protected by a password. Remove the protection and send it again.",
		}
	case has("WordDocument"):
		return "application/msword", nil
	case has("PowerPoint Document"):
		return "application/vnd.ms-powerpoint", nil
	case has("Workbook"), has("Book\x00"):
		return "application/vnd.ms-excel", nil
	case has("__properties_version1.0"):
		return "application/vnd.ms-outlook", nil
	}

	if is := base(mimetype.Detect(content).String()); typeNames[is] != "" {
		return is, nil
	}
	return "application/x-ole-storage", nil
}

// utf16Name returns an ASCII name in UTF-16, which is the encoding of names in the directory of a
// compound file.
func utf16Name(s string) []byte {
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		b = append(b, s[i], 0)
	}
	return b
}

// detectText returns the type of a document that has no known signature. Usually this is a text
// format. Otherwise it is the type that the library detects, for which there is no reader.
func detectText(in Input) string {
	head := in.Content[:min(len(in.Content), 64<<10)]
	if bytes.HasPrefix(head, []byte(`{\rtf`)) {
		return "application/rtf"
	}
	if bytes.HasPrefix(head, []byte("%!PS")) {
		return "application/postscript"
	}

	// UTF-16 and UTF-32 texts contain zero bytes, so check these encodings before treating zero
	// bytes as binary data. Cut off an incomplete unit at the end of head. A unit has two or four
	// bytes.
	wide, isWide := charset.Wide(head[:len(head)&^3])
	if !isWide {
		if is := base(mimetype.Detect(in.Content).String()); isBinaryType(is, head) {
			return is
		}
	} else {
		head = []byte(wide)
	}
	return textFor(in, strings.ToLower(string(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n\f"))))
}

// textFor returns the text format of a document. start is the beginning of the document in lower
// case. HTML, SVG and JSON are recognized by their content, and other formats by the declared type.
// The default is plain text.
func textFor(in Input, start string) string {
	said := declaredType(in)
	switch {
	case looksLikeHTML(start), said == HTML && strings.Contains(start, "<"):
		return HTML
	case strings.HasPrefix(start, "<svg"):
		return "image/svg+xml"
	case said == JSON || said == JSONLines || said == CSV || said == TSV || said == Markdown:
		return said
	case said == "" && (strings.HasPrefix(start, "{\"") || strings.HasPrefix(start, "[{")):
		return JSON
	default:
		return Text
	}
}

// isBinaryType reports whether a type is not text. A document of unknown type may be text in any
// single-byte encoding, so it is considered text if it contains no zero bytes, or if it is UTF-8
// with few zero bytes. The argument is contains the type that the library has detected. head is the
// beginning of the document.
func isBinaryType(is string, head []byte) bool {
	switch {
	case is == "application/octet-stream":
		return bytes.IndexByte(head, 0) >= 0 && (!utf8.Valid(head) || bytes.Count(head, []byte{0})*50 > len(head))
	case strings.HasPrefix(is, "text/"), strings.HasSuffix(is, "+xml"), strings.HasSuffix(is, "json"), is == "application/javascript",
		is == "application/x-ndjson", is == "application/xml", strings.HasPrefix(is, "application/x-subrip"):
		return is == "image/svg+xml"
	default:
		return bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:min(len(head), 256)]) || typeNames[is] != ""
	}
}

// looksLikeHTML reports whether a text begins like HTML. start is the beginning of the text in
// lower case.
func looksLikeHTML(start string) bool {
	// An XML declaration and comments may precede the first element, so skip them.
	if strings.HasPrefix(start, "<?xml") {
		_, start, _ = strings.Cut(start, "?>")
	}
	for strings.HasPrefix(strings.TrimSpace(start), "<!--") {
		_, after, found := strings.Cut(start, "-->")
		if !found {
			return false
		}
		start = after
	}

	start = strings.TrimSpace(start)
	for _, tag := range []string{"<!doctype html", "<html", "<head", "<body", "<title>", "<meta "} {
		if strings.HasPrefix(start, tag) {
			return true
		}
	}
	return false
}

// declaredType returns the type for the extension of the document's name. If the extension is
// unknown, declaredType returns the text format that the sender declared, or "" if the sender
// declared none.
func declaredType(in Input) string {
	if is := extensions[extension(in.Name)]; is != "" {
		return is
	}
	is := base(in.MIMEType)
	if other := aliases[is]; other != "" {
		return other
	}

	// Senders declare files of many formats as text/plain, so ignore this type.
	if typeNames[is] != "" && isTextType(is) && is != Text {
		return is
	}
	return ""
}

// base returns a MIME type in lower case without parameters.
func base(mimeType string) string {
	is, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		is, _, _ = strings.Cut(mimeType, ";")
	}
	return strings.ToLower(strings.TrimSpace(is))
}

// convertible lists formats without a reader. The programs that create such documents can also save
// them in a supported format.
var convertible = []string{
	"application/rtf", "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint", iwork, xlsb,
	"application/postscript", "application/vnd.ms-xpsdocument",
}

// unsupported returns the failure for a type that has no reader. Its message names the type and, if
// possible, a way to convert the document.
func unsupported(is string) error {
	what, how := typeNames[is], ""
	switch {
	case strings.HasPrefix(is, "image/") && is != "image/svg+xml" && is != "image/vnd.djvu":
		what, how = "an image", " Images are read only inside PDF documents: convert the image to PDF, and send the PDF."
	case strings.HasPrefix(is, "audio/"):
		what = "an audio recording"
	case strings.HasPrefix(is, "video/"):
		what = "a video"
	case strings.HasPrefix(is, "font/"):
		what = "a font"
	case strings.HasPrefix(is, "application/vnd.oasis.opendocument"), strings.HasPrefix(is, "application/vnd.sun.xml"):
		what, how = "an OpenDocument file", " Save the document in the format of Word, Excel or PowerPoint, or as PDF, and send the new file."
	case slices.Contains(convertible, is):
		how = " Save the document in a current format (DOCX, XLSX, PPTX or PDF), and send the new file."
	case strings.HasSuffix(what, "archive"):
		how = " Send the files of the archive one by one."
	}

	if what == "" {
		what = "not a supported document format"
	}
	if how == "" {
		how = " Supported formats are PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown, text, CSV and JSON."
	}
	return &document.Failure{Code: document.Unsupported, Message: "The file is " + what + "." + how}
}
