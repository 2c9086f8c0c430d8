package fill

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/shared/truncate"
)

// scalar returns a string, a number or a boolean. It looks for a value after its name in the
// message, for a value of that name in the data or a tool result, and for a value of the same form
// in a text.
func (f *filler) scalar(s *node, kind, name string, in []*text) (raw string, found bool) {
	// A value next to its name is the most reliable, in the message as well as in the other texts.
	find := finderFor(s, kind, name)
	for i, t := range in {
		if raw, ok := find(t, true); ok {
			return raw, true
		}
		// The data and the tool results come directly after the message.
		if i > 0 || len(f.texts) == 0 || t != f.texts[0] {
			continue
		}
		if raw, ok := f.fromObjects(s, kind, name); ok {
			return raw, true
		}
	}
	// Without texts, only the data is left.
	if len(in) == 0 {
		if raw, ok := f.fromObjects(s, kind, name); ok {
			return raw, true
		}
	}
	// A value that has the right form but is not next to its name is the last choice.
	for _, t := range in {
		if raw, ok := find(t, false); ok {
			return raw, true
		}
	}
	return empty(s, kind), false
}

// fromObjects returns the value that the data or a tool result contains under a name, if the value
// has the type in the schema. A number can be the value of a string.
func (f *filler) fromObjects(s *node, kind, name string) (raw string, found bool) {
	for _, v := range f.named(name) {
		switch v := v.(type) {
		case string:
			if kind == "string" && fits(s, v) {
				return write(v), true
			}
		case json.Number:
			if kind == "string" && fits(s, v.String()) {
				return write(v.String()), true
			}
			if amount, ok := fitting(s, kind, v.String()); ok && (kind == "integer" || kind == "number") {
				return amount, true
			}
		case bool:
			if kind == "boolean" {
				return write(v), true
			}
		}
	}
	return "", false
}

// finder finds a value in a text, and marks it as used. If named is true, the value's name must be
// next to it. Otherwise its form suffices.
type finder func(t *text, named bool) (raw string, found bool)

// finderFor returns the finder for a schema and for the name of a field. A boolean has no form of
// its own, so its finder needs the name.
func finderFor(s *node, kind, name string) finder {
	words := nameWords(name)
	switch kind {
	case "boolean":
		return func(t *text, named bool) (string, bool) { return t.truth(words, named) }
	case "integer", "number":
		return func(t *text, named bool) (string, bool) {
			return t.take(t.numbers, words, named, func(v string) (string, bool) { return fitting(s, kind, v) })
		}
	case "string":
		return stringFinder(s, name, words)
	default: // the type is unknown
		return func(*text, bool) (string, bool) { return "", false }
	}
}

// Words in the name of a field that show the form of a string.
var (
	dateWords   = setFor(`date day due deadline birthday until since from`)
	nameNames   = setFor(`name names person people customer client author company organization organisation vendor supplier city country place contact recipient sender owner employee user who brand product title item`)
	textNames   = setFor(`message text summary description body content question query subject input prompt topic`)
	codeNames   = setFor(`id code sku reference ref number no order invoice ticket serial`)
	unitNames   = setFor(`unit currency`)
	linkNames   = setFor(`url uri link website homepage`)
	personNames = setFor(`email mail`)
)

// stringFinder returns the finder for a string. It depends on the string's pattern, its format, or
// the last word of its name.
func stringFinder(s *node, name string, words []string) finder {
	accept := func(v string) (string, bool) { return write(v), fits(s, v) }
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	format := s.text("format")
	form := func(spans func(*text) []span) finder {
		return func(t *text, named bool) (string, bool) { return t.take(spans(t), words, named, accept) }
	}

	// A pattern is the most precise description of a value. It may match in the middle of a text,
	// so its anchors are removed.
	if s.text("pattern") != "" {
		pattern, err := regexp.Compile(strings.TrimSuffix(strings.TrimPrefix(s.text("pattern"), "^"), "$"))
		if err != nil {
			return func(*text, bool) (string, bool) { return "", false }
		}
		return form(func(t *text) []span { return t.matches(pattern) })
	}
	if spans := spansFor(format, last); spans != nil {
		return form(spans)
	}

	switch {
	case format == "date-time":
		return func(t *text, named bool) (string, bool) {
			return t.take(t.dates, words, named, func(v string) (string, bool) { return write(v + "T00:00:00Z"), true })
		}
	// A code without a known form is found only by its label, for example "reference: spring sale".
	case format == "uuid" || codeNames[last]:
		return func(t *text, named bool) (string, bool) {
			if raw, ok := t.take(t.codes, words, named, accept); ok || named {
				return raw, ok
			}
			return t.labelled(words, accept)
		}
	default:
		return textFinder(s, name, words, last, accept)
	}
}

// spansFor returns the function that lists a text's values of the form that a format or the last
// word of a name implies. It returns nil if they imply no form, or a form that stringFinder handles
// itself.
func spansFor(format, last string) func(*text) []span {
	switch {
	case format == "email" || personNames[last]:
		return func(t *text) []span { return t.emails }
	case format == "uri" || format == "url" || linkNames[last]:
		return func(t *text) []span { return t.links }
	case format == "date-time": // in the form of a date with a time
		return nil
	case format == "date" || format == "" && dateWords[last]:
		return func(t *text) []span { return t.dates }
	case format == "time" || format == "" && last == "time":
		return func(t *text) []span { return t.times }
	case unitNames[last]:
		return func(t *text) []span { return t.units }
	default:
		return nil
	}
}

// textFinder returns the finder for a string of no particular form. It finds a labelled text, a
// name, a quotation, the whole text or the text's subject.
func textFinder(s *node, name string, words []string, last string, accept func(string) (string, bool)) finder {
	return func(t *text, named bool) (string, bool) {
		// A labelled text needs no form.
		if named {
			return t.labelled(words, accept)
		}
		if nameNames[last] {
			if raw, ok := t.take(t.names, words, false, accept); ok {
				return raw, true
			}
		}
		if raw, ok := t.take(t.quotes, words, false, accept); ok {
			return raw, true
		}
		// A field for a text gets the whole text. A field for a name, or a value without a name,
		// gets the subject of an item.
		switch {
		case textNames[last]:
			return accept(truncate.Runes(t.s, s.count("maxLength", maxText)))
		case nameNames[last] || name == "":
			return t.take(t.nouns, words, false, accept)
		default:
			return "", false
		}
	}
}

// choice returns a value of an enumeration: the value that a text mentions first, or one that the
// data contains under the name. If there is neither, it returns the first value.
func (f *filler) choice(s *node, name string, in []*text) (raw string, found bool) {
	all := s.list("enum")
	for _, t := range in {
		// The value that the text mentions first is usually the intended value.
		best, at := "", math.MaxInt
		for _, v := range all {
			if where := t.find(v); where >= 0 && where < at && !t.isUsed(where) {
				best, at = write(v), where
			}
		}
		if best != "" {
			// The first byte suffices to mark the value as used.
			t.use(at, at+1)
			return best, true
		}
		for _, v := range f.named(name) {
			if raw := write(v); slices.ContainsFunc(all, func(one any) bool { return write(one) == raw }) {
				return raw, true
			}
		}
	}
	// The first value is a placeholder, because an enumeration has no empty value.
	for _, v := range all {
		if v != nil {
			return write(v), false
		}
	}
	return "null", false
}

// fits reports whether a string is within the limits of a schema.
func fits(s *node, v string) bool {
	n := utf8.RuneCountInString(v)
	if n < s.count("minLength", 0) || n > s.count("maxLength", math.MaxInt) || v == "" {
		return false
	}
	if pattern := s.text("pattern"); pattern != "" {
		re, err := regexp.Compile(pattern)
		return err == nil && re.MatchString(v)
	}
	return true
}

// fitting returns a number as JSON if it is within the limits of a schema. An integer may be
// written with a fraction of zero.
func fitting(s *node, kind, v string) (raw string, ok bool) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsInf(n, 0) {
		return "", false
	}
	if whole := math.Trunc(n) == n; kind == "integer" && !whole {
		return "", false
	} else if kind == "integer" {
		v, _, _ = strings.Cut(v, ".")
	}
	if !inBounds(s, n) {
		return "", false
	}
	return v, true
}

// inBounds reports whether a number is within the limits of a schema.
func inBounds(s *node, n float64) bool {
	if limit, ok := s.amount("minimum"); ok && n < limit {
		return false
	}
	if limit, ok := s.amount("maximum"); ok && n > limit {
		return false
	}
	if limit, ok := s.amount("exclusiveMinimum"); ok && n <= limit {
		return false
	}
	if limit, ok := s.amount("exclusiveMaximum"); ok && n >= limit {
		return false
	}
	// Remainders of decimal fractions are not exact, so small ones are ignored.
	if step, ok := s.amount("multipleOf"); ok && step > 0 && math.Abs(math.Mod(n, step)) > 1e-9 {
		return false
	}
	return true
}

// empty returns a placeholder within the limits of a schema: false, zero or a number near a limit,
// or a string of dashes with the required length.
func empty(s *node, kind string) string {
	switch kind {
	case "boolean":
		return "false"
	case "integer", "number":
		// Zero is preferred. Otherwise the values at and next to each limit are tried.
		candidates := []string{"0"}
		for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
			if limit, ok := s.amount(keyword); ok {
				for _, n := range []float64{limit, math.Ceil(limit), math.Floor(limit) + 1, math.Ceil(limit) - 1} {
					candidates = append(candidates, strconv.FormatFloat(n, 'f', -1, 64))
				}
			}
		}
		for _, v := range candidates {
			if raw, ok := fitting(s, kind, v); ok {
				return raw
			}
		}
		return "0"
	default:
		return write(strings.Repeat("-", min(s.count("minLength", 0), maxPad)))
	}
}
