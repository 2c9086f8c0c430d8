package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Document is a Markdown document.
type Document struct {
	Name     string // file name with its extension
	Text     []byte
	Sections []string // sections that questions are asked about
}

// Question is a text to search for, and the section that answers it.
type Question struct {
	Text    string
	Section string
}

// The sizes of sections and questions.
const (
	minSection    = 400 // minimum length in bytes of a section from which questions are created
	minLetters    = 5   // minimum number of letters in a word of a question
	questionWords = 4
)

// ReadDocuments reads the Markdown documents in a directory.
func ReadDocuments(dir string) ([]Document, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("looking for documents in %s: found %d: %w", dir, len(paths), err)
	}
	var all []Document
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading document: %w", err)
		}
		d := Document{Name: filepath.Base(path), Text: text}
		for section := range strings.SplitSeq(string(text), "\n## ") {
			if len(section) >= minSection {
				d.Sections = append(d.Sections, section)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// Ask creates questions about the sections of the documents. The parameter each is the number of
// questions per section. The same arguments give the same questions. Sections with too few long
// words are skipped.
func Ask(documents []Document, each int, seed uint64) (all []Question) {
	rng := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // intentionally the same questions each time
	for _, document := range documents {
		for _, section := range document.Sections {
			long := slices.DeleteFunc(words(section), func(word string) bool { return len(word) < minLetters })
			long = slices.Compact(slices.Sorted(slices.Values(long)))
			if len(long) < questionWords {
				continue
			}
			for range each {
				rng.Shuffle(len(long), func(i, j int) { long[i], long[j] = long[j], long[i] })
				chosen := slices.Clone(long[:questionWords])
				if len(all)%2 == 1 {
					chosen[0] = mistype(rng, chosen[0])
				}
				all = append(all, Question{Text: strings.Join(chosen, " "), Section: section})
			}
		}
	}
	return all
}

// mistype adds a typing error to a word. It omits or doubles a letter, or swaps it with its
// neighbour. The first letter stays.
func mistype(rng *rand.Rand, word string) string {
	at := 1 + rng.IntN(len(word)-2)
	switch rng.IntN(3) {
	case 0:
		return word[:at] + word[at+1:]
	case 1:
		return word[:at] + word[at:at+1] + word[at:]
	}
	return word[:at] + word[at+1:at+2] + word[at:at+1] + word[at+2:]
}

// words returns the lower-case words of a text. Only ASCII letters count as parts of words.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) })
}

// window is a number of consecutive letters. If a passage and a section have that many consecutive
// letters in common, one of them contains a part of the other.
const window = 60

// AnsweredBy reports whether a passage is a part of the question's section.
func (q Question) AnsweredBy(passage string) bool {
	in, text := strings.Join(words(passage), ""), strings.Join(words(q.Section), "")
	for at := 0; at+window <= len(text); at += window {
		if strings.Contains(in, text[at:at+window]) {
			return true
		}
	}
	return false
}
