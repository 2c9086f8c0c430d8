package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/shared/yamldoc"
)

// python generates the types of the Python SDK.
func python(doc object) ([]byte, error) {
	all, err := definitions(doc)
	if err != nil {
		return nil, err
	}

	all = append(all, completedRuns(all)...)
	w := &pythonWriter{of: map[string]definition{}, begun: map[string]bool{}, done: map[string]bool{}}
	for _, d := range all {
		w.of[d.name] = d
	}

	for _, d := range all {
		w.define(d)
	}

	if w.fault != nil {
		return nil, w.fault
	}

	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\"\"\"The types of Parley's HTTP API.\"\"\"\n\n", notice)
	out.WriteString("from typing import Any, Literal, Never, NotRequired, TypeAlias, TypedDict\n\n__all__ = [\n")
	for _, name := range slices.Sorted(slices.Values(w.order)) {
		fmt.Fprintf(&out, "    %q,\n", name)
	}

	out.WriteString("]\n")
	out.WriteString(w.out.String())
	return []byte(out.String()), nil
}

// completedRuns adds CompletedRun, a Run whose status is completed and whose answer is present.
// CompletedRun repeats the fields of Run, because a TypedDict cannot narrow the fields of another
// TypedDict.
func completedRuns(all []definition) []definition {
	at := slices.IndexFunc(all, func(d definition) bool { return d.name == "Run" && d.record })
	if at < 0 {
		return nil
	}
	completed := all[at]
	completed.name, completed.doc = "CompletedRun", "A completed run, which has an answer."
	completed.fields = slices.Clone(completed.fields)
	for i, f := range completed.fields {
		switch f.name {
		case "status":
			completed.fields[i].shape = shape{kind: literal, value: "completed"}
		case "message":
			completed.fields[i].shape = shape{kind: text}
		}
	}
	return []definition{completed}
}

// pythonWriter writes definitions as Python types. It writes each definition after the definitions
// that it references, because a name must be defined before Python executes a line that uses it.
// The field begun contains the names of the definitions whose writing has begun, and the field done
// those whose writing has ended. A circular reference leads to a definition that is begun and not
// done.
type pythonWriter struct {
	out         strings.Builder
	of          map[string]definition
	begun, done map[string]bool
	order       []string
	fault       error
}

// define writes a definition after the definitions that it references. It writes each definition
// once.
func (w *pythonWriter) define(d definition) {
	if w.begun[d.name] {
		return
	}

	w.begun[d.name] = true
	for _, name := range d.names() {
		w.define(w.of[name])
	}

	switch {
	case d.record && slices.ContainsFunc(d.fields, func(f field) bool { return !isPythonName(f.name) }):
		w.call(d)
	case d.record:
		w.class(d)
	default:
		w.alias(d)
	}

	w.done[d.name] = true
	w.order = append(w.order, d.name)
}

// class writes a record as a class that extends TypedDict.
func (w *pythonWriter) class(d definition) {
	fmt.Fprintf(&w.out, "\n\nclass %s(TypedDict):\n", d.name)
	w.docstring("    ", d.doc)
	if d.doc != "" && len(d.fields) > 0 {
		w.out.WriteString("\n")
	}

	for i, f := range d.fields {
		if i > 0 && (f.doc != "" || d.fields[i-1].doc != "") {
			w.out.WriteString("\n")
		}
		begin := "    " + f.name + ": "
		fmt.Fprintf(&w.out, "%s%s\n", begin, w.field(f).layOut(len(begin), 4, 4, 0))
		w.docstring("    ", f.doc)
	}

	if d.doc == "" && len(d.fields) == 0 {
		w.out.WriteString("    pass\n")
	}
}

// call writes a record as a call of TypedDict. Such a record has field names that are not valid in
// a class, such as "from" and "Idempotency-Key".
func (w *pythonWriter) call(d definition) {
	fmt.Fprintf(&w.out, "\n\n%s = TypedDict(\n    %q,\n    {\n", d.name, d.name)
	for _, f := range d.fields {
		for _, line := range wrap(f.doc, width-10) {
			fmt.Fprintf(&w.out, "%s\n", strings.TrimRight("        # "+line, " "))
		}
		begin := fmt.Sprintf("        %q: ", f.name)
		fmt.Fprintf(&w.out, "%s%s,\n", begin, w.field(f).layOut(len(begin), 8, 4, 1))
	}
	w.out.WriteString("    },\n)\n")
	w.docstring("", d.doc)
}

// alias writes a definition that is not a record as a type alias, with the documentation of its
// values.
func (w *pythonWriter) alias(d definition) {
	begin := d.name + ": TypeAlias = "
	expression := w.quoted(d.shape)
	if len(d.values) > 0 {
		fmt.Fprintf(&w.out, "\n\n%sLiteral[\n", begin)
		for _, v := range d.values {
			for _, line := range wrap(v.doc, width-6) {
				fmt.Fprintf(&w.out, "    # %s\n", line)
			}
			fmt.Fprintf(&w.out, "    %s,\n", w.literal(v.literal))
		}
		w.out.WriteString("]\n")
	} else {
		fmt.Fprintf(&w.out, "\n\n%s%s\n", begin, expression.layOut(len(begin), 0, 4, 0))
	}

	w.docstring("", d.doc)
}

// field returns the Python type of a field.
func (w *pythonWriter) field(f field) node {
	made := w.quoted(f.shape)
	if f.required {
		return made
	}
	return node{head: "NotRequired[", parts: []node{made}, tail: "]"}
}

// quoted returns the Python expression of a shape. If the shape references a later definition, the
// expression is a string.
func (w *pythonWriter) quoted(s shape) node {
	made := w.shape(s)
	if slices.ContainsFunc(s.names(), func(name string) bool { return !w.done[name] }) {
		return node{text: fmt.Sprintf("%q", strings.ReplaceAll(made.flat(), `"`, "'"))}
	}
	return made
}

// shape returns the Python expression of a shape.
func (w *pythonWriter) shape(s shape) node {
	switch s.kind {
	case text:
		return node{text: "str"}
	case number:
		if s.whole {
			return node{text: "int"}
		}
		return node{text: "float"}
	case boolean:
		return node{text: "bool"}
	case null:
		return node{text: "None"}
	case binary:
		return node{text: "bytes"}
	case empty:
		return node{text: "dict[str, Never]"}
	case reference:
		if w.of[s.name].open { // a TypedDict alone allows no additional fields
			return node{text: s.name + " | dict[str, Any]"}
		}
		return node{text: s.name}
	case literal:
		return w.literals([]shape{s})
	case list:
		return node{head: "list[", parts: []node{w.shape(s.of[0])}, tail: "]"}
	case dictionary:
		return node{head: "dict[str, ", parts: []node{w.shape(s.of[0])}, tail: "]"}
	case union:
		return w.union(s)
	case unknown:
	}
	return node{text: "Any"}
}

// union returns the expression of a union. All literals become one Literal.
func (w *pythonWriter) union(s shape) node {
	made := node{head: "(", tail: ")", between: " | ", before: "| ", bare: true}
	var literals []shape
	for _, inner := range s.of {
		if inner.kind == literal {
			literals = append(literals, inner)
		}
	}

	for _, inner := range s.of {
		switch {
		case inner.kind != literal:
			made.parts = append(made.parts, w.shape(inner))
		case len(literals) > 0:
			made.parts = append(made.parts, w.literals(literals))
			literals = nil
		}
	}

	if len(made.parts) == 1 {
		return made.parts[0]
	}
	return made
}

// literals returns the expression of one or several values: a Literal, or float if one of the
// values is a float.
func (w *pythonWriter) literals(shapes []shape) node {
	made := node{head: "Literal[", tail: "]", between: ", ", behind: ","}
	for _, s := range shapes {
		if _, isFloat := s.value.(float64); isFloat {
			return node{text: "float"} // Python has no float literals
		}
		made.parts = append(made.parts, node{text: w.literal(s.value)})
	}
	return made
}

// literal returns a value as a Python expression.
func (w *pythonWriter) literal(value any) string {
	switch value {
	case true:
		return "True"
	case false:
		return "False"
	}
	raw, err := yamldoc.JSON(value)
	if err != nil && w.fault == nil {
		w.fault = err
	}
	return string(raw)
}

// keywords are Python's reserved words, which a class cannot use as names of fields.
var keywords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield`)

// pythonName matches the names that Python accepts.
var pythonName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// isPythonName reports whether a class can have a field with this name. Python changes names that
// begin with two underscores.
func isPythonName(name string) bool {
	return pythonName.MatchString(name) && !slices.Contains(keywords, name) && !strings.HasPrefix(name, "__")
}

// docstring writes a description as a docstring.
func (w *pythonWriter) docstring(indent, doc string) {
	doc = strings.ReplaceAll(doc, `"""`, `'''`)
	lines := wrap(doc, width-len(indent)-8)
	if len(lines) == 0 {
		return
	}

	open := `"""`
	if strings.Contains(doc, `\`) {
		open = `r"""`
	}
	if last := lines[len(lines)-1]; len(lines) == 1 && !strings.HasSuffix(last, `"`) && !strings.HasSuffix(last, `\`) {
		fmt.Fprintf(&w.out, "%s%s%s\"\"\"\n", indent, open, last)
		return
	}

	for i, line := range lines {
		if i == 0 {
			line = open + line
		}
		fmt.Fprintf(&w.out, "%s\n", strings.TrimRight(indent+line, " "))
	}

	fmt.Fprintf(&w.out, "%s\"\"\"\n", indent)
}
