package agentloop

import (
	"math/big"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// value returns the words of the passage in which a value of an answer stands, or "". A string
// stands there with the same characters, as whole words; white space and the variants of quotation
// marks and dashes do not matter. A number stands there with the same amount, in any notation of
// digits: 1200, 1,200.00 and 1.200 are the same.
func (p *passage) value(v scalar) string {
	if v.number {
		return p.number(v.text)
	}
	if p.folded == nil {
		f := fold(p.source.CitedText)
		p.folded = &f
	}
	wanted := strings.TrimSpace(fold(v.text).text)
	if !hasWords(wanted) {
		return ""
	}
	return p.folded.index(wanted, true)
}

// isWhole reports whether the part of a text from and up to the given offsets is not inside a longer
// word or number. Scripts without spaces have no such boundaries.
func isWhole(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !joined(before, first) && !joined(last, after)
}

// joined reports whether two adjacent characters belong to the same word or number.
func joined(a, b rune) bool {
	return isWordRune(a) && isWordRune(b) && !unspaced(string(a)) && !unspaced(string(b))
}

// isWordRune reports whether r can be a part of a word: a letter, digit, combining mark or
// underscore.
func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_')
}

// numeral matches a number in a text: groups of three digits or any digits, and a fraction. The
// character before it may be a sign.
var numeral = regexp.MustCompile(`(?:\d{1,3}(?:[.,'’\x{00A0}\x{202F} ]\d{3})+|\d+)(?:[.,]\d+)?`)

const (
	maxNumeral = 40 // bytes; longer ones are not numbers that people read
	signs      = "-−–"
)

// number returns the passage's spelling of a JSON number, or "".
func (p *passage) number(text string) string {
	if p.numbers == nil {
		p.numbers = readNumbers(p.source.CitedText)
	}
	if amount, ok := new(big.Rat).SetString(text); ok {
		return p.numbers[amount.RatString()]
	}
	return ""
}

// readNumbers returns the spellings of the numbers in a text by their amounts. If a numeral can be
// read in several ways, such as 1.200, it has several amounts.
func readNumbers(text string) map[string]string {
	found := map[string]string{}
	add := func(amount, spelling string) {
		n, ok := new(big.Rat).SetString(amount)
		if !ok {
			return
		}
		if name := n.RatString(); found[name] == "" {
			found[name] = spelling
		}
	}

	for _, at := range numeral.FindAllStringIndex(text, -1) {
		from, to := at[0], at[1]
		if to-from > maxNumeral || !isWholeNumber(text, from, to) {
			continue
		}
		before, size := utf8.DecodeLastRuneInString(text[:from])
		signed := size > 0 && strings.ContainsRune(signs, before)
		for _, amount := range amounts(text[from:to]) {
			add(amount, text[from:to])
			if signed {
				add("-"+amount, text[from-size:to])
			}
		}
		// Numbers that only a space separates may be different ones.
		for part := range strings.FieldsSeq(text[from:to]) {
			add(part, part)
		}
	}
	return found
}

// isWholeNumber reports whether a numeral is not a part of a word such as B12, or of a longer numeral
// such as 1.2.3.
func isWholeNumber(text string, from, to int) bool {
	before, n := utf8.DecodeLastRuneInString(text[:from])
	if unicode.IsDigit(before) || before == '_' || unicode.IsLetter(before) && !unspaced(string(before)) {
		return false
	}
	if further, _ := utf8.DecodeLastRuneInString(text[:from-n]); (before == '.' || before == ',') && unicode.IsDigit(further) {
		return false
	}
	after, n := utf8.DecodeRuneInString(text[to:])
	next, _ := utf8.DecodeRuneInString(text[to+n:])
	return after != '.' && after != ',' || !unicode.IsDigit(next)
}

// groups matches the separators of groups of three digits that are not dots or commas.
var groups = strings.NewReplacer("'", "", "’", "", "\u00A0", "", "\u202F", "", " ", "")

// amounts returns the amounts that a numeral can stand for, as decimal numbers.
func amounts(numeral string) []string {
	// English writes 1,200.50, and continental Europe 1.200,50. If the numeral itself does not show
	// which, both readings are returned.
	plain := groups.Replace(numeral)
	dot, comma := strings.LastIndexByte(plain, '.'), strings.LastIndexByte(plain, ',')
	english := strings.ReplaceAll(plain, ",", "")
	continental := strings.ReplaceAll(strings.ReplaceAll(plain, ".", ""), ",", ".")
	switch {
	case dot < 0 && comma < 0:
		return []string{plain}
	case dot >= 0 && comma >= 0 && dot > comma:
		return []string{english}
	case dot >= 0 && comma >= 0:
		return []string{continental}
	case strings.Count(plain, ".") > 1:
		return []string{continental}
	case strings.Count(plain, ",") > 1:
		return []string{english}
	case len(plain)-max(dot, comma) == len(".000"): // 1,200 or 1.200: a fraction or a thousand
		return []string{english, continental}
	case comma >= 0:
		return []string{continental}
	default:
		return []string{english}
	}
}
