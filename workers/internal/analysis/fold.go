package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// lower returns a word in lower case. It converts a Turkish İ to an i with a separate dot, which
// fold removes as a mark.
func lower(word string) string { return strings.ToLower(word) }

// fold removes marks that people often omit: accents of Latin and Greek, Cyrillic stress marks, and
// vowel points of Arabic and Hebrew. It replaces ligatures with letters. It keeps marks that
// distinguish letters, such as the mark of the Russian й, Indic vowel signs and Japanese voicing
// marks. It does not change the case.
func fold(word string) string {
	if isASCII(word) {
		return word
	}
	var b strings.Builder
	b.Grow(len(word))
	latin := false // true if combining marks after the current letter are removed
	for _, r := range norm.NFC.String(word) {
		if plain, known := plainLetters[r]; known {
			b.WriteString(plain)
			latin = false
			continue
		}
		// U+0301 is removed after any letter, because it is also the Cyrillic stress mark.
		if invisible(r) || isPoint(r) || latin && r >= 0x0300 && r <= 0x036F || r == 0x0301 {
			continue
		}
		letter := r
		if r >= 0x00C0 && unicode.In(r, unicode.Latin, unicode.Greek) {
			letter = baseLetter(r)
		}
		latin = letter < 0x0250 || unicode.Is(unicode.Greek, letter)
		b.WriteRune(letter)
	}
	return b.String()
}

// plainLetters maps letters to their plain forms, if Unicode does not decompose them.
var plainLetters = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ı': "i", 'ħ': "h", 'ς': "σ", 'ё': "е",
	'أ': "ا", 'إ': "ا", 'آ': "ا", 'ٱ': "ا", 'ى': "ي", 'ی': "ي", 'ې': "ي", 'ک': "ك", 'ة': "ه", 'ۀ': "ه", 'ؤ': "و", 'ئ': "ي", '’': "'",
}

// isPoint reports whether r is a mark of Arabic or Hebrew that is rarely written. The Arabic
// elongation sign counts as such a mark.
func isPoint(r rune) bool {
	return r >= 0x064B && r <= 0x065F || r == 0x0670 || r == 0x0640 || r >= 0x0591 && r <= 0x05C7 && unicode.IsMark(r)
}

// baseLetter returns r without its accents.
func baseLetter(r rune) rune {
	var buffer [utf8.UTFMax]byte
	n := utf8.EncodeRune(buffer[:], r)
	apart := norm.NFD.Properties(buffer[:n]).Decomposition()
	if len(apart) == 0 {
		return r
	}
	letter, _ := utf8.DecodeRune(apart)
	return letter
}

// isASCII reports whether a text consists of ASCII characters. fold does not change such a text.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// bare returns a word in lower case, without a part that an apostrophe separates, such as the
// article in "l'été" or the genitive in "user's". It deletes all other apostrophes, and invisible
// characters.
func bare(word string) string {
	word = strings.ReplaceAll(lower(word), "’", "'")
	word = strings.Map(func(r rune) rune {
		if invisible(r) || r == '·' {
			return -1
		}
		return r
	}, word)

	// An article can only precede the first apostrophe.
	left, right, found := strings.Cut(word, "'")
	switch {
	case !found:
		return word
	case right == "s" && left != "":
		return left
	case bound[left] && utf8.RuneCountInString(right) > 1:
		return strings.ReplaceAll(right, "'", "")
	}
	return strings.ReplaceAll(word, "'", "")
}

// bound lists articles, pronouns and other short words that lose their vowel before an apostrophe.
var bound = setFor(`l d j m t s n c qu lorsqu puisqu quoiqu jusqu dell all dall nell sull coll un quest quell sant anch com cos tutt mezz
	bell`)

// folded returns the form in which words are compared: in lower case, without marks, and without a
// part that an apostrophe separates.
func folded(word string) string { return fold(bare(word)) }

// setFor returns the words of a text as a set.
func setFor(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}
