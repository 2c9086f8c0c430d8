package retrieval

import (
	"math"
	"slices"
	"strings"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/analysis"
)

const (
	// minShare is the minimum share of the total weight of the query's words that a passage must
	// contain. One frequent word among several is less than that share. One rare word is more, and
	// so are a few ordinary words from a long question. The share is low because people use words
	// that documents do not contain.
	minShare = 0.25
	// maxFewWords is the maximum number of words in a query that is usually about a single thing.
	// For such a query, minShareOfFew replaces minShare.
	maxFewWords, minShareOfFew = 3, 0.4
	// minRarity is the minimum weight of the rarest word that a passage shares with the query,
	// relative to the rarest word of the query that occurs in a document. For queries of at most
	// maxFewWords words, minRarityOfFew applies instead. For longer queries the limit is lower,
	// because the rarest word may not belong to the topic.
	minRarity, minRarityOfFew = 0.6, 0.85
	// extraChunks is added to the number of chunks when word frequencies are computed, as if there
	// were more chunks that contain none of the words. Otherwise, every word would seem frequent in
	// a collection of a few pages.
	extraChunks = 50
	// unknownWeight is the weight of a word that no chunk contains, relative to the rarest possible
	// word. Such a word may be essential, or it may not belong to the topic.
	unknownWeight = 0.5
	// minCommon is the minimum share of common trigrams for which a word in a passage is treated as
	// an unknown word of the query, for example as the same word with a typing error.
	minCommon = 0.4
	// minSimilarity is the minimum cosine similarity for which a passage is related to a query by
	// its vector alone. With OpenAI's third generation of models, which are typical, unrelated
	// texts have a lower similarity. With other models, all similarities may be higher; then no
	// passages are omitted, and the agent's model must judge.
	minSimilarity = 0.3
)

// support decides which passages are related to a query and which only share common words with it.
type support struct {
	words []weightedWord
	all   float64 // total weight of the words
	least float64 // minimum weight of the rarest word that a passage contains
	// whether the query has at most maxFewWords words
	few bool
}

// weightedWord is a word of the query with its weight.
type weightedWord struct {
	knowledgedb.QueryWord

	weight float64
	// whether no chunk contains the word
	unknown bool
	// whether the word is probably a name
	name bool
}

// support computes the weights of a query's words. Rare words have more weight.
func (a answers) support(text string, words []knowledgedb.QueryWord) support {
	total := float64(a.chunks + extraChunks)
	s := support{few: len(words) <= maxFewWords}
	names := analysis.Names(text)

	rarest := 0.0
	for _, w := range words {
		// A word is as frequent as its most frequent form.
		have := int64(0)
		for _, l := range w.Lexemes {
			have = max(have, a.counts[l])
		}
		one := weightedWord{QueryWord: w, weight: rarity(float64(have), total), name: names[w.Text]}
		if have == 0 {
			one.unknown, one.weight = true, unknownWeight*rarity(0, total)
		} else {
			rarest = max(rarest, one.weight)
		}
		s.words = append(s.words, one)
		s.all += one.weight
	}

	// Queries of few words are usually about one thing, so a passage must share a rarer word with them.
	s.least = minRarity * rarest
	if s.few {
		s.least = minRarityOfFew * rarest
	}
	return s
}

// rarity returns the inverse document frequency, as in BM25, of a word that is contained in have of
// total chunks.
func rarity(have, total float64) float64 {
	return math.Log(1 + (max(total-have, 0)+0.5)/(have+0.5))
}

// keep removes the passages that are not related to the query.
func (s support) keep(found []candidate) []candidate {
	known := languages{}
	return slices.DeleteFunc(found, func(c candidate) bool { return c.similarity < minSimilarity && !s.in(c, known) })
}

// in reports whether a passage contains enough of the query's words, either literally or in a form
// inflected according to the passage's language.
func (s support) in(c candidate, known languages) bool {
	// Headings and the document's name describe a passage, so their words count.
	text := strings.Join(c.Headings, "\n") + "\n" + c.Name + "\n" + c.Text
	terms := map[string]bool{}
	if s.by(c, add(terms, "", text)) {
		return true
	}

	// Detecting the language is expensive, so it is done only if the literal words do not suffice.
	language := known.of(c.Passage)
	return language != "" && s.by(c, add(terms, language, text))
}

// add adds the terms of a text to a set, and returns the set.
func add(terms map[string]bool, language, text string) map[string]bool {
	for _, l := range analysis.Terms(language, text) {
		terms[l.Text] = true
	}
	return terms
}

// by reports whether terms contains enough of the query's words, including a word with high weight.
// If the query has few words and one of them is a name that no document contains, the result is
// false, because the query is about that name.
func (s support) by(c candidate, terms map[string]bool) bool {
	// A word that no document contains counts only if a similar word was searched for and found.
	sum, telling := 0.0, false
	similar := slices.Contains(c.MatchedBy, ByTrigram)
	for _, w := range s.words {
		switch {
		// The passage contains the word itself.
		case w.in(terms):
			sum += w.weight
			telling = telling || w.weight >= s.least
		case w.unknown && similar && w.isLike(terms):
			sum += w.weight
			telling = true
		case w.unknown && w.name && s.few:
			return false
		}
	}

	if s.few {
		return telling && sum >= minShareOfFew*s.all
	}
	return telling && sum >= minShare*s.all
}

// languages caches the languages of documents, because detecting a language takes longer than all
// other work on a passage.
type languages map[string]*documentLanguage

// documentLanguage is the detected language of a document, and the number of passages from which detection was tried.
type documentLanguage struct {
	language string
	tries    int
}

// of returns the language of a passage's document, or "" if it cannot be detected from the first
// two passages.
func (l languages) of(p domain.Passage) string {
	one := l[p.DocumentID]
	if one == nil {
		one = &documentLanguage{}
		l[p.DocumentID] = one
	}
	// A document may begin with a table, so a second passage is tried.
	if one.language == "" && one.tries < 2 {
		one.tries++
		one.language = analysis.Detect(p.Text)
	}
	return one.language
}

// in reports whether terms contains a form of the word.
func (w weightedWord) in(terms map[string]bool) bool {
	return terms[w.Text] || slices.ContainsFunc(w.Lexemes, func(l string) bool { return terms[l] })
}

// isLike reports whether terms contains a word that is similar to w.
func (w weightedWord) isLike(terms map[string]bool) bool {
	own := trigrams(w.Text)
	for term := range terms {
		if common(own, trigrams(term)) >= minCommon {
			return true
		}
	}
	return false
}

// trigrams returns a word's trigrams in the way that PostgreSQL computes them: with two spaces
// before the word and one space after it.
func trigrams(word string) map[string]bool {
	runes := []rune("  " + word + " ")
	set := make(map[string]bool, len(runes))
	for n := 0; n+3 <= len(runes); n++ {
		set[string(runes[n:n+3])] = true
	}
	return set
}

// common returns the share of the trigrams of two words that both have.
func common(a, b map[string]bool) float64 {
	both := 0
	for t := range a {
		if b[t] {
			both++
		}
	}

	// This is the Jaccard index, as in PostgreSQL's function similarity.
	return float64(both) / float64(len(a)+len(b)-both)
}
