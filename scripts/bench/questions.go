package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/jmoiron/sqlx"
)

// document is a Markdown document.
type document struct {
	Name     string // file name with its extension
	Text     []byte
	Sections []string // sections that questions are asked about
}

// question is a text to search for, and the section that answers it.
type question struct {
	Text    string
	Section string
}

// The sizes of sections and questions.
const (
	minSection    = 400 // minimum length in bytes of a section from which questions are created
	minLetters    = 5   // minimum number of letters in a word of a question
	questionWords = 4
)

// readDocuments reads the Markdown documents in a directory.
func readDocuments(dir string) ([]document, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("looking for documents in %s: found %d: %w", dir, len(paths), err)
	}
	var all []document
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading document: %w", err)
		}
		d := document{Name: filepath.Base(path), Text: text}
		for section := range strings.SplitSeq(string(text), "\n## ") {
			if len(section) >= minSection {
				d.Sections = append(d.Sections, section)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// ask creates questions about the sections of the documents. Each question has one right answer. It
// consists of some words of a section, chosen with a fixed seed and reordered. Every other question
// contains a typing error. Such questions show which of two rankings is better, but not how well a
// ranking answers the questions of people. The parameter each is the number of
// questions per section. The same arguments give the same questions. Sections with too few long
// words are skipped.
func ask(documents []document, each int, seed uint64) (all []question) {
	rng := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // intentionally the same questions each time
	for _, d := range documents {
		for _, section := range d.Sections {
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
				all = append(all, question{Text: strings.Join(chosen, " "), Section: section})
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

// answeredBy reports whether a passage is a part of the question's section.
func (q question) answeredBy(passage string) bool {
	in, text := strings.Join(words(passage), ""), strings.Join(words(q.Section), "")
	for at := 0; at+window <= len(text); at += window {
		if strings.Contains(in, text[at:at+window]) {
			return true
		}
	}
	return false
}

// plainQuery finds the passages with any of the words of $1, the best ten first.
const plainQuery = `WITH q AS (SELECT replace(plainto_tsquery('english', $1)::text, ' & ', ' | ')::tsquery AS q)
	SELECT p.text FROM plain p, q WHERE p.terms @@ q.q ORDER BY ts_rank(p.terms, q.q) DESC, p.id LIMIT 10`

// openPlain connects to a database, creates an index of its passages, and returns a function that
// searches them with PostgreSQL's full text search for English. The index includes document names
// and headings, because Parley searches them. It is the baseline for the quality and the latency of
// Parley's search. The caller closes the database.
func openPlain(ctx context.Context, dsn string) (*sqlx.DB, searchFunc, error) {
	db, err := sqlx.ConnectContext(ctx, "postgres", dsn)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to database: %w", err)
	}

	for _, statement := range []string{
		`DROP TABLE IF EXISTS plain`,
		`CREATE TABLE plain AS SELECT c.id, c.text,
			to_tsvector('english', d.name || ' ' || array_to_string(c.headings, ' ') || ' ' || c.text) AS terms
			FROM document_chunks c JOIN documents d ON d.id = c.document_id`,
		`CREATE INDEX ON plain USING gin (terms)`,
		`VACUUM ANALYZE plain`,
		`VACUUM ANALYZE document_chunks`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("preparing PostgreSQL's own search: %w", err), db.Close())
		}
	}
	return db, func(ctx context.Context, question string) (texts []string, err error) {
		return texts, db.SelectContext(ctx, &texts, plainQuery, question)
	}, nil
}
