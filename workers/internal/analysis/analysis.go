package analysis

import (
	"slices"

	"golang.org/x/text/unicode/norm"
)

// Lexeme is a term of a text.
type Lexeme struct {
	Text     string
	Position int // of its word in the text, from 1; several terms of one word share it
}

// Word is a word of a search.
type Word struct {
	Text    string   // as it was written, without case and marks
	Lexemes []string // the terms under which documents may have it, whatever their language
}

// How much of a search counts, and of how many ways to write a word.
const (
	maxWords   = 32
	maxLexemes = 12
)

// Terms gives the terms of a text in the order of its words. The language is a BCP 47 tag; with one that is not known, or none,
// words stay as they are but for case and marks.
func Terms(language, text string) []Lexeme {
	tongue := base(language)
	terms := make([]Lexeme, 0, len(text)/5+4)
	position := 0
	scan(norm.NFKC.String(text), func(t token) {
		if t.kind != wordToken {
			terms, position = pairs(terms, position, t)
			return
		}
		terms, position = written(terms, position, tongue, t.text)
	})
	return terms
}

// written adds the terms of a run of letters and digits: of each of its parts, and of the whole when it is a code.
func written(terms []Lexeme, position int, tongue, text string) ([]Lexeme, int) {
	first := position + 1
	if whole, simple := code(text); !simple {
		whole = slices.DeleteFunc(whole, empty)
		for _, form := range whole {
			terms = append(terms, Lexeme{form, first})
		}
		begin := len(terms)
		parts(text, func(part string) {
			position++
			terms = plain(terms, position, tongue, part)
		})
		// A part may be the whole once more.
		for i := begin; i < len(terms); i++ {
			if terms[i].Position == first && slices.Contains(whole, terms[i].Text) {
				terms = slices.Delete(terms, i, i+1)
				i--
			}
		}
		return terms, max(position, first)
	}
	return plain(terms, first, tongue, text), first
}

// plain adds the terms of one word.
func plain(terms []Lexeme, position int, tongue, word string) []Lexeme {
	found := lookUp(tongue, word)
	if found.stop && !shouted(word) {
		return terms
	}
	for _, form := range found.forms {
		terms = append(terms, Lexeme{form, position})
	}
	return terms
}

// Query gives the words of a search. Words that say nothing by themselves are left out, unless there are no others.
func Query(text string) []Word {
	q := query{seen: map[string]int{}}
	scan(norm.NFKC.String(text), q.take)
	return q.words()
}

// query is a search that is being read.
type query struct {
	found []asked
	seen  map[string]int
	lower bool // something in it is not in capitals
}

// asked is a word of a search, and what it may be left out for.
type asked struct {
	Word
	shouted bool
}

func (q *query) take(t token) {
	if len(q.found) >= 2*maxWords { // what is left out makes room
		return
	}
	if t.kind != wordToken {
		terms, _ := pairs(nil, 0, token{text: t.text, kind: t.kind, asked: true})
		for _, pair := range terms {
			q.add(Word{pair.Text, []string{pair.Text}}, false)
		}
		return
	}
	q.lower = q.lower || !capitals(t.text)
	whole, simple := code(t.text)
	if simple {
		q.plain(t.text)
		return
	}
	if len(whole) > 0 {
		q.add(Word{fold(lower(t.text)), variants(whole)}, false)
	}
	parts(t.text, q.plain)
}

func (q *query) plain(word string) {
	q.add(Word{folded(word), slices.Clone(lookUp(anyTongue, word).forms)}, shouted(word))
}

// empty is what stays of marks that stand alone.
func empty(form string) bool { return form == "" }

// add adds a word, or what is new of one that is there.
func (q *query) add(word Word, loud bool) {
	if word.Lexemes = slices.DeleteFunc(word.Lexemes, empty); len(word.Lexemes) == 0 {
		return
	}
	at, known := q.seen[word.Text]
	if !known {
		q.seen[word.Text] = len(q.found)
		q.found = append(q.found, asked{word, loud})
		return
	}
	there := &q.found[at]
	for _, lexeme := range word.Lexemes {
		if !slices.Contains(there.Lexemes, lexeme) && len(there.Lexemes) < maxLexemes {
			there.Lexemes = append(there.Lexemes, lexeme)
		}
	}
}

func (q *query) words() []Word {
	texts := make([]string, len(q.found))
	for i := range q.found {
		texts[i] = q.found[i].Text
	}
	idle := stopsFor(texts)
	words := make([]Word, 0, len(q.found))
	for _, word := range q.found {
		if idle(word.Text) && (!word.shouted || !q.lower) {
			continue
		}
		words = append(words, word.Word)
	}
	if len(words) == 0 {
		for _, word := range q.found {
			words = append(words, word.Word)
		}
	}
	return words[:min(len(words), maxWords)]
}
