package ingest

import (
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/analysis"
	"parley/workers/internal/chunk"
	"parley/workers/internal/document"
)

const (
	// A batch is one transaction, so it is neither tiny nor very long.
	maxBatch     = 200 // passages in one write
	batchTime    = 250 * time.Millisecond
	languageText = 8000  // characters from which the language is detected
	maxLanguage  = 40000 // characters after which detection stops; the limit is high because many documents begin with tables of contents
)

// indexer divides a document into passages and extracts their search terms. It does not extract
// terms until the language is known.
type indexer struct {
	name   string
	cutter *chunk.Chunker
	// The language is a BCP 47 tag, or "" if it is unknown.
	language string
	// whether language is final
	decided bool
	waiting []domain.Passage       // passages until the language is decided
	chars   int                    // characters in waiting
	tried   int                    // number of characters at the last failed detection
	pending []knowledgedb.NewChunk // passages to be written
	// number of the document's pages; nil if unknown
	pages *int
	// pages that were read so far
	done    int
	changed bool // pages or done have changed since the last batch
	// terms of the latest headings; see headingTerms
	above map[string][]knowledgedb.Term
	// number of passages that contain each term, for the statistics of the index
	terms knowledgedb.TermCounts
}

// newIndexer returns an indexer for a document with the given file name.
func newIndexer(name string) *indexer {
	return &indexer{name: wordsFor(name), cutter: chunk.New(chunk.Limits{}), above: map[string][]knowledgedb.Term{}}
}

// wordsFor separates the words in a file name by spaces.
func wordsFor(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return ' '
		}
		return r
	}, name)
}

// take processes an event of the document.
func (x *indexer) take(e document.Event) {
	switch {
	case e.Block != nil:
		x.add(x.cutter.Add(*e.Block))
	case e.Pages != nil:
		x.pages, x.changed = e.Pages, true
	// The progress never decreases, even if the reader reports pages out of order.
	case e.Done != nil && *e.Done > x.done:
		x.done, x.changed = *e.Done, true
	}
}

// add extracts the terms of passages, or keeps the passages until the language is known.
func (x *indexer) add(passages []domain.Passage) {
	if x.decided {
		x.analyse(passages)
		return
	}
	x.waiting = append(x.waiting, passages...)
	for _, p := range passages {
		x.chars += utf8.RuneCountInString(p.Text)
	}

	// Trying after each passage would be slow, so a new attempt needs enough new text.
	if x.chars-x.tried >= languageText {
		x.decide("", x.chars >= maxLanguage)
	}
}

// decide detects the language from the passages kept so far, or else uses says, the language that
// the document declares. If last is true, it decides in any case, possibly that the language is
// unknown.
func (x *indexer) decide(says string, last bool) {
	var text strings.Builder
	for _, p := range x.waiting {
		text.WriteString(p.Text)
		text.WriteByte('\n')
		// More text would not change the result.
		if text.Len() > utf8.UTFMax*maxLanguage {
			break
		}
	}

	// The declared language is used only if none is detected.
	if x.language = analysis.Detect(text.String()); x.language == "" {
		x.language = says
	}

	if x.tried = x.chars; x.language == "" && !last {
		return
	}

	x.decided = true
	x.analyse(x.waiting)
	x.waiting = nil
}

// close processes the document's end.
func (x *indexer) close(info document.Info) {
	x.add(x.cutter.Close())
	if !x.decided {
		x.decide(info.Language, true)
	}

	// If detection has given up on a long document, the document's declared language is stored.
	if x.language == "" {
		x.language = info.Language
	}
	if info.Pages > 0 {
		x.pages, x.done, x.changed = &info.Pages, info.Pages, true
	}
}

// analyse extracts the terms of passages and queues the passages for writing.
func (x *indexer) analyse(passages []domain.Passage) {
	for _, p := range passages {
		terms, last := termsFor(analysis.Terms(x.language, p.Text), false)
		for _, t := range x.headingTerms(p.Headings) { // their positions follow those of the text, because positions must be unique
			t.Positions = slices.Clone(t.Positions)
			for n := range t.Positions {
				t.Positions[n] += last
			}
			terms = append(terms, t)
		}
		x.terms.Add(terms)
		x.pending = append(x.pending, knowledgedb.NewChunk{Passage: p, Terms: terms})
	}
}

// headingTerms returns the terms of the headings above a passage and of the document's name. It
// caches the last result, because consecutive passages often have the same headings.
func (x *indexer) headingTerms(headings []string) []knowledgedb.Term {
	text := strings.Join(append([]string{x.name}, headings...), "\n")
	terms, known := x.above[text]
	if !known {
		clear(x.above) // keep only the latest entry
		terms, _ = termsFor(analysis.Terms(x.language, text), true)
		x.above[text] = terms
	}
	return terms
}

// termsFor groups lexemes by their text. last is the highest position of any lexeme.
func termsFor(lexemes []analysis.Lexeme, heading bool) (terms []knowledgedb.Term, last int) {
	terms = make([]knowledgedb.Term, 0, len(lexemes))

	// The index stores each lexeme of a passage once, with all its positions.
	at := make(map[string]int, len(lexemes))
	for _, l := range lexemes {
		n, known := at[l.Text]
		if !known {
			n = len(terms)
			at[l.Text] = n
			terms = append(terms, knowledgedb.Term{Lexeme: l.Text, Heading: heading})
		}
		terms[n].Positions = append(terms[n].Positions, l.Position)
		last = max(last, l.Position)
	}
	return terms, last
}

// due reports whether a batch should be sent now. late is true if batchTime has passed since the
// last batch.
func (x *indexer) due(late bool) bool {
	return len(x.pending) >= maxBatch || late && x.left()
}

// left reports whether anything remains to be written.
func (x *indexer) left() bool { return x.changed || len(x.pending) > 0 }

// batch returns the next batch to write.
func (x *indexer) batch() batch {
	n := min(maxBatch, len(x.pending))

	// The batch is used by another goroutine, so it must not share the memory of pending.
	b := batch{chunks: slices.Clone(x.pending[:n]), pages: x.pages, done: x.done}
	x.pending = slices.Delete(x.pending, 0, n)
	x.changed = false
	return b
}
