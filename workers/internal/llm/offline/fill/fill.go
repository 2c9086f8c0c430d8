package fill

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/shared/domain"
	"parley/shared/truncate"
	"parley/workers/internal/llm"
)

// Limits on the size of the JSON.
const (
	maxDepth = 24
	maxNodes = 5_000 // maximum number of values of the schema that are visited
	maxItems = 50    // maximum number of items of a list, unless its schema requires more
	maxPad   = 1_000 // maximum number of items or characters that a schema can require

	maxNested = 2 // maximum number of values of the same reference that are nested and filled from the texts
)

// Input contains the texts and the data from which values are taken.
type Input struct {
	Message string
	Data    json.RawMessage // data that was sent with the message; nil: none
	Results []llm.ToolResult
	// Passages are the parts of the sources that best answer the message, in descending order.
	Passages []string
	// Recognized contains the texts in images. They are not sources, so no citation names them.
	Recognized []string
}

// filler writes the JSON for one schema. It is used for one answer only, because its texts remember
// which values have been used.
type filler struct {
	root    *node
	texts   []*text // in order of precedence: the message, the passages, the texts of sources, the texts in images
	objects []any   // the data sent with the message, and the tool results
	left    int     // number of values of the schema that may still be visited

	open     map[string]int // number of values with each reference that are being filled
	smallest bool           // the smallest valid value is written, because a reference is nested in itself
}

// Answer returns JSON for a schema. The JSON matches the schema unless the schema requires a value
// that the rules do not find. If the schema has citations of values, each citation names the source
// that contains the value.
func Answer(schema json.RawMessage, in Input) string {
	root, ok := parse(schema).(*node)
	if !ok {
		return "null"
	}

	f := &filler{root: root, left: maxNodes, open: map[string]int{"#": 1}, texts: []*text{newText(in.Message)}}
	f.objects = append(f.objects, parse(in.Data))
	var sources []domain.Citation
	// The output of a failed call is an error text, which contains no values.
	for _, r := range in.Results {
		if r.Failed {
			continue
		}
		f.objects = append(f.objects, parse(r.Output))
		sources = append(sources, r.Sources...)
	}
	// The passages come before the complete texts of their sources, because they answer the message
	// best.
	for _, passage := range in.Passages {
		f.texts = append(f.texts, newText(passage))
	}
	for _, s := range sources {
		f.texts = append(f.texts, newText(s.CitedText))
	}
	for _, recognized := range in.Recognized {
		f.texts = append(f.texts, newText(recognized))
	}

	// For a schema with citations, the rules fill only the data. The citations follow from the
	// values.
	data := citedData(root)
	if data == nil {
		raw, _ := f.value(root, "", f.texts, 0)
		return cmp.Or(raw, "null")
	}
	raw, _ := f.value(data, "", f.texts, 0)
	raw = cmp.Or(raw, "null")
	return `{"data":` + raw + `,"citations":` + cite(raw, sources) + `}`
}

// citedData returns the part of the schema that describes the data if the schema also requires
// citations. Otherwise it returns nil. The service creates such schemas itself, so their form is
// known exactly.
func citedData(root *node) *node {
	properties := root.child("properties")
	if properties == nil || !slices.Equal(properties.names, []string{"data", "citations"}) {
		return nil
	}
	items := properties.child("citations").child("items")
	if items == nil || items.child("properties") == nil || !slices.Equal(items.child("properties").names, []string{"path", "source"}) {
		return nil
	}
	return properties.child("data")
}

// value returns the JSON of a value for a schema, and whether the texts contain a part of the
// value. name is the name of the value's field. If the schema refers to itself, maxNested values of
// the same reference are nested, and the next one is the smallest valid value. raw is empty if the
// value would have to contain itself.
func (f *filler) value(s *node, name string, in []*text, depth int) (raw string, found bool) {
	// The limits also end the processing of a schema that refers to itself.
	if f.left--; s == nil || f.left < 0 || depth > maxDepth {
		return "null", false
	}

	leave, finite := f.enter(s.reference())
	defer leave()
	if !finite {
		return "", false
	}
	if f.smallest {
		in = nil
	}

	s = f.resolve(s)
	// A constant does not depend on the texts, so it does not count as found.
	if fixed, ok := s.values["const"]; ok {
		return write(fixed), false
	}
	if raw, found, ok := f.alternative(s, name, in, depth); ok {
		return raw, found
	}

	if s.list("enum") == nil && s.kind() == "null" {
		return "null", false
	}
	null := s.nullable()
	if !f.smallest || !null {
		if raw, found = f.content(s, name, in, depth); found {
			return raw, true
		}
	}

	// The texts contain nothing. A default is better than null, and null is better than a
	// placeholder.
	if fallback, ok := s.values["default"]; ok {
		return write(fallback), false
	}
	if null {
		return "null", false
	}
	return raw, false
}

// enter counts a value with the given reference, until leave is called. If more than maxNested
// values with the reference are nested, the smallest valid value is written. finite is false if
// that value would contain itself.
func (f *filler) enter(ref string) (leave func(), finite bool) {
	if ref == "" {
		return func() {}, true
	}
	f.open[ref]++
	objects, smallest, n := f.objects, f.smallest, f.open[ref]
	if n > maxNested {
		f.objects, f.smallest = nil, true
	}
	return func() {
		f.open[ref]--
		f.objects, f.smallest = objects, smallest
	}, !smallest || n <= maxNested+1
}

// content returns the JSON of a value that is not null, according to the schema's type. If nothing
// matches in the texts, the value is a placeholder.
func (f *filler) content(s *node, name string, in []*text, depth int) (raw string, found bool) {
	switch kind := s.kind(); {
	case s.list("enum") != nil:
		return f.choice(s, name, in)
	case kind == "object":
		return f.object(s, name, in, depth)
	case kind == "array":
		return f.array(s, name, in, depth)
	default:
		return f.scalar(s, kind, name, in)
	}
}

// alternative returns the value of the first alternative of anyOf or oneOf for which the texts
// contain something. If there is none, it returns null if that is an alternative, or else the value
// of the first alternative that has a finite value. ok is false if the schema has no alternatives.
func (f *filler) alternative(s *node, name string, in []*text, depth int) (raw string, found, ok bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		all := s.list(keyword)
		if len(all) == 0 {
			continue
		}
		if slices.ContainsFunc(all, func(one any) bool { return f.smallest && isNull(one) }) {
			return "null", false, true
		}

		first, null := "", false
		for _, one := range all {
			sub, isNode := one.(*node)
			if !isNode || isNull(one) {
				null = null || isNull(one)
				continue
			}
			// Keywords beside anyOf also apply to each alternative.
			raw, found := f.value(merge(without(s, keyword), sub), name, in, depth+1)
			if found {
				return raw, true, true
			}
			first = cmp.Or(first, raw)
		}
		if null {
			first = "null"
		}
		return first, false, true
	}
	return "", false, false
}

// isNull reports whether a schema allows only null.
func isNull(schema any) bool {
	s, _ := schema.(*node)
	return s.text("type") == "null"
}

// object returns an object with values for the schema's properties. It counts as found if the texts
// contain at least one of the values.
func (f *filler) object(s *node, name string, in []*text, depth int) (raw string, found bool) {
	properties := s.child("properties")
	if properties == nil {
		properties = &node{}
	}
	if len(properties.names) == 0 && len(s.list("required")) == 0 {
		return f.free(s, name, in)
	}

	var b strings.Builder
	add := func(name, raw string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(write(name) + ":" + raw)
	}
	// The order of the schema decides which field gets a value that fits several fields.
	for _, name := range properties.names {
		if f.smallest && !s.requires(name) {
			continue
		}
		raw, ok := f.value(properties.child(name), name, in, depth+1)
		if raw == "" && s.requires(name) {
			return "", false
		}
		if ok || s.requires(name) {
			add(name, raw)
		}
		found = found || ok
	}
	// A required property without a schema of its own has the schema of additional properties.
	for _, required := range s.list("required") {
		name, _ := required.(string)
		if _, known := properties.values[name]; !known {
			raw, _ := f.value(s.child("additionalProperties"), name, in, depth+1)
			add(name, cmp.Or(raw, "null"))
		}
	}
	return "{" + b.String() + "}", found
}

// free returns an object whose properties the schema does not name. The properties are the members
// of the object in the message, or the message's pairs such as "watts: 7".
func (f *filler) free(s *node, name string, in []*text) (raw string, found bool) {
	// Inside of an answer, an object stays empty unless the schema explicitly allows any
	// properties.
	if more, ok := s.values["additionalProperties"].(bool); ok && !more || name != "" && s.values["additionalProperties"] == nil {
		return "{}", false
	}
	if len(in) == 0 {
		return "{}", false
	}
	// An object in the message is copied unchanged.
	if object := in[0].object(); object != "" {
		return object, true
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, pair := range in[0].pairs() {
		if seen[pair[0]] {
			continue
		}
		seen[pair[0]] = true
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(write(pair[0]) + ":" + write(pair[1]))
	}
	// Without any pairs, the answer repeats the beginning of the message.
	if b.Len() == 0 && name == "" {
		b.WriteString(`"message":` + write(truncate.Runes(in[0].s, 300)))
	}
	return "{" + b.String() + "}", b.Len() > 0
}

// named returns the values that the data and the tool results contain under a name. The name is
// compared without case and separators, at the first levels of the data only.
func (f *filler) named(name string) (found []any) {
	var look func(v any, depth int)
	look = func(v any, depth int) {
		switch v := v.(type) {
		case *node:
			// Members of the object itself come before members of the objects inside of it.
			for _, key := range v.names {
				if plain(key) == plain(name) {
					found = append(found, v.values[key])
				}
			}
			for _, key := range v.names {
				if plain(key) != plain(name) && depth < 4 && len(found) < maxItems {
					look(v.values[key], depth+1)
				}
			}
		case []any:
			for _, one := range v[:min(len(v), maxItems)] {
				if depth < 4 {
					look(one, depth+1)
				}
			}
		}
	}
	if name != "" {
		for _, object := range f.objects {
			look(object, 0)
		}
	}
	return found
}

// plain returns a name in lower case without separators, so that unitPrice, unit_price and "unit
// price" are the same name.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// singular returns the name of one item of a list with the given name. It only removes a final s.
func singular(name string) string { return strings.TrimSuffix(name, "s") }

// write returns the JSON of a value. It keeps the order of an object's members, and does not escape
// HTML characters.
func write(v any) string {
	switch v := v.(type) {
	case *node:
		members := make([]string, len(v.names))
		for i, name := range v.names {
			members[i] = write(name) + ":" + write(v.values[name])
		}
		return "{" + strings.Join(members, ",") + "}"
	case []any:
		items := make([]string, len(v))
		for i, one := range v {
			items[i] = write(one)
		}
		return "[" + strings.Join(items, ",") + "]"
	default:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return "null" // unreachable: parsed JSON can be encoded
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
}

// maxCited is the maximum number of citations of an answer.
const maxCited = 100

// cite returns the citations of the values that at least one source contains. The path of a value
// is a JSON pointer. If several sources contain a value, the first of them is cited.
func cite(data string, sources []domain.Citation) string {
	texts := make([]*text, len(sources))
	for i, s := range sources {
		texts[i] = newText(s.CitedText)
	}
	var all []string
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case *node:
			for _, name := range v.names {
				walk(v.values[name], path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
			}
		case []any:
			for i, one := range v {
				walk(one, path+"/"+strconv.Itoa(i))
			}
		case string, json.Number:
			for i, t := range texts {
				if len(all) < maxCited && t.contains(v) {
					all = append(all, `{"path":`+write(path)+`,"source":`+strconv.Itoa(sources[i].ID)+`}`)
					return
				}
			}
		}
	}
	walk(parse([]byte(data)), "")
	return "[" + strings.Join(all, ",") + "]"
}
