package openapiimport

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/endpoint"
	"parley/shared/schema"
	"parley/shared/truncate"
)

const (
	maxDescription = 1000     // maximum length of a description, in characters
	maxSchema      = 16 << 10 // maximum size of a schema, in bytes
)

// endpoint converts an operation to an endpoint. If that is not possible, the error is of type
// skip, and its text is the reason. o must be an operation of d. b is the server URL in the
// request, or nil. The other errors are of type *Invalid and end the whole import.
func (d *document) endpoint(o operation, b *base) (domain.Endpoint, error) {
	e := domain.Endpoint{Name: o.name, Method: o.method, Description: description(o.body)}

	// A malformed operation has no method or body that could be checked further.
	if o.broken != nil {
		return e, o.broken
	}

	effect, known := sideEffect(o.method)
	if !known {
		return e, skip("The method " + o.method + " is not supported.")
	}
	e.SideEffect = domain.SideEffect(effect)

	// The tools of an agent store secrets only for headers.
	if !d.permits(o) {
		return e, skip("The operation needs a key in its query or in a cookie; secrets are supported only in headers.")
	}

	server, err := d.server(o, b)
	if err != nil {
		return e, err
	}

	// The parameters do not depend on the bounds, so they are read once.
	parameters, err := d.parameters(o)
	if err != nil {
		return e, err
	}

	// Try the widest bounds first, so that small schemas are copied completely. Each pass counts
	// its copied values from zero. The work of the whole import is counted across passes.
	for _, bound := range bounds {
		pass := bound
		pass.d = d
		e.URL, e.InputSchema, err = pass.arguments(o, server, parameters)
		if !errors.Is(err, errTooLarge) {
			break
		}
	}
	return e, err
}

// description joins the summary and the description of an operation. It omits the summary if the
// description begins with the summary. The result has at most maxDescription characters. It is ""
// if the operation has neither.
func description(operation map[string]any) string {
	summary, text := clean(stringValue(operation, "summary")), clean(stringValue(operation, "description"))
	switch {
	case summary == "" || strings.HasPrefix(text, summary):
	case text == "":
		text = summary
	default:
		text = summary + "\n\n" + text
	}

	return truncate.Ellipsis(text, maxDescription)
}

// permits reports whether the operation can be called with credentials in headers. Each entry of
// the list security is an alternative. The client needs all schemes of one alternative. An empty
// list, or an empty alternative, means that no credentials are needed.
func (d *document) permits(o operation) bool {
	requirements, given := o.body["security"].([]any)
	// If the operation declares no security requirements, those of the document apply.
	if !given {
		requirements = listFor(d.root, "security")
	}

	for _, one := range requirements {
		schemes, _ := one.(map[string]any)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(schemes)), d.unfitScheme) {
			return true
		}
	}
	return len(requirements) == 0
}

// unfitScheme reports whether a security scheme needs a credential that cannot be sent in a header.
// An unknown scheme is assumed to be fit, because the caller may configure any headers. Schemes
// other than apiKey, such as http and oauth2, use the header Authorization.
func (d *document) unfitScheme(name string) bool {
	components, _ := d.root["components"].(map[string]any)
	schemes, _ := components["securitySchemes"].(map[string]any)
	scheme, err := d.object(schemes[name])
	return err == nil && scheme["type"] == "apiKey" && scheme["in"] != "header"
}

// variable matches a variable in a URL path. It is applied to paths as written in the document,
// before the names are replaced.
var variable = regexp.MustCompile(`\{[^{}]*\}`)

// arguments returns the URL template of an operation, and the schema of the tool's arguments. The
// arguments are the properties of the body, the variables of the path, and the query parameters.
// The schema lies within the bounds of the pass; otherwise the error is errTooLarge.
func (p *pass) arguments(o operation, server string, parameters []parameter) (string, any, error) {
	body, hasBody, err := p.body(o)
	if err != nil {
		return "", nil, err
	}

	// Names must be unique across body and parameters, because the model passes them in one object.
	if err := name(parameters, body); err != nil {
		return "", nil, err
	}

	if !hasBody {
		body.additional = false // the endpoint would send other properties as query parameters
	}

	// Copy the parameters' schemas after that of the body, so that all schemas count against the
	// same bounds.
	for _, param := range parameters {
		if body.properties[param.argument], err = p.parameter(param); err != nil {
			return "", nil, err
		}
		if param.required {
			body.required[param.argument] = true
		}
	}

	input, err := finish(body)
	if err != nil {
		return "", nil, err
	}

	address, err := addressFor(server+o.path, parameters)
	return address, input, err
}

// addressFor replaces the variables in a URL with the names of the model's arguments. It appends
// the query parameters, each in the form name={argument}. The error is a skip if the result is not
// a valid URL template.
func addressFor(address string, parameters []parameter) (string, error) {
	inPath := map[string]string{}
	var pairs []string
	for _, param := range parameters {
		// An argument of the model may have a different name than the path variable.
		if param.in == "path" {
			inPath["{"+param.name+"}"] = "{" + param.argument + "}"
			continue
		}
		pairs = append(pairs, param.pair())
	}

	// Each variable is in inPath, because the function parameters returns a parameter for each
	// variable.
	address = variable.ReplaceAllStringFunc(address, func(found string) string { return inPath[found] })
	if len(pairs) > 0 {
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + strings.Join(pairs, "&")
	}

	// endpoint.Parse applies the rules for endpoints, for example that no variable is in the host.
	if _, err := endpoint.Parse(address); err != nil {
		return "", skip("Its URL " + err.Error() + ".")
	}
	return address, nil
}

// finish returns the validated schema of a tool's arguments. It changes s. The error is errTooLarge
// if the schema has more than maxSchema bytes. It is another skip if the schema cannot be used for
// validation. The result consists of plain JSON values, so it does not share memory with the
// document.
func finish(s shape) (any, error) {
	input := map[string]any{"type": "object", "properties": s.properties}
	if s.additional != nil {
		input["additionalProperties"] = s.additional
	}

	// A required property that has no schema accepts any value.
	for name := range s.required {
		if _, known := s.properties[name]; !known {
			s.properties[name] = map[string]any{}
		}
	}

	if len(s.required) > 0 {
		input["required"] = slices.Sorted(maps.Keys(s.required))
	}

	raw, err := json.Marshal(input)
	if err != nil {
		return nil, skip("The arguments of the operation cannot be described by a JSON Schema.")
	}
	if len(raw) > maxSchema {
		return nil, errTooLarge
	}

	// The worker compiles the schema for each call, so a schema that does not compile would break
	// the tool.
	if _, err := schema.Compile(raw); err != nil {
		reason := strings.TrimPrefix(err.Error(), "reading schema: ")
		return nil, skip(truncate.Ellipsis("The schema of the operation's arguments cannot be used: "+reason+".", 300))
	}

	// Decode the JSON again, which yields the types that a stored agent has.
	var plain map[string]any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, skip("The arguments of the operation cannot be described by a JSON Schema.")
	}
	return plain, nil
}

// argumentName matches the argument names that model providers accept. Properties of bodies and
// arguments for parameters follow the same rule.
var argumentName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// body returns the properties of an operation's JSON body. It returns false if the operation has no
// body. An optional body that cannot be sent counts as no body. If a required body cannot be sent,
// the error is a skip.
func (p *pass) body(o operation) (shape, bool, error) {
	none := shape{properties: map[string]any{}, required: map[string]bool{}}
	if o.body["requestBody"] == nil {
		return none, false, nil
	}

	request, err := p.d.object(o.body["requestBody"])
	if err != nil {
		return none, false, err
	}

	needed := request["required"] == true

	// The tool sends the arguments of these methods only in the URL.
	if o.method == http.MethodGet || o.method == http.MethodHead || o.method == http.MethodDelete {
		// Servers ignore or reject the body of a GET, HEAD or DELETE request.
		if needed {
			return none, false, skip("The method of the operation does not support a request body.")
		}
		return none, false, nil
	}

	content, _ := request["content"].(map[string]any)
	media, found := jsonFor(content)
	switch {
	case !found && needed:
		return none, false, skip("The request body of the operation is not JSON.")
	case !found:
		return none, false, nil
	}

	object, err := p.d.object(media)
	if err != nil {
		return none, false, err
	}

	// Without a schema, the body may be any object.
	described, given := object["schema"]
	if !given {
		return none, true, nil
	}
	s, err := p.shape(described)
	if err != nil {
		return s, true, err
	}
	return s, true, s.nameable()
}

// nameable removes the properties whose names model providers do not accept. The error is a skip if
// such a property is required, because calls without it would fail.
func (s *shape) nameable() error {
	for name := range s.properties {
		if argumentName.MatchString(name) {
			continue
		}
		if s.required[name] {
			return skip("The request body requires a property whose name cannot be the name of a tool argument.")
		}
		delete(s.properties, name)
	}
	return nil
}

// jsonFor returns the description of the first media type in content that is JSON. It returns false
// if there is none. Parameters of the media type, such as charset, are ignored. The type
// application/json is preferred to wildcards such as application/*. Types such as
// application/problem+json are not accepted.
func jsonFor(content map[string]any) (any, bool) {
	for _, wanted := range []string{"application/json", "application/*", "*/*"} {
		for _, kind := range slices.Sorted(maps.Keys(content)) {
			plain, _, _ := strings.Cut(kind, ";")
			if strings.EqualFold(strings.TrimSpace(plain), wanted) {
				return content[kind], true
			}
		}
	}
	return nil, false
}
