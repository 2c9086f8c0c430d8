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
	// minShare is a share of the total weight of the query's words. The words that a related
	// passage contains must have at least this share. One frequent word among several has less than
	// this share. One rare word has more, and so have a few ordinary words of a long question. The
	// share is low because people use words that the documents do not contain.
	minShare = 0.25
	// A query of at most maxFewWords words is usually about a single thing. For such a query,
	// minShareOfFew applies instead of minShare.
	maxFewWords, minShareOfFew = 3, 0.4
	// minRarity is the minimum weight of the rarest word that a passage shares with the query. It
	// is relative to the weight of the rarest word of the query that occurs in a document. For
	// queries of at most maxFewWords words, minRarityOfFew applies. The limit for longer queries is
	// lower, because their rarest word may not belong to the topic.
	minRarity, minRarityOfFew = 0.6, 0.85
	// extraChunks is added to the number of chunks when word frequencies are computed. Otherwise,
	// every word would seem frequent in a collection of a few pages.
	extraChunks = 50
	// unknownWeight is the weight of a word that no chunk contains, relative to the weight of the
	// rarest possible word. Such a word may be essential, or it may not belong to the topic.
	unknownWeight = 0.5
	// minCommon is the minimum share of trigrams that two words must have in common to be similar.
	// A similar word in a passage replaces a word of the query that no document contains, for
	// example because of a typing error.
	minCommon = 0.4
	// minSimilarity is the cosine similarity from which a passage is considered related to a query
	// because of its vector alone. With OpenAI's third generation of models, unrelated texts have a
	// lower similarity. With other models, all similarities may be higher than this value. Then no
	// passages are omitted, and the agent's model must judge.
	minSimilarity = 0.3
)

// support decides which passages are related to a query, and which only share common words with it.
type support struct {
	words []weightedWord
	all   float64 // total weight of all words
	least float64 // minimum weight of the rarest word that a related passage contains
	// True if the query has at most maxFewWords words.
	few bool
}

// weightedWord is a word of the query, with its weight.
type weightedWord struct {
	knowledgedb.QueryWord

	weight float64
	// True if no chunk contains the word.
	unknown bool
	// True if the word is probably a name.
	name bool
}

// support computes the weights of a query's words. The rarer a word is, the more weight it has.
func (a answers) support(text string, words []knowledgedb.QueryWord) support {
	total := float64(a.chunks + extraChunks)
	s := support{few: len(words) <= maxFewWords}
	names := analysis.Names(text)

	rarest := 0.0
	for _, w := range words {
		// The frequency of a word is the frequency of its most frequent form.
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

	// A query of few words is usually about one thing, so a related passage must contain one of the
	// rarest words of the query.
	s.least = minRarity * rarest
	if s.few {
		s.least = minRarityOfFew * rarest
	}
	return s
}

// rarity returns the inverse document frequency of a word, as in BM25. The argument have is the
// number of chunks that contain the word, and the argument total is the number of all chunks plus
// extraChunks.
func rarity(have, total float64) float64 {
	return math.Log(1 + (max(total-have, 0)+0.5)/(have+0.5))
}

// keep returns the passages that are related to the query. It overwrites the argument found.
func (s support) keep(found []candidate) []candidate {
	known := languages{}
	return slices.DeleteFunc(found, func(c candidate) bool { return c.similarity < minSimilarity && !s.in(c, known) })
}

// in reports whether a passage contains enough of the query's words. A word may occur in the same
// form, or in another form that the language of the passage allows.
func (s support) in(c candidate, known languages) bool {
	// The headings and the document's name describe a passage, so their words count as well.
	text := strings.Join(c.Headings, "\n") + "\n" + c.Name + "\n" + c.Text
	terms := map[string]bool{}
	if s.by(c, add(terms, "", text)) {
		return true
	}

	// Detecting the language takes long, so it is done only if the words in the same form do not
	// suffice.
	language := known.of(c.Passage)
	return language != "" && s.by(c, add(terms, language, text))
}

// add adds the terms of a text to the set terms, and returns the set.
func add(terms map[string]bool, language, text string) map[string]bool {
	for _, l := range analysis.Terms(language, text) {
		terms[l.Text] = true
	}
	return terms
}

// by reports whether terms contains enough of the query's words. At least one of these words must
// have a high weight, or occur in no document and be similar to a term. A query of few words with a
// name that occurs in no document is about that name. In this case, by returns false unless the
// name is similar to a term.
func (s support) by(c candidate, terms map[string]bool) bool {
	// A word that no document contains counts only if the search for similar words has found the
	// passage.
	sum, significant := 0.0, false
	similar := slices.Contains(c.MatchedBy, ByTrigram)
	for _, w := range s.words {
		switch {
		// The passage contains the word itself.
		case w.in(terms):
			sum += w.weight
			significant = significant || w.weight >= s.least
		case w.unknown && similar && w.isLike(terms):
			sum += w.weight
			significant = true
		case w.unknown && w.name && s.few:
			return false
		}
	}

	if s.few {
		return significant && sum >= minShareOfFew*s.all
	}
	return significant && sum >= minShare*s.all
}

// languages caches the languages of documents, because detecting a language takes longer than all
// other work on a passage.
type languages map[string]*documentLanguage

// documentLanguage is the detected language of a document, and the number of passages for which
// detection was tried.
type documentLanguage struct {
	language string
	tries    int
}

// of returns the language of a passage's document. It returns "" if the language cannot be detected
// from the first two passages.
func (l languages) of(p domain.Passage) string {
	one := l[p.DocumentID]
	if one == nil {
		one = &documentLanguage{}
		l[p.DocumentID] = one
	}
	// A document may begin with a table, whose language cannot be detected. So a second passage is
	// tried.
	if one.language == "" && one.tries < 2 {
		one.tries++
		one.language = analysis.Detect(p.Text)
	}
	return one.language
}

// in reports whether terms contains the word in any of its forms.
func (w weightedWord) in(terms map[string]bool) bool {
	return terms[w.Text] || slices.ContainsFunc(w.Lexemes, func(l string) bool { return terms[l] })
}

// isLike reports whether terms contains a word whose spelling is similar to the spelling of w.
func (w weightedWord) isLike(terms map[string]bool) bool {
	own := trigrams(w.Text)
	for term := range terms {
		if common(own, trigrams(term)) >= minCommon {
			return true
		}
	}
	return false
}

// trigrams returns the trigrams of a word, computed as in PostgreSQL: two spaces are added before
// the word, and one after it.
func trigrams(word string) map[string]bool {
	runes := []rune("  " + word + " ")
	set := make(map[string]bool, len(runes))
	for n := 0; n+3 <= len(runes); n++ {
		set[string(runes[n:n+3])] = true
	}
	return set
}

// common returns the fraction of the trigrams of two words that occur in both words.
func common(a, b map[string]bool) float64 {
	both := 0
	for t := range a {
		if b[t] {
			both++
		}
	}

	// The result is the Jaccard index, as in PostgreSQL's function similarity.
	return float64(both) / float64(len(a)+len(b)-both)
}
