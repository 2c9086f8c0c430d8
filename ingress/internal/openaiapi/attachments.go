package openaiapi

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"parley/shared/domain"
)

// Attached is an image or a file of a message. Exactly one of FileID, URL and Data is set.
// readAttached creates it. The caller fetches or stores the content, and checks its size and media
// type.
type Attached struct {
	// Path of the part in the request, for errors.
	Field string
	// ID of a file that was uploaded before.
	FileID string
	// URL with http or https; the content is fetched later.
	URL string
	// Decoded content.
	Data []byte
	// Media type of the data URL; empty: unknown.
	MediaType string
	// Name of the file in the request; empty: none.
	Name string
}

// These constants are the types that OpenAI's APIs give to the images and files in a message.
const (
	partImageURL   = "image_url"
	partInputImage = "input_image"
	partFile       = "file"
	partInputFile  = "input_file"
)

// FilePart is the file in a part whose type is file. Exactly one of FileData and FileID is set in a
// valid request.
type FilePart struct {
	FileData *string `json:"file_data"`
	FileID   *string `json:"file_id"`
	FileName *string `json:"filename"`
}

// attached reports whether the part contains an image or a file instead of text.
func (p *Part) attached() bool {
	switch p.Type {
	case partImageURL, partInputImage, partFile, partInputFile:
		return true
	default:
		return false
	}
}

// AttachedText replaces the text of an earlier message that had only images or files, because
// models reject empty messages.
const AttachedText = "(see the attachment)"

// readAttached returns the image or file of a part. The argument at is the path of the part in the
// request, for errors. The result ok is false if the part is invalid; the function wrong was then
// called with the error. readAttached fetches nothing.
func (p *Part) readAttached(at string, wrong Wrong) (out Attached, ok bool) {
	out.Field = at
	switch p.Type {
	case partFile:
		if p.File == nil {
			wrong(at+".file", codeRequired, "is required for a part of this type")
			return out, false
		}
		out.FileID, out.Name = deref(p.File.FileID), deref(p.File.FileName)
		return out.Given(deref(p.File.FileData), "", Members{At: at + ".file", Data: "file_data", FileID: "file_id"}, wrong)
	case partInputFile:
		out.FileID, out.Name = deref(p.FileID), deref(p.FileName)
		members := Members{At: at, Data: "file_data", URL: "file_url", FileID: "file_id"}
		return out.Given(deref(p.FileData), deref(p.FileURL), members, wrong)
	default:
		out.FileID = deref(p.FileID)
		members := Members{At: at, Data: "image_url"}
		if p.Type == partInputImage {
			members.FileID = "file_id"
		}
		return out.Given(p.imageAddress(), "", members, wrong)
	}
}

// imageAddress returns the URL of an image part. The value of the part is either the URL itself or
// an object with the URL. imageAddress returns "" if the part has no URL or if the value has
// another type.
func (p *Part) imageAddress() string {
	if p.ImageURL == nil {
		return ""
	}
	var address string
	if json.Unmarshal(*p.ImageURL, &address) == nil {
		return address
	}
	var object struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(*p.ImageURL, &object) != nil {
		return ""
	}
	return object.URL
}

// Members contains the names of those members of a part that can contain the part's image or file.
// Data names the member whose value is base64 or a URL. URL and FileID name the members with a URL
// and with a file's id, and are empty if the part has no such members.
type Members struct {
	At                string // path of the part in the request
	Data, URL, FileID string
}

// names returns the names of members for an error message, such as "a, b and c" if the conjunction
// is "and".
func names(conjunction string, members ...string) string {
	members = slices.DeleteFunc(members, func(name string) bool { return name == "" })
	last := len(members) - 1
	if last < 1 {
		return strings.Join(members, "")
	}
	return strings.Join(members[:last], ", ") + " " + conjunction + " " + members[last]
}

// Given returns the attachment with its source set: the given data, the given URL, or the file id
// that the attachment already has. If there is not exactly one valid source, Given records an error
// and returns false. The error names the members that the part may have. The content of a URL is
// not fetched here.
func (a Attached) Given(data, address string, part Members, wrong Wrong) (Attached, bool) {
	dataAt := part.At + "." + part.Data
	switch {
	case a.FileID != "" && data == "" && address == "":
		return a, true
	case a.FileID != "" || data != "" && address != "":
		wrong(part.At, codeInvalidValue, "must have only one of %s", names("and", part.Data, part.URL, part.FileID))
		return a, false
	case address != "":
		return a.fetched(address, part.At+"."+part.URL, wrong)
	case strings.HasPrefix(data, "https://"), strings.HasPrefix(data, "http://"):
		return a.fetched(data, dataAt, wrong)
	case data == "" && part.URL+part.FileID != "":
		wrong(dataAt, codeRequired, "is required, unless the part has %s", names("or", part.URL, part.FileID))
		return a, false
	case data == "":
		wrong(dataAt, codeRequired, "is required for a part of this type")
		return a, false
	default:
		return a.decode(data, dataAt, wrong)
	}
}

// fetched returns the attachment with a URL. The argument field is the path of the URL in the
// request, for errors. The method fetched rejects URLs with user information and URLs longer than
// maxAttachedURL. Whether the address is public is checked when the URL is fetched.
func (a Attached) fetched(address, field string, wrong Wrong) (Attached, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || len(address) > maxAttachedURL {
		wrong(field, codeInvalidValue, "must be a URL that begins with https:// or http://, without a user name")
		return a, false
	}
	a.URL = address
	return a, true
}

// maxAttachedURL is the maximum length of a URL in bytes.
const maxAttachedURL = 2048

// decode decodes the data of an attachment, which is a data URL or plain base64. Padding is
// optional. decode rejects empty data. The size is not checked here.
func (a Attached) decode(data, field string, wrong Wrong) (Attached, bool) {
	encoded := data
	if rest, isURL := strings.CutPrefix(data, "data:"); isURL {
		head, body, _ := strings.Cut(rest, ",")
		mediaType, isBase64 := strings.CutSuffix(head, ";base64")
		if !isBase64 {
			wrong(field, codeInvalidValue, "must be a data URL with base64, such as data:image/png;base64,…")
			return a, false
		}
		a.MediaType, encoded = mediaType, body
	}
	content, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil || len(content) == 0 {
		wrong(field, codeInvalidValue, "must be base64, a data URL with base64, or a URL that begins with https:// or http://")
		return a, false
	}
	a.Data = content
	return a, true
}

// attachedMessage is a message whose attachments are still to be read. Messages of all roles are
// included, because images and files in messages of other roles are errors.
type attachedMessage struct {
	// Role of the message.
	role string
	// Nil: the message has no content.
	content *Content
	// Path of the content in the request, for errors.
	field string
}

// attachedFiles returns the images and files of messages. If a conversation has more of them than a
// run may have, the oldest are omitted. The result has at most domain.MaxAttachments entries, in
// the order of the messages. Too many attachments in the current message are an error, because
// omitting them silently would change the question.
func attachedFiles(messages []attachedMessage, wrong Wrong) []Attached {
	current := len(messages) - 1 // index of the message to answer; results of tools may follow it
	for current > 0 && messages[current].role != RoleUser {
		current--
	}

	var out []Attached
	for i, m := range messages {
		if m.content == nil {
			continue
		}
		var own []Attached
		for n := range m.content.Parts {
			part, at := &m.content.Parts[n], index(m.field, n)
			if !part.attached() {
				continue
			}
			if m.role != RoleUser {
				wrong(at+".type", codeInvalidValue, "is allowed only in user messages")
				continue
			}
			if one, ok := part.readAttached(at, wrong); ok {
				own = append(own, one)
			}
		}
		if len(own) > domain.MaxAttachments && i == current {
			wrong(m.field, codeTooLong, "must have at most %d images and files", domain.MaxAttachments)
		}
		out = append(out, own...)
	}
	return out[max(len(out)-domain.MaxAttachments, 0):]
}

// Attachments returns the images and files in the messages of the request, as attachments of a run.
// The order is that of the messages; see attachedFiles.
func (r *CompletionRequest) Attachments(wrong Wrong) []Attached {
	messages := make([]attachedMessage, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = attachedMessage{m.Role, m.Content, index("messages", i) + ".content"}
	}
	return attachedFiles(messages, wrong)
}

// Attachments returns the images and files in the input of the request, as attachments of a run. A
// text as input has none, so the result is then nil.
func (body *ResponseBody) Attachments(wrong Wrong) []Attached {
	if body.Input == nil {
		return nil
	}
	messages := make([]attachedMessage, len(body.Input.Items))
	for i, item := range body.Input.Items {
		messages[i] = attachedMessage{deref(item.Role), item.Content, index("input", i) + ".content"}
	}
	return attachedFiles(messages, wrong)
}
