package openaiapi

import (
	"errors"
	"strings"

	"parley/shared/apierr"
)

// MaxID is the maximum number of bytes that are used of an id. Valid ids are shorter.
const MaxID = 64

// TemplatePrefix begins the ids of templates.
const TemplatePrefix = "tpl_"

// ClipModel truncates text that is too long for an id.
func ClipModel(model string) string { return strings.ToValidUTF8(model[:min(len(model), MaxID)], "") }

// AsModelError returns model_not_found for a not_found error, and any other error unchanged.
func AsModelError(err error) error {
	// Clients distinguish an unknown model from an unknown address by the code.
	if coded, ok := errors.AsType[*apierr.Error](err); ok && coded.Code == apierr.NotFound {
		return ModelNotFound()
	}
	return err
}

// ModelNotFound returns the error for a model that is neither an agent nor a template.
func ModelNotFound() error {
	return &apierr.Error{
		Code: apierr.NotFound, Detail: "unknown model: use the id of an agent or a template",
		Fields: []apierr.Field{{Field: "model", Code: CodeModelNotFound, Message: "is not an agent or template"}},
	}
}
