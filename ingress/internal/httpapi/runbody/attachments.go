package runbody

import (
	"encoding/base64"
	"mime"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// Maximum lengths of an attachment's fields, in characters.
const (
	// Name of the file.
	maxFileName = 255
	// Media type with its parameters.
	maxMediaType = 255
)

// AttachmentBody is an attachment in a request that starts a run: the id of a file, a URL, or the
// data itself. Exactly one of FileID, URL and Data must be set.
type AttachmentBody struct {
	// Id of an upload or of a file of a run.
	FileID httpx.Optional[string] `json:"fileId"`
	// Address from which the service fetches the content.
	URL  httpx.Optional[string] `json:"url"`
	Data httpx.Optional[string] `json:"data"` // base64 of the content
	// Declared type of Data; missing: detected.
	MediaType httpx.Optional[string] `json:"mediaType"`
	// Name of the file; missing: derived from the content.
	Name httpx.Optional[string] `json:"name"`
}

// AskedAttachments checks the attachments of a run request and returns them. Their contents are
// checked later, when the run is accepted. Problems are added to found. The paths begin with
// "attachments".
func (b *OptionsBody) AskedAttachments(found *httpx.Problems) []dispatch.Attachment {
	list := b.Attachments.Value
	if len(list) > domain.MaxAttachments {
		found.Add("attachments", httpx.CodeTooLong, "must have at most %d elements", domain.MaxAttachments)
		return nil
	}

	// A faulty attachment stays in the list, so that later problems have the right index.
	out := make([]dispatch.Attachment, 0, len(list))
	for i := range list {
		out = append(out, list[i].asked(found, httpx.Element("attachments", i)))
	}
	return out
}

// Attachments converts the images and files of a request in another protocol's format to
// attachments of a run. Their fields were checked when they were read. The paths of problems have
// the form of the other protocol (Exact).
func Attachments(list []openaiapi.Attached) []dispatch.Attachment {
	var out []dispatch.Attachment
	for _, a := range list {
		out = append(out, dispatch.Attachment{
			Field: a.Field, Exact: true, FileID: a.FileID, URL: a.URL, Data: a.Data, MediaType: a.MediaType, Name: a.Name,
		})
	}
	return out
}

// asked checks one attachment of a request and converts it. The argument field is the path of the
// attachment. If the attachment does not have exactly one content, the result is empty.
func (b *AttachmentBody) asked(found *httpx.Problems, field string) dispatch.Attachment {
	given := 0
	for _, set := range []bool{b.FileID.Set, b.URL.Set, b.Data.Set} {
		if set {
			given++
		}
	}
	if given != 1 {
		found.Add(field, httpx.CodeInvalidValue, "must have exactly one of fileId, url and data")
		return dispatch.Attachment{}
	}

	out := dispatch.Attachment{Field: field, FileID: b.FileID.Value, URL: b.URL.Value, Name: b.Name.Value, MediaType: b.MediaType.Value}

	if b.URL.Set {
		httpx.CheckURL(found, field+".url", b.URL.Value)
	}

	if b.FileID.Set && b.FileID.Value == "" {
		found.Add(field+".fileId", httpx.CodeTooShort, "must not be empty")
	}

	if b.Name.Set {
		found.Name(field+".name", b.Name.Value, maxFileName)
	}

	if b.MediaType.Set {
		if b.FileID.Set || b.URL.Set {
			found.Add(field+".mediaType", httpx.CodeInvalidValue, "can be set only together with data")
		}
		CheckMediaType(found, field+".mediaType", b.MediaType.Value)
	}

	if b.Data.Set {
		out.Data = DecodeData(found, field+".data", b.Data.Value)
	}
	return out
}

// CheckMediaType checks the declared media type of an attachment. The type only helps to detect the
// format; it is not trusted.
func CheckMediaType(found *httpx.Problems, field, value string) {
	if kind, _, err := mime.ParseMediaType(value); err != nil || !strings.Contains(kind, "/") || len(value) > maxMediaType {
		found.Add(field, httpx.CodeInvalidValue, "must be a media type, such as image/png")
	}
}

// DecodeData decodes the base64 of an attachment, with or without padding. Only the standard
// alphabet is accepted. The result is nil after a problem, which is added to found.
func DecodeData(found *httpx.Problems, field, value string) []byte {
	if value == "" {
		found.Add(field, httpx.CodeTooShort, "must not be empty")
		return nil
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
	if err != nil || len(data) == 0 {
		found.Add(field, httpx.CodeInvalidValue, "must be base64")
		return nil
	}
	return data
}
