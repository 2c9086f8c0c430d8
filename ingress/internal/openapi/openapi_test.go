package openapi

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"parley/shared/domain"
)

// TestReservedToolNames checks that endpoints cannot have the name of a built-in tool.
func TestReservedToolNames(t *testing.T) {
	t.Parallel()
	reserved := read().root.At("components", "schemas", "EndpointName", "not").Texts("enum")
	if !slices.Equal(reserved, domain.ToolNames) {
		t.Errorf("EndpointName reserves %v, but the built-in tools are %v", reserved, domain.ToolNames)
	}
}

// TestDocument validates the document against OpenAPI 3.1, and its examples against their schemas.
func TestDocument(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(Document())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != Version() || Version() == "" {
		t.Errorf("OpenAPI %q, version %q, but Version returns %q", doc.OpenAPI, doc.Info.Version, Version())
	}
	if !json.Valid(Document()) {
		t.Error("the document is not JSON")
	}
}
