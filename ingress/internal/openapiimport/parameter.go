package openapiimport

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"parley/shared/truncate"
)

// parameter is a parameter of an operation. Each call of the endpoint sends a value for it. The
// function parameters creates it. The function name sets the field argument, and the method form
// sets the field joined.
type parameter struct {
	in string // where the parameter is sent: path or query
	// name in the document, which is sent in the query.
	name     string
	argument string // name of the model's argument
	// Whether each call must have a value.
	required bool
	// Text of the document, not yet truncated.
	description string
	// schema of the document, not yet copied.
	schema any
	joined string // separator with which a list is joined to one text; "" if it is not joined
}

// pair returns the text "name={variable}" that stands for the parameter in the query of a URL
// template. The name is escaped. The variable is not escaped, because each call escapes its value.
func (p parameter) pair() string { return url.QueryEscape(p.name) + "={" + p.argument + "}" }

// otherHeaders are the header parameters that OpenAPI ignores, because other fields of the document
// describe them. They are in lower case.
var otherHeaders = []string{"accept", "content-type", "authorization"}

// parameters returns the parameters of an operation, including those of its path item. The
// parameters in the path come first, and the others follow in document order. A path variable that
// the document does not describe becomes a parameter of type string. Header and cookie parameters
// are left out. The error is a skip if a required parameter cannot be sent.
func (d *document) parameters(o operation) ([]parameter, error) {
	var all []parameter

	// The operation's list comes first, because it overrides the path item's.
	for _, list := range [][]any{listFor(o.body, "parameters"), listFor(o.item, "parameters")} {
		for _, v := range list {
			object, err := d.object(v)
			if err != nil {
				return nil, err
			}

			in, name := stringValue(object, "in"), stringValue(object, "name")
			if slices.ContainsFunc(all, func(p parameter) bool { return p.in == in && p.name == name }) {
				continue // the operation's own parameter takes precedence
			}

			param, err := d.parameter(object)
			if err != nil {
				return nil, err
			}
			all = append(all, param)
		}
	}

	// Take the path parameters in the order of the path, and ignore those that the path does not
	// contain.
	var wanted []parameter
	for _, found := range variable.FindAllString(o.path, -1) {
		param := parameter{in: "path", name: strings.Trim(found, "{}"), schema: map[string]any{"type": "string"}}
		if i := slices.IndexFunc(all, func(p parameter) bool { return p.in == "path" && p.name == param.name }); i >= 0 {
			param = all[i]
		}
		// A path parameter is always required, because a path with an empty segment would be a
		// different URL.
		param.required = true
		if !slices.ContainsFunc(wanted, func(p parameter) bool { return p.name == param.name }) {
			wanted = append(wanted, param)
		}
	}

	for _, param := range all {
		if param.in == "query" {
			wanted = append(wanted, param)
		}
	}
	return wanted, nil
}

// parameter reads a parameter. If a call cannot provide values for a required parameter, the error
// is a skip. For an optional parameter, the field in of the result is then neither path nor query,
// and the caller omits the parameter. The result's field joined is set for a list that is sent as
// one text.
func (d *document) parameter(object map[string]any) (parameter, error) {
	p := parameter{in: stringValue(object, "in"), name: stringValue(object, "name"), description: stringValue(object, "description")}
	p.required = object["required"] == true || p.in == "path"
	p.schema = object["schema"]

	var reason string
	switch {
	case p.name == "":
		reason = "has no name"
	case p.in == "header" && slices.Contains(otherHeaders, strings.ToLower(p.name)):
		// Other fields provide these headers, so the operation can be called without the parameter.
		p.required = false
		reason = "is a reserved header"
	case p.in == "header":
		reason = "is a header, which must be added to the endpoint's headers manually"
	case p.in == "cookie":
		reason = "is a cookie"
	case p.in != "path" && p.in != "query":
		reason = "has an unknown location"
	case object["content"] != nil:
		reason = "uses content instead of a schema"
	default:
		reason = d.form(object, &p)
	}

	if reason == "" {
		return p, nil
	}
	if p.required {
		return p, skip("The parameter " + truncate.Ellipsis(clean(p.name), 64) + " " + reason + ".")
	}

	// This value is neither path nor query, so the parameter is never selected.
	p.in = "left out, in " + p.in
	return p, nil
}

// form determines how the values of a parameter are serialized. If they cannot be serialized, it
// returns the reason. The method form sets p.joined for lists that are sent as one text. If p has
// no schema, form sets p.schema to the type string. The defaults are those of OpenAPI: simple in
// paths, and form, with explode, in queries.
func (d *document) form(object map[string]any, p *parameter) (reason string) {
	if p.schema == nil {
		p.schema = map[string]any{"type": "string"}
	}

	style := stringValue(object, "style")
	if style == "" {
		style = map[string]string{"path": "simple", "query": "form"}[p.in]
	}

	explode, given := object["explode"].(bool)
	if !given {
		explode = style == "form"
	}

	switch d.kind(p.schema) {
	// OpenAPI has no common serialization of objects in URLs.
	case "object":
		return "is an object, which is not supported in a URL"
	case "array":
		between, known := map[string]string{"simple": ",", "form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}[style]
		if !known {
			return "has a style that is not supported"
		}

		// With explode, the query repeats the name for each value, which endpoints support.
		if p.in == "path" || !explode {
			p.joined = between
		}
	default:
		if style != "simple" && style != "form" {
			return "has a style that is not supported"
		}
	}
	return ""
}

// kind returns "object" or "array" if a schema allows values of that type, and otherwise "". A
// schema with properties and without a type is an object. If the schema allows both types, kind
// returns "object".
func (d *document) kind(schema any) string {
	object, err := d.object(schema)
	if err != nil {
		return "" // the error is reported when the schema is copied
	}

	kinds, _ := object["type"].([]any)
	for _, kind := range []string{"object", "array"} {
		if object["type"] == kind || slices.Contains(kinds, any(kind)) {
			return kind
		}
	}
	if _, found := object["properties"]; found {
		return "object"
	}
	return ""
}

// parameter returns the schema of a tool's argument. It lies within the bounds of the pass. The
// parameter's description takes precedence over that of the schema.
func (p *pass) parameter(param parameter) (any, error) {
	// The endpoint expects a list with separators as one text, so the model must write the
	// separators.
	said := param.description
	if param.joined != "" {
		between := map[string]string{",": "commas", " ": "spaces", "|": "the sign |"}[param.joined]

		// The descriptions of arguments are kept even in passes that drop the descriptions of
		// schemas. Without them, the model could not guess the format.
		said = p.text(said, max(p.texts, 80)) + "\nSeveral values are separated by " + between + "." + p.choices(param.schema)
		return map[string]any{"type": "string", "description": strings.TrimSpace(said)}, nil
	}

	copied, err := p.schema(param.schema, 1)
	if err != nil {
		return nil, err
	}

	if text := p.text(said, max(p.texts, 80)); text != "" {
		if object, ok := copied.(map[string]any); ok {
			object["description"] = text
		}
	}
	return copied, nil
}

// choices lists the allowed elements of a list, if the schema enumerates them. The result is a
// sentence that begins with a space, or "" if the schema enumerates nothing.
func (p *pass) choices(schema any) string {
	list, err := p.d.object(schema)
	if err != nil {
		return ""
	}
	items, err := p.d.object(list["items"])
	if err != nil || len(listFor(items, "enum")) == 0 {
		return ""
	}
	var texts []string
	for _, v := range listFor(items, "enum") {
		texts = append(texts, fmt.Sprint(v))
	}
	return " Possible are: " + p.text(strings.Join(texts, ", "), max(p.texts, 80)) + "."
}

// unfitArgument matches characters that argument names may not contain.
var unfitArgument = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// name gives each parameter a unique argument name. The properties of the body keep their names.
// The function name changes the parameters in place. If the plain name is taken, the argument's
// name also contains the location, as in query_id. The error is a skip if neither name can be used.
func name(parameters []parameter, body shape) error {
	taken := map[string]bool{}
	for property := range body.properties {
		taken[property] = true
	}
	for property := range body.required {
		taken[property] = true
	}

	// A required property without a schema has no entry in properties, so its name is reserved too.
	for i, param := range parameters {
		plain := strings.Trim(unfitArgument.ReplaceAllString(param.name, "_"), "_")
		for _, candidate := range []string{plain, param.in + "_" + plain} {
			if argumentName.MatchString(candidate) && !taken[candidate] {
				parameters[i].argument = candidate
				taken[candidate] = true
				break
			}
			parameters[i].argument = ""
		}
		if parameters[i].argument == "" {
			return skip("The parameter " + truncate.Ellipsis(clean(param.name), 64) +
				" has a name that tool arguments cannot have or that is already taken.")
		}
	}
	return nil
}
