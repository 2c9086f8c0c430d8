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
	// enough is the share of what the query's words say that a passage must have: one frequent word of several is less, one rare
	// word or a few ordinary ones of a long question are more. Whoever asks uses words that documents do not, so it is low.
	enough = 0.25
	// few words are mostly all about one thing, so that a passage about it has more of them: at least enoughOfFew.
	few, enoughOfFew = 3, 0.4
	// asRare is how much a known word must say, of what the rarest of the query does, for a passage that has it to be about what is
	// asked: of few words it is next to the rarest, of many that one may be only how one asks.
	asRare, asRareOfFew = 0.6, 0.85
	// unseen chunks are taken to be there beside those that are, with none of the words: in a few pages nothing can be called frequent.
	unseen = 50
	// unknown is what a word that no chunk has counts, of what the rarest would: it may be what matters, or only how one asks.
	unknown = 0.5
	// alike is from which share of common trigrams on a passage's word stands for an unknown one of the query.
	alike = 0.4
	// near is from which cosine on a vector supports by itself. Unrelated texts are below it with OpenAI's third generation of
	// models, which most services' vectors are like; where all texts are nearer, nothing is left out, and the model must judge.
	near = 0.3
)

// support tells passages that have to do with a query from those that only share what everything has.
type support struct {
	words []weighed
	all   float64 // what the words weigh together
	least float64 // what a passage's weightiest word must weigh at least
	few   bool
}

type weighed struct {
	knowledgedb.QueryWord

	weight  float64
	unknown bool
	name    bool
}

// support weighs a query's words: the rarer, the more they say.
func (a answers) support(text string, words []knowledgedb.QueryWord) support {
	total := float64(a.chunks + unseen)
	s := support{few: len(words) <= few}
	names := analysis.Names(text)
	rarest := 0.0
	for _, w := range words {
		have := int64(0)
		for _, l := range w.Lexemes {
			have = max(have, a.counts[l])
		}
		one := weighed{QueryWord: w, weight: rarity(float64(have), total), name: names[w.Text]}
		if have == 0 {
			one.unknown, one.weight = true, unknown*rarity(0, total)
		} else {
			rarest = max(rarest, one.weight)
		}
		s.words = append(s.words, one)
		s.all += one.weight
	}
	s.least = asRare * rarest
	if s.few {
		s.least = asRareOfFew * rarest
	}
	return s
}

// rarity is the inverse document frequency, as BM25 has it.
func rarity(have, total float64) float64 {
	return math.Log(1 + (max(total-have, 0)+0.5)/(have+0.5))
}

// keep leaves out passages without support.
func (s support) keep(found []candidate) []candidate {
	known := languages{}
	return slices.DeleteFunc(found, func(c candidate) bool { return c.similarity < near && !s.in(c, known) })
}

// in reports whether a passage has enough of what the query's words say: as they are written, or as its language inflects them.
func (s support) in(c candidate, known languages) bool {
	text := strings.Join(c.Headings, "\n") + "\n" + c.Name + "\n" + c.Text
	terms := map[string]bool{}
	if s.by(c, add(terms, "", text)) {
		return true
	}
	language := known.of(c.Passage)
	return language != "" && s.by(c, add(terms, language, text))
}

// add adds a text's terms to others.
func add(terms map[string]bool, language, text string) map[string]bool {
	for _, l := range analysis.Terms(language, text) {
		terms[l.Text] = true
	}
	return terms
}

// by reports whether a passage of these terms has enough of what the query's words say, one among them that says much. A name that
// no document has is what few words are about, whatever the others say.
func (s support) by(c candidate, terms map[string]bool) bool {
	sum, telling := 0.0, false
	similar := slices.Contains(c.MatchedBy, ByTrigram)
	for _, w := range s.words {
		switch {
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
		return telling && sum >= enoughOfFew*s.all
	}
	return telling && sum >= enough*s.all
}

// languages are those of documents as far as their passages tell; to tell one takes longer than all else that is done with a passage.
type languages map[string]*told

type told struct {
	language string
	tries    int
}

// of gives the language of a passage's document, "" when its first passages do not tell.
func (l languages) of(p domain.Passage) string {
	one := l[p.DocumentID]
	if one == nil {
		one = &told{}
		l[p.DocumentID] = one
	}
	if one.language == "" && one.tries < 2 {
		one.tries++
		one.language = analysis.Detect(p.Text)
	}
	return one.language
}

// in reports whether a passage has the word.
func (w weighed) in(terms map[string]bool) bool {
	return terms[w.Text] || slices.ContainsFunc(w.Lexemes, func(l string) bool { return terms[l] })
}

// isLike reports whether a passage has a word that is alike.
func (w weighed) isLike(terms map[string]bool) bool {
	own := trigrams(w.Text)
	for term := range terms {
		if common(own, trigrams(term)) >= alike {
			return true
		}
	}
	return false
}

// trigrams are a word's, as PostgreSQL makes them: with two spaces before it and one behind.
func trigrams(word string) map[string]bool {
	runes := []rune("  " + word + " ")
	set := make(map[string]bool, len(runes))
	for n := 0; n+3 <= len(runes); n++ {
		set[string(runes[n:n+3])] = true
	}
	return set
}

// common is the share of two words' trigrams that both have.
func common(a, b map[string]bool) float64 {
	both := 0
	for t := range a {
		if b[t] {
			both++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}
