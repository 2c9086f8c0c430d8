package retrieval

import (
	"math"
	"slices"
	"strings"
)

// deep is how many passages of an answer count, and near how many for recall.
const (
	deep = 10
	near = 5
)

// Quality is how well questions were answered, from 0 to 1.
type Quality struct {
	Questions int
	Recall    float64 // how many have a passage of the right section among the first five
	NDCG      float64 // of the first ten: 1 when that stands first, less the further down
}

// scored is the first place at which the right section was found, from 1; 0 when it was not.
type scored []int

// quality is the mean over questions. Each has one right section: passages of it behind the first add nothing, so that the ideal
// order's gain is 1.
func (s scored) quality() Quality {
	q := Quality{Questions: len(s)}
	for _, rank := range s {
		if rank > 0 && rank <= near {
			q.Recall++
		}
		if rank > 0 && rank <= deep {
			q.NDCG += 1 / math.Log2(float64(rank)+1)
		}
	}
	if len(s) > 0 {
		q.Recall /= float64(len(s))
		q.NDCG /= float64(len(s))
	}
	return q
}

// Passage is what a search found.
type Passage struct {
	Document string // its name
	Text     string
}

// rank is the place of the first passage that is of the section.
func rank(found []Passage, document string, section Section) int {
	return 1 + slices.IndexFunc(found, func(p Passage) bool { return p.Document == document && section.holds(p.Text) })
}

// holds says whether a passage has one of the section's paragraphs, or a longer piece of one. Passages of several small sections
// have something of each.
func (s Section) holds(passage string) bool {
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

// window is how many letters in a row two texts share only when one is from the other, within a document.
const window = 60

// letters are what stays of a text whatever its spaces and signs became.
func letters(text string) string { return strings.Join(words(text), "") }
