package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// lower is the word in small letters; the dot that a Turkish İ leaves behind goes with the marks.
func lower(word string) string { return strings.ToLower(word) }

// fold takes off what people leave out when they type: accents of Latin, Greek and of Cyrillic stress, vowel points of Arabic and
// Hebrew, ligatures. Marks that make another letter stay: the й of Russian, vowel signs of India, the voicing of Japanese.
func fold(word string) string {
	if isASCII(word) {
		return word
	}
	var b strings.Builder
	b.Grow(len(word))
	latin := false // the last letter is one whose marks go
	for _, r := range norm.NFC.String(word) {
		if plain, known := plainer[r]; known {
			b.WriteString(plain)
			latin = false
			continue
		}
		if invisible(r) || points(r) || latin && r >= 0x0300 && r <= 0x036F || r == 0x0301 {
			continue
		}
		letter := r
		if r >= 0x00C0 && unicode.In(r, unicode.Latin, unicode.Greek) {
			letter = undecorated(r)
		}
		latin = letter < 0x0250 || unicode.Is(unicode.Greek, letter)
		b.WriteRune(letter)
	}
	return b.String()
}

// plainer letters are those that Unicode does not take apart.
var plainer = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'ı': "i", 'ħ': "h", 'ς': "σ", 'ё': "е",
	'أ': "ا", 'إ': "ا", 'آ': "ا", 'ٱ': "ا", 'ى': "ي", 'ی': "ي", 'ې': "ي", 'ک': "ك", 'ة': "ه", 'ۀ': "ه", 'ؤ': "و", 'ئ': "ي", '’': "'",
}

// points are marks of Arabic and Hebrew that are seldom written, and what stretches Arabic words.
func points(r rune) bool {
	return r >= 0x064B && r <= 0x065F || r == 0x0670 || r == 0x0640 || r >= 0x0591 && r <= 0x05C7 && unicode.IsMark(r)
}

// undecorated is the letter under its marks.
func undecorated(r rune) rune {
	var buffer [utf8.UTFMax]byte
	n := utf8.EncodeRune(buffer[:], r)
	apart := norm.NFD.Properties(buffer[:n]).Decomposition()
	if len(apart) == 0 {
		return r
	}
	letter, _ := utf8.DecodeRune(apart)
	return letter
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// bare is a word in small letters without what stands before or behind an apostrophe and only says how it is bound: the article of
// l'été, the genitive of user's. Other apostrophes vanish.
func bare(word string) string {
	word = strings.ReplaceAll(lower(word), "’", "'")
	word = strings.Map(func(r rune) rune {
		if invisible(r) || r == '·' {
			return -1
		}
		return r
	}, word)
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

// bound are articles and pronouns that lose their vowel before a word that begins with one.
var bound = setFor(`l d j m t s n c qu lorsqu puisqu quoiqu jusqu dell all dall nell sull coll un quest quell sant anch com cos tutt mezz
	bell`)

// folded is how a word of a search is named.
func folded(word string) string { return fold(bare(word)) }

func setFor(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}
