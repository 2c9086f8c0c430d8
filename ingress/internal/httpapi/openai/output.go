package openai

import (
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
)

// outputFor checks and returns the schema that the answer must match, or nil if the request
// contains no schema. Problems of the schema are added to found. The caller checks found before it
// uses the result.
func outputFor(found *httpx.Problems, asked openaiapi.AskedOutput) *domain.OutputContract {
	if asked.Schema == nil {
		return nil
	}
	runbody.CheckOutputSchema(found, asked.Field, asked.Schema)
	return &domain.OutputContract{Schema: domain.JSONSchema(asked.Schema)}
}
