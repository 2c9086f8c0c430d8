package run

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// messageContent is a message's content. Exactly one of the fields is set by the decoder.
type messageContent struct {
	Text  string
	Parts []messagePart
}

// Either makes messageContent a union for the decoder, which accepts a text or a list of parts.
func (messageContent) Either() {}

// messagePart is a part of a message: a text or a file. The fields depend on the type and on the
// format of the library. Unknown fields are ignored.
type messagePart struct {
	Type     string `json:"type" required:"true"`
	Text     string `json:"text"`
	URL      string `json:"url"`       // parts of type file (AI SDK) and binary (AG-UI): a URL or a data URL
	Media    string `json:"mediaType"` // parts of type file
	Filename string `json:"filename"`  // parts of type file and binary
	MIMEType string `json:"mimeType"`  // parts of type binary
	// Parts of type binary: base64. Other types of parts, such as the AI SDK's data parts, may have
	// any value here.
	Data   *json.RawMessage `json:"data"`
	FileID string           `json:"id"`     // parts of type binary
	Source *partSource      `json:"source"` // parts of type image and document (AG-UI)
}

// partSource is the content of an image or a document: base64 or a URL. Type is data if Value is
// base64, and url if Value is a URL.
type partSource struct {
	Type     string `json:"type" required:"true"`
	Value    string `json:"value" required:"true"`
	MIMEType string `json:"mimeType"`
}

// isFile reports whether the part is an image or a document. Other types, such as reasoning or
// sources, are not files.
func (p *messagePart) isFile() bool {
	switch p.Type {
	case "file", "binary", "image", "document":
		return true
	default:
		return false
	}
}

// file returns the file of a part. If the part does not contain a valid file, file adds a problem,
// and ok is false. at is the path of the part. The file's content is not fetched or decoded here.
func (p *messagePart) file(found *httpx.Problems, at string) (file openaiapi.Attached, ok bool) {
	file = openaiapi.Attached{Field: at, FileID: p.FileID, Name: p.Filename, MediaType: p.Media}
	switch {
	case p.Source != nil:
		file.MediaType = p.Source.MIMEType
		return file.Given(p.Source.Value, "", openaiapi.Members{At: at + ".source", Data: "value"}, found.Add)
	case p.Type == "binary":
		var data string
		if p.Data != nil && json.Unmarshal(*p.Data, &data) != nil {
			found.Add(at+".data", httpx.CodeInvalidType, "must be a string")
			return file, false
		}
		file.MediaType = p.MIMEType
		return file.Given(data, p.URL, openaiapi.Members{At: at, Data: "data", URL: "url", FileID: "id"}, found.Add)

	// The id of a part of this type has another meaning, so it is not an uploaded file.
	case p.Type == "file":
		file.FileID = ""
		return file.Given(p.URL, "", openaiapi.Members{At: at, Data: "url"}, found.Add)
	default:
		found.Add(at+".source", httpx.CodeRequired, "is required for a part of this type")
		return file, false
	}
}

// readContent returns the text and the files of a message's content. It adds a problem for each
// part that an agent cannot use. If mayAttach is false, a file is such a part. where is the path of
// the content. Texts are joined without a separator, because they are parts of one text. After a
// problem, the results are incomplete.
func readContent(found *httpx.Problems, where string, raw []byte, mayAttach bool) (string, []dispatch.Attachment) {
	if raw == nil {
		found.Add(where, httpx.CodeRequired, "is required")
		return "", nil
	}

	// Paths of problems begin with the path of the content, which the decoder does not know.
	content, within := messageContent{}, &httpx.Problems{}
	if !httpx.DecodeOpen(raw, &content, within) || len(within.List) > 0 {
		for _, f := range within.List {
			found.Add(where+strings.TrimPrefix(f.Field, httpx.BodyPath), f.Code, "%s", f.Message)
		}
		return "", nil
	}

	text, files := []string{content.Text}, []openaiapi.Attached{}
	for i := range content.Parts {
		part, at := &content.Parts[i], where+"["+strconv.Itoa(i)+"]"
		switch {
		case part.isFile() && mayAttach:
			if file, ok := part.file(found, at); ok {
				files = append(files, file)
			}
		case part.Type == "text":
			text = append(text, part.Text)
		case mayAttach:
			found.Add(at, httpx.CodeInvalidValue, "must be text, an image or a document: other parts are not supported")
		default:
			found.Add(at, httpx.CodeInvalidValue, "must be text: other parts are not supported")
		}
	}

	if len(files) > domain.MaxAttachments {
		found.Add(where, httpx.CodeTooLong, "must have at most %d images and documents", domain.MaxAttachments)
	}
	return strings.Join(text, ""), runbody.Attachments(files)
}
