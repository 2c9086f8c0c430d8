package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fact is a value in an answer, as JSON, and the citations that the answer gives for it.
type fact struct {
	kind      string
	value     string
	citations []factCitation
}

// factCitation is a citation of a value. The field path is the value's JSON Pointer in the answer.
type factCitation struct {
	path   string
	source int
	stands bool // whether the value occurs in the source
}

// corpusSource is a passage of a document, and the numbers and words that the test has found in it.
type corpusSource struct {
	id      int
	text    string
	folded  string          // the text as plain returns it, for comparisons
	numbers []sourceNumber  // numbers that are written unambiguously
	read    map[string]bool // each amount that digits of the text can mean; see readings
	signed  map[string]bool // amounts that follow a minus sign or a dash
	words   []string        // in the text's order, with their punctuation
}

// sourceNumber is a number in a passage: its absolute value in decimal notation, and its sign.
type sourceNumber struct {
	amount   string
	negative bool
}

// notations matches numbers as a language writes them: with a separator after every three digits,
// or without separators.
var notations = map[string]*regexp.Regexp{
	"en": regexp.MustCompile(`\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?`),
	"de": regexp.MustCompile(`\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?`),
	"fr": regexp.MustCompile(`\d{1,3}(?:[\x{A0}\x{202F}]\d{3})+(?:,\d+)?|\d+(?:,\d+)?`),
}

// digitRuns matches groups of digits, with the characters that may separate the groups of one
// number.
var digitRuns = regexp.MustCompile(`\d+(?:[.,'’\x{A0}\x{202F} ]\d+)*`)

// notation returns the key in the map notations for a document. The name of a document contains
// its language, as in tour.fr.md.
func notation(name string) string {
	language := ""
	if parts := strings.Split(name, "."); len(parts) == 3 {
		language = parts[1]
	}
	switch language {
	case "de", "es":
		return "de"
	case "fr", "ru":
		return "fr"
	default:
		return "en"
	}
}

// newCorpusSource finds the numbers in a passage. The field numbers gets only the unambiguous
// numbers. The fields read and signed get every amount that the digits may mean.
func newCorpusSource(id int, name, text string) corpusSource {
	s := corpusSource{id: id, text: text, folded: plain(text), read: map[string]bool{}, signed: map[string]bool{}, words: strings.Fields(text)}
	for _, at := range digitRuns.FindAllStringIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		if unicode.Is(unicode.Latin, before) || before == '_' {
			// The first digits are a part of a word such as B12. Only digits that follow a
			// separator may be a number of their own.
			next := strings.IndexFunc(text[at[0]:at[1]], func(r rune) bool { return !unicode.IsDigit(r) })
			if next < 0 {
				continue
			}
			at[0] += next
		}
		rest, minus := cutSign(text[:at[0]])
		negative := minus && isClear(rest, "")
		for _, amount := range readings(text[at[0]:at[1]]) {
			s.signed[amount] = s.signed[amount] || strings.ContainsRune("-−–", before)
			s.read[amount] = s.read[amount] || !negative
		}
	}

	notation := notation(name)
	for _, at := range notations[notation].FindAllStringIndex(text, -1) {
		digits, negative, alone := text[at[0]:at[1]], false, isClear(text[:at[0]], text[at[1]:])
		if rest, ok := cutSign(text[:at[0]]); !alone && ok {
			negative, alone = true, isClear(rest, text[at[1]:])
		}
		if alone && (digits[0] != '0' || len(digits) == 1 || !unicode.IsDigit(rune(digits[1]))) {
			s.numbers = append(s.numbers, sourceNumber{amount(digits, notation), negative})
		}
	}
	return s
}

// cutSign removes a minus sign from the end of a text. It returns false if there is no such sign.
func cutSign(text string) (string, bool) {
	if rest, ok := strings.CutSuffix(text, "-"); ok {
		return rest, true
	}
	return strings.CutSuffix(text, "−")
}

// isClear reports whether the texts before and after a number show that it is a whole number by
// itself, and not a part of a word, a range or a longer number.
func isClear(before, after string) bool {
	a, size := utf8.DecodeLastRuneInString(before)
	further, _ := utf8.DecodeLastRuneInString(before[:len(before)-size])
	b, size := utf8.DecodeRuneInString(after)
	next, _ := utf8.DecodeRuneInString(after[size:])
	begins := before == "" || strings.ContainsRune(" \n(|:", a) && !unicode.IsDigit(further) || unicode.Is(unicode.Han, a)
	ends := after == "" || strings.ContainsRune(" \n)|;%", b) && !unicode.IsDigit(next) || strings.ContainsRune(".,", b) && strings.ContainsRune(" \n", next) || unicode.Is(unicode.Han, b)
	return begins && ends
}

// amount converts a number from a language's notation to a decimal number without separators.
func amount(digits, notation string) string {
	if notation == "en" {
		return decimal(strings.ReplaceAll(digits, ",", ""))
	}
	return decimal(strings.ReplaceAll(strings.NewReplacer(".", "", "\u00A0", "", "\u202F", "").Replace(digits), ",", "."))
}

// decimal removes superfluous zeros from a decimal number.
func decimal(digits string) string {
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// readings returns each amount that neighbouring groups of digits can mean, alone or joined. The
// decimal point may be between any two groups.
func readings(run string) (amounts []string) {
	groups := strings.FieldsFunc(run, func(r rune) bool { return !unicode.IsDigit(r) })
	for from := range groups {
		for to := from + 1; to <= min(len(groups), from+8); to++ {
			amounts = append(amounts, decimal(strings.Join(groups[from:to], "")), decimal("0."+strings.Join(groups[from:to], "")))
			for point := from + 1; point < to; point++ {
				amounts = append(amounts, decimal(strings.Join(groups[from:point], "")+"."+strings.Join(groups[point:to], "")))
			}
		}
	}
	return amounts
}

// plain returns a text with one space for all white space, and one character for all quotation
// marks and dashes. It removes invisible characters.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("\"“”„«»‹›「」『』‘’‚`´", r):
			return '\''
		case strings.ContainsRune("‐‑–—−", r):
			return '-'
		case strings.ContainsRune("\u00AD\u200B\u200E\u200F\uFEFF", r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		default:
			return r
		}
	}, text)
	for strings.Contains(text, "--") {
		text = strings.ReplaceAll(text, "--", "-")
	}
	return strings.Join(strings.Fields(text), " ")
}

// occurs reports whether a text occurs somewhere in the passage, and whether it occurs as whole
// words.
func (s *corpusSource) occurs(text string) (somewhere, whole bool) {
	wanted := plain(text)
	for at := 0; wanted != "" && at < len(s.folded); at++ {
		next := strings.Index(s.folded[at:], wanted)
		if next < 0 {
			break
		}
		at += next
		before, _ := utf8.DecodeLastRuneInString(s.folded[:at])
		after, _ := utf8.DecodeRuneInString(s.folded[at+len(wanted):])
		somewhere = true
		whole = whole || !isWordy(before) && !isWordy(after)
	}
	return somewhere, whole
}

func isWordy(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_')
}

// hasNumber reports whether any reading of the passage's digits results in the number.
func (s *corpusSource) hasNumber(n sourceNumber) bool {
	if n.negative {
		return s.signed[n.amount]
	}
	return s.read[n.amount]
}

// factGenerator generates facts from passages.
type factGenerator struct {
	*rand.Rand

	sources []corpusSource
}

// factKind is a way to make values from a passage. The field value is a function that returns a
// value, or "" if no value can be made from the passage. The field stands is true if these values
// occur in the passage.
type factKind struct {
	name   string
	stands bool
	value  func(g factGenerator, s *corpusSource) string
}

var factKinds = []factKind{
	{"a number", true, func(g factGenerator, s *corpusSource) string {
		return g.number(s, func(n sourceNumber) string { return n.json() })
	}},
	{"a number in another notation", true, func(g factGenerator, s *corpusSource) string {
		return g.number(s, func(n sourceNumber) string {
			if strings.Contains(n.amount, ".") {
				return n.json() + "0"
			}
			return n.json() + pickOne(g, ".0", ".00", "e0", "E+0")
		})
	}},
	{"a number with another digit", false, func(g factGenerator, s *corpusSource) string {
		return g.changed(s, func(n *sourceNumber) {
			at := g.IntN(len(n.amount))
			if digit := n.amount[at]; digit != '.' {
				n.amount = n.amount[:at] + string('1'+(digit-'0'+byte(g.IntN(8)))%9) + n.amount[at+1:]
			}
		})
	}},
	{"a number without its last digit", false, func(g factGenerator, s *corpusSource) string {
		return g.changed(s, func(n *sourceNumber) { n.amount = strings.TrimSuffix(n.amount[:len(n.amount)-1], ".") })
	}},
	{"a number with one more digit", false, func(g factGenerator, s *corpusSource) string {
		return g.changed(s, func(n *sourceNumber) { n.amount += strconv.Itoa(1 + g.IntN(9)) })
	}},
	{"a number of another scale", false, func(g factGenerator, s *corpusSource) string {
		return g.changed(s, func(n *sourceNumber) { n.amount = decimal(strings.Replace(n.amount, ".", "", 1) + "000") })
	}},
	{"a number with the other sign", false, func(g factGenerator, s *corpusSource) string {
		return g.changed(s, func(n *sourceNumber) { n.negative = !n.negative })
	}},
	{"words", true, func(g factGenerator, s *corpusSource) string { return quoted(g.phrase(s)) }},
	{"words with other spaces and marks", true, func(g factGenerator, s *corpusSource) string {
		words := strings.NewReplacer(" ", pickOne(g, "  ", "\n", "\u00A0", " \t"), "-", "–", "'", "’", "„", `"`, "“", `"`, "”", `"`).Replace(g.phrase(s))
		return quoted(words)
	}},
	{"words with another letter", false, func(g factGenerator, s *corpusSource) string {
		letters := []rune(g.phrase(s))
		for range 10 {
			at := g.IntN(max(len(letters), 1))
			if len(letters) > 0 && unicode.IsLetter(letters[at]) {
				letters[at] = pickOne(g, 'x', 'q', 'ø', '水')
				return s.absent(string(letters))
			}
		}
		return ""
	}},
	{"words in the other case", false, func(g factGenerator, s *corpusSource) string { return s.absent(strings.ToUpper(g.phrase(s))) }},
	{"words in another order", false, func(g factGenerator, s *corpusSource) string {
		words := strings.Fields(g.phrase(s))
		slices.Reverse(words)
		return s.absent(strings.Join(words, " "))
	}},
	{"a part of a word", false, func(g factGenerator, s *corpusSource) string {
		letters := []rune(strings.Fields(g.phrase(s) + " x")[0])
		if len(letters) < 6 || slices.ContainsFunc(letters, func(r rune) bool { return !unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Arabic) }) {
			return ""
		}
		part := string(letters[:len(letters)-2])
		if _, whole := s.occurs(part); whole {
			return ""
		}
		return quoted(part)
	}},
	{"invented", false, func(g factGenerator, s *corpusSource) string {
		return s.absent(pickOne(g, "Zaphod Beeblebrox", "31 February 2030", "42 furlongs", "ganz und gar erfunden", "無中生有"))
	}},
}

func pickOne[T any](g factGenerator, all ...T) T { return all[g.IntN(len(all))] }

// quoted returns a text as a JSON string. It returns "" for an empty text.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the run's message contains the value unescaped
	if err := e.Encode(text); err != nil {
		panic(err) // unreachable
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// json returns a number as JSON.
func (n sourceNumber) json() string {
	if n.negative {
		return "-" + n.amount
	}
	return n.amount
}

// number formats a random number of the passage with the function write. It returns "" if the
// passage has no numbers.
func (g factGenerator) number(s *corpusSource, write func(sourceNumber) string) string {
	if len(s.numbers) == 0 {
		return ""
	}
	return write(pickOne(g, s.numbers...))
}

// changed applies a change to a random number of the passage, and returns the result. If the
// passage may contain the result, too, changed returns "".
func (g factGenerator) changed(s *corpusSource, change func(*sourceNumber)) string {
	return g.number(s, func(n sourceNumber) string {
		was := n
		change(&n)
		n.amount = decimal(n.amount)
		if n == was || n.amount == "0" || s.hasNumber(n) {
			return ""
		}
		return n.json()
	})
}

// phrase returns one to six neighbouring words of the passage. It returns "" if it finds none that
// occur as whole words.
func (g factGenerator) phrase(s *corpusSource) string {
	for range 20 {
		if len(s.words) == 0 {
			break
		}
		from := g.IntN(len(s.words))
		text := strings.Trim(strings.Join(s.words[from:min(from+1+g.IntN(6), len(s.words))], " "), ".,:;()|*#`\"“”„«»‘’ -–—\u00A0\u202F")
		if _, whole := s.occurs(text); whole && strings.IndexFunc(text, unicode.IsLetter) >= 0 && utf8.ValidString(text) {
			return text
		}
	}
	return ""
}

// absent returns the text as a JSON string, or "" if the text occurs in the passage.
func (s *corpusSource) absent(text string) string {
	if somewhere, _ := s.occurs(text); somewhere || text == "" {
		return ""
	}
	return quoted(text)
}

// fact returns the nth fact of an answer: a value of a random kind with a citation, and sometimes a
// second citation that is repeated or wrong.
func (g factGenerator) fact(n int) fact {
	for {
		kind, s := &factKinds[g.IntN(len(factKinds))], &g.sources[g.IntN(len(g.sources))]
		value := kind.value(g, s)
		if value == "" {
			continue
		}
		path := fmt.Sprintf("/facts/%d/a~1b", n)
		f := fact{kind: kind.name, value: value, citations: []factCitation{{path, s.id, kind.stands}}}
		switch g.IntN(6) {
		case 0: // twice
			f.citations = append(f.citations, f.citations[0])
		case 1: // a source that does not exist in the run
			f.citations = append(f.citations, factCitation{path, 9_000 + g.IntN(9), false})
		case 2: // the path of a value that does not exist, or that cannot be cited
			f.citations = append(f.citations, factCitation{pickOne(g, path+"/x", "/facts/4000/a~1b", strings.Replace(path, "~1", "/", 1),
				fmt.Sprintf("/facts/%d", n), fmt.Sprintf("/facts/%d/m~0n", n), "facts", ""), s.id, false})
		case 3: // a source that certainly does not contain the value
			if other := &g.sources[g.IntN(len(g.sources))]; other.id != s.id && other.lacks(value) {
				f.citations = append(f.citations, factCitation{path, other.id, false})
			}
		}
		return f
	}
}

// lacks reports whether the passage certainly does not contain a value.
func (s *corpusSource) lacks(value string) bool {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		somewhere, _ := s.occurs(text)
		return !somewhere
	}
	amount, err := strconv.ParseFloat(value, 64)
	return err == nil && !s.hasNumber(sourceNumber{decimal(strings.TrimPrefix(strconv.FormatFloat(amount, 'f', -1, 64), "-")), amount < 0})
}
