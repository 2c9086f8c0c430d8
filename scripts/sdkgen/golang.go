package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
	"unicode"

	"parley/scripts/internal/surface"
)

// golang generates the types of the Go SDK that the SDK's methods need. It generates no types for
// the parameters of operations, because the Go methods take the parameters as separate arguments.
func golang(doc object) ([]byte, error) {
	all, err := definitions(doc)
	if err != nil {
		return nil, err
	}

	w := &goWriter{of: map[string]definition{}, wanted: map[string]bool{}}
	operations := map[string]bool{}
	for _, d := range all {
		w.of[d.name] = d
	}
	for _, o := range operationsFor(doc) {
		for _, suffix := range []string{"Body", "Answer"} {
			operations[typeName(o.id)+suffix] = true
			if hasMethod(o.id) {
				w.want(typeName(o.id) + suffix)
			}
		}
	}
	for _, root := range goRoots {
		w.want(root)
	}

	fmt.Fprintf(&w.out, "// %s\n\npackage parley\n\nimport \"time\"\n", notice)
	for _, d := range all {
		if w.wanted[d.name] && !operations[d.name] && !isForeign(d.name) {
			w.define(d)
		}
	}
	w.events(w.of["RunEvent"])

	if w.fault != nil {
		return nil, w.fault
	}
	made, err := format.Source([]byte(w.out.String()))
	if err != nil {
		return nil, fmt.Errorf("formatting Go: %w", err)
	}
	return made, nil
}

// hasMethod reports whether the SDKs have a method for an operation.
func hasMethod(id string) bool {
	return slices.ContainsFunc(surface.Operations, func(o surface.Operation) bool { return o.ID == id && o.None == "" })
}

// goRoots are types that the file contains although no operation references them.
var goRoots = []string{"CodeOutput", "ErrorCode"}

// isForeign reports whether a type belongs to a protocol that the SDKs do not use.
func isForeign(name string) bool {
	return slices.ContainsFunc([]string{"AiSdk", "AgUi", "OpenAi"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// goWriter writes definitions as Go types. The field named of contains all definitions by name,
// and the field wanted contains the names of the definitions to write.
type goWriter struct {
	out    strings.Builder
	of     map[string]definition
	wanted map[string]bool
	fault  error
}

// want marks a definition, and all definitions that it references, as needed.
func (w *goWriter) want(name string) {
	d, known := w.of[name]
	if !known || w.wanted[name] || isForeign(name) {
		return
	}
	w.wanted[name] = true
	for _, inner := range d.names() {
		w.want(inner)
	}
}

// define writes a record as a struct, and an enum of strings as a type with constants. Other
// definitions have no name in Go: a field of such a type has the Go type of the definition's shape.
func (w *goWriter) define(d definition) {
	switch {
	case d.record:
		w.comment("", d.doc)
		fmt.Fprintf(&w.out, "type %s struct {\n", goName(d.name))
		for _, f := range d.fields {
			w.comment("\t", f.doc)
			omit := ""
			if !f.required {
				omit = ",omitzero"
			}
			fmt.Fprintf(&w.out, "\t%s %s `json:%q`\n", goName(f.name), w.field(f), f.name+omit)
		}
		w.out.WriteString("}\n")
	case isTextEnum(d.shape):
		w.comment("", d.doc)
		fmt.Fprintf(&w.out, "type %s string\n\n// The values of %s.\nconst (\n", goName(d.name), goName(d.name))
		for _, s := range d.shape.literals() {
			for _, v := range d.values {
				if v.literal == s.value {
					w.comment("\t", v.doc)
				}
			}
			fmt.Fprintf(&w.out, "\t%s %s = %q\n", goName(d.name)+goName(fmt.Sprint(s.value)), goName(d.name), s.value)
		}
		w.out.WriteString(")\n")
	}
}

// events writes a constant for each type of a run's events.
func (w *goWriter) events(d definition) {
	w.out.WriteString("\n// The event types of a run.\nconst (\n")
	for _, name := range d.names() {
		event := w.of[name]
		at := slices.IndexFunc(event.fields, func(f field) bool { return f.name == "event" })
		if at < 0 {
			w.fault = fmt.Errorf("%s has no field event", name)
			return
		}
		types := event.fields[at].shape.literals()
		if len(types) == 1 {
			w.comment("\t", event.doc)
		}
		for _, s := range types {
			fmt.Fprintf(&w.out, "\tEvent%s = %q\n", goName(fmt.Sprint(s.value)), s.value)
		}
	}
	w.out.WriteString(")\n")
}

// field returns the Go type of a field. If the field may be absent or null and its type lacks the
// value nil, field returns a pointer to the type.
func (w *goWriter) field(f field) string {
	made := w.shape(f.shape)
	nullable := slices.ContainsFunc(f.shape.of, func(s shape) bool { return f.shape.kind == union && s.kind == null })
	if nullable = nullable || w.isNullable(f.shape); (nullable || !f.required) && !hasNil(made) {
		return "*" + made
	}
	return made
}

// isNullable reports whether a reference is to a definition that may be null.
func (w *goWriter) isNullable(s shape) bool {
	if s.kind != reference || w.of[s.name].record {
		return false
	}
	target := w.of[s.name].shape
	return target.kind == union && slices.ContainsFunc(target.of, func(s shape) bool { return s.kind == null })
}

// hasNil reports whether a Go type has the value nil, so that an absent field needs no pointer.
func hasNil(made string) bool {
	return strings.HasPrefix(made, "[]") || strings.HasPrefix(made, "map[") || strings.HasPrefix(made, "*") || made == "any"
}

// shape returns the Go type of a shape. Unions of different types become any.
func (w *goWriter) shape(s shape) string {
	switch s.kind {
	case text:
		return "string"
	case number:
		if s.whole {
			return "int64"
		}
		return "float64"
	case boolean:
		return "bool"
	case binary:
		return "[]byte"
	case empty:
		return "struct{}"
	case literal:
		return goLiteral(s.value)
	case list:
		return "[]" + w.shape(s.of[0])
	case dictionary:
		return "map[string]" + w.shape(s.of[0])
	case reference:
		return w.reference(s.name)
	case union:
		return w.union(s)
	case unknown, null:
	}
	return "any"
}

// times contains the names of definitions that are strings in JSON and time.Time in Go.
var times = []string{"Time", "MaybeTime"}

// reference returns the Go type for a reference. Records and enums of strings have names in Go. For
// other definitions, it returns the type of their shape, time.Time, or any.
func (w *goWriter) reference(name string) string {
	d := w.of[name]
	switch {
	case slices.Contains(times, name):
		return "time.Time"
	case isForeign(name):
		return "any"
	case d.record, isTextEnum(d.shape):
		return goName(name)
	}
	return w.shape(d.shape)
}

// union returns the type that all alternatives have in common, or any.
func (w *goWriter) union(s shape) string {
	made := ""
	for _, inner := range s.of {
		if inner.kind == null {
			continue
		}
		if one := w.shape(inner); made == "" || made == one {
			made = one
			continue
		}
		return "any"
	}
	return made
}

// goLiteral returns the Go type of a single value.
func goLiteral(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "float64"
	}
	return "int64"
}

// literals returns the literal shapes that a union contains.
func (s shape) literals() []shape {
	if s.kind == literal {
		return []shape{s}
	}
	return slices.DeleteFunc(slices.Clone(s.of), func(inner shape) bool { return inner.kind != literal })
}

// isTextEnum reports whether a shape is one of several strings, or null.
func isTextEnum(s shape) bool {
	return s.kind == union && !slices.ContainsFunc(s.of, func(inner shape) bool {
		_, isText := inner.value.(string)
		return inner.kind != null && (inner.kind != literal || !isText)
	})
}

// comment writes a description as a comment. A comment that is not indented belongs to a type and
// gets an empty line before it.
func (w *goWriter) comment(indent, doc string) {
	if indent == "" {
		w.out.WriteString("\n")
	}
	for _, line := range wrap(doc, width-len(indent)-3) {
		fmt.Fprintf(&w.out, "%s\n", strings.TrimRight(indent+"// "+line, " "))
	}
}

// initials contains the abbreviations that are written in capitals in Go names.
var initials = []string{"AI", "API", "HTTP", "ID", "IP", "JSON", "MCP", "MS", "SHA256", "TTL", "URL"}

// goName returns an exported name: agentId becomes AgentID, and run.timed_out becomes RunTimedOut.
func goName(name string) string {
	var out strings.Builder
	for _, word := range strings.FieldsFunc(splitWords(name), func(r rune) bool { return r == ' ' }) {
		upper := strings.ToUpper(word)
		plural := strings.TrimSuffix(upper, "S")
		switch {
		case slices.Contains(initials, upper):
			out.WriteString(upper)
		case slices.Contains(initials, plural) && plural != upper:
			out.WriteString(plural + "s")
		default:
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return out.String()
}

// splitWords separates the words of a name by spaces. A word begins at a capital letter, and after
// a character that is neither a letter nor a digit.
func splitWords(name string) string {
	var out strings.Builder
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			out.WriteByte(' ')
			continue
		case i > 0 && unicode.IsUpper(r):
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}
