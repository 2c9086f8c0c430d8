package retrieval

import (
	"slices"
	"strings"
)

// recallDepth is the number of counted passages of an answer.
const recallDepth = 5

// Ranks are the positions of the first right passage in the answers to questions, from 1; 0 if there was none.
type Ranks []int

// Recall is the share of questions with a right passage among the first five.
func (r Ranks) Recall() float64 {
	found := 0.0
	for _, rank := range r {
		if rank > 0 && rank <= recallDepth {
			found++
		}
	}
	return found / float64(max(len(r), 1))
}

// Passage is a result of a search.
type Passage struct {
	Document string // its name
	Text     string
}

// Rank returns the position of the first passage of the section, or 0.
func Rank(found []Passage, document string, section Section) int {
	return 1 + slices.IndexFunc(found, func(p Passage) bool { return p.Document == document && section.contains(p.Text) })
}

// contains reports whether a passage shares a longer piece of text with the section. A passage that
// spans several small sections contains each of them.
func (s Section) contains(passage string) bool {
	in := letters(passage)
	for _, paragraph := range s.Paragraphs {
		text := letters(paragraph)
		for at := 0; at+window <= len(text); at += window {
			if strings.Contains(in, text[at:at+window]) {
				return true
			}
		}
	}
	return false
}

// window is the number of consecutive letters that two texts share only if one is part of the
// other.
const window = 60

// letters removes spaces and punctuation from a text.
func letters(text string) string { return strings.Join(words(text), "") }
