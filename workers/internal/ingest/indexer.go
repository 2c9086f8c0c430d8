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
	maxBatch     = 200 // passages written at a time
	batchTime    = 250 * time.Millisecond
	languageText = 8000  // characters by which the language is told
	maxLanguage  = 40000 // characters that are waited for when it is not: many documents begin with pages of contents
)

// indexer cuts what is read into passages and finds the terms of these. It waits with the terms until it can tell the language.
type indexer struct {
	name     string
	cutter   *chunk.Chunker
	language string
	decided  bool
	waiting  []domain.Passage       // until the language is decided
	chars    int                    // of those
	asked    int                    // by how many the language was not told
	pending  []knowledgedb.NewChunk // to be written
	pages    *int
	done     int
	changed  bool // pages or done, since they were last handed on
	above    map[string][]knowledgedb.Term
	terms    knowledgedb.TermCounts
}

func newIndexer(name string) *indexer {
	return &indexer{name: wordsFor(name), cutter: chunk.New(chunk.Limits{}), above: map[string][]knowledgedb.Term{}}
}

// wordsFor makes words of a file's name.
func wordsFor(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return ' '
		}
		return r
	}, name)
}

// take takes one thing that is told of the document.
func (x *indexer) take(e document.Event) {
	switch {
	case e.Block != nil:
		x.add(x.cutter.Add(*e.Block))
	case e.Pages != nil:
		x.pages, x.changed = e.Pages, true
	case e.Done != nil && *e.Done > x.done:
		x.done, x.changed = *e.Done, true
	}
}

func (x *indexer) add(passages []domain.Passage) {
	if x.decided {
		x.analyse(passages)
		return
	}
	x.waiting = append(x.waiting, passages...)
	for _, p := range passages {
		x.chars += utf8.RuneCountInString(p.Text)
	}
	if x.chars-x.asked >= languageText {
		x.decide("", x.chars >= maxLanguage)
	}
}

// decide tells the language by what is waiting, or by what the document says itself; last: if it is not told now, it never is.
func (x *indexer) decide(says string, last bool) {
	var text strings.Builder
	for _, p := range x.waiting {
		text.WriteString(p.Text)
		text.WriteByte('\n')
		if text.Len() > utf8.UTFMax*maxLanguage {
			break
		}
	}
	if x.language = analysis.Detect(text.String()); x.language == "" {
		x.language = says
	}
	if x.asked = x.chars; x.language == "" && !last {
		return
	}
	x.decided = true
	x.analyse(x.waiting)
	x.waiting = nil
}

// close takes the document's end.
func (x *indexer) close(info document.Info) {
	x.add(x.cutter.Close())
	if !x.decided {
		x.decide(info.Language, true)
	}
	if x.language == "" {
		x.language = info.Language
	}
	if info.Pages > 0 {
		x.pages, x.done, x.changed = &info.Pages, info.Pages, true
	}
}

func (x *indexer) analyse(passages []domain.Passage) {
	for _, p := range passages {
		terms, last := termsFor(analysis.Terms(x.language, p.Text), false)
		for _, t := range x.headingTerms(p.Headings) { // behind the text's: two cannot have one place
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

// headingTerms are the terms of what stands above a passage, and of the document's name; many passages have the same.
func (x *indexer) headingTerms(headings []string) []knowledgedb.Term {
	text := strings.Join(append([]string{x.name}, headings...), "\n")
	terms, known := x.above[text]
	if !known {
		clear(x.above) // the next ones mostly stand below the same
		terms, _ = termsFor(analysis.Terms(x.language, text), true)
		x.above[text] = terms
	}
	return terms
}

// termsFor gathers the places of each lexeme, and tells the last one.
func termsFor(lexemes []analysis.Lexeme, heading bool) (terms []knowledgedb.Term, last int) {
	terms = make([]knowledgedb.Term, 0, len(lexemes))
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

// due tells whether there is a batch to hand on; late: some time has passed since the last one.
func (x *indexer) due(late bool) bool {
	return len(x.pending) >= maxBatch || late && x.left()
}

func (x *indexer) left() bool { return x.changed || len(x.pending) > 0 }

// batch takes what is to be written next.
func (x *indexer) batch() batch {
	n := min(maxBatch, len(x.pending))
	b := batch{chunks: slices.Clone(x.pending[:n]), pages: x.pages, done: x.done}
	x.pending = slices.Delete(x.pending, 0, n)
	x.changed = false
	return b
}
