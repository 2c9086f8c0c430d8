package attach

import (
	"bytes"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"parley/shared/imageinfo"
)

// headBytes is the number of bytes at the beginning of a file's content from which its type is
// detected.
const headBytes = 4096

// pdfType is the media type of PDF documents.
const pdfType = "application/pdf"

// archives maps extensions to the media types of document formats that are ZIP archives. A ZIP
// archive of another kind is not accepted.
var archives = map[string]string{
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".epub": "application/epub+zip",
}

// texts maps extensions to the media types of text formats. Other types that begin with text/ are
// accepted as plain text.
var texts = map[string]string{
	".html": "text/html", ".htm": "text/html", ".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain",
	".csv": "text/csv", ".tsv": "text/tab-separated-values", ".json": "application/json", ".jsonl": "application/jsonl", ".log": "text/plain",
}

// Supported names the accepted types in error messages. Types are detected by mediaType, which must
// accept exactly these.
const Supported = "PNG, JPEG, WebP and GIF images, and PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown, text, CSV and JSON documents"

// mediaType returns the media type of content that begins with head, or "" if the type is not
// accepted. A signature at the beginning of the content takes precedence over the declared type and
// over the extension of the name. name and declared come from the client and are not trusted: they
// only distinguish formats with the same signature. Text without a known extension is accepted if
// its type is missing or begins with text/.
func mediaType(name, declared string, head []byte) string {
	if image := imageinfo.Type(head); image != "" {
		return image
	}
	if bytes.Contains(head[:min(len(head), 1024)], []byte("%PDF-")) {
		return pdfType
	}

	// From here on, the formats have no signature of their own, or share that of ZIP archives.
	extension := strings.ToLower(path.Ext(name))
	said, _, err := mime.ParseMediaType(declared)
	if err != nil {
		said = ""
	}

	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return among(archives, extension, said)
	}
	if !isText(head) {
		return ""
	}

	known := among(texts, extension, said)
	switch {
	case known != "":
		return known
	case said == "text/x-markdown":
		return "text/markdown"
	case strings.HasPrefix(said, "text/"), (said == "" || said == "application/octet-stream") && extension == "":
		return "text/plain"
	default:
		return ""
	}
}

// among returns the declared type, said, if it is a value in the map known. Otherwise it returns
// the type to which known maps the extension, or "". extension is in lower case, and begins with a
// dot unless it is empty.
func among(known map[string]string, extension, said string) string {
	for _, is := range known {
		if is == said {
			return is
		}
	}
	return known[extension]
}

// isText reports whether the beginning of a file's content may be text: UTF-8, UTF-16 with a byte
// order mark, or a single-byte encoding without control characters. Invalid UTF-8 may be another
// encoding, or a character that is cut off at the end of head.
func isText(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return true
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	if utf8.Valid(head) {
		return true
	}

	// Bytes that are no UTF-8 count as characters above the controls. Escape is permitted, because
	// some encodings use it.
	controls := bytes.IndexFunc(head, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' && r != 0x1b })
	return controls < 0
}
