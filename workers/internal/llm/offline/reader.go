package offline

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader finds arguments in a message.
type reader struct {
	text   string
	tool   map[string]bool // words of the tool's name
	schema schema
	pairs  []pair
	args   map[string]any // found so far
	rest   string         // the text without what is said by name, and without the tool's name
}

// pair is an argument that is said by name; from and to are all of it in the text.
type pair struct {
	name     string
	from, to int
	value    string
	weight   weight
}

// weight is how plainly a pair is one; where one name has two values, the plainer counts.
type weight int

const (
	bare   weight = iota // "name value"
	copula               // "name is value"
	label                // "name: value", "name = value"
)

var (
	labelled  = regexp.MustCompile(`^["'” ]?\s*[:=]\s*`)
	copular   = regexp.MustCompile(`(?i)^\s+(?:is|are)\s+`)
	blank     = regexp.MustCompile(`^\s+`)
	article   = regexp.MustCompile(`(?i)(?:^|[^\pL\pN])(?:the|an?|this|that|my|your|our|its|his|her|their|no|any)\s+$`)
	afterAnd  = regexp.MustCompile(`(?i)(?:\s|,)and\s+$`)
	valueEnd  = regexp.MustCompile(`[;\n]|,(?:\D|$)|[.!?](?:\s|$)`)
	clauseEnd = regexp.MustCompile(`(?i)\s(?:and|but|because|so|please|with|for|if)(?:\s|$)`)
	joining   = regexp.MustCompile(`(?i)\s+(?:and|with|,)\s*$`)
)

// noValues are words that are no argument's value, unless one is said to be: "the order please", "the id is wrong".
var noValues = setOf(`please now because again immediately quickly today only too also but or then once soon wrong right
 missing unknown invalid incorrect correct bad fine ok okay empty field argument parameter value`)

// around is how far from a name it is decided whether that is said to have a value, in bytes.
const around = 64

func newReader(text, tool string, s schema) *reader {
	r := &reader{text: text, tool: setOf(strings.Join(nameWords(tool), " ")), schema: s}
	r.pairs = r.settle(r.candidates())
	rest := []byte(text)
	for _, p := range r.pairs {
		hide(rest, p.from, p.to)
	}
	for _, at := range occurrences(text, regexp.QuoteMeta(tool)) {
		hide(rest, at[0], at[1])
	}
	r.rest = string(rest)
	return r
}

func hide(text []byte, from, to int) {
	for i := from; i < to; i++ {
		text[i] = ' '
	}
}

// occurrences gives where a pattern stands in a text as a word of its own, in any case.
func occurrences(text, pattern string) [][]int {
	found := regexp.MustCompile(`(?i)`+pattern).FindAllStringIndex(text, -1)
	return slices.DeleteFunc(found, func(at []int) bool {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		after, _ := utf8.DecodeRuneInString(text[at[1]:])
		return at[0] == at[1] || (at[0] > 0 && inName(before)) || (at[1] < len(text) && inName(after))
	})
}

func inName(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// spoken matches a name however its words are joined: orderId, order_id, "order id".
func spoken(name string) string {
	words := nameWords(name)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	if len(words) == 0 {
		return regexp.QuoteMeta(name)
	}
	return regexp.QuoteMeta(name) + "|" + strings.Join(words, `[\s_-]?`)
}

// candidates gives every name of an argument with what separates it from a value; to is where the value begins.
func (r *reader) candidates() []pair {
	var found []pair
	for name := range r.schema.Properties {
		for _, at := range occurrences(r.text, spoken(name)) {
			p := pair{name: name, from: at[0]}
			behind := r.text[at[1]:min(at[1]+around, len(r.text))]
			if sep := labelled.FindString(behind); sep != "" {
				p.weight, p.to = label, at[1]+len(sep)
			} else if sep := copular.FindString(behind); sep != "" {
				p.weight, p.to = copula, at[1]+len(sep)
			} else if sep := blank.FindString(behind); sep != "" {
				p.weight, p.to = bare, at[1]+len(sep)
			} else {
				continue
			}
			if p.weight == label || r.believable(p) {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.name, b.name))
	})
	return found
}

// settle gives each candidate its value, and leaves out those that stand inside another one.
func (r *reader) settle(found []pair) []pair {
	limits := make([]int, len(found)) // where the value of a label ends at the latest: at the next name that is plainly one
	limit := len(r.text)
	for i, p := range slices.Backward(found) {
		limits[i] = limit
		if p.weight > bare || afterAnd.MatchString(r.text[max(0, p.from-around):p.from]) {
			limit = p.from
		}
	}
	var settled []pair
	end := 0
	for i, p := range found {
		if p.from < end {
			continue
		}
		p.value, p.to = r.value(p, max(limits[i], p.to))
		settled = append(settled, p)
		end = p.to
	}
	return settled
}

// value reads a pair's value, up to the limit unless it is in quotes, and gives where it ends.
func (r *reader) value(p pair, limit int) (string, int) {
	s := r.schema.Properties[p.name].plain()
	if text, n := quoted(r.text[p.to:]); n > 0 && s.kind() != "array" {
		return text, p.to + n
	}
	raw := r.text[p.to:limit]
	if s.kind() == "array" {
		line, _, _ := strings.Cut(raw, "\n")
		return line, p.to + len(line)
	}
	if at := valueEnd.FindStringIndex(raw); at != nil {
		raw = raw[:at[0]]
	}
	if p.weight == copula {
		if at := clauseEnd.FindStringIndex(raw); at != nil {
			raw = raw[:at[0]]
		}
	}
	if isID(p.name) {
		word := firstWord(raw)
		return word, p.to + strings.Index(raw, word) + len(word)
	}
	if p.weight == bare {
		raw = properName(raw)
	}
	raw = strings.TrimRight(joining.ReplaceAllString(raw+" ", ""), " ")
	return strings.TrimSpace(raw), p.to + len(raw)
}

func isID(name string) bool { return strings.HasSuffix(strings.ToLower(name), "id") }

// believable reports whether what stands behind a name without a colon is a value of it rather than a sentence going on.
func (r *reader) believable(p pair) bool {
	behind := clip(r.text[p.to:min(p.to+4*around, len(r.text))], 4*around)
	s := r.schema.Properties[p.name].plain()
	word := firstWord(behind)
	switch kind := s.kind(); {
	case kind == "array" || kind == "object":
		return false
	case kind != "string" || len(s.Enum) > 0:
		_, ok := convert(word, s)
		return ok
	case behind != "" && strings.ContainsAny(behind[:1], "\"`") || strings.HasPrefix(behind, "“"):
		return true
	case !r.isValue(word):
		return false
	case startsUpper(word) || strings.ContainsFunc(word, unicode.IsDigit):
		return true
	case r.isProse(p):
		return false
	}
	next := firstWord(strings.TrimSpace(behind[len(word):]))
	return p.weight == copula || next == "" || stopWords[strings.ToLower(next)] || r.isName(next)
}

// isValue reports whether a word can be a value at all.
func (r *reader) isValue(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	lower := strings.ToLower(word)
	return word != "" && inName(first) && !stopWords[lower] && !noValues[lower] && !r.isName(word) && !strings.ContainsAny(word, ":=")
}

// isProse reports whether an argument's name seems to be just a word of the message: "delete the order at once".
func (r *reader) isProse(p pair) bool {
	name := strings.ToLower(p.name)
	return r.tool[name] || stopWords[name] || article.MatchString(r.text[max(0, p.from-around):p.from])
}

// isName reports whether a word is an argument's name or one of the tool's.
func (r *reader) isName(word string) bool {
	for name := range r.schema.Properties {
		if strings.EqualFold(name, strings.TrimRight(word, ":=")) {
			return true
		}
	}
	return len(nameWords(word)) > 1 && containsAll(r.tool, nameWords(word))
}

// firstWord gives the word that a text begins with, without the punctuation behind it; "" if only that is left.
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

// properName gives the first word of a text, and those behind it that begin with a capital if it does.
func properName(text string) string {
	end, capital := 0, true
	for word := range strings.FieldsSeq(text) {
		if end > 0 && (!capital || !startsUpper(word)) {
			break
		}
		capital = startsUpper(word)
		end += strings.Index(text[end:], word) + len(word)
	}
	return text[:end]
}

func startsUpper(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first)
}

// quotePairs gives what closes each kind of quotes.
var quotePairs = map[rune]string{'"': `"`, '“': "”", '\'': "'", '`': "`"}

// quoted gives the text in the quotes that a text begins with, and how far they go; 0 if there are none.
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

// said gives the value that the message says an argument has; none if it says two.
func (r *reader) said(name string, s schema) (any, bool) {
	var value any
	var raw []byte
	best := bare
	for _, p := range r.pairs {
		if p.name != name || p.weight < best {
			continue
		}
		v, ok := convert(p.value, s)
		if !ok {
			continue
		}
		text, err := json.Marshal(v)
		switch {
		case err != nil:
			continue
		case raw == nil || p.weight > best:
			value, raw, best = v, text, p.weight
		case string(raw) != string(text):
			value = nil
		}
	}
	return value, value != nil
}
