package domain

import (
	"slices"
	"strings"
)

// Limits of the attachments of a request.
const (
	MaxAttachments     = 10
	MaxAttachmentBytes = 20 << 20 // of each attachment
)

// Attachment is an image or a document that a request sends in addition to its message. The bytes
// are stored as a file of the run.
type Attachment struct {
	FileID    string `json:"fileId"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
}

// IsImage reports whether models receive the attachment as an image. Other attachments are read as
// documents.
func (a Attachment) IsImage() bool { return strings.HasPrefix(a.MediaType, "image/") }

// AttachmentCall is stored in place of a tool call's id for files that were sent with a request,
// because no tool call has created these files.
const AttachmentCall = "attachment"

// textOnlyModels are models that are known not to accept images. An entry that ends in a star is a
// prefix of names.
var textOnlyModels = []string{
	"openai/gpt-3.5*", "openai/gpt-4", "openai/gpt-4-0314", "openai/gpt-4-0613", "openai/gpt-4-32k*", "openai/gpt-4-1106-preview",
	"openai/gpt-4-0125-preview", "openai/gpt-4-turbo-preview", "openai/o1-mini*", "openai/o1-preview*", "openai/o3-mini*",
	"openai/gpt-oss*", "openai/davinci*", "openai/babbage*",
	"anthropic/claude-2*", "anthropic/claude-instant*", "anthropic/claude-3-5-haiku-2*",
}

// TakesImages reports whether a model may receive images. It returns false only for models that are
// known not to accept images, because new models usually do.
func TakesImages(model string) bool {
	return !slices.ContainsFunc(textOnlyModels, func(known string) bool {
		prefix, isPrefix := strings.CutSuffix(known, "*")
		return model == known || isPrefix && strings.HasPrefix(model, prefix)
	})
}
