package openapiimport

import (
	"maps"
	"slices"
)

// shape is the schema of an object without alternatives at its top level, because model providers
// do not accept alternatives there. Several schemas of a document are merged into it; see join.
type shape struct {
	// Schemas of the properties, by name.
	properties map[string]any
	// Names of the required properties; some may have no schema.
	required   map[string]bool
	additional any // value of additionalProperties; nil if absent
}

// errNoObject is the reason for skipping an operation whose body is a list or a scalar. The
// arguments of a tool are always an object.
const errNoObject = skip("The request body of the operation is not a JSON object.")

// shape flattens the schema of a body. It joins the parts of allOf. From anyOf and oneOf, the
// result allows the properties of all alternatives, and requires only the properties that every
// alternative requires. The result may accept bodies that the document rejects; the server then
// reports the error. The errors are skips and those of take.
func (p *pass) shape(value any) (shape, error) {
	s := shape{properties: map[string]any{}, required: map[string]bool{}}

	if err := p.take(1); err != nil {
		return s, err
	}

	if value == true {
		return s, nil
	}

	object, ok := value.(map[string]any)
	if !ok {
		return s, errNoObject
	}

	ref, ok := object["$ref"].(string)

	// Unlike a nested schema, a body that contains itself at its top level has no useful stub.
	if ok && (slices.Contains(p.within, ref) || len(p.within) > maxDepth) {
		return s, errCircular
	}

	if ok {
		if err := p.follow(ref, &s); err != nil || p.d.legacy {
			return s, err
		}
	}

	if !takesObject(object["type"]) {
		return s, errNoObject
	}
	return s, p.join(object, &s)
}

// follow flattens the target of a reference into a shape. A recursive reference is detected by
// p.within, from which the reference is removed at the end. The argument into is replaced, even
// after an error.
func (p *pass) follow(ref string, into *shape) error {
	target, err := p.d.lookup(ref)
	if err != nil {
		return err
	}
	p.within = append(p.within, ref)
	defer func() { p.within = p.within[:len(p.within)-1] }()
	inner, err := p.shape(target)
	*into = inner
	return err
}

// takesObject reports whether the type in a schema allows objects. A missing type allows any value.
func takesObject(kind any) bool {
	list, several := kind.([]any)
	return kind == nil || kind == "object" || several && slices.Contains(list, any("object"))
}

// join adds a schema to a shape, including the schemas in its allOf, anyOf and oneOf. The schema's
// own properties come first. If a property occurs several times, its value must match all schemas.
func (p *pass) join(object map[string]any, into *shape) error {
	// The method keywords also drops read-only properties, including those in the list of required
	// properties.
	copied, err := p.keywords(bare(object), 0)
	if err != nil {
		return err
	}

	own, _ := copied.(map[string]any)
	properties, _ := own["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		into.add(name, properties[name], "allOf")
	}

	for _, name := range listFor(own, "required") {
		if text, ok := name.(string); ok {
			into.required[text] = true
		}
	}

	alone := true
	for _, part := range listFor(object, "allOf") {
		alone = false
		inner, err := p.shape(part)
		if err != nil {
			return err
		}
		into.take(inner, "allOf")
		for name := range inner.required {
			into.required[name] = true
		}
	}

	for _, key := range []string{"oneOf", "anyOf"} {
		if list := listFor(object, key); len(list) > 0 {
			alone = false
			if err := p.alternatives(list, into); err != nil {
				return err
			}
		}
	}
	// If there are several parts, the result must allow other properties, because one part may have
	// properties that another part does not list.
	if additional, found := own["additionalProperties"]; found && (alone || additional != false) {
		into.additional = additional
	}
	return nil
}

// bare returns a schema with only the keywords that describe the object's own properties.
// Alternatives are handled by join, and other keywords cannot be expressed in a shape.
func bare(object map[string]any) map[string]any {
	kept := map[string]any{}
	for _, key := range []string{"properties", "required", "additionalProperties"} {
		if v, found := object[key]; found {
			kept[key] = v
		}
	}
	return kept
}

// alternatives adds the properties of all alternatives. It requires only the properties that every
// alternative requires. If a property occurs in several alternatives, its value must match one of
// the schemas.
func (p *pass) alternatives(list []any, into *shape) error {
	var common map[string]bool
	union := shape{properties: map[string]any{}}
	for _, one := range list {
		inner, err := p.shape(one)
		if err != nil {
			return err
		}
		union.take(inner, "anyOf")

		// The intersection begins with the required properties of the first alternative.
		if common == nil {
			common = inner.required
			continue
		}
		maps.DeleteFunc(common, func(name string, _ bool) bool { return !inner.required[name] })
	}

	into.take(union, "allOf")
	maps.Copy(into.required, common)
	return nil
}

// take adds the properties of another shape. If both shapes have a property, its two schemas are
// combined as the parameter how specifies; see add. The required properties of the other shape are
// not added, because that depends on the kind of combination.
func (s *shape) take(other shape, how string) {
	for _, name := range slices.Sorted(maps.Keys(other.properties)) {
		s.add(name, other.properties[name], how)
	}
}

// add adds a property. If the shape already has this property, the two schemas are combined: if the
// argument how is allOf, a value must match both of them, and otherwise at least one of them.
func (s *shape) add(name string, schema any, how string) {
	old, known := s.properties[name]
	switch {
	case !known:
		s.properties[name] = schema
	case how == "allOf":
		s.properties[name] = both(old, schema)
	default:
		s.properties[name] = either(old, schema)
	}
}

// either returns a schema that matches the values that match a or b. It adds b to an existing list
// of alternatives, so that several alternatives stay one flat list.
func either(a, b any) any {
	if same(a, b) {
		return a
	}
	if first, ok := a.(map[string]any); ok && len(first) == 1 {
		if list, ok := first["anyOf"].([]any); ok {
			if slices.ContainsFunc(list, func(one any) bool { return same(one, b) }) {
				return a
			}
			return map[string]any{"anyOf": append(list, b)}
		}
	}
	return map[string]any{"anyOf": []any{a, b}}
}
