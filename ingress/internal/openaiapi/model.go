package openaiapi

import (
	"errors"
	"strings"

	"parley/shared/apierr"
)

// MaxID is how many bytes of an id are looked at; no id has as many.
const MaxID = 64 // bytes of an id that are looked at; none has as many

// TemplatePrefix begins the ids of templates.
const TemplatePrefix = "tpl_"

// ClipModel shortens what cannot be an id.
func ClipModel(model string) string { return strings.ToValidUTF8(model[:min(len(model), MaxID)], "") }

// AsModelError names the model as what was not found; any other error stays as it is.
func AsModelError(err error) error {
	if coded, ok := errors.AsType[*apierr.Error](err); ok && coded.Code == apierr.NotFound {
		return ModelNotFound()
	}
	return err
}

// ModelNotFound is the refusal of a model that is no agent and no template.
func ModelNotFound() error {
	return &apierr.Error{
		Code: apierr.NotFound, Detail: "there is no such model: a model is an agent or a template, by its id",
		Fields: []apierr.Field{{Field: "model", Code: CodeModelNotFound, Message: "is no agent or template"}},
	}
}
