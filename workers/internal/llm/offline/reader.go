package offline

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// maxNesting bounds how deep guessed objects go.
const maxNesting = 4

// reader finds values in a message.
type reader struct {
	text    string
	pairs   []pair
	numbers []string // not spoken for
}

// pair is "name: value"; from and to are all of it in the text.
type pair struct {
	name     string
	from, to int
	value    string
}

// findPairs finds what is said of any property; a value goes on to the next one.
func (r *reader) findPairs(s schema) {
	for name := range s.Properties {
		label := regexp.MustCompile(`(?i)(?:^|[^\pL\pN_])(` + regexp.QuoteMeta(name) + `["']?\s*[:=]\s*)`)
		for _, at := range label.FindAllStringSubmatchIndex(r.text, -1) {
			r.pairs = append(r.pairs, pair{name: name, from: at[2], to: at[3]})
		}
	}
	slices.SortFunc(r.pairs, func(a, b pair) int { return cmp.Compare(a.from, b.from) })
	for i := range r.pairs {
		end := len(r.text)
		if i+1 < len(r.pairs) {
			end = r.pairs[i+1].from
		}
		p := &r.pairs[i]
		p.value = r.text[p.to:end]
		at := quotedValue.FindStringIndex(p.value)
		if at == nil {
			at = valueEnd.FindStringIndex(p.value)
		}
		if at == nil {
			at = []int{len(p.value)}
		}
		p.to += at[len(at)-1]
	}
}

var (
	quotedValue = regexp.MustCompile(`^\s*(?:"([^"]*)"|“([^”]*)”|'([^']*)'|` + "`([^`]*)`" + `)`)
	valueEnd    = regexp.MustCompile(`[,;\n]|[.!?](?:\s|$)`)
	joining     = regexp.MustCompile(`(?i)\s+(?:and|with|,)\s*$`)
	number      = regexp.MustCompile(`-?\d+(?:\.\d+)?`)
	emailValue  = regexp.MustCompile(`[^\s<>"',;]+@[^\s<>"',;]+\.\pL{2,}`)
	urlValue    = regexp.MustCompile(`https?://[^\s<>"')]+`)
	dateValue   = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`)
	inQuotes    = regexp.MustCompile(`"([^"]+)"|“([^”]+)”|` + "`([^`]+)`")
	concerning  = regexp.MustCompile(`(?i)(?:^|\s)(?:in|for|of|about|at|to|from|named|called)\s+(?:the\s+)?(\S.*?)\s*[?.!]*\s*$`)
)

// said gives the value that the message names for a property.
func (r *reader) said(name string, s schema) (any, bool) {
	for _, p := range r.pairs {
		if p.name != name {
			continue
		}
		if value, ok := r.convert(p.value, s); ok {
			return value, true
		}
	}
	if kind := s.kind(); kind == "integer" || kind == "number" {
		bare := regexp.MustCompile(`(?i)(?:^|[^\pL\pN_])` + regexp.QuoteMeta(name) + `\s+(?:is\s+)?(-?\d+(?:\.\d+)?)`)
		if m := bare.FindStringSubmatchIndex(r.text); m != nil {
			value := r.text[m[2]:m[3]]
			r.pairs = append(r.pairs, pair{name: name, from: m[2], to: m[3], value: value})
			return r.convert(value, s)
		}
	}
	return nil, false
}

// convert reads a value as its schema has it; false if it cannot be one.
func (r *reader) convert(raw string, s schema) (any, bool) {
	text := oneValue(raw)
	if len(s.Enum) > 0 {
		return choice(s.Enum, func(c string) bool { return strings.EqualFold(c, text) })
	}
	switch s.kind() {
	case "integer", "number":
		n := number.FindString(text)
		return json.Number(whole(n, s)), n != ""
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "yes", "on":
			return true, true
		case "false", "no", "off":
			return false, true
		}
		return nil, false
	case "array":
		return r.list(raw, s), true
	case "object":
		return nil, false
	default:
		return text, text != ""
	}
}

// oneValue gives the value at the start of a text: what stands in quotes, or what goes up to the sentence's next part.
func oneValue(raw string) string {
	if m := quotedValue.FindStringSubmatch(raw); m != nil {
		return cmp.Or(m[1:]...)
	}
	raw = strings.TrimSpace(raw)
	if at := valueEnd.FindStringIndex(raw); at != nil {
		raw = raw[:at[0]]
	}
	return strings.TrimSpace(joining.ReplaceAllString(raw+" ", ""))
}

// list reads values with commas between them.
func (r *reader) list(raw string, s schema) []any {
	line, _, _ := strings.Cut(strings.TrimSpace(raw), "\n")
	line = strings.Trim(joining.ReplaceAllString(line, ""), "[] .")
	items := schema{}
	if s.Items != nil {
		items = s.Items.plain()
	}
	list := []any{}
	for field := range strings.SplitSeq(line, ",") {
		if value, ok := r.convert(field, items); ok {
			list = append(list, value)
		}
	}
	return list
}

// whole cuts a number's fraction off where a whole one is asked for.
func whole(n string, s schema) string {
	if s.kind() == "integer" {
		n, _, _ = strings.Cut(n, ".")
	}
	return n
}

// choice gives the first of an enumeration's values that fits.
func choice(enum []json.RawMessage, fits func(string) bool) (any, bool) {
	for _, raw := range enum {
		var value any
		if json.Unmarshal(raw, &value) != nil {
			continue
		}
		if text, isText := value.(string); (isText && fits(text)) || (!isText && fits(string(raw))) {
			return value, true
		}
	}
	return nil, false
}

// free gives the numbers of the message that no argument is said to have.
func (r *reader) free() []string {
	var free []string
	for _, at := range number.FindAllStringIndex(r.text, -1) {
		if !slices.ContainsFunc(r.pairs, func(p pair) bool { return at[0] >= p.from && at[1] <= p.to }) {
			free = append(free, r.text[at[0]:at[1]])
		}
	}
	return free
}

// fill guesses what is required and not given.
func (r *reader) fill(args map[string]any, s schema, depth int) {
	for _, name := range s.Required {
		if _, given := args[name]; !given {
			args[name] = r.guess(name, s.Properties[name].plain(), depth)
		}
	}
}

// guess finds a value in the message that a property may have, or one that its schema allows.
func (r *reader) guess(name string, s schema, depth int) any {
	if value, ok := r.fixed(s); ok {
		return value
	}
	switch s.kind() {
	case "integer", "number":
		if len(r.numbers) > 0 {
			n := r.numbers[0]
			r.numbers = r.numbers[1:]
			return json.Number(whole(n, s))
		}
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	case "boolean":
		return !mentions(r.text, "not") && !mentions(r.text, "no")
	case "object":
		inner := map[string]any{}
		if depth < maxNesting {
			r.fill(inner, s, depth+1)
		}
		return inner
	case "array":
		list := []any{}
		for len(list) < min(s.MinItems, maxNesting) && s.Items != nil && depth < maxNesting {
			list = append(list, r.guess(name, s.Items.plain(), depth+1))
		}
		return list
	default:
		return r.guessText(name, s.Format)
	}
}

// fixed gives the value of a schema that leaves a choice at most: one that the message names, else the first.
func (r *reader) fixed(s schema) (any, bool) {
	if value, ok := choice(s.Enum, func(c string) bool { return len(c) > 1 && mentions(r.text, c) }); ok {
		return value, true
	}
	for _, raw := range append([]json.RawMessage{s.Const, s.Default}, s.Enum...) {
		var value any
		if len(raw) > 0 && json.Unmarshal(raw, &value) == nil && value != nil {
			return value, true
		}
	}
	return nil, false
}

// guessText finds a text: in the form that is asked for, in quotes, as what the message is about, else all of it.
func (r *reader) guessText(name, format string) string {
	for _, f := range []struct {
		asked bool
		form  *regexp.Regexp
	}{
		{format == "email" || plain(name) == "email", emailValue},
		{format == "uri" || plain(name) == "url" || plain(name) == "uri", urlValue},
		{format == "date" || plain(name) == "date", dateValue},
	} {
		if found := f.form.FindString(r.text); f.asked && found != "" {
			return found
		}
	}
	if m := inQuotes.FindStringSubmatch(r.text); m != nil {
		return cmp.Or(m[1:]...)
	}
	switch plain(name) {
	case "query", "question", "text", "message", "input", "prompt", "body", "content", "q":
	default:
		if m := concerning.FindStringSubmatch(r.text); m != nil {
			return m[1]
		}
	}
	return strings.Join(strings.Fields(r.text), " ")
}
