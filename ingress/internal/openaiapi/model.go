package openaiapi

import (
	"errors"
	"strings"

	"parley/shared/apierr"
)

// MaxID is the length in bytes to which ids from requests are truncated. All valid ids are shorter.
const MaxID = 64

// TemplatePrefix is the prefix of the ids of templates.
const TemplatePrefix = "tpl_"

// TruncateModel truncates a model name to MaxID bytes. Only invalid names are that long. An
// incomplete character at the end is removed.
func TruncateModel(model string) string {
	return strings.ToValidUTF8(model[:min(len(model), MaxID)], "")
}

// AsModelError replaces a not_found error with model_not_found, and returns any other error
// unchanged. It recognizes wrapped errors.
func AsModelError(err error) error {
	// The code lets clients distinguish an unknown model from an unknown URL.
	if coded, ok := errors.AsType[*apierr.Error](err); ok && coded.Code == apierr.NotFound {
		return ModelNotFound()
	}
	return err
}

// ModelNotFound returns the error for a model name that belongs neither to an agent nor to a
// template. Its status is 404, and its code for clients of OpenAI's API is model_not_found.
func ModelNotFound() error {
	return &apierr.Error{
		Code: apierr.NotFound, Detail: "unknown model: use the id of an agent or a template",
		Fields: []apierr.Field{{Field: "model", Code: CodeModelNotFound, Message: "is not the id of an agent or a template"}},
	}
}
