package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Reference is the document as its pages show it.
type Reference struct {
	Title, Version, Summary string
	Intro                   Prose
	Groups                  []Group
	Schemas                 []Schema
}

// Group is the operations of a tag.
type Group struct {
	Name, Anchor string
	Description  []Span
	Operations   []Operation
}

// Operation is one method of one path.
type Operation struct {
	ID, Method, Path, Summary string
	Description               Prose
	Credentials               []string // what may be shown; empty when none is needed
	Parameters                []Field
	Bodies                    []Schema // what may be sent; empty for none
	BodyNote                  []Span
	Samples                   []Sample
	Answer                    *Example // of the first success
	Responses                 []Response
}

// Field is a parameter, or a member of an object. In says where a parameter goes.
type Field struct {
	Name, In    string
	Required    bool
	Type        Type
	Description []Span
}

// Response is one answer of an operation. Codes are its error codes, Headers what it may carry beyond those of all.
type Response struct {
	Status      string
	Description []Span
	Media       []string
	Type        Type
	Codes       []string
	Headers     []string
}

// Example is a JSON text, indented.
type Example struct{ Title, JSON string }

// Schema is a named schema: Fields of an object, Words of a closed list that explains its values, else its Type.
type Schema struct {
	Name, Anchor string
	Description  []Span
	Fields       []Field
	Words        []Word
	Type         Type
}

var methods = []string{"get", "post", "put", "delete"}

// Read gives the document as pages show it.
func Read() Reference {
	root := read().root
	info := root.at("info")
	ref := Reference{
		Title: info.text("title"), Version: info.text("version"), Summary: info.text("summary"),
		Intro: parseProse(info.text("description")),
	}
	for _, tag := range root.objects("tags") {
		name := tag.text("name")
		ref.Groups = append(ref.Groups, Group{Name: name, Anchor: anchor(name), Description: ParseSpans(tag.text("description"))})
	}
	root.at("paths").each(func(path string, item object) {
		for _, method := range methods {
			if op := item.at(method); op != nil {
				place(ref.Groups, op, newOperation(root, path, method, item))
			}
		}
	})
	schemas().each(func(name string, schema object) { ref.Schemas = append(ref.Schemas, newSchema(name, schema)) })
	return ref
}

// place puts an operation into the group of its first tag.
func place(groups []Group, op object, operation Operation) {
	for _, tag := range op.list("tags") {
		if i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == tag }); i >= 0 {
			groups[i].Operations = append(groups[i].Operations, operation)
			return
		}
	}
}

func newOperation(root object, path, method string, item object) Operation {
	op := item.at(method)
	out := Operation{
		ID: op.text("operationId"), Method: strings.ToUpper(method), Path: path, Summary: op.text("summary"),
		Description: parseProse(op.text("description")), Credentials: credentials(root, op),
	}
	for _, p := range append(op.objects("parameters"), item.objects("parameters")...) {
		p = resolve(root, p)
		out.Parameters = append(out.Parameters, Field{
			Name: p.text("name"), In: p.text("in"), Required: p.flag("required"),
			Type: typeOf(p.at("schema")), Description: ParseSpans(p.text("description")),
		})
	}
	if body := op.at("requestBody"); body != nil {
		out.Bodies = bodies(root, body.at("content", "application/json", "schema"))
		out.BodyNote = ParseSpans(body.text("description"))
	}
	out.Samples = samples(op, out)
	op.at("responses").each(func(status string, response object) {
		response = resolve(root, response)
		out.Responses = append(out.Responses, newResponse(status, response))
		if example := firstExample(response); example != nil && out.Answer == nil && status < "300" {
			out.Answer = &Example{Title: status, JSON: indented(example)}
		}
	})
	return out
}

// bodies gives the schemas that a body may have, those that have names.
func bodies(root, schema object) []Schema {
	choices := append(schema.objects("oneOf"), schema.objects("anyOf")...)
	if len(choices) == 0 {
		choices = []object{schema}
	}
	var out []Schema
	for _, choice := range choices {
		if name, named := strings.CutPrefix(choice.text("$ref"), "#/components/schemas/"); named {
			out = append(out, newSchema(name, resolve(root, choice)))
		}
	}
	return out
}

// credentials names what an operation may be shown; none when it can be done without.
func credentials(root, op object) []string {
	allowed := op.list("security")
	if allowed == nil {
		allowed = root.list("security")
	}
	var out []string
	for _, entry := range allowed {
		choice, ok := entry.(yaml.MapSlice)
		if !ok || len(choice) == 0 {
			return nil
		}
		for _, scheme := range choice {
			name, isText := scheme.Key.(string)
			if isText {
				out = append(out, name)
			}
		}
	}
	return out
}

func newResponse(status string, response object) Response {
	out := Response{Status: status, Description: ParseSpans(response.text("description"))}
	response.at("content").each(func(media string, content object) {
		out.Media = append(out.Media, media)
		schema := content.at("schema")
		if constraint := schema.objects("allOf"); len(constraint) == 2 {
			for _, code := range constraint[1].at("properties", "code").list("enum") {
				if name, ok := code.(string); ok {
					out.Codes = append(out.Codes, name)
				}
			}
		} else if len(out.Type) == 0 && media != "text/event-stream" {
			out.Type = typeOf(schema)
		}
	})
	for _, code := range response.list("x-codes") {
		if name, ok := code.(string); ok {
			out.Codes = append(out.Codes, name)
		}
	}
	response.at("headers").each(func(name string, _ object) {
		if !slices.Contains([]string{"X-Request-Id", "RateLimit", "RateLimit-Policy"}, name) {
			out.Headers = append(out.Headers, name)
		}
	})
	return out
}

// firstExample gives the first example of a JSON answer, nil when there is none.
func firstExample(response object) any {
	content := response.at("content", "application/json")
	if example := content.get("example"); example != nil {
		return example
	}
	var first any
	content.at("examples").each(func(_ string, example object) {
		if first == nil {
			first = example.get("value")
		}
	})
	return first
}

func newSchema(name string, schema object) Schema {
	out := Schema{Name: name, Anchor: "schema-" + name, Description: ParseSpans(schema.text("description")), Words: Words(name)}
	out.Fields = fieldsOf(schema, "")
	if len(out.Words) > 0 && out.Words[0].Name == "" {
		out.Words = nil // a choice of schemas, not of words
	}
	if len(out.Fields) == 0 && len(out.Words) == 0 {
		out.Type = typeOf(schema)
	}
	return out
}

// fieldsOf lists the members of an object, those of objects within by their path.
func fieldsOf(schema object, within string) []Field {
	var out []Field
	required := schema.list("required")
	schema.at("properties").each(func(name string, value object) {
		out = append(out, Field{
			Name: within + name, Required: slices.Contains(required, any(name)), Type: typeOf(value),
			Description: ParseSpans(value.text("description")),
		})
		out = append(out, fieldsOf(value, within+name+".")...)
	})
	return out
}

// resolve follows a reference within the document.
func resolve(root, o object) object {
	path, isRef := strings.CutPrefix(o.text("$ref"), "#/")
	if !isRef {
		return o
	}
	return root.at(strings.Split(path, "/")...)
}

// indented writes a value of the document as JSON for people.
func indented(value any) string {
	var compact, out bytes.Buffer
	if err := writeJSON(&compact, value); err != nil {
		return ""
	}
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		return ""
	}
	return out.String()
}
