package main

import (
	"slices"
	"strings"

	"parley/shared/yamldoc"
)

// methods are the HTTP methods that a path of the document can have.
var methods = []string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}

// operation is an HTTP method on a path of the document. Without an operationId, its id is the
// method and the path.
type operation struct {
	id, method, path string
	item, op         object // item is the document's object for the path, and op its object for the operation
}

// operationsFor returns a document's operations, in the document's order.
func operationsFor(doc object) []operation {
	var out []operation
	for path, item := range doc.At("paths").Members() {
		for method, op := range item.Members() {
			if !slices.Contains(methods, method) {
				continue
			}
			id := op.Text("operationId")
			if id == "" {
				id = method + " " + path
			}
			out = append(out, operation{id: id, method: strings.ToUpper(method), path: path, item: item, op: op})
		}
	}
	return out
}

// operations defines types for the inputs and outputs of each operation. Their names are the
// operation's name followed by Path, Query, Headers, Body, Answer or Event.
func (r *reader) operations() {
	for _, o := range operationsFor(r.doc) {
		name, of := typeName(o.id), "`"+o.method+" "+o.path+"`"
		parameters := r.parameters(o)
		for _, place := range []struct{ in, suffix, doc string }{
			{"path", "Path", "The path parameters of "}, {"query", "Query", "The query parameters of "}, {"header", "Headers", "The headers of "},
		} {
			r.defineParameters(name+place.suffix, place.doc+of+": "+o.op.Text("summary")+".", place.in, parameters)
		}
		r.defineContents(name+"Body", "The body of "+of+": "+o.op.Text("summary")+".", r.bodies(o))
		answers, events := r.answers(o)
		r.defineContents(name+"Answer", "The response to "+of+": "+o.op.Text("summary")+".", answers)
		r.defineContents(name+"Event", "An event of "+of+".", events)
	}
}

// parameters returns the parameters of an operation and of its path. If both define the same
// parameter, it returns the operation's definition.
func (r *reader) parameters(o operation) []object {
	var out []object
	for _, parameter := range slices.Concat(o.item.Objects("parameters"), o.op.Objects("parameters")) {
		resolved, err := r.doc.Resolve(parameter)
		if err != nil {
			r.fail("%s: %w", o.id, err)
			continue
		}
		out = slices.DeleteFunc(out, func(other object) bool {
			return other.Text("name") == resolved.Text("name") && other.Text("in") == resolved.Text("in")
		})
		out = append(out, resolved)
	}
	return out
}

// defineParameters defines a record with the parameters in one part of a request: path, query or
// header. Without such a parameter, it defines nothing. Path parameters are always required.
func (r *reader) defineParameters(name, doc, in string, parameters []object) {
	at := -1
	for _, parameter := range parameters {
		if parameter.Text("in") != in {
			continue
		}
		if at < 0 {
			at = len(r.made)
			r.made = append(r.made, definition{name: name, doc: doc, record: true})
		}
		made := field{
			name: parameter.Text("name"), doc: docFor(slices.Concat(parameter, defaultValue(parameter.At("schema")))),
			required: parameter.Get("required") == true || in == "path",
			shape:    r.shape(parameter.At("schema"), name+typeName(parameter.Text("name"))),
		}
		r.made[at].fields = append(r.made[at].fields, made)
	}
}

// defaultValue returns the default of a schema, for the documentation of a parameter.
func defaultValue(schema object) object {
	return slices.DeleteFunc(slices.Clone(schema), func(item yamldoc.Item) bool { return item.Key != "default" })
}

// bodies returns the schemas of an operation's request body, one for each content type.
func (r *reader) bodies(o operation) []object {
	body, err := r.doc.Resolve(o.op.At("requestBody"))
	if err != nil {
		r.fail("%s: %w", o.id, err)
	}
	var out []object
	for _, content := range body.At("content").Members() {
		out = append(out, content.At("schema"))
	}
	return out
}

// answers returns the schemas of an operation's successful responses. It returns the schemas of
// event streams separately.
func (r *reader) answers(o operation) (whole, events []object) {
	for status, response := range o.op.At("responses").Members() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		resolved, err := r.doc.Resolve(response)
		if err != nil {
			r.fail("%s: %w", o.id, err)
			continue
		}
		for media, content := range resolved.At("content").Members() {
			if media == "text/event-stream" {
				events = append(events, content.At("schema"))
			} else {
				whole = append(whole, content.At("schema"))
			}
		}
	}
	return whole, events
}

// defineContents defines a type as the union of the given schemas. Without schemas, or if the only
// schema already has the name, it defines nothing.
func (r *reader) defineContents(name, doc string, schemas []object) {
	switch len(schemas) {
	case 0:
		return
	case 1:
		if target, isRef := strings.CutPrefix(schemas[0].Text("$ref"), "#/components/schemas/"); isRef && typeName(target) == name {
			return // the only schema already has this name
		}
		at := len(r.made)
		r.define(name, schemas[0])
		r.made[at].doc = doc
		return
	}

	at := len(r.made)
	r.made = append(r.made, definition{name: name, doc: doc})
	r.made[at].shape = r.closed(r.choices(schemas, name))
}

// closed returns the union of shapes. If one of the shapes is bytes, the union omits shapes that
// allow any value, because clients read such responses as bytes, too.
func (r *reader) closed(shapes []shape) shape {
	all := oneOf(shapes...)
	if !slices.ContainsFunc(shapes, func(s shape) bool { return r.isA(binary, s) }) {
		return all
	}

	var flat []shape
	for _, s := range shapes {
		if s.kind == union {
			flat = append(flat, s.of...)
		} else {
			flat = append(flat, s)
		}
	}
	return oneOf(slices.DeleteFunc(flat, func(s shape) bool { return r.isA(unknown, s) })...)
}

// isA reports whether a shape is of the given kind. It follows references.
func (r *reader) isA(k kind, s shape) bool {
	for range len(r.made) {
		i := slices.IndexFunc(r.made, func(d definition) bool { return s.kind == reference && d.name == s.name && !d.record })
		if i < 0 {
			break
		}
		s = r.made[i].shape
	}
	return s.kind == k
}
