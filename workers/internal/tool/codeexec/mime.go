package codeexec

import (
	"bytes"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

// anyBytes is the MIME type of content that is not recognized. Browsers download such content but
// do not show it.
const anyBytes = "application/octet-stream"

// types lists MIME types by file name extension. A file must begin with the signature of its type.
// A type without a signature is for text.
var types = map[string]struct{ mime, signature string }{
	".csv":     {mime: "text/csv"},
	".css":     {mime: "text/css"},
	".docx":    {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK"},
	".geojson": {mime: "application/geo+json"},
	".gif":     {"image/gif", "GIF8"},
	".gz":      {"application/gzip", "\x1f\x8b"},
	".htm":     {mime: "text/html"},
	".html":    {mime: "text/html"},
	".ipynb":   {mime: "application/x-ipynb+json"},
	".jpeg":    {"image/jpeg", "\xff\xd8\xff"},
	".jpg":     {"image/jpeg", "\xff\xd8\xff"},
	".json":    {mime: "application/json"},
	".jsonl":   {mime: "application/jsonl"},
	".md":      {mime: "text/markdown"},
	".parquet": {"application/vnd.apache.parquet", "PAR1"},
	".pdf":     {"application/pdf", "%PDF-"},
	".png":     {"image/png", "\x89PNG\r\n\x1a\n"},
	".pptx":    {"application/vnd.openxmlformats-officedocument.presentationml.presentation", "PK"},
	".py":      {mime: "text/x-python"},
	".svg":     {mime: "image/svg+xml"},
	".tsv":     {mime: "text/tab-separated-values"},
	".txt":     {mime: "text/plain"},
	".webp":    {"image/webp", "RIFF"},
	".xlsx":    {"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "PK"},
	".xml":     {mime: "application/xml"},
	".yaml":    {mime: "application/yaml"},
	".yml":     {mime: "application/yaml"},
	".zip":     {"application/zip", "PK"},
}

// sniffed lists the types that may be detected from the content alone. Browsers do not execute
// content of these types.
var sniffed = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "application/pdf": true, "application/zip": true,
}

// mimeType returns the type for a file's extension if the content matches that type. Otherwise it
// detects the type from the content.
func mimeType(name string, content []byte) string {
	known, ok := types[strings.ToLower(path.Ext(name))]
	switch {
	// The extension is trusted only if the content does not contradict it.
	case ok && known.signature == "" && isText(content):
		return known.mime
	case ok && known.signature != "" && bytes.HasPrefix(content, []byte(known.signature)):
		return known.mime
	// A picture with the wrong extension is still shown as a picture.
	case sniffed[http.DetectContentType(content)]:
		return http.DetectContentType(content)
	case !ok && isText(content):
		return "text/plain"
	default:
		return anyBytes
	}
}

// isText reports whether content is text: UTF-8 without NUL.
func isText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
