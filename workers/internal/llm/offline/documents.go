package offline

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// typeDocument is what sources are that are passages of documents.
const typeDocument = "document"

// notSaid is the answer where documents were searched and say nothing of what was asked.
const notSaid = "The documents do not say this."

// stemLength is how many characters forms of a word mostly have in common.
const stemLength = 5

// fromDocuments says so when documents were searched and do not say what was asked.
func fromDocuments(results []llm.ToolResult, asked asked) string {
	searched := false
	for _, r := range results {
		if r.Failed || plain(r.Name) != toolKnowledge {
			continue
		}
		searched = true
		if slices.ContainsFunc(r.Sources, asked.byStems().saidBy) {
			return ""
		}
	}
	if !searched {
		return ""
	}
	return notSaid
}

// byStems asks the same by the beginnings of words, so that forms of one word meet.
func (a asked) byStems() asked {
	if a.stems {
		return a
	}
	stems := asked{words: make(map[string]bool, len(a.words)), form: a.form, stems: true}
	for w := range a.words {
		stems.words[stem(w)] = true
	}
	return stems
}

// in gives the words of a text in the form in which those asked for are.
func (a asked) in(text string) []string {
	list := words(text)
	if a.stems {
		for i := range list {
			list[i] = stem(list[i])
		}
	}
	return list
}

// saidBy reports whether a passage can be an answer: it has most of the words asked for - of a long question fewer will do, for that
// has words of its own - and what has the form asked for, if any.
func (a asked) saidBy(s domain.Citation) bool {
	if strings.TrimSpace(s.CitedText) == "" || a.form != nil && !a.has(s.CitedText) {
		return false
	}
	n := len(a.words)
	least := (n + 1) / 2
	if n > 4 {
		least = (2*n + 4) / 5
	}
	return overlap(a.in(s.Title+"\n"+s.CitedText), a.words) >= least
}

// stem is a word's beginning.
func stem(word string) string {
	switch n := utf8.RuneCountInString(word); {
	case n > stemLength:
		return string([]rune(word)[:stemLength])
	case n == stemLength:
		return strings.TrimSuffix(word, "s")
	default:
		return word
	}
}
