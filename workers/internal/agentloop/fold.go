package agentloop

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// maxQuote bounds the words of a source that a citation shows, in characters.
const maxQuote = 500

// foldedText is a text normalized for the comparison with quotes. It is in Unicode's composed form
// (NFC), runs of white space are a single space, and variants of quotation marks and dashes are
// one character. Letters, digits and case are unchanged.
type foldedText struct {
	source string
	text   string
	from   []int // for each byte of text: offset in source where its character begins, -1 inside a character
	to     []int // for each byte of text: offset in source where its character ends, -1 before its last byte
}

// folded maps characters to their normalized forms; invisible characters map to "".
var folded = foldedForms()

func foldedForms() map[rune]string {
	forms := map[rune]string{'…': "..."}
	for _, r := range "\u00AD\u200B\u200E\u200F\u034F\u2060\uFEFF" {
		forms[r] = ""
	}
	for _, r := range "\"“”„‟«»‹›「」『』〝〞〟＂‘’‚‛`´′″＇" {
		forms[r] = "'"
	}
	for _, r := range "‐‑‒–—―−﹘﹣－" {
		forms[r] = "-"
	}
	return forms
}

// fold normalizes a text for the comparison with quotes; see folding.
func fold(source string) foldedText {
	f := foldedText{source: source}
	var text strings.Builder
	add := func(piece string, from, to int) {
		for i := range len(piece) {
			f.from, f.to = append(f.from, -1), append(f.to, -1)
			if i == 0 {
				f.from[len(f.from)-1] = from
			}
		}
		f.to[len(f.to)-1] = to
		text.WriteString(piece)
	}

	var it norm.Iter
	it.InitString(norm.NFC, source)
	for !it.Done() {
		from := it.Pos()
		piece := foldPiece(string(it.Next()))
		last := len(f.to) - 1
		switch to := it.Pos(); {
		case piece == "":
		case last >= 0 && (piece == " " || piece == "-") && text.String()[last] == piece[0]:
			f.to[last] = to // a run of spaces or dashes becomes one
		default:
			add(piece, from, to)
		}
	}

	f.text = text.String()
	return f
}

// foldPiece normalizes one character and its combining marks.
func foldPiece(piece string) string {
	if len(piece) == 1 && piece[0] < 0x80 && piece[0] > '\'' && piece[0] != '`' {
		return piece
	}
	var b strings.Builder
	for _, r := range piece {
		switch other, ok := folded[r]; {
		case ok:
			b.WriteString(other)
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unescape decodes JSON escapes. Models copy them from the JSON in which they received the text.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, " ", `\t`, " ", `\r`, " ")

// find returns the source's spelling of quote, or "" if the source lacks it. It ignores dots at
// both ends of the quote, and punctuation at its end that the source lacks.
func (f *foldedText) find(quote string) string {
	for _, form := range []string{quote, unescape.Replace(quote)} {
		wanted := strings.TrimSpace(fold(form).text)
		wanted = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(wanted, "..."), "..."))
		if !hasWords(wanted) {
			return ""
		}
		if found := f.index(wanted); found != "" {
			return found
		}
		if found := f.index(strings.TrimRight(wanted, ".,;:。，；：、")); found != "" {
			return found
		}
	}
	return ""
}

// index returns the source's spelling of a normalized text, or "". A match consists of whole
// characters.
func (f *foldedText) index(wanted string) string {
	for at := 0; at+len(wanted) <= len(f.text); at++ {
		next := strings.Index(f.text[at:], wanted)
		if next < 0 {
			return ""
		}
		at += next
		from, to := f.from[at], f.to[at+len(wanted)-1]
		if from >= 0 && to >= 0 {
			return shorten(f.source[from:to], maxQuote)
		}
	}
	return ""
}

// shorten truncates a text to at most maximum characters, between words if possible.
func shorten(text string, maximum int) string {
	return strings.TrimRightFunc(text[:cut(text, maximum)], unicode.IsSpace)
}

// cut returns the byte offset at which to truncate a text to at most maximum characters: between
// words, or within the first word if that is longer.
func cut(text string, maximum int) int {
	left, end := maximum, 0
	for it := words.FromString(text); it.Next(); {
		n := utf8.RuneCountInString(it.Value())
		if n > left && end == 0 {
			return len(string([]rune(it.Value())[:left]))
		}
		if n > left {
			break
		}
		left -= n
		end = it.End()
	}
	return end
}

// hasWords reports whether a text contains a letter, a number or a symbol such as an emoji.
func hasWords(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r)
	}) >= 0
}
