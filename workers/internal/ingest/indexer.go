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
	// A batch is written in one transaction, which should be neither very short nor very long.
	maxBatch     = 200 // maximum number of passages in one write
	batchTime    = 250 * time.Millisecond
	languageText = 8000  // number of characters from which the language is detected
	maxLanguage  = 40000 // characters after which detection ends without a result; many documents begin with long tables of contents
)

// indexer divides a document into passages and extracts their search terms. It begins to extract
// terms when the language is known.
type indexer struct {
	name   string
	cutter *chunk.Chunker
	// The document's language as a BCP 47 tag, or "" if it is unknown.
	language string
	// true if language is final
	decided bool
	waiting []domain.Passage       // passages whose terms are extracted when the language is decided
	chars   int                    // number of characters in waiting
	tried   int                    // number of characters of text at the last attempt to detect the language
	pending []knowledgedb.NewChunk // passages to be written, with their terms
	// number of the document's pages; nil if unknown
	pages *int
	// number of pages read so far
	done    int
	changed bool // pages or done has changed since the last batch
	// The terms of the most recent headings; see headingTerms.
	above map[string][]knowledgedb.Term
	// The number of passages that contain each term, for the index's statistics.
	terms knowledgedb.TermCounts
}

// newIndexer returns an indexer for a document with the given file name.
func newIndexer(name string) *indexer {
	return &indexer{name: wordsFor(name), cutter: chunk.New(chunk.Limits{}), above: map[string][]knowledgedb.Term{}}
}

// wordsFor returns the words of a file name, separated by spaces.
func wordsFor(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return ' '
		}
		return r
	}, name)
}

// take processes one event of the document.
func (x *indexer) take(e document.Event) {
	switch {
	case e.Block != nil:
		x.add(x.cutter.Add(*e.Block))
	case e.Pages != nil:
		x.pages, x.changed = e.Pages, true
	// The reader may report pages out of order, but the stored progress must never decrease.
	case e.Done != nil && *e.Done > x.done:
		x.done, x.changed = *e.Done, true
	}
}

// add extracts the terms of passages. Until the language is known, it keeps the passages instead.
func (x *indexer) add(passages []domain.Passage) {
	if x.decided {
		x.analyse(passages)
		return
	}
	x.waiting = append(x.waiting, passages...)
	for _, p := range passages {
		x.chars += utf8.RuneCountInString(p.Text)
	}

	// Detecting the language after each passage would be slow, so wait until there is enough new
	// text.
	if x.chars-x.tried >= languageText {
		x.decide("", x.chars >= maxLanguage)
	}
}

// decide detects the language from the passages kept so far. The argument says is the language that
// the document declares. If no language is detected, decide uses this language. If last is true,
// the decision is final even if the language remains unknown.
func (x *indexer) decide(says string, last bool) {
	var text strings.Builder
	for _, p := range x.waiting {
		text.WriteString(p.Text)
		text.WriteByte('\n')
		// More text would not change the result of the detection.
		if text.Len() > utf8.UTFMax*maxLanguage {
			break
		}
	}

	// Use the declared language only if no language is detected.
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

// close processes the end of the document.
func (x *indexer) close(info document.Info) {
	x.add(x.cutter.Close())
	if !x.decided {
		x.decide(info.Language, true)
	}

	// In a long document, the detection may have ended without a result before the declared
	// language was known.
	if x.language == "" {
		x.language = info.Language
	}
	if info.Pages > 0 {
		x.pages, x.done, x.changed = &info.Pages, info.Pages, true
	}
}

// analyse extracts the terms of passages and adds the passages to x.pending.
func (x *indexer) analyse(passages []domain.Passage) {
	for _, p := range passages {
		terms, last := termsFor(analysis.Terms(x.language, p.Text), false)
		for _, t := range x.headingTerms(p.Headings) { // positions must be unique, so the headings have positions after the text
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

// headingTerms returns the terms of a passage's headings and of the document's name. It caches the
// latest result, because consecutive passages often have the same headings.
func (x *indexer) headingTerms(headings []string) []knowledgedb.Term {
	text := strings.Join(append([]string{x.name}, headings...), "\n")
	terms, known := x.above[text]
	if !known {
		clear(x.above) // the cache keeps only the latest result
		terms, _ = termsFor(analysis.Terms(x.language, text), true)
		x.above[text] = terms
	}
	return terms
}

// termsFor groups lexemes by their text. The result last is the highest position of all lexemes.
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

// due reports whether a batch should be sent now. The argument late states that batchTime has
// passed; then a batch need not be full.
func (x *indexer) due(late bool) bool {
	return len(x.pending) >= maxBatch || late && x.left()
}

// left reports whether passages or progress remain to be written.
func (x *indexer) left() bool { return x.changed || len(x.pending) > 0 }

// batch returns the next batch to write.
func (x *indexer) batch() batch {
	n := min(maxBatch, len(x.pending))

	// Another goroutine reads the batch, so the batch must not share memory with pending.
	b := batch{chunks: slices.Clone(x.pending[:n]), pages: x.pages, done: x.done}
	x.pending = slices.Delete(x.pending, 0, n)
	x.changed = false
	return b
}
