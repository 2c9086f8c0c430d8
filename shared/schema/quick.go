package schema

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxQuickDepth bounds the nesting depth of a quick check, because references may form a cycle.
	maxQuickDepth = 1_000
	// maxDigits is the maximum number of significant digits with which different decimal numbers
	// remain different as float64.
	maxDigits = 15
)

// quickPart is a part of a schema in the form for quick checks. A quick check reports only whether
// a value matches, and needs almost no memory. The library validates values that do not match,
// because its errors contain the reasons. It also validates values against schemas with keywords
// that a quickPart lacks.
type quickPart struct {
	never bool // the schema false

	types    quickType   // 0: all
	literals *literalSet // of enum or const
	ref, not *quickPart

	allOf, anyOf, oneOf        []*quickPart
	condition, then, otherwise *quickPart

	required                     []string
	properties                   map[string]*quickPart
	patterns                     []quickPattern
	additional                   *quickPart // the part for properties that are not in properties and match no pattern
	minProperties, maxProperties *int

	prefix             []*quickPart
	items              *quickPart
	minItems, maxItems *int

	minLength, maxLength *int
	pattern              *quickPattern

	bounds []quickBound
}

// quickType is a set of the types of JSON.
type quickType uint8

const (
	quickNull quickType = 1 << iota
	quickBoolean
	quickNumber
	quickInteger
	quickString
	quickArray
	quickObject
)

// quickTypes maps the names of types in a schema to the types.
var quickTypes = map[string]quickType{
	"null": quickNull, "boolean": quickBoolean, "number": quickNumber, "integer": quickInteger,
	"string": quickString, "array": quickArray, "object": quickObject,
}

// literalSet has the allowed values of enum or const. Numbers, lists and objects are not supported.
type literalSet struct {
	texts   map[string]bool
	yes, no bool
	null    bool
}

// quickPattern is a pattern, and the part for the properties whose names match it.
type quickPattern struct {
	jsonschema.Regexp

	cost int // of a match, in 64ths of a unit of work per character
	part *quickPart
}

// quickBound is a limit of a number. If the field excluded is -1, values below the limit violate
// the bound. If the field is 1, values above the limit violate the bound. If the field strict is
// set, a value equal to the limit violates the bound, too.
type quickBound struct {
	limit    float64
	excluded int
	strict   bool
}

// quickParts converts the parts of a schema. The field unsupported is true if any part has a
// keyword that a quickPart cannot represent.
type quickParts struct {
	known       map[*jsonschema.Schema]*quickPart
	unsupported bool
}

// newQuickPart converts a compiled schema, or returns nil if it has an unsupported keyword.
func newQuickPart(root *jsonschema.Schema) *quickPart {
	c := &quickParts{known: map[*jsonschema.Schema]*quickPart{}}
	part := c.part(root)
	if c.unsupported {
		return nil
	}
	return part
}

// part converts a schema that is part of another schema. It returns nil if s is nil.
func (c *quickParts) part(s *jsonschema.Schema) *quickPart {
	if s == nil {
		return nil
	}
	if known := c.known[s]; known != nil {
		return known
	}

	q := &quickPart{}
	c.known[s] = q // stored before the subparts are converted, because they may refer to this part
	if s.Bool != nil {
		q.never = !*s.Bool
		return q
	}
	if !isQuick(s) {
		c.unsupported = true
		return q
	}

	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			q.types |= quickTypes[name]
		}
	}
	if s.Enum != nil {
		q.literals = c.literals(s.Enum.Values)
	}
	if s.Const != nil {
		q.literals = c.literals([]any{*s.Const})
	}
	q.ref, q.not, q.condition, q.then, q.otherwise = c.part(s.Ref), c.part(s.Not), c.part(s.If), c.part(s.Then), c.part(s.Else)
	q.allOf, q.anyOf, q.oneOf = c.parts(s.AllOf), c.parts(s.AnyOf), c.parts(s.OneOf)
	c.object(q, s)
	q.prefix, q.items, q.minItems, q.maxItems = c.parts(s.PrefixItems), c.part(s.Items2020), s.MinItems, s.MaxItems
	q.minLength, q.maxLength = s.MinLength, s.MaxLength
	if s.Pattern != nil {
		q.pattern = &quickPattern{Regexp: s.Pattern, cost: sizeFor(s.Pattern) + 4}
	}
	for _, b := range []struct {
		limit    *big.Rat
		excluded int
		strict   bool
	}{{s.Minimum, -1, false}, {s.Maximum, 1, false}, {s.ExclusiveMinimum, -1, true}, {s.ExclusiveMaximum, 1, true}} {
		if b.limit != nil {
			limit, exact := b.limit.Float64()
			c.unsupported = c.unsupported || !exact
			q.bounds = append(q.bounds, quickBound{limit, b.excluded, b.strict})
		}
	}
	return q
}

// isQuick reports whether a part has only keywords that quick checks support.
func isQuick(s *jsonschema.Schema) bool {
	unsupported := []bool{
		s.DraftVersion != 2020, s.Format != nil, len(s.Extensions) > 0, s.DynamicRef != nil, s.RecursiveRef != nil,
		s.PropertyNames != nil, s.Dependencies != nil, s.DependentRequired != nil, s.DependentSchemas != nil,
		s.UniqueItems, s.Contains != nil, s.Items != nil, s.AdditionalItems != nil, s.UnevaluatedItems != nil,
		s.ContentEncoding != nil, s.ContentMediaType != nil, s.MultipleOf != nil, s.Enum != nil && s.Const != nil,
		// Without other parts for the same value, unevaluatedProperties has the meaning of
		// additionalProperties.
		s.UnevaluatedProperties != nil && len(sameValueParts(s)) > 0,
	}
	return !slices.Contains(unsupported, true)
}

// object converts the keywords for objects.
func (c *quickParts) object(q *quickPart, s *jsonschema.Schema) {
	q.required, q.minProperties, q.maxProperties = s.Required, s.MinProperties, s.MaxProperties
	q.properties = make(map[string]*quickPart, len(s.Properties))
	for name, sub := range s.Properties {
		q.properties[name] = c.part(sub)
	}
	for re, sub := range s.PatternProperties {
		q.patterns = append(q.patterns, quickPattern{re, sizeFor(re) + 4, c.part(sub)})
	}
	switch additional := s.AdditionalProperties.(type) {
	case nil:
		q.additional = c.part(s.UnevaluatedProperties)
	case bool:
		if !additional {
			q.additional = &quickPart{never: true}
		}
	case *jsonschema.Schema:
		q.additional = c.part(additional)
	default:
		c.unsupported = true
	}
}

// parts converts a list of schemas, in the same order.
func (c *quickParts) parts(all []*jsonschema.Schema) []*quickPart {
	out := make([]*quickPart, len(all))
	for i, s := range all {
		out[i] = c.part(s)
	}
	return out
}

// literals returns the set of the values of enum or const. A number, list or object makes the
// schema unsupported.
func (c *quickParts) literals(values []any) *literalSet {
	l := &literalSet{texts: map[string]bool{}}
	for _, v := range values {
		switch v := v.(type) {
		case string:
			l.texts[v] = true
		case bool:
			l.yes, l.no = l.yes || v, l.no || !v
		case nil:
			l.null = true
		default:
			c.unsupported = true
		}
	}
	return l
}

// quickCheck is a check of one value. Its result is valid only if unknown is false at the end. A
// quickPart is never changed, so several checks may use it at the same time.
type quickCheck struct {
	effort, depth int
	unknown       bool // the work was too much, or float64 is not exact enough
}

// quickMatch reports whether a value certainly matches the schema q. The argument effort is the
// maximum work. quickMatch returns false if q is nil, if the value does not match, or if the check
// gave up.
func quickMatch(q *quickPart, value any, effort int) bool {
	if q == nil {
		return false
	}
	c := quickCheck{effort: effort}
	return c.matches(q, value) && !c.unknown
}

// giveUp makes the result unknown.
func (c *quickCheck) giveUp() bool {
	c.unknown = true
	return false
}

// matches reports whether a value matches a part. It gives up if the work or the depth becomes too
// large.
func (c *quickCheck) matches(q *quickPart, value any) bool {
	c.effort--
	if c.unknown || c.effort < 0 || c.depth >= maxQuickDepth {
		return c.giveUp()
	}
	c.depth++
	ok := !q.never && c.typed(q, value) && c.combined(q, value)
	c.depth--
	return ok
}

// typed checks enum, const and the keywords for the value's own type.
func (c *quickCheck) typed(q *quickPart, value any) bool {
	if q.literals != nil && !q.literals.contain(value) {
		return false
	}
	switch v := value.(type) {
	case nil:
		return q.allows(quickNull)
	case bool:
		return q.allows(quickBoolean)
	case string:
		return q.allows(quickString) && c.text(q, v)
	case json.Number:
		return c.number(q, string(v))
	case []any:
		return q.allows(quickArray) && c.list(q, v)
	case map[string]any:
		return q.allows(quickObject) && c.object(q, v)
	default:
		return c.giveUp()
	}
}

// contain reports whether a value is one of the literals.
func (l *literalSet) contain(value any) bool {
	switch v := value.(type) {
	case nil:
		return l.null
	case bool:
		return v && l.yes || !v && l.no
	case string:
		return l.texts[v]
	default:
		return false
	}
}

// allows reports whether a part allows values of a type.
func (q *quickPart) allows(t quickType) bool { return q.types == 0 || q.types&t != 0 }

// combined checks the parts that apply to the same value.
func (c *quickCheck) combined(q *quickPart, value any) bool {
	matches := func(sub *quickPart) bool { return c.matches(sub, value) }
	fails := func(sub *quickPart) bool { return !matches(sub) }
	switch {
	case q.ref != nil && fails(q.ref), q.not != nil && matches(q.not):
		return false
	case slices.ContainsFunc(q.allOf, fails):
		return false
	case len(q.anyOf) > 0 && !slices.ContainsFunc(q.anyOf, matches):
		return false
	case len(q.oneOf) > 0 && !matchesOne(q.oneOf, matches):
		return false
	case q.condition == nil:
		return true
	}

	branch := q.otherwise
	if matches(q.condition) {
		branch = q.then
	}
	return branch == nil || matches(branch)
}

// matchesOne reports whether exactly one part matches.
func matchesOne(parts []*quickPart, matches func(*quickPart) bool) bool {
	first := slices.IndexFunc(parts, matches)
	return first >= 0 && !slices.ContainsFunc(parts[first+1:], matches)
}

// text checks the keywords for strings. Lengths count Unicode code points.
func (c *quickCheck) text(q *quickPart, text string) bool {
	if q.minLength != nil || q.maxLength != nil {
		if !within(utf8.RuneCountInString(text), q.minLength, q.maxLength) {
			return false
		}
	}
	return q.pattern == nil || c.matchesPattern(q.pattern, text)
}

// matchesPattern reports whether a part of the text matches a pattern. The work depends on the
// length of the text and on the size of the pattern.
func (c *quickCheck) matchesPattern(p *quickPattern, text string) bool {
	c.effort -= 1 + len(text)*p.cost/64
	if c.effort < 0 {
		return c.giveUp()
	}
	return p.MatchString(text)
}

// within reports whether n is within the bounds. A bound that is nil does not apply.
func within(n int, least, most *int) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

// list checks the keywords for lists. The first items are checked against their own parts, and all
// other items against the part items.
func (c *quickCheck) list(q *quickPart, list []any) bool {
	if !within(len(list), q.minItems, q.maxItems) {
		return false
	}
	for i, item := range list {
		switch {
		case i < len(q.prefix):
			if !c.matches(q.prefix[i], item) {
				return false
			}
		case q.items == nil:
			return true
		case !c.matches(q.items, item):
			return false
		}
	}
	return true
}

// object checks the keywords for objects. A property is checked against its own part and against
// the parts of all patterns that match its name. The part additional applies only if neither
// exists.
func (c *quickCheck) object(q *quickPart, object map[string]any) bool {
	if !within(len(object), q.minProperties, q.maxProperties) {
		return false
	}
	for _, name := range q.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}

	c.effort -= len(object) + len(q.required)
	for name, value := range object {
		sub, known := q.properties[name]
		if known && !c.matches(sub, value) {
			return false
		}
		for i := range q.patterns {
			if p := &q.patterns[i]; c.matchesPattern(p, name) {
				known = true
				if !c.matches(p.part, value) {
					return false
				}
			}
		}
		if !known && q.additional != nil && !c.matches(q.additional, value) {
			return false
		}
	}
	return true
}

// number checks the keywords for numbers. It gives up if a comparison as float64 could differ from
// the exact comparison.
func (c *quickCheck) number(q *quickPart, text string) bool {
	whole := !strings.ContainsAny(text, ".eE")
	switch {
	case q.allows(quickNumber), whole && q.allows(quickInteger):
	case q.allows(quickInteger): // for example 1.0, which is an integer
		return c.giveUp()
	default:
		return false
	}
	if len(q.bounds) == 0 {
		return true
	}

	value, err := strconv.ParseFloat(text, 64)
	if err != nil || len(text) > maxDigits || strings.ContainsAny(text, "eE") {
		return c.giveUp()
	}
	for _, b := range q.bounds {
		switch {
		case value == b.limit && !whole: // the exact numbers may differ, because value is rounded
			return c.giveUp()
		case value == b.limit:
			if b.strict {
				return false
			}
		case (value < b.limit) == (b.excluded < 0):
			return false
		}
	}
	return true
}
