package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is the number of characters of a word that are kept. Every abbreviation is shorter.
const maxWord = 12

// word is the last word that was read. It determines whether a dot after it ends the sentence. The
// zero value is an empty word.
type word struct {
	// text contains at most the first maxWord characters.
	text []rune
	// spaced is true if white space follows the word.
	spaced bool
	open   bool // true if several dots follow the word, so that the sentence may continue
}

// space records that white space follows the word.
func (w *word) space() { w.spaced = true }

// next appends a character to the word. After white space, it begins a new word.
func (w *word) next(c rune) {
	if w.spaced {
		*w = word{}
	}
	if len(w.text) < maxWord {
		w.text = append(w.text, c)
	}
}

// Abbreviations in several languages that rarely end a sentence. They are listed without their last
// dot.
var abbreviations = tableFor("mr mrs ms dr prof st rev hon gen col sgt capt lt gov mt vs e.g i.e eg ie cf al ca approx est fig " +
	"figs eq nos vol vols pp ch sec dept univ assn bros jan feb apr aug sept oct nov dec tue tues thu thur " +
	"sra srta dña ud uds pág núm avda mme mlle éd z.b d.h u.a o.ä bzw ggf inkl evtl nr str hr vgl zzgl bspw geb gest " +
	"dhr mevr bijv blz dott sig sigg ecc núms т.е т.д г ул стр рис см им")

// tableFor returns the words in a list, which are separated by spaces, as a set.
func tableFor(words string) map[string]bool {
	table := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		table[w] = true
	}
	return table
}

// goesOn reports whether a sentence continues after a possible end of the given kind. c is the next
// character in the same line. After an exclamation or question mark, a lower-case letter continues
// the sentence.
func (w *word) goesOn(kind boundary, c rune) bool {
	return kind == dotBoundary && !w.ends(c) || kind == markBoundary && unicode.IsLower(c)
}

// ends reports whether a dot after the word ends the sentence. White space and the character c
// follow the dot. The dot belongs to the word if the word is a known abbreviation, a short number
// or an initial.
func (w *word) ends(c rune) bool {
	text := strings.TrimLeft(string(w.text), "\"'“‘«„‚([{*_¿¡")
	lower := strings.ToLower(text)
	switch {
	case unicode.IsLower(c):
		return false
	case w.open:
		return true
	case abbreviations[lower], lower == "no" && unicode.IsDigit(c):
		return false
	}

	number := len(text) <= 2 && strings.Trim(text, "0123456789") == "" && text != "" // the number of a list item, or an ordinal number
	first, size := utf8.DecodeRuneInString(text)
	initial := size == len(text) && unicode.IsUpper(first)
	return !number && !initial
}
