package run

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
)

// messageContent is a message's content.
type messageContent struct {
	Text  string
	Parts []messagePart
}

// Either marks messageContent as a union: a text or a list of parts.
func (messageContent) Either() {}

// messagePart is a part of a message: a text, or an image or document in the form of the AI SDK or
// of AG-UI.
type messagePart struct {
	Type      string      `json:"type" required:"true"`
	Text      string      `json:"text"`
	URL       string      `json:"url"`       // AI SDK: of the file
	MediaType string      `json:"mediaType"` // AI SDK
	FileName  string      `json:"filename"`  // AI SDK
	Source    *partSource `json:"source"`    // AG-UI
}

// partSource says where AG-UI's images and documents come from.
type partSource struct {
	Type      string `json:"type"` // data, url or file
	Value     string `json:"value"`
	MediaType string `json:"mimeType"`
}

// messageText returns the text of a message that may not have files.
func messageText(found *httpx.Problems, where string, raw json.RawMessage) string {
	text, files := readContent(found, where, raw)
	for i := range files {
		found.Add(files[i].Field, httpx.CodeInvalidValue, "must be text: only messages of the user may have files")
	}
	return text
}

// readContent returns the text and the files of a message's content.
func readContent(found *httpx.Problems, where string, raw json.RawMessage) (text string, files []dispatch.Attachment) {
	if raw == nil {
		found.Add(where, httpx.CodeRequired, "is required")
		return "", nil
	}

	// The content is decoded separately, so the path of the content in the body is added to its problems.
	content, within := messageContent{}, &httpx.Problems{}
	if !httpx.DecodeOpen(raw, &content, within) || len(within.List) > 0 {
		for _, f := range within.List {
			found.Add(where+strings.TrimPrefix(f.Field, httpx.BodyPath), f.Code, "%s", f.Message)
		}
		return "", nil
	}

	text = content.Text
	for i := range content.Parts {
		part, at := &content.Parts[i], where+"["+strconv.Itoa(i)+"]"
		switch part.Type {
		case "text":
			text += part.Text
		case "file", "image", "document":
			files = append(files, part.file(found, at))
		default:
			found.Add(at, httpx.CodeInvalidValue, "must be text, an image or a document: other parts are not supported")
		}
	}
	if text == "" && len(files) > 0 {
		text = openaiapi.AttachedText
	}
	return text, files
}

// file returns the image or document of a part. Its content is checked when the run is accepted.
func (p *messagePart) file(found *httpx.Problems, at string) dispatch.Attachment {
	address, inner, mediaType := p.URL, "url", p.MediaType
	if p.Source != nil {
		address, inner, mediaType = p.Source.Value, "source.value", p.Source.MediaType
	}
	if p.Source != nil && p.Source.Type == "file" {
		return dispatch.Attachment{Field: at, Exact: true, FileID: address}
	}

	read, ok := openaiapi.ReadFile(address, at, inner, found.Add)
	if !ok {
		return dispatch.Attachment{Field: at}
	}
	out := dispatch.Attachment{Field: at, Exact: true, URL: read.URL, Data: read.Data, MediaType: read.MediaType, Name: p.FileName}
	if out.MediaType == "" && out.URL == "" {
		out.MediaType = mediaType
	}
	return out
}
