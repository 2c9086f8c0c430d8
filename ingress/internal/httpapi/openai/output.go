package openai

import (
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// outputFor checks the schema that a request requires for the answer. It returns nil if the request
// has no schema.
func outputFor(found *httpx.Problems, asked openaiapi.AskedOutput) *domain.OutputContract {
	if asked.Schema == nil {
		return nil
	}
	runbody.CheckOutputSchema(found, asked.Field, asked.Schema)
	return &domain.OutputContract{Schema: domain.JSONSchema(asked.Schema)}
}
