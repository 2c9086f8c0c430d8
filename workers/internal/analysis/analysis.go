package analysis

import (
	"slices"

	"golang.org/x/text/unicode/norm"
)

// Lexeme is a search term that a text contains.
type Lexeme struct {
	Text     string
	Position int // position of the term's word in the text, from 1; a word may have several terms
}

// Word is a word of a query, together with its search terms. A document contains the word if its
// index contains any of the terms.
type Word struct {
	Text    string   // the word without case and marks
	Lexemes []string // terms under which the index may contain the word, for documents in any language
}

// Limits of a query: the number of words, and the number of lexemes of each word.
const (
	maxWords   = 32
	maxLexemes = 12
)

// Terms returns the terms of a text in the order of its words. language is a BCP 47 tag. If it is
// empty or not supported, words are only converted to lower case and stripped of accents. Stop
// words of the language are omitted.
func Terms(language, text string) []Lexeme {
	tongue := base(language)
	terms := make([]Lexeme, 0, len(text)/5+4)
	position := 0

	// The normalization replaces full-width letters and ligatures with ordinary letters.
	scan(norm.NFKC.String(text), func(t token) {
		if t.kind != wordToken {
			terms, position = pairs(terms, position, t)
			return
		}
		terms, position = appendToken(terms, position, tongue, t.text)
	})
	return terms
}

// appendToken appends the terms of a token that consists of words: the terms of its parts and, if
// the token is a code such as "ERR-4021", the terms of the whole token. position is the position of
// the previous word. appendToken returns the position of the last word of the token.
func appendToken(terms []Lexeme, position int, tongue, text string) ([]Lexeme, int) {
	first := position + 1

	if whole, simple := code(text); !simple {
		whole = slices.DeleteFunc(whole, empty)
		for _, form := range whole {
			terms = append(terms, Lexeme{form, first})
		}
		begin := len(terms)
		parts(text, func(part string) {
			position++
			terms = appendWord(terms, position, tongue, part)
		})
		// The whole token may have the same terms as its first part. These terms are added only
		// once.
		for i := begin; i < len(terms); i++ {
			if terms[i].Position == first && slices.Contains(whole, terms[i].Text) {
				terms = slices.Delete(terms, i, i+1)
				i--
			}
		}
		return terms, max(position, first)
	}
	return appendWord(terms, first, tongue, text), first
}

// appendWord appends the terms of one word at a position. A stop word has no terms, unless it looks
// like an acronym.
func appendWord(terms []Lexeme, position int, tongue, word string) []Lexeme {
	found := lookUp(tongue, word)
	// Stop words are not indexed, but their positions stay unused, so that distances between words
	// are exact.
	if found.stop && !acronym(word) {
		return terms
	}
	for _, form := range found.forms {
		terms = append(terms, Lexeme{form, position})
	}
	return terms
}

// Query returns the words of a query. It omits stop words, unless the query contains only stop
// words. It returns at most maxWords words, each only once.
func Query(text string) []Word {
	q := query{seen: map[string]int{}}
	scan(norm.NFKC.String(text), q.take)
	return q.words()
}

// query collects the words of a query while the query is being read. Its words are in the order of
// the query.
type query struct {
	found []queryWord
	// seen contains the index in found of each word.
	seen  map[string]int
	lower bool // at least one word is not written in capitals
}

// queryWord is a word of a query. acronym reports whether the word looks like an acronym.
type queryWord struct {
	Word
	acronym bool
}

// take adds the words of a token to the query.
func (q *query) take(t token) {
	if len(q.found) >= 2*maxWords { // more than maxWords are collected, because stop words are removed later
		return
	}
	// Each pair of characters is searched for like a word.
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
		q.addWord(t.text)
		return
	}
	if len(whole) > 0 {
		q.add(Word{fold(lower(t.text)), variants(whole)}, false)
	}
	parts(t.text, q.addWord)
}

// addWord adds a word with its forms in all languages, because the documents may be in any
// language.
func (q *query) addWord(word string) {
	q.add(Word{folded(word), slices.Clone(lookUp(anyTongue, word).forms)}, acronym(word))
}

// empty reports whether a form is empty. The form of a word that consists only of marks is empty.
func empty(form string) bool { return form == "" }

// add adds a word to the query. If the query already contains the word, add adds the lexemes that
// are missing. A word without lexemes is ignored. loud reports whether the word looks like an
// acronym.
func (q *query) add(word Word, loud bool) {
	if word.Lexemes = slices.DeleteFunc(word.Lexemes, empty); len(word.Lexemes) == 0 {
		return
	}
	at, known := q.seen[word.Text]
	if !known {
		q.seen[word.Text] = len(q.found)
		q.found = append(q.found, queryWord{word, loud})
		return
	}

	there := &q.found[at]
	for _, lexeme := range word.Lexemes {
		if !slices.Contains(there.Lexemes, lexeme) && len(there.Lexemes) < maxLexemes {
			there.Lexemes = append(there.Lexemes, lexeme)
		}
	}
}

// words returns the words of the query without stop words, at most maxWords of them.
func (q *query) words() []Word {
	texts := make([]string, len(q.found))
	for i := range q.found {
		texts[i] = q.found[i].Text
	}
	idle := stopsFor(texts)
	words := make([]Word, 0, len(q.found))
	for _, word := range q.found {
		// If the whole query is in capitals, an acronym cannot be distinguished from a stop word.
		if idle(word.Text) && (!word.acronym || !q.lower) {
			continue
		}
		words = append(words, word.Word)
	}

	// A query such as "who is who" contains only stop words, so they are kept.
	if len(words) == 0 {
		for _, word := range q.found {
			words = append(words, word.Word)
		}
	}
	return words[:min(len(words), maxWords)]
}
