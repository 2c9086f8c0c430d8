package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"parley/shared/yamldoc"
)

// Reference is the document as the documentation pages show it. It is created by Read for each
// page, and may be changed by the caller.
type Reference struct {
	Title, Version, Summary string
	// Description of the document.
	Intro Prose
	// Operations in the order of the tags.
	Groups []Group
	// Named schemas in the order of the document.
	Schemas []Schema
}

// Group contains the operations that have the same tag. The anchor leads to the group on the page.
type Group struct {
	Name, Anchor string
	Description  []Span
	Operations   []Operation
}

// Operation is one HTTP method of a path. HEAD operations are not shown.
type Operation struct {
	ID, Method, Path, Summary string
	// Explanation below the summary.
	Description Prose
	Credentials []string // accepted credentials; nil: the operation needs none
	// Parameters of the operation, then those of the path.
	Parameters []Field
	Bodies     []Schema // schemas of the accepted bodies; nil: the operation takes no body
	// Description of the body.
	BodyNote []Span
	// Example requests.
	Samples []Sample
	Answer  *Example // example of the first successful response
	// Responses in the order of the document.
	Responses []Response
}

// Field is a parameter or a member of an object. For a parameter, In says where it is sent, such as
// query. For a member of a nested object, Name is its path, such as trigger.type.
type Field struct {
	Name, In    string
	Required    bool
	Type        Type
	Description []Span
}

// Response is a response of an operation. Codes are its error codes. Headers are the headers that
// only some responses have. Media contains the media types of its bodies.
type Response struct {
	// HTTP status as text.
	Status      string
	Description []Span
	Media       []string
	// Type of the body; empty for an error or a stream.
	Type    Type
	Codes   []string
	Headers []string
}

// Example is an indented JSON text. Title is the status of the response.
type Example struct{ Title, JSON string }

// Schema is a named schema. An object has Fields, an enumeration has Words, and any other schema
// has a Type. Types of schemas with alternatives list the alternatives.
type Schema struct {
	Name, Anchor string
	Description  []Span
	Fields       []Field
	Words        []Word
	Type         Type
}

// Link returns the URL of the schema's fields. It is a path on the service.
func (s Schema) Link() string { return schemasPath + "#" + s.Anchor }

// methods are the HTTP methods that the pages show, in this order. Other methods are not used by
// the API.
var methods = []string{"get", "post", "put", "delete"}

// Read returns the document as the documentation pages show it. Read takes some milliseconds, so
// its callers keep the page that they render from the result. Operations whose tag is unknown are
// left out.
func Read() Reference {
	root := read().root
	info := root.At("info")
	ref := Reference{
		Title: info.Text("title"), Version: info.Text("version"), Summary: info.Text("summary"),
		Intro: parseProse(info.Text("description")),
	}

	for _, tag := range root.Objects("tags") {
		name := tag.Text("name")
		ref.Groups = append(ref.Groups, Group{Name: name, Anchor: anchor(name), Description: ParseSpans(tag.Text("description"))})
	}

	for path, item := range root.At("paths").Members() {
		for _, method := range methods {
			if op := item.At(method); op != nil {
				addOperation(ref.Groups, op, newOperation(root, path, method, item))
			}
		}
	}

	for name, schema := range schemas().Members() {
		ref.Schemas = append(ref.Schemas, newSchema(name, schema))
	}
	return ref
}

// addOperation adds an operation to the group of the operation's first tag. An operation appears only
// once.
func addOperation(groups []Group, op object, operation Operation) {
	for _, tag := range op.List("tags") {
		if i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == tag }); i >= 0 {
			groups[i].Operations = append(groups[i].Operations, operation)
			return
		}
	}
}

// newOperation reads an operation. Parameters that the path item declares apply to all its methods.
// The argument root is the whole document, which contains the targets of references.
func newOperation(root object, path, method string, item object) Operation {
	op := item.At(method)
	out := Operation{
		ID: op.Text("operationId"), Method: strings.ToUpper(method), Path: path, Summary: op.Text("summary"),
		Description: parseProse(op.Text("description")), Credentials: credentials(root, op),
	}

	for _, p := range append(op.Objects("parameters"), item.Objects("parameters")...) {
		p = resolve(root, p)
		out.Parameters = append(out.Parameters, Field{
			Name: p.Text("name"), In: p.Text("in"), Required: p.Flag("required"),
			Type: typeName(p.At("schema")), Description: ParseSpans(p.Text("description")),
		})
	}

	if body := op.At("requestBody"); body != nil {
		out.Bodies = bodies(root, body.At("content", "application/json", "schema"))
		out.BodyNote = ParseSpans(body.Text("description"))
	}

	out.Samples = samples(op, out)
	for status, response := range op.At("responses").Members() {
		response = resolve(root, response)
		out.Responses = append(out.Responses, newResponse(status, response))

		// "300" is compared as text, which is right for statuses of three digits.
		if example := firstExample(response); example != nil && out.Answer == nil && status < "300" {
			out.Answer = &Example{Title: status, JSON: indented(example)}
		}
	}
	return out
}

// bodies returns the named schemas of the bodies that an operation accepts. An inline schema has no
// name and is left out, because the page shows the fields of named schemas.
func bodies(root, schema object) []Schema {
	choices := append(schema.Objects("oneOf"), schema.Objects("anyOf")...)
	if len(choices) == 0 {
		choices = []object{schema}
	}

	var out []Schema
	for _, choice := range choices {
		if name, named := strings.CutPrefix(choice.Text("$ref"), "#/components/schemas/"); named {
			out = append(out, newSchema(name, resolve(root, choice)))
		}
	}
	return out
}

// credentials returns the credentials that an operation accepts, or nil if it needs none. An empty
// requirement among the alternatives means that no credential is needed.
func credentials(root, op object) []string {
	allowed := op.List("security")
	if allowed == nil {
		allowed = root.List("security")
	}

	var out []string
	for _, entry := range allowed {
		choice, ok := entry.(object)
		if !ok || len(choice) == 0 {
			return nil
		}
		for _, scheme := range choice {
			out = append(out, scheme.Key)
		}
	}
	return out
}

// newResponse reads a response. The error codes come from the schema or, for a shared response,
// from x-codes.
func newResponse(status string, response object) Response {
	out := Response{Status: status, Description: ParseSpans(response.Text("description"))}
	for media, content := range response.At("content").Members() {
		out.Media = append(out.Media, media)
		schema := content.At("schema")
		// An error response has the schema of a problem, restricted to certain codes.
		if constraint := schema.Objects("allOf"); len(constraint) == 2 {
			out.Codes = append(out.Codes, constraint[1].At("properties", "code").Texts("enum")...)
		} else if len(out.Type) == 0 && media != "text/event-stream" {
			out.Type = typeName(schema)
		}
	}

	out.Codes = append(out.Codes, response.Texts("x-codes")...)

	for name := range response.At("headers").Members() {
		// Every response has the following headers. The pages describe them once, so they are
		// omitted here.
		if !slices.Contains([]string{"X-Request-Id", "RateLimit", "RateLimit-Policy"}, name) {
			out.Headers = append(out.Headers, name)
		}
	}
	return out
}

// firstExample returns the first example of a JSON response, or nil. The order of several examples
// is that of the document.
func firstExample(response object) any {
	content := response.At("content", "application/json")
	if example := content.Get("example"); example != nil {
		return example
	}
	for _, example := range content.At("examples").Members() {
		return example.Get("value")
	}
	return nil
}

// newSchema reads a named schema. The schema must describe each value of an enumeration.
func newSchema(name string, schema object) Schema {
	out := Schema{Name: name, Anchor: schemaAnchor(name), Description: ParseSpans(schema.Text("description")), Words: Words(name)}

	out.Fields = fields(schema, "")
	if len(out.Words) > 0 && out.Words[0].Name == "" {
		out.Words = nil // a schema that lists alternative schemas is not an enumeration
	}
	if len(out.Fields) == 0 && len(out.Words) == 0 {
		out.Type = typeName(schema)
	}
	return out
}

// fields lists the members of an object. The members of nested objects are listed with their paths.
// The argument within is the path of the object, with a dot at its end, or "".
func fields(schema object, within string) []Field {
	var out []Field
	required := schema.List("required")
	for name, value := range schema.At("properties").Members() {
		out = append(out, Field{
			Name: within + name, Required: slices.Contains(required, any(name)), Type: typeName(value),
			Description: ParseSpans(value.Text("description")),
		})
		out = append(out, fields(value, within+name+".")...)
	}
	return out
}

// resolve returns the target of a reference within the document. An object without a reference is
// returned unchanged. For a missing target, the result is nil; the tests check that every target
// exists.
func resolve(root, o object) object {
	path, isRef := strings.CutPrefix(o.Text("$ref"), "#/")
	if !isRef {
		return o
	}
	return root.At(strings.Split(path, "/")...)
}

// indented returns a value as indented JSON. The order of its members is kept. The result is "" for
// a value that has no JSON form.
func indented(value any) string {
	var out bytes.Buffer
	raw, err := yamldoc.JSON(value)
	if err != nil || json.Indent(&out, raw, "", "  ") != nil {
		return ""
	}
	return out.String()
}
