package documents

import (
	"math/rand/v2"
	"strings"
)

const (
	vocabulary = 40_000
	rarity     = 1.1 // of Zipf's law: how much rarer each word is than those before it
)

// writer makes text of words as frequent as those of a language are: a few very, most hardly ever.
type writer struct {
	words []string
	zipf  *rand.Zipf
	rng   *rand.Rand
}

func newWriter(seed uint64) *writer {
	// The same words for every seed, so that all documents share a vocabulary.
	syllables := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time, on purpose
	seen := map[string]bool{}
	w := &writer{rng: rand.New(rand.NewPCG(seed, 7))} //nolint:gosec // the same
	for len(w.words) < vocabulary {
		word := made(syllables, 1+min(len(w.words)/20, 3))
		if !seen[word] {
			seen[word] = true
			w.words = append(w.words, word)
		}
	}
	w.zipf = rand.NewZipf(w.rng, rarity, 2, vocabulary-1)
	return w
}

// made makes a word of up to so many syllables, and one more.
func made(rng *rand.Rand, syllables int) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	var b strings.Builder
	for range 1 + rng.IntN(syllables) + 1 {
		b.WriteByte(consonants[rng.IntN(len(consonants))])
		b.WriteByte(vowels[rng.IntN(len(vowels))])
	}
	return b.String()
}

func (w *writer) word() string { return w.words[w.zipf.Uint64()] }

// sentence has 8 to 20 words.
func (w *writer) sentence() string {
	words := make([]string, 8+w.rng.IntN(13))
	for i := range words {
		words[i] = w.word()
	}
	text := strings.Join(words, " ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// paragraph has at least paragraphSize characters, and a sentence more at most.
func (w *writer) paragraph() string {
	var b strings.Builder
	for b.Len() < paragraphSize {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.sentence())
	}
	return b.String()
}

// question asks for some words of a text, the rare with the frequent, as people do.
func (w *writer) question(text string) string {
	words := strings.Fields(strings.ToLower(strings.NewReplacer(".", "", ",", "").Replace(text)))
	w.rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return strings.Join(words[:min(3+w.rng.IntN(5), len(words))], " ")
}
