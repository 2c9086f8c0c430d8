package knowledgedb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

const (
	// countedTerms is the maximum number of a document's terms for which chunks are counted. Only
	// the most frequent terms are counted. The counts are written in one transaction while the
	// document's row is locked, which takes a second or two for this number of terms. Terms that
	// are not counted are treated as rare. Searches find them, but the correction of misspelled
	// words does not.
	countedTerms = 20_000
	// termBatch is the number of terms that one statement adds to or subtracts from the counts.
	// Such a statement takes well under a second, even if the database is busy.
	termBatch = 1000
	// maxNotedTerms bounds the memory of counting.
	maxNotedTerms = 400_000
)

// TermCounts counts, for each term, the chunks of a document that contain it. A worker fills it
// while it reads a document, and passes it to FinishDocument. If a document has very many terms,
// rare terms may be missing. The zero value is the count for a document without chunks. A
// TermCounts is not safe for concurrent use.
type TermCounts struct {
	// noted contains the counts by term; nil until the first call of Add.
	noted map[string]termCount
	// chunks is the number of chunks added so far.
	chunks int32
	lost   bool // some terms are missing
}

// termCount counts the chunks that contain a term. Repetitions within a chunk count once.
type termCount struct {
	chunks int32
	last   int32 // number of the last chunk that contains the term, from 1
}

// Add counts the terms of one more chunk. It counts only terms that can be indexed.
func (c *TermCounts) Add(terms []Term) {
	if c.noted == nil {
		c.noted = map[string]termCount{}
	}

	c.chunks++
	for t := range indexed(terms) {
		n, known := c.noted[t.Lexeme]
		switch {
		case !known: // stores a copy of the term, because a substring would keep the whole text in memory
			c.noted[strings.Clone(t.Lexeme)] = termCount{chunks: 1, last: c.chunks}
		case n.last != c.chunks:
			c.noted[t.Lexeme] = termCount{chunks: n.chunks + 1, last: c.chunks}
		}
	}

	if len(c.noted) > maxNotedTerms {
		c.forget()
	}
}

// forget drops the rarest terms until at most half of maxNotedTerms are left.
func (c *TermCounts) forget() {
	c.lost = true
	for rare := int32(1); len(c.noted) > maxNotedTerms/2; rare++ {
		// If a term is dropped here and occurs again later, its count is too low.
		for lexeme, n := range c.noted {
			if n.chunks <= rare {
				delete(c.noted, lexeme)
			}
		}
	}
}

// frequent returns the most frequent terms, up to the given maximum and sorted by term, and for
// each term the number of chunks that contain it. all reports whether no term was omitted.
func (c *TermCounts) frequent(maximum int) (terms []string, counts []int64, all bool) {
	type counted struct {
		term   string
		chunks int32
		number bool // the term belongs to a number, hash or code; such terms need no correction of spelling
	}

	list := make([]counted, 0, len(c.noted))
	for lexeme, n := range c.noted {
		list = append(list, counted{lexeme, n.chunks, strings.ContainsFunc(lexeme, unicode.IsDigit)})
	}

	all = !c.lost && len(list) <= maximum
	if len(list) > maximum {
		slices.SortFunc(list, func(a, b counted) int {
			// Of equally frequent terms, words are kept before numbers.
			if a.chunks == b.chunks && a.number != b.number {
				if a.number {
					return 1
				}
				return -1
			}
			return cmp.Or(cmp.Compare(b.chunks, a.chunks), cmp.Compare(a.term, b.term))
		})
		list = list[:maximum]
	}

	// The terms are sorted, because rows are locked in the order of their terms.
	slices.SortFunc(list, func(a, b counted) int { return cmp.Compare(a.term, b.term) })
	terms, counts = make([]string, len(list)), make([]int64, len(list))
	for i, t := range list {
		terms[i], counts[i] = t.term, int64(t.chunks)
	}

	return terms, counts, all
}

// countTerms returns a transaction step that adds a finished document's terms to the counts of its
// organization. All such transactions first lock the organization's row with an empty term, in a
// separate statement, so that the following statement sees the changes of earlier transactions.
func (s *Store) countTerms(ctx context.Context, held LeasedDocument, of *TermCounts) func(*sqlx.Tx) error {
	terms, counts, all := of.frequent(s.countedTerms)
	return func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `WITH counted AS (
			  INSERT INTO indexed_documents (document_id, org_id, chunks, rest, terms, counts)
			  SELECT $2, $1, count(*), NOT $5, $3, $4 FROM document_chunks WHERE document_id = $2 AND org_id = $1 RETURNING chunks, rest)
			INSERT INTO knowledge_terms AS t (org_id, term, chunks, rest) SELECT $1, '', chunks, rest::int FROM counted
			ON CONFLICT (org_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks, rest = t.rest + excluded.rest`,
			held.OrganizationID, held.ID, pq.Array(terms), pq.Array(counts), all)
		if err != nil {
			return fmt.Errorf("counting chunks: %w", err)
		}

		for from := 1; from <= len(terms); from += termBatch {
			_, err = tx.ExecContext(ctx, `INSERT INTO knowledge_terms AS t (org_id, term, chunks)
				SELECT i.org_id, u.term, u.chunks FROM indexed_documents i, unnest(i.terms[$3:$4], i.counts[$3:$4]) AS u (term, chunks)
				WHERE i.document_id = $2 AND i.org_id = $1 ORDER BY u.term COLLATE "C"
				ON CONFLICT (org_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks`,
				held.OrganizationID, held.ID, from, from+termBatch-1)
			if err != nil {
				return fmt.Errorf("counting terms: %w", err)
			}
		}

		return nil
	}
}

// uncountTerms subtracts up to termBatch terms of a document, which the caller has locked, from its
// organization's counts. It subtracts the counts that were stored for the document, even if the
// document's chunks have changed. The same transaction removes the terms from indexed_documents, so
// that a later transaction can continue. It returns false if none of the document's terms is
// counted any more.
func uncountTerms(ctx context.Context, tx *sqlx.Tx, org, document string) (more bool, err error) {
	var left int
	err = tx.GetContext(ctx, &left, `SELECT cardinality(terms) FROM indexed_documents WHERE document_id = $2 AND org_id = $1`, org, document)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("uncounting terms: %w", err)
	}

	// Each transaction that changes the counts first locks the organization's row with an empty
	// term, in a separate statement. The next statement then sees the changes of earlier
	// transactions.
	if _, err := tx.ExecContext(ctx, `SELECT FROM knowledge_terms WHERE org_id = $1 AND term = '' FOR UPDATE`, org); err != nil {
		return false, fmt.Errorf("uncounting terms: %w", err)
	}

	// The last terms are removed first, because truncating an array keeps its beginning.
	if left > 0 {
		_, err = tx.ExecContext(ctx, `WITH less AS MATERIALIZED (
			  SELECT u.term, u.chunks FROM indexed_documents i, unnest(i.terms[$3 + 1:], i.counts[$3 + 1:]) AS u (term, chunks)
			  WHERE i.document_id = $2 AND i.org_id = $1
			), gone AS (
			  DELETE FROM knowledge_terms t USING less l WHERE t.org_id = $1 AND t.term = l.term AND t.chunks <= l.chunks
			), fewer AS (
			  UPDATE knowledge_terms t SET chunks = t.chunks - l.chunks FROM less l WHERE t.org_id = $1 AND t.term = l.term AND t.chunks > l.chunks)
			UPDATE indexed_documents SET terms = terms[:$3], counts = counts[:$3] WHERE document_id = $2 AND org_id = $1`,
			org, document, max(left-termBatch, 0))
		if err != nil {
			return false, fmt.Errorf("uncounting terms: %w", err)
		}
		return true, nil
	}

	// All terms have been subtracted. Now the document's number of chunks is subtracted from the
	// organization's.
	for _, query := range []string{
		`UPDATE knowledge_terms t SET chunks = t.chunks - i.chunks, rest = t.rest - i.rest::int FROM indexed_documents i
		WHERE i.document_id = $2 AND i.org_id = $1 AND t.org_id = $1 AND t.term = ''`,
		`WITH gone AS (DELETE FROM indexed_documents WHERE document_id = $2 AND org_id = $1)
		DELETE FROM knowledge_terms WHERE org_id = $1 AND term = '' AND chunks <= 0`,
	} {
		if _, err := tx.ExecContext(ctx, query, org, document); err != nil {
			return false, fmt.Errorf("uncounting chunks: %w", err)
		}
	}
	return true, nil
}
