package agentloop

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// value returns the words of the passage that state a value of an answer, or "" if the passage does
// not state the value. A string must occur with the same characters, as whole words. White space
// and the variants of quotation marks and dashes may differ. A number must occur with the same
// absolute value and sign, in any notation: 1200, 1,200.00 and 1.200 are the same.
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

// isWhole reports whether text[from:to] is not a part of a longer word or number. In scripts
// without spaces between words, it returns true.
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

const (
	maxNumeral = 40 // maximum length in bytes of a numeral that is read; longer numerals are not meant for people
	signs      = "-−–"
	grouping   = ".,'’\u00A0\u202F " // characters that may separate groups of three digits
)

// number returns a JSON number as it is spelled in the passage, or "" if the passage does not
// contain it.
func (p *passage) number(text string) string {
	if p.numbers == nil {
		p.numbers = readNumbers(p.source.CitedText)
	}
	if amount, ok := decimal(text); ok {
		return p.numbers[amount]
	}
	return ""
}

// readNumbers returns the numbers in a text: it maps each amount, in the form of the function
// decimal, to its spelling. A numeral such as 1.200 can be read in several ways, so it has several
// amounts. The first spelling of an amount is kept.
func readNumbers(text string) map[string]string {
	found := map[string]string{}
	add := func(amount, spelling string) {
		if name, ok := decimal(amount); ok && found[name] == "" {
			found[name] = spelling
		}
	}

	for from := nextDigit(text, 0); from < len(text); {
		to := numeralEnd(text, from)
		if to-from > maxNumeral || !isWholeNumber(text, from, to) {
			from = nextDigit(text, from+digits(text[from:])) // skip only the first digits, because a later group may be a number
			continue
		}

		numeral, start := text[from:to], from
		readings := amounts(numeral)
		if before := text[:from]; strings.HasSuffix(before, ".") && digits(numeral) == len(numeral) && !isWordEnd(before[:from-1]) {
			start, readings = from-1, []string{"." + numeral} // for example, .5 means 0.5
		}
		sign, certain := signBefore(text[:start])
		for _, amount := range readings {
			if !certain {
				add(amount, text[start:to])
			}
			if sign != "" {
				add("-"+amount, text[start-len(sign):to])
			}
		}
		if !certain {
			addParts(numeral, add)
		}
		from = nextDigit(text, to)
	}
	return found
}

// addParts adds the parts of a numeral that contains spaces, because numbers separated only by a
// space may be different numbers.
func addParts(numeral string, add func(amount, spelling string)) {
	if !strings.Contains(numeral, " ") {
		return
	}
	for part := range strings.FieldsSeq(numeral) {
		for _, amount := range amounts(part) {
			add(amount, part)
		}
	}
}

// nextDigit returns the offset of the first digit at or after an offset, or the length of the text.
func nextDigit(text string, at int) int {
	for at < len(text) && (text[at] < '0' || text[at] > '9') {
		at++
	}
	return at
}

// digits returns the number of digits with which a text begins.
func digits(text string) (n int) {
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// numeralEnd returns the end of the numeral that begins at an offset. A numeral begins with any
// number of digits, or with digits in groups of three. A fraction may follow.
func numeralEnd(text string, from int) int {
	to := from + digits(text[from:])
	for to-from <= 3 || text[to-4] < '0' || text[to-4] > '9' { // the last group has at most three digits
		separator, size := utf8.DecodeRuneInString(text[to:])
		if !strings.ContainsRune(grouping, separator) || digits(text[to+size:]) != 3 {
			break
		}
		to += size + 3
	}
	if to < len(text) && (text[to] == '.' || text[to] == ',') {
		if n := digits(text[to+1:]); n > 0 {
			to += 1 + n
		}
	}
	return to
}

// signBefore returns the minus sign or dash at the end of the text before a numeral, or "". A
// hyphen or dash after a word or number, as in A-17 and 3-5, is not a sign. The result certain is
// false if the sign might separate two numbers, as in 1990 -1995.
func signBefore(text string) (sign string, certain bool) {
	before, size := utf8.DecodeLastRuneInString(text)
	rest := text[:len(text)-size]
	if size == 0 || !strings.ContainsRune(signs, before) || isWordEnd(rest) {
		return "", false
	}
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(rest, " "))
	return text[len(rest):], before != '–' && !unicode.IsDigit(last)
}

// isWordEnd reports whether a text ends with a character of a word or number. In scripts without
// spaces between words, it returns false.
func isWordEnd(text string) bool {
	last, _ := utf8.DecodeLastRuneInString(text)
	return isWordRune(last) && !unspaced(string(last))
}

// isWholeNumber reports whether a numeral is not part of a word such as B12 or of a longer numeral
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

// decimal returns a number without an exponent, in a canonical form for comparison. ok is false if
// the number is too long or too large to occur in a text.
func decimal(text string) (amount string, ok bool) {
	mantissa, negative := strings.CutPrefix(text, "-")
	if at := strings.IndexAny(mantissa, "eE"); at >= 0 {
		shift, err := strconv.Atoi(strings.TrimPrefix(mantissa[at+1:], "+"))
		if err != nil || max(shift, -shift) > maxNumeral {
			return "", false
		}
		mantissa = shifted(mantissa[:at], shift)
	}

	whole, fraction, _ := strings.Cut(mantissa, ".")
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	switch {
	case whole == "" && fraction == "":
		return "0", true
	case whole == "":
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative {
		whole = "-" + whole
	}
	return whole, true
}

// shifted moves the decimal point of a number. The argument by is the number of digits: the point
// moves to the right if this number is positive, and otherwise to the left.
func shifted(number string, by int) string {
	whole, fraction, _ := strings.Cut(number, ".")
	if by < 0 {
		whole = strings.Repeat("0", max(0, -by-len(whole))) + whole
		return whole[:len(whole)+by] + "." + whole[len(whole)+by:] + fraction
	}
	fraction += strings.Repeat("0", max(0, by-len(fraction)))
	return whole + fraction[:by] + "." + fraction[by:]
}

// groups removes those separators between groups of three digits that cannot be decimal points. It
// keeps dots and commas.
var groups = strings.NewReplacer("'", "", "’", "", "\u00A0", "", "\u202F", "", " ", "")

// amounts returns the amounts that a numeral can stand for, as decimal numbers.
func amounts(numeral string) []string {
	// English texts contain 1,200.50, and texts of continental Europe 1.200,50. If the numeral
	// itself does not show its notation, return its amounts in both notations.
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
	case len(plain)-max(dot, comma) == len(".000"): // 1,200 or 1.200 may be a fraction or a number of thousands
		return []string{english, continental}
	case comma >= 0:
		return []string{continental}
	default:
		return []string{english}
	}
}
