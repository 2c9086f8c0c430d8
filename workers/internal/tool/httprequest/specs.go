package httprequest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/workers/internal/tool"
)

// Specs returns one tool for each endpoint of an agent. It skips endpoints with an invalid address.
func Specs(t domain.HTTPRequestTool) []tool.Spec {
	if !t.Enabled {
		return nil
	}
	specs := make([]tool.Spec, 0, len(t.Endpoints))
	for _, e := range t.Endpoints {
		template, err := endpoint.Parse(e.URL)
		if err != nil {
			continue // skip the endpoint: an older release accepted its address, but calls would fail
		}
		schema, err := json.Marshal(schemaFor(e, template))
		if err != nil {
			continue
		}
		specs = append(specs, tool.Spec{Name: e.Name, Description: describe(e), Schema: schema, SideEffect: sideEffect(e)})
	}
	return specs
}

// describe returns the description of an endpoint. If none is configured, describe returns the
// method and the address, without the query, which may contain a key.
func describe(e domain.Endpoint) string {
	if e.Description != "" {
		return e.Description
	}
	address, _, _ := strings.Cut(e.URL, "?")
	_, address, _ = strings.Cut(address, "://")
	return "Calls " + e.Method + " " + address + "."
}

// schemaFor returns the JSON Schema of an endpoint's arguments: the configured schema with the
// variables of the address added. Without a configured schema, it contains only the variables.
func schemaFor(e domain.Endpoint, template *endpoint.Template) map[string]any {
	path, query := template.Variables()
	// Without a configured schema, all variables of the address are required.
	own, given := e.InputSchema.(map[string]any)
	if !given {
		return completed(map[string]any{"additionalProperties": !inQuery(e.Method)}, append(path, query...), nil)
	}
	return completed(maps.Clone(own), path, query)
}

// completed returns a schema to which the missing variables of the address were added.
func completed(schema map[string]any, required, optional []string) map[string]any {
	schema["type"] = "object"
	properties, _ := schema["properties"].(map[string]any)
	properties = maps.Clone(properties)
	if properties == nil {
		properties = map[string]any{}
	}

	// If the configured schema already describes a variable, that description is kept, because it
	// may be more detailed.
	for _, name := range slices.Concat(required, optional) {
		if _, known := properties[name]; !known {
			properties[name] = map[string]any{"type": "string"}
		}
	}
	schema["properties"] = properties

	needed, _ := schema["required"].([]any)
	needed = slices.Clone(needed)
	// Variables of the path are required, because without one of them the path would address
	// another resource.
	for _, name := range required {
		if !slices.Contains(needed, any(name)) {
			needed = append(needed, name)
		}
	}
	if len(needed) > 0 {
		schema["required"] = needed
	}
	return schema
}
