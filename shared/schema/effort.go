package schema

import (
	"errors"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errEffort stops a check that is too much work. Callers receive errTooLarge instead.
var errEffort = errors.New("too much")

// countEffort makes every part of the schema count the work of a check. If the work exceeds the
// limit, the part stops the check. Without a limit, parts that refer to each other could double the
// work at each level. The counter is installed as the part's format, because the library checks the
// format first. countEffort returns errUnknown, errDynamic or errElsewhere for a schema that cannot
// be checked.
func (s *Schema) countEffort() error {
	w := &walk{seen: map[*jsonschema.Schema]bool{}}
	if err := w.visit(s.compiled); err != nil {
		return err
	}
	// An unsupported pattern matches every text. Inside a "not", such a pattern could reject valid
	// values. A schema that has both is therefore rejected.
	if w.unknown && w.negative {
		return errUnknown
	}
	for part := range w.seen {
		s.count(part)
	}
	return nil
}

// count makes a part count each of its checks, and stop with errEffort when the effort is used up.
// The part keeps its own format unless the schema ignores formats.
func (s *Schema) count(part *jsonschema.Schema) {
	parts := sameValueParts(part)

	// The costs of a check are estimates. Each value has the cost named once, and each item of an
	// object or list has the cost perItem. Each byte of a string has about a 64th of the cost text.
	once := 1 + len(parts) + len(part.Required)
	for _, sub := range parts {
		once += partCost(sub)
	}

	perItem := len(part.PatternProperties) + 1
	for _, sub := range subparts(part) {
		perItem += partCost(sub)
	}
	named := 0 // each named property of an object is checked once
	for _, sub := range part.Properties {
		named += partCost(sub)
	}

	match := 0
	for p := range part.PatternProperties {
		match += sizeFor(p)
	}

	text := sizeFor(part.Pattern)
	old := part.Format
	if !s.formats {
		old = nil
	}
	counted := &jsonschema.Format{Validate: func(v any) error {
		s.effort -= once
		switch v := v.(type) {
		case map[string]any:
			// Each key is compared with all patterns.
			s.effort -= len(v)*(perItem-named+match/2) + named
		case []any:
			s.effort -= len(v) * perItem
		case string:
			s.effort -= len(v) * (text + 4) / 64
		}

		if s.effort < 0 {
			return errEffort
		}
		if old == nil || old.Name == "regex" { // the format "regex" would compile any expression that the model writes
			return nil
		}

		return old.Validate(v)
	}}
	if old != nil {
		counted.Name = old.Name
	}

	part.Format = counted
}

// partCost is the cost of checking a part without its subparts.
func partCost(part *jsonschema.Schema) int {
	if part.Enum == nil {
		return 0
	}
	return len(part.Enum.Values)
}

// sizeFor returns the size of a pattern, or 0 if there is none.
func sizeFor(p jsonschema.Regexp) int {
	if known, ok := p.(*pattern); ok {
		return known.size
	}
	return 0
}

// walk is a visit of all parts of a schema that a check can reach. It is used once, while the
// schema is compiled.
type walk struct {
	seen     map[*jsonschema.Schema]bool
	order    []*jsonschema.Schema // the parts of the schema, each after the parts to which it refers, except for circular references
	unknown  bool                 // a pattern cannot be checked
	location string               // JSON Pointer to an unsupported pattern; if there are several, the first in alphabetical order
	negative bool                 // a part has a "not" or a similar keyword, in which an overly permissive match rejects valid values
}

// visit adds a part and everything that it refers to. It returns an error for references that
// cannot be followed.
func (w *walk) visit(part *jsonschema.Schema) error {
	if part == nil || w.seen[part] {
		return nil
	}

	// A part is marked before its subparts are visited, because parts may refer to each other in a
	// circle.
	w.seen[part] = true
	if part.DynamicRef != nil || part.RecursiveRef != nil { // the walk cannot resolve these references
		return errDynamic
	}
	if !strings.HasPrefix(part.Location, address) {
		return errElsewhere
	}

	w.note(part)
	for _, sub := range append(sameValueParts(part), subparts(part)...) {
		if err := w.visit(sub); err != nil {
			return err
		}
	}

	w.order = append(w.order, part)
	return nil
}

// note records whether a part has patterns that Go does not support, and whether the part contains
// keywords that negate a match.
func (w *walk) note(part *jsonschema.Schema) {
	if isUnknown(part.Pattern) {
		w.noteUnknown(part, "/pattern")
	}
	for p := range part.PatternProperties {
		if isUnknown(p) {
			w.negative = true
			w.noteUnknown(part, "/patternProperties")
		}
	}
	// In these keywords (not, if, oneOf, maxContains), a match of an inner part can make the whole
	// value invalid.
	if part.Not != nil || part.If != nil || len(part.OneOf) > 0 || part.MaxContains != nil {
		w.negative = true
	}
}

// noteUnknown records the location of a pattern that Go does not support.
func (w *walk) noteUnknown(part *jsonschema.Schema, keyword string) {
	location := strings.TrimPrefix(part.Location, address+"#")
	if plain, err := url.PathUnescape(location); err == nil {
		location = plain
	}

	// Parts are visited in random order, so the first location in alphabetical order is kept.
	if location += keyword; !w.unknown || location < w.location {
		w.unknown, w.location = true, location
	}
}

// isUnknown reports whether Go's regexp package does not support a pattern.
func isUnknown(p jsonschema.Regexp) bool {
	known, ok := p.(*pattern)
	return ok && known.re == nil
}

// sameValueParts returns the parts that apply to the same value as their owner.
func sameValueParts(part *jsonschema.Schema) (parts []*jsonschema.Schema) {
	parts = append(parts, part.AllOf...)
	parts = append(parts, part.AnyOf...)
	parts = append(parts, part.OneOf...)
	for _, sub := range []*jsonschema.Schema{part.Ref, part.Not, part.If, part.Then, part.Else} {
		parts = addTo(parts, sub)
	}

	for _, sub := range part.DependentSchemas {
		parts = addTo(parts, sub)
	}

	for _, sub := range part.Dependencies {
		parts = addTo(parts, sub)
	}

	return parts
}

// subparts returns the parts that apply to values inside their owner's value.
func subparts(part *jsonschema.Schema) (parts []*jsonschema.Schema) {
	for _, sub := range part.Properties {
		parts = addTo(parts, sub)
	}

	for _, sub := range part.PatternProperties {
		parts = addTo(parts, sub)
	}

	parts = append(parts, part.PrefixItems...)
	for _, sub := range []any{
		part.AdditionalProperties, part.PropertyNames, part.UnevaluatedProperties, part.Items, part.AdditionalItems,
		part.Items2020, part.UnevaluatedItems, part.Contains, part.ContentSchema,
	} {
		parts = addTo(parts, sub)
	}

	return parts
}

// addTo appends sub if it is a part or a list of parts.
func addTo(parts []*jsonschema.Schema, sub any) []*jsonschema.Schema {
	switch sub := sub.(type) {
	case *jsonschema.Schema:
		if sub != nil {
			parts = append(parts, sub)
		}
	case []*jsonschema.Schema:
		parts = append(parts, sub...)
	}
	return parts
}
