package offline

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

var (
	number     = regexp.MustCompile(`^-?\d+(?:\.\d+)?$`)
	grouped    = regexp.MustCompile(`^-?\d{1,3}(?:,\d{3})+(?:\.\d+)?$`)
	emailValue = regexp.MustCompile(`[^\s<>"',;:]+@[^\s<>"',;]+\.\pL{2,}`)
	urlValue   = regexp.MustCompile(`https?://[^\s<>"')]+`)
	dateValue  = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`)
	inQuotes   = regexp.MustCompile(`"([^"]+)"|“([^”]+)”|` + "`([^`]+)`")
)

// convert reads a value as its schema has it; false if it cannot be one.
func convert(text string, s schema) (any, bool) {
	text = strings.TrimSpace(text)
	if len(s.Enum) > 0 {
		return choice(s.Enum, func(c string) bool { return strings.EqualFold(c, text) })
	}
	switch s.kind() {
	case "integer", "number":
		n := numbersIn(text, s)
		if len(n) != 1 {
			return nil, false
		}
		return json.Number(n[0]), true
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "yes", "on":
			return true, true
		case "false", "no", "off":
			return false, true
		}
		return nil, false
	case "array":
		return list(text, s)
	case "object":
		return nil, false
	default:
		form := formOf(s)
		return text, text != "" && (form == nil || form.FindString(text) == text)
	}
}

// formOf gives what a text has to look like, nil if anything goes.
func formOf(s schema) *regexp.Regexp {
	switch s.Format {
	case "email":
		return emailValue
	case "uri":
		return urlValue
	case "date":
		return dateValue
	default:
		return nil
	}
}

// numbersIn gives the different numbers of a text, and of these only what the schema allows: no part of one is one.
func numbersIn(text string, s schema) []string {
	var found []string
	for _, token := range tokens(text) {
		token = strings.Trim(token, "$€£%+")
		if grouped.MatchString(token) {
			token = strings.ReplaceAll(token, ",", "")
		}
		if !number.MatchString(token) {
			continue
		}
		if s.kind() == "integer" {
			before, fraction, _ := strings.Cut(token, ".")
			if strings.Trim(fraction, "0") != "" {
				continue
			}
			token = before
		}
		found = append(found, normal(token))
	}
	return distinct(found)
}

// normal writes a number as JSON has it, without leading zeros.
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

func distinct(list []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, one := range list {
		if !seen[one] {
			kept = append(kept, one)
		}
		seen[one] = true
	}
	return kept
}

// tokens gives the words of a text without the punctuation around them.
func tokens(text string) []string {
	var found []string
	for field := range strings.FieldsSeq(text) {
		if field = strings.Trim(field, `.,;:!?()[]{}<>"'“”#`+"`"); field != "" {
			found = append(found, field)
		}
	}
	return found
}

// list reads values with commas between them.
func list(text string, s schema) (any, bool) {
	items := schema{}
	if s.Items != nil {
		items = s.Items.plain()
	}
	text = joining.ReplaceAllString(text+" ", "")
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

// choice gives the only one of an enumeration's values that fits.
func choice(enum []json.RawMessage, fits func(string) bool) (any, bool) {
	var chosen any
	n := 0
	for _, raw := range enum {
		var value any
		if json.Unmarshal(raw, &value) != nil {
			continue
		}
		if text, isText := value.(string); (isText && fits(text)) || (!isText && fits(string(raw))) {
			chosen, n = value, n+1
		}
	}
	return chosen, n == 1
}

// chosen gives the one choice of an enumeration that the message mentions, unless it may be meant for another argument;
// words of the tool's name mention none.
func (r *reader) chosen(name string, s schema) (any, bool) {
	return choice(s.Enum, func(c string) bool {
		lower := strings.ToLower(c)
		return len(c) > 1 && !stopWords[lower] && !r.tool[lower] && mentions(r.rest, c) && !r.elsewhere(name, c)
	})
}

// elsewhere reports whether another argument that is not found yet has a choice too.
func (r *reader) elsewhere(name, value string) bool {
	for other, s := range r.schema.Properties {
		if _, given := r.args[other]; given || other == name {
			continue
		}
		if _, ok := choice(s.plain().Enum, func(c string) bool { return strings.EqualFold(c, value) }); ok {
			return true
		}
	}
	return false
}

// formed gives the one text of the message that looks like what an argument must look like.
func (r *reader) formed(name string, s schema) (any, bool) {
	form := formOf(s)
	switch {
	case s.kind() != "string" || len(s.Enum) > 0:
		return nil, false
	case form != nil:
	case plain(name) == "email":
		form = emailValue
	case plain(name) == "url" || plain(name) == "uri":
		form = urlValue
	case plain(name) == "date":
		form = dateValue
	default:
		return nil, false
	}
	found := distinct(form.FindAllString(r.rest, -1))
	if len(found) != 1 {
		return nil, false
	}
	return strings.TrimRight(found[0], ".,;!?"), true
}

// wordy are arguments that a number alone is no good value of.
var wordy = setOf(`title text message body content query question note notes description name comment subject reason
 summary city place location country prompt input`)

// only gives what the message can mean by the one argument that is left: a text in quotes, a number, a word with a digit.
func (r *reader) only(name string, s schema) (any, bool) {
	var found []string
	switch {
	case len(s.Enum) > 0 || formOf(s) != nil:
		return nil, false
	case s.kind() == "integer" || s.kind() == "number":
		if found = numbersIn(r.rest, s); len(found) == 1 && len(numbersIn(r.rest, schema{})) == 1 {
			return json.Number(found[0]), true
		}
		return nil, false
	case s.kind() != "string":
		return nil, false
	}
	if !wordy[plain(name)] && (isID(name) || len(r.schema.Required) == 1) {
		found = r.coded()
	}
	if len(found) == 0 {
		for _, m := range inQuotes.FindAllStringSubmatch(r.rest, -1) {
			found = append(found, strings.Join(m[1:], "")) // one of them is not empty
		}
	}
	if found = distinct(found); len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

// coded gives the words with a digit that stand in what is left of the message.
func (r *reader) coded() []string {
	var found []string
	for _, token := range tokens(r.rest) {
		if strings.ContainsFunc(token, unicode.IsDigit) && !r.tool[strings.ToLower(token)] {
			found = append(found, token)
		}
	}
	return distinct(found)
}
