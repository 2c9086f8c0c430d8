package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/shared/truncate"
)

const (
	// maxOutputDepth is the maximum nesting of a schema for answers; the root has depth 1.
	maxOutputDepth = 16
	maxOutput      = 1 << 20   // bytes of an answer
	outputEffort   = 1_000_000 // maximum work of checking an answer; see Schema.validate
	// maximum number of mismatches that are returned; more would not help the model to correct its
	// answer
	maxMismatches = 20
	maxPath       = 500 // maximum length of a mismatch's path, in characters, because its keys come from the answer
)

var (
	// Errors of CompileOutput. Their texts continue a sentence about the schema.
	errDeep           = fmt.Errorf("it is nested deeper than %d levels", maxOutputDepth)
	errPatternUnknown = errors.New("the pattern is invalid, or uses look-around or back-references")
	errEndless        = errors.New("it refers to itself in such a way that no value matches it")
)

// Mismatch is a part of an answer that does not match its schema. Path is a JSON Pointer; "" is the
// whole answer. Message does not contain values from the answer.
type Mismatch struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// CompileOutput compiles the schema of an answer. It applies the rules of Compile and three more
// rules. The schema may be nested at most 16 levels deep. Every pattern must be supported. Every
// part that is used must match at least one value of finite size. The keyword format is not checked
// in any draft, because it is a hint to the model.
func CompileOutput(raw json.RawMessage) (*Schema, error) {
	s, err := newSchema(raw, false)
	if err != nil {
		return nil, err
	}

	// The depth is measured in the JSON text, because the compiled schema also contains the parts
	// to which references lead.
	doc, err := decode(raw, maxSchema)
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	if schemaDepth(doc) > maxOutputDepth {
		return nil, fmt.Errorf("reading schema: %w", errDeep)
	}

	w := &walk{seen: map[*jsonschema.Schema]bool{}}
	switch err := w.visit(s.compiled); {
	case err != nil:
		return nil, fmt.Errorf("reading schema: %w", err)
	case w.unknown:
		return nil, fmt.Errorf("reading schema: %s: %w", truncate.Ellipsis(w.location, maxPath), errPatternUnknown)
	case !w.productive():
		return nil, fmt.Errorf("reading schema: %w", errEndless)
	}
	return s, nil
}

// Mismatches checks an answer and returns at most 20 mismatches, sorted by path. It returns none if
// the answer matches the schema. An answer that is not JSON, is larger than 1 MiB or takes too much
// work to check has one mismatch with an empty path. A message does not contain values from the
// answer.
func (s *Schema) Mismatches(answer []byte) []Mismatch {
	value, err := decode(answer, maxOutput)
	if err != nil {
		return []Mismatch{{Message: err.Error()}}
	}

	err = s.validate(value, len(answer), outputEffort)
	if mismatch, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		found := sortedProblems(mismatch)
		list := make([]Mismatch, 0, min(len(found), maxMismatches))
		for _, p := range found[:min(len(found), maxMismatches)] {
			list = append(list, Mismatch{Path: truncate.Ellipsis(p.path, maxPath), Message: p.reason})
		}
		return list
	}
	if err != nil {
		return []Mismatch{{Message: err.Error()}}
	}
	return nil
}

// Keywords of JSON Schema whose values are schemas, lists of schemas, or objects of schemas.
var (
	schemaKeywords = setFor(`not if then else propertyNames additionalProperties unevaluatedProperties items additionalItems
		unevaluatedItems contains contentSchema allOf anyOf oneOf prefixItems`)
	schemaMaps = setFor(`properties patternProperties $defs definitions dependentSchemas dependencies`)
)

// setFor returns the set of the words in a text.
func setFor(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// schemaDepth returns the nesting of a schema's subschemas. A schema without subschemas has depth
// 1.
func schemaDepth(doc any) int {
	object, ok := doc.(map[string]any)
	if !ok {
		return 1
	}
	inner := 0
	for key, value := range object {
		var subs []any
		switch value := value.(type) {
		case []any:
			// The lists of other keywords, for example "required", contain no schemas.
			if schemaKeywords[key] {
				subs = value
			}
		case map[string]any:
			if schemaKeywords[key] {
				subs = []any{value}
			}
			if schemaMaps[key] {
				for _, sub := range value {
					subs = append(subs, sub)
				}
			}
		}
		for _, sub := range subs {
			inner = max(inner, schemaDepth(sub))
		}
	}
	return 1 + inner
}

// productive reports whether, for each visited part, a value of finite size can match. There is no
// such value for a part that requires itself, directly or through other parts.
func (w *walk) productive() bool {
	finite := map[*jsonschema.Schema]bool{}
	// Each round finds the parts that depend only on parts found before. Parts that are never found
	// require themselves.
	for changed := true; changed; {
		changed = false
		for _, part := range w.order { // because of this order, one round suffices for a schema without circles
			if !finite[part] && isFinite(part, finite) {
				finite[part], changed = true, true
			}
		}
	}
	return len(finite) == len(w.seen)
}

// isFinite reports whether a value of finite size can match a part, given that such values exist
// for the parts in the set finite.
func isFinite(part *jsonschema.Schema, finite map[*jsonschema.Schema]bool) bool {
	if part.Ref != nil && !finite[part.Ref] {
		return false
	}
	for _, sub := range part.AllOf {
		if !finite[sub] {
			return false
		}
	}
	for _, alternatives := range [][]*jsonschema.Schema{part.AnyOf, part.OneOf} {
		if len(alternatives) > 0 && !slices.ContainsFunc(alternatives, func(sub *jsonschema.Schema) bool { return finite[sub] }) {
			return false
		}
	}
	return isRequiredFinite(part, finite)
}

// isRequiredFinite reports whether all properties and items that a part requires are in the set
// finite. It returns true if the part also allows values of another type.
func isRequiredFinite(part *jsonschema.Schema, finite map[*jsonschema.Schema]bool) bool {
	if part.Types == nil {
		return true
	}
	switch types := part.Types.ToStrings(); {
	// Values of other types need neither properties nor items.
	case len(types) != 1:
		return true
	case types[0] == "object":
		return !slices.ContainsFunc(part.Required, func(name string) bool {
			sub := part.Properties[name]
			return sub != nil && !finite[sub]
		})
	case types[0] == "array" && part.MinItems != nil:
		first, items := itemParts(part)
		for i, sub := range first {
			if i < *part.MinItems && !finite[sub] {
				return false
			}
		}
		return *part.MinItems <= len(first) || items == nil || finite[items]
	default:
		return true
	}
}

// itemParts returns the parts for the first items of a list, and the part for the other items, or
// nil. Drafts before 2020-12 have other keywords for these parts.
func itemParts(part *jsonschema.Schema) (first []*jsonschema.Schema, other *jsonschema.Schema) {
	switch items := part.Items.(type) {
	case []*jsonschema.Schema:
		other, _ = part.AdditionalItems.(*jsonschema.Schema)
		return items, other
	case *jsonschema.Schema:
		return nil, items
	default:
		return part.PrefixItems, part.Items2020
	}
}
