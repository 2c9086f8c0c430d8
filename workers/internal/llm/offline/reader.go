package offline

import (
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Patterns of values and of the signs around them.
var (
	number   = regexp.MustCompile(`^-?\d+(?:\.\d+)?$`)
	grouped  = regexp.MustCompile(`^-?\d{1,3}(?:,\d{3})+(?:\.\d+)?$`)
	labelled = regexp.MustCompile(`^["'” ]?\s{0,8}[:=]\s{0,8}`)
	valueEnd = regexp.MustCompile(`[;\n]|,(?:\D|$)|[.!?](?:\s|$)`)
	joining  = regexp.MustCompile(`(?i)\s+(?:and|with|,)\s*$`)
)

// label is the name of an argument in a text, followed by a colon or an equals sign. Its value
// begins at the offset to.
type label struct {
	name     string
	from, to int
}

// labelledValues returns the arguments in a text that have the form "id: 7, note = late". It omits
// an argument with two different values.
func labelledValues(text string, s schema) map[string]any {
	values := map[string]any{}
	twice := map[string]bool{}
	all := labels(text, s)
	end := 0
	for i, l := range all {
		if l.from < end { // this label is part of the previous argument's value
			continue
		}

		// A value ends at the next label at the latest.
		limit := len(text)
		for _, next := range all[i+1:] {
			if next.from >= l.to {
				limit = next.from
				break
			}
		}

		// The schema determines where a value ends and how it is parsed.
		of := s.Properties[l.name].plain()
		raw, n := valueFor(l.name, text[l.to:], limit-l.to, of)
		end = l.to + n

		value, ok := convert(raw, of)
		if before, given := values[l.name]; ok && given && !reflect.DeepEqual(before, value) {
			twice[l.name] = true
		}
		if ok {
			values[l.name] = value
		}
	}

	// An argument with two different values is ambiguous, and arguments are never guessed.
	for name := range twice {
		delete(values, name)
	}
	return values
}

// labels returns the labels of arguments in a text, in order.
func labels(text string, s schema) []label {
	var found []label
	for name := range s.Properties {
		for _, at := range occurrences(text, namePattern(name)) {
			if sign := labelled.FindString(text[at[1]:]); sign != "" {
				found = append(found, label{name, at[0], at[1] + len(sign)})
			}
		}
	}
	slices.SortFunc(found, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.name, b.name))
	})
	return found
}

// valueFor returns the value at the beginning of a text, and its length including quotation marks.
// A value without quotation marks ends at the offset limit.
func valueFor(name, text string, limit int, s schema) (value string, n int) {
	// In quotation marks, a value may contain any characters, even labels.
	if inside, n := quoted(text); n > 0 && s.kind() != "array" {
		return inside, n
	}
	raw := text[:limit]
	if s.kind() == "array" {
		// A list may contain commas, so it ends only with its line.
		line, _, _ := strings.Cut(raw, "\n")
		return line, len(line)
	}

	if at := valueEnd.FindStringIndex(raw); at != nil {
		raw = raw[:at[0]]
	}
	if strings.HasSuffix(strings.ToLower(name), "id") { // ignore the remaining words of "id: 12 because it is wrong"
		word := firstWord(raw)
		return word, strings.Index(raw, word) + len(word)
	}
	return strings.TrimSpace(joining.ReplaceAllString(raw+" ", "")), len(raw)
}

// convert converts the text of a value to the type in its schema. It returns false if the value is
// invalid.
func convert(text string, s schema) (any, bool) {
	text = strings.TrimSpace(text)
	for _, raw := range s.Enum {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			continue
		}
		if one, isText := value.(string); isText && strings.EqualFold(one, text) || !isText && string(raw) == text {
			return value, true
		}
	}

	// A value that is not one of the schema's choices is invalid, even if its type is right.
	switch kind := s.kind(); {
	case len(s.Enum) > 0, kind == "object":
		return nil, false
	case kind == "integer", kind == "number":
		return numeral(text, kind == "integer")
	case kind == "boolean":
		value, known := map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}[strings.ToLower(text)]
		return value, known
	case kind == "array":
		return list(text, s)
	default:
		return text, text != ""
	}
}

// numeral parses a number. The text may contain thousands separators, a currency sign or a percent
// sign.
func numeral(text string, whole bool) (any, bool) {
	text = strings.Trim(text, "$€£%+")
	if grouped.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	if !number.MatchString(text) || whole && strings.Contains(text, ".") {
		return nil, false
	}
	return json.Number(normal(text)), true
}

// normal removes leading zeros from a number, which JSON does not allow.
func normal(n string) string {
	sign := ""
	if strings.HasPrefix(n, "-") {
		sign, n = "-", n[1:]
	}
	n = strings.TrimLeft(n, "0")
	if n == "" || n[0] == '.' {
		n = "0" + n
	}
	return sign + n
}

// list parses values separated by commas.
func list(text string, s schema) (any, bool) {
	items := schema{}
	if s.Items != nil {
		items = s.Items.plain()
	}

	text = joining.ReplaceAllString(text+" ", "")

	// Omit items that do not fit the schema, because lists in prose contain other words.
	values := []any{}
	for field := range strings.SplitSeq(strings.Trim(text, "[] .;"), ",") {
		field = strings.TrimSpace(field)
		if inside, n := quoted(field); n == len(field) && n > 0 {
			field = inside
		}
		if value, ok := convert(field, items); ok {
			values = append(values, value)
		}
	}
	return values, len(values) > 0
}

// occurrences returns the positions at which a pattern matches separate words of a text, in upper
// or lower case. A match inside of a longer name does not count.
func occurrences(text, pattern string) [][]int {
	found := regexp.MustCompile(`(?i)`+pattern).FindAllStringIndex(text, -1)
	return slices.DeleteFunc(found, func(at []int) bool {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		after, _ := utf8.DecodeRuneInString(text[at[1]:])
		return at[0] == at[1] || (at[0] > 0 && inName(before)) || (at[1] < len(text) && inName(after))
	})
}

// inName reports whether a character may be part of a name.
func inName(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// namePattern returns a pattern that matches a name with its words joined in any way: orderId,
// order_id, "order id".
func namePattern(name string) string {
	words := nameWords(name)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	if len(words) == 0 {
		return regexp.QuoteMeta(name)
	}
	return regexp.QuoteMeta(name) + "|" + strings.Join(words, `[\s_-]?`)
}

// firstWord returns the first word of a text without the punctuation after it, or "".
func firstWord(text string) string {
	text = strings.TrimLeft(text, " \t#")
	if at := strings.IndexFunc(text, unicode.IsSpace); at >= 0 {
		text = text[:at]
	}
	if at := valueEnd.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return strings.TrimRight(text, `.,;!?)"'`)
}

// quotePairs contains the closing quotation mark for each opening one.
var quotePairs = map[rune]string{'"': `"`, '“': "”", '\'': "'", '`': "`"}

// quoted returns the text between quotation marks at the beginning of a text. n is the length of
// that text with the marks, or 0 if the text does not begin with a quotation mark.
func quoted(text string) (inside string, n int) {
	trimmed := strings.TrimLeft(text, " \t\n")
	open, size := utf8.DecodeRuneInString(trimmed)
	closing, ok := quotePairs[open]
	if !ok {
		return "", 0
	}
	inside, _, ok = strings.Cut(trimmed[size:], closing)
	if !ok {
		return "", 0
	}
	return inside, len(text) - len(trimmed) + size + len(inside) + len(closing)
}
