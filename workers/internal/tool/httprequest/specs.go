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

// Specs gives the tools that an agent's endpoints are. An endpoint whose address cannot be read is none.
func Specs(t domain.HTTPRequestTool) []tool.Spec {
	if !t.Enabled {
		return nil
	}
	specs := make([]tool.Spec, 0, len(t.Endpoints))
	for _, e := range t.Endpoints {
		template, err := endpoint.Parse(e.URL)
		if err != nil {
			continue // saved by a release that checked less: calling it could only fail
		}
		schema, err := json.Marshal(schemaFor(e, template))
		if err != nil {
			continue
		}
		specs = append(specs, tool.Spec{Name: e.Name, Description: describe(e), Schema: schema, SideEffect: sideEffect(e)})
	}
	return specs
}

// describe tells a model what an endpoint is for; the address alone says little, but more than nothing. Its query may
// hold a key.
func describe(e domain.Endpoint) string {
	if e.Description != "" {
		return e.Description
	}
	address, _, _ := strings.Cut(e.URL, "?")
	_, address, _ = strings.Cut(address, "://")
	return "Calls " + e.Method + " " + address + "."
}

// schemaFor gives the JSON Schema of an endpoint's arguments: its own, in which no variable of the address is missing,
// or one made from the address.
func schemaFor(e domain.Endpoint, template *endpoint.Template) map[string]any {
	path, query := template.Variables()
	own, given := e.InputSchema.(map[string]any)
	if !given {
		return completed(map[string]any{"additionalProperties": !inQuery(e.Method)}, append(path, query...), nil)
	}
	return completed(maps.Clone(own), path, query)
}

// completed puts variables into a schema that does not name them.
func completed(schema map[string]any, required, optional []string) map[string]any {
	schema["type"] = "object"
	properties, _ := schema["properties"].(map[string]any)
	properties = maps.Clone(properties)
	if properties == nil {
		properties = map[string]any{}
	}
	for _, name := range slices.Concat(required, optional) {
		if _, known := properties[name]; !known {
			properties[name] = map[string]any{"type": "string"}
		}
	}
	schema["properties"] = properties
	needed, _ := schema["required"].([]any)
	needed = slices.Clone(needed)
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
