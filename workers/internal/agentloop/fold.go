package agentloop

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"

	"parley/shared/truncate"
)

// maxQuote is the maximum number of characters of a source that a citation quotes.
const maxQuote = 500

// foldedText is a text that was normalized for the comparison with quotes. It is in Unicode's
// composed form (NFC). Each run of white space is replaced by a single space. All quotation marks
// are replaced by "'", and each run of dashes is replaced by "-". Letters and digits are unchanged,
// including their case.
type foldedText struct {
	source string
	text   string
	from   []int // for the first byte of each character in text: offset in source at which it begins; -1 for other bytes
	to     []int // for the last byte of each character in text: offset in source at which it ends; -1 for other bytes
}

// folded maps characters to their normalized forms; invisible characters map to "".
var folded = foldedForms()

// foldedForms returns the table for folded.
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

// fold normalizes a text for comparison with quotes; see foldedText. It takes linear time and needs
// about 17 bytes for each byte of source.
func fold(source string) foldedText {
	f := foldedText{source: source, from: make([]int, 0, len(source)), to: make([]int, 0, len(source))}
	var text strings.Builder
	text.Grow(len(source))
	// add appends one normalized character. from and to are the range of its spelling in source.
	add := func(piece string, from, to int) {
		last := len(f.to) - 1
		switch {
		case piece == "":
			return
		case last >= 0 && (piece == " " || piece == "-") && text.String()[last] == piece[0]:
			f.to[last] = to // a run of spaces or dashes becomes one character
			return
		}
		for range len(piece) {
			f.from, f.to = append(f.from, -1), append(f.to, -1)
		}
		f.from[len(f.from)-len(piece)], f.to[len(f.to)-1] = from, to
		_, _ = text.WriteString(piece) // never fails
	}

	var it norm.Iter
	for at := 0; at < len(source); {
		// An ASCII character that is followed by another ASCII character is never part of a
		// composed character.
		end := at + 1
		if source[at] < utf8.RuneSelf && (end == len(source) || source[end] < utf8.RuneSelf) {
			add(foldPiece(source[at:end]), at, end)
			at = end
			continue
		}

		// Iterate over composed characters, so that different encodings of the same letter match.
		// An ASCII character is never composed with the characters before it.
		for end < len(source) && source[end] >= utf8.RuneSelf {
			end++
		}
		for it.InitString(norm.NFC, source[at:end]); !it.Done(); {
			from := at + it.Pos()
			piece := foldPiece(string(it.Next()))
			add(piece, from, at+it.Pos())
		}
		at = end
	}

	f.text = text.String()
	return f
}

// foldPiece normalizes one character and its combining marks.
func foldPiece(piece string) string {
	// Most characters are ASCII, which needs no lookup.
	if len(piece) == 1 && piece[0] < utf8.RuneSelf {
		switch piece[0] {
		case '"', '`':
			return "'"
		case '\t', '\n', '\v', '\f', '\r':
			return " "
		default:
			return piece
		}
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

// unescape decodes JSON escapes in a quote. Models receive sources as JSON, and sometimes copy
// escapes into their quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, " ", `\t`, " ", `\r`, " ")

// find returns a quote as it is spelled in the source, or "" if the source does not contain it. It
// ignores an ellipsis at either end of the quote, and punctuation at the quote's end that is
// missing in the source. The result has at most maxQuote characters.
func (f *foldedText) find(quote string) string {
	for _, form := range []string{quote, unescape.Replace(quote)} {
		wanted := strings.TrimSpace(fold(form).text)

		// Models write an ellipsis where they have abridged a quote. A "…" has been normalized to
		// three dots.
		wanted = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(wanted, "..."), "..."))

		// A quote without words would match almost any source.
		if !hasWords(wanted) {
			return ""
		}
		if found := f.index(wanted, false); found != "" {
			return found
		}
		if found := f.index(strings.TrimRight(wanted, ".,;:。，；：、"), false); found != "" {
			return found
		}
	}
	return ""
}

// index returns a normalized text as it is spelled in the source, or "" if there is no match. A
// match never begins or ends within a character. If whole is true, it never begins or ends within a
// word or number either.
func (f *foldedText) index(wanted string, whole bool) string {
	for at := 0; at+len(wanted) <= len(f.text); at++ {
		next := strings.Index(f.text[at:], wanted)
		if next < 0 {
			return ""
		}
		at += next

		// A match that begins or ends inside an expanded character, such as "…", does not count.
		// Continue the search.
		from, to := f.from[at], f.to[at+len(wanted)-1]
		if from >= 0 && to >= 0 && (!whole || isWhole(f.text, at, at+len(wanted))) {
			return truncateWords(f.source[from:to], maxQuote)
		}
	}
	return ""
}

// truncateWords truncates a text to at most maximum characters, at the end of a word if possible.
func truncateWords(text string, maximum int) string {
	return strings.TrimRightFunc(text[:truncatedLen(text, maximum)], unicode.IsSpace)
}

// truncatedLen returns the byte offset at which a text must be truncated to have at most maximum
// characters. This is the end of the last whole word, or an offset within the first word if that is
// too long.
func truncatedLen(text string, maximum int) int {
	// Each word includes the white space after it, so the loop visits all characters.
	left, end := maximum, 0
	for it := words.FromString(text); it.Next(); {
		n := utf8.RuneCountInString(it.Value())
		if n > left && end == 0 {
			return len(truncate.Runes(it.Value(), left))
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
