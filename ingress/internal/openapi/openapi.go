package openapi

import (
	"bytes"
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var source []byte

// parsed is the document as it was read, and as it is served.
type parsed struct {
	root     object
	document []byte
}

// read reads the embedded document once. A document that cannot be read is a fault of the build, which the
// tests find.
var read = sync.OnceValue(func() parsed {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(source, &root, yaml.UseOrderedMap()); err != nil {
		panic(fmt.Errorf("reading openapi.yaml: %w", err))
	}
	p := parsed{root: object(root)}
	var out bytes.Buffer
	if err := writeJSON(&out, withHead(p.root)); err != nil {
		panic(fmt.Errorf("writing openapi.yaml as JSON: %w", err))
	}
	p.document = out.Bytes()
	return p
})

// withHead gives the document with a HEAD beside each GET that does not say x-no-head: the source leaves them out.
func withHead(root object) yaml.MapSlice {
	out := slices.Clone(yaml.MapSlice(root))
	for i, item := range out {
		paths, isObject := item.Value.(yaml.MapSlice)
		if item.Key != "paths" || !isObject {
			continue
		}
		paths = slices.Clone(paths)
		for j := range paths {
			if operations, ok := paths[j].Value.(yaml.MapSlice); ok {
				paths[j].Value = addHead(operations)
			}
		}
		out[i].Value = paths
	}
	return out
}

// addHead describes HEAD of a path as its GET, whose headers it answers.
func addHead(operations yaml.MapSlice) yaml.MapSlice {
	get := object(operations).at("get")
	if get == nil || get.flag("x-no-head") {
		return operations
	}
	head := slices.Clone(yaml.MapSlice(get))
	for i := range head {
		if head[i].Key == "operationId" {
			head[i].Value = "head-" + get.text("operationId")
		}
	}
	return append(slices.Clone(operations), yaml.MapItem{Key: "head", Value: head})
}

// Document gives the OpenAPI document as JSON, in the order of its source. The bytes are shared: nobody changes them.
func Document() []byte { return read().document }

// Version gives the version of the service, which the document's info names.
func Version() string { return read().root.at("info").text("version") }

// Title gives the name of the service.
func Title() string { return read().root.at("info").text("title") }

// object is a mapping of the document, in the order of its source.
type object yaml.MapSlice

// get gives a member, nil when there is none.
func (o object) get(name string) any {
	for _, item := range o {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

// at gives what a path of names leads to; an empty object where there is none.
func (o object) at(path ...string) object {
	for _, name := range path {
		inner, ok := o.get(name).(yaml.MapSlice)
		if !ok {
			return nil
		}
		o = object(inner)
	}
	return o
}

// text gives a member that is a text.
func (o object) text(name string) string {
	s, ok := o.get(name).(string)
	if !ok {
		return ""
	}
	return s
}

// flag reports whether a member is true.
func (o object) flag(name string) bool {
	b, ok := o.get(name).(bool)
	return ok && b
}

// list gives a member that is a list.
func (o object) list(name string) []any {
	l, ok := o.get(name).([]any)
	if !ok {
		return nil
	}
	return l
}

// objects gives those entries of a list that are objects.
func (o object) objects(name string) []object {
	var out []object
	for _, entry := range o.list(name) {
		if inner, ok := entry.(yaml.MapSlice); ok {
			out = append(out, object(inner))
		}
	}
	return out
}

// each calls f with the members that are objects.
func (o object) each(f func(name string, value object)) {
	for _, item := range o {
		name, isText := item.Key.(string)
		inner, isObject := item.Value.(yaml.MapSlice)
		if isText && isObject {
			f(name, object(inner))
		}
	}
}

// writeJSON writes a value of the document as JSON, keeping the order of mappings.
func writeJSON(out *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case yaml.MapSlice:
		return writeObject(out, v)
	case []any:
		out.WriteByte('[')
		for i, entry := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, entry); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	default:
		return writeScalar(out, v)
	}
}

func writeObject(out *bytes.Buffer, o yaml.MapSlice) error {
	out.WriteByte('{')
	for i, item := range o {
		name, ok := item.Key.(string)
		if !ok {
			return fmt.Errorf("key %v is no text", item.Key)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeScalar(out, name); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeJSON(out, item.Value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	out.WriteByte('}')
	return nil
}

func writeScalar(out *bytes.Buffer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	out.Truncate(out.Len() - 1) // the encoder ends with a line feed
	return nil
}
