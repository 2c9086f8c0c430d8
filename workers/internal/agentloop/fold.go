package agentloop

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// longestQuote bounds, in characters, the words of a source that a citation shows.
const longestQuote = 500

// folding is a text as quotes are compared with it: in composed form, every white space a single space, and one form
// of the signs that people and models write in several ways. Letters, digits and their case stay as they are.
type folding struct {
	source string
	text   string
	from   []int // for each byte of text where its character begins in source, -1 inside a character
	to     []int // for each byte of text where its character ends in source, -1 before its last byte
}

// folded gives the forms that stand for others; what stands for nothing is left out.
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

func fold(source string) folding {
	f := folding{source: source}
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
			f.to[last] = to // one space for many, and one dash
		default:
			add(piece, from, to)
		}
	}
	f.text = text.String()
	return f
}

// foldPiece folds a character with the marks that belong to it.
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

// unescape undoes what models copy from the JSON in which they were given the text.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, " ", `\t`, " ", `\r`, " ")

// find gives the part of the source that a quote is, "" if it does not stand there: dots that only say that the
// source goes on, and a full stop or comma that the source lacks, are not held against it.
func (f *folding) find(quote string) string {
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

// index finds a folded text, whole characters only.
func (f *folding) index(wanted string) string {
	for at := 0; at+len(wanted) <= len(f.text); at++ {
		next := strings.Index(f.text[at:], wanted)
		if next < 0 {
			return ""
		}
		at += next
		from, to := f.from[at], f.to[at+len(wanted)-1]
		if from >= 0 && to >= 0 {
			return shorten(f.source[from:to], longestQuote)
		}
	}
	return ""
}

// shorten cuts a text to so many characters, between words where it can.
func shorten(text string, maximum int) string {
	return strings.TrimRightFunc(text[:cut(text, maximum)], unicode.IsSpace)
}

// cut gives where to cut a text so that it has at most so many characters: between words, unless one word is longer.
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

// hasWords reports whether a text says anything: letters, numbers, or pictures.
func hasWords(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r)
	}) >= 0
}
