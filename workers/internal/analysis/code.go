package analysis

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// traits states which kinds of characters a token contains. dash means a hyphen, and join means any
// other joining character. hump means a capital after a small letter, and name means an underscore
// or "@".
type traits struct{ digit, letter, dash, join, hump, name bool }

// traitsFor returns the kinds of characters that a text contains.
func traitsFor(text string) (has traits) {
	before := rune(0)
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			has.letter = true
			// In an identifier such as camelCase, an uppercase letter after a lowercase letter
			// begins a word.
			has.hump = has.hump || unicode.IsUpper(r) && unicode.IsLower(before)
		case unicode.IsDigit(r):
			has.digit = true
		// These characters occur in ordinary words, so they are no trait.
		case r == '\'' || r == '’' || r == '·' || invisible(r) || unicode.IsMark(r):
		case dash(r):
			has.dash = true
		default:
			has.join = true
			has.name = has.name || r == '_' || r == '@'
		}
		before = r
	}
	return has
}

// dash reports whether r is a hyphen.
func dash(r rune) bool { return r == '-' || r == '‐' || r == '‑' }

// code returns the terms of a token as a whole. simple reports whether the token is a plain word,
// without parts. whole is empty if the terms of the parts suffice. Examples of tokens that have
// their own terms are "ERR-4021", "snake_case", "v1.2", "jane@example.com", "e-mail" and "U.S.".
func code(text string) (whole []string, simple bool) {
	has := traitsFor(text)
	switch {
	case !has.digit && !has.join && !has.dash:
		return nil, !has.hump // the parts of a word in camelCase include the whole word
	// The token is a number, possibly with separators.
	case has.digit && !has.letter && !has.dash && !has.name:
		return numbers(fold(lower(text))), false
	// The token consists of initials, whose full stops are optional: "U.S." is also written "US".
	case initials(text):
		return []string{fold(lower(strings.ReplaceAll(text, ".", "")))}, false
	// The token is a compound such as "e-mail", which may also be written as one word.
	case !has.digit && !has.join:
		return []string{fold(lower(undashed(text)))}, false
	}
	return versions(fold(lower(text))), false
}

// initials reports whether a text consists of single letters that are separated by full stops, such
// as "U.S" or "e.g".
func initials(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if r, width := utf8.DecodeRuneInString(part); width != len(part) || !unicode.IsLetter(r) {
			return false
		}
	}
	return true
}

// undashed removes all kinds of hyphens.
func undashed(text string) string {
	return strings.NewReplacer("-", "", "‐", "", "‑", "").Replace(text)
}

// variants adds to the spellings of a code the same spellings without dashes and underscores,
// because documents may contain either form. Documents are indexed only as written, so a query must
// contain all spellings.
func variants(whole []string) []string {
	forms := whole
	for _, form := range whole {
		if bare := strings.ReplaceAll(undashed(form), "_", ""); bare != form {
			forms = append(slices.Clip(forms), bare)
		}
	}
	return forms
}

// versions returns a code with its dashes replaced by "-". For a version such as "v1.2", it also
// returns "1.2".
func versions(text string) []string {
	text = strings.NewReplacer("‐", "-", "‑", "-").Replace(text)
	if len(text) > 1 && text[0] == 'v' && strings.Trim(text[1:], "0123456789.") == "" {
		return []string{text, text[1:]}
	}
	return []string{text}
}

// numbers returns the spellings of a number: with a decimal point instead of a comma, and without
// separators of thousands. "1.200,50" gives, among others, "1200.50".
func numbers(text string) []string {
	forms := []string{strings.ReplaceAll(text, ",", ".")}
	// Languages use different signs to separate thousands, so both are tried.
	for _, signs := range [2][2]string{{",", "."}, {".", ","}} {
		whole, decimals, _ := strings.Cut(text, signs[1])
		groups := strings.Split(whole, signs[0])
		// The number has no groups of thousands, or its first group is too long.
		if len(groups) < 2 || len(groups[0]) > 3 || strings.ContainsAny(decimals, ".,") {
			continue
		}
		grouped := true
		for _, group := range groups[1:] {
			grouped = grouped && len(group) == 3
		}
		if grouped {
			bare := strings.Join(groups, "")
			if decimals != "" {
				bare += "." + decimals
			}
			forms = append(forms, bare)
		}
	}
	return forms
}

// parts calls the function each with the words of a token. It splits the token at joining
// characters such as "-", at the capitals of camelCase, and between a name and its number. It omits
// single letters, and a number that is the whole token.
func parts(text string, each func(string)) {
	start := 0
	give := func(end int) {
		if part := text[start:end]; part != "" {
			subparts(part, len(part) == len(text), each)
		}
	}

	for at, r := range text {
		// A full stop or comma between two digits is part of a number.
		if dash(r) || strings.ContainsRune("_@#+", r) || (r == '.' || r == ',') && !between(text, at) {
			give(at)
			start = at + utf8.RuneLen(r)
		}
	}
	give(len(text))
}

// between reports whether the bytes before and after the given offset are digits.
func between(text string, at int) bool {
	return at > 0 && at+1 < len(text) && isDigit(text[at-1]) && isDigit(text[at+1])
}

// isDigit reports whether b is an ASCII digit.
func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// subparts calls the function each with the words of a part that contains no joining characters.
// whole means that the part is the whole token.
func subparts(part string, whole bool, each func(string)) {
	numeric := isDigit(part[0]) && strings.Trim(part, "0123456789.,") == ""
	switch {
	case numeric:
		if !whole {
			each(part)
		}
		return
	// A single letter is too common to be a useful term.
	case utf8.RuneCountInString(part) == 1:
		return
	}

	if strings.ContainsAny(part, "0123456789") {
		named(part, whole, each)
		return
	}
	humps(part, each)
}

// named calls the function each with a part such as "ERR4021", and also with the name "ERR" and the
// number "4021" if both are long enough. whole means that the part is the whole token, whose own
// terms are added elsewhere.
func named(part string, whole bool, each func(string)) {
	if !whole {
		each(part)
	}
	letters := strings.TrimRight(part, "0123456789")
	digits := part[len(letters):]
	if len(letters) >= 2 && len(digits) >= 3 && !strings.ContainsAny(letters, "0123456789.,") {
		each(letters)
		each(digits)
	}
}

// humps calls the function each with a word. If the word is in camelCase, it also calls the
// function with the words in it.
func humps(part string, each func(string)) {
	each(part)
	start, split := 0, false
	runes := []rune(part)
	give := func(end int) {
		if end-start > 1 {
			each(string(runes[start:end]))
		}
		start = end
	}

	for i := 1; i < len(runes); i++ {
		up := unicode.IsUpper(runes[i])
		if up && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1]) && hump(runes)) {
			give(i)
			split = true
		}
	}

	if split {
		give(len(runes))
	}
}

// hump reports whether a word contains a capital after a small letter, as in identifiers of
// programs.
func hump(runes []rune) bool {
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i-1]) {
			return true
		}
	}
	return false
}

// acronym reports whether a word is short and in capitals. Such words are not treated as stop
// words: IT, US and WHO are names, although it, us and who are stop words.
func acronym(word string) bool {
	return len(word) >= 2 && len(word) <= 5 && capitals(word)
}

// capitals reports whether all letters of a word are capitals.
func capitals(word string) bool {
	for _, r := range word {
		if !unicode.IsUpper(r) {
			return false
		}
	}
	return true
}
