package knowledgedb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// NewChunk is a chunk of a document to be indexed. A chunk is the unit that a search returns.
type NewChunk struct {
	domain.Passage // the passage without the document's id and name

	Terms  []Term
	Vector []float32 // vector of length 1; nil: none
}

// Term is a word in a chunk, in its indexed form. The caller has normalized it.
type Term struct {
	Lexeme    string
	Positions []int // positions of the word in the chunk, from 1
	Heading   bool  // the word is in the headings or in the document's name
}

// Limits of PostgreSQL's tsvector: bytes per lexeme, bytes in all lexemes (less than 1 MiB),
// positions per lexeme, and the highest position.
const (
	maxLexeme    = 2040
	maxLexemes   = 900_000
	maxPositions = 255
	lastPosition = 16383
)

// AddChunks indexes chunks of a document and records its progress: done is the number of processed
// pages, and pages is their total, or nil if unknown. Searches find the chunks only when the
// document is ready. The argument model is the model that computed the vectors.
//
// The same chunks may be added more than once; repetitions change nothing. AddChunks also extends
// the lease. It returns false, and writes nothing, if the worker no longer holds the document.
func (s *Store) AddChunks(ctx context.Context, held LeasedDocument, chunks []NewChunk, model string, pages *int, done int) (bool, error) {
	rows, err := chunkRows(held.OrganizationID, chunks)
	if err != nil {
		return false, fmt.Errorf("adding chunks: %w", err)
	}

	kept, err := s.withDocument(ctx, held, func(tx *sqlx.Tx) error {
		// A batch may contain only progress.
		if len(chunks) == 0 {
			return nil
		}

		_, err := tx.ExecContext(ctx, `WITH new AS MATERIALIZED (
			  SELECT * FROM json_to_recordset($3::json) AS c (n int, page int, headings text[], start_at int, end_at int, box real[], text text,
			    terms tsvector, signs text, vector real[])
			), added AS (
			  INSERT INTO document_chunks (org_id, document_id, n, page, headings, start_at, end_at, box, text, terms)
			  SELECT $1, $2, n, page, headings, start_at, end_at, box, text, terms FROM new ORDER BY n
			  ON CONFLICT (document_id, n) DO NOTHING RETURNING id, n)
			INSERT INTO document_vectors (chunk_id, org_id, document_id, model, signs, vector)
			SELECT a.id, $1, $2, $4, w.signs::bit varying, w.vector FROM added a JOIN new w ON w.n = a.n WHERE w.vector IS NOT NULL`,
			held.OrganizationID, held.ID, string(rows), model)
		return err
	}, `pages = coalesce($4, pages), pages_done = greatest(pages_done, $5), chunks = greatest(chunks, $6),
		lease_until = clock_timestamp() + $7::interval, updated_at = clock_timestamp()`, pages, done, nextChunk(chunks), pg.Interval(lease.Lease))
	if err != nil {
		return false, fmt.Errorf("adding chunks: %w", err)
	}

	return kept, nil
}

// nextChunk returns the number that follows the number of the last chunk.
func nextChunk(chunks []NewChunk) int {
	// While a document is processed, its column for the number of chunks contains the number of the
	// next chunk.
	next := 0
	for i := range chunks {
		next = max(next, chunks[i].Chunk+1)
	}
	return next
}

// chunkRow is the JSON form of a chunk. Signs and Vector are either both null or both set.
type chunkRow struct {
	N        int         `json:"n"`
	Page     *int        `json:"page"`
	Headings []string    `json:"headings"`
	StartAt  int         `json:"start_at"`
	EndAt    int         `json:"end_at"`
	Box      *domain.Box `json:"box"`
	Text     string      `json:"text"`
	Terms    string      `json:"terms"`
	Signs    *string     `json:"signs"`
	Vector   []float32   `json:"vector"`
}

// chunkRows encodes chunks as JSON for the statement. It returns an error if a vector contains NaN
// or an infinity.
func chunkRows(org string, chunks []NewChunk) ([]byte, error) {
	rows := make([]chunkRow, len(chunks))
	prefix := lexemePrefix(org)
	for i := range chunks {
		c := &chunks[i]
		rows[i] = chunkRow{
			N: c.Chunk, Page: c.Page, Headings: append([]string{}, c.Headings...), StartAt: c.StartIndex, EndAt: c.EndIndex,
			Box: c.Box, Text: c.Text, Terms: vectorFor(prefix, c.Terms), Vector: c.Vector,
		}
		if c.Vector != nil {
			signs := signsFor(c.Vector)
			rows[i].Signs = &signs
		}
	}

	out, err := json.Marshal(rows)
	if err != nil { // a vector contains NaN or an infinity
		return nil, fmt.Errorf("writing chunks: %w", err)
	}

	return out, nil
}

// prefixLength is the length of a lexemePrefix: three bytes in base64.
const prefixLength = 4

// lexemePrefix returns the prefix that identifies an organization in the lexemes of its chunks, so
// that a search reads only this organization's index entries. If two organizations have the same
// prefix, their searches are slower. They still find only their own chunks, because the rows are
// also filtered by organization.
func lexemePrefix(org string) string {
	sum := sha256.Sum256([]byte(org))
	return base64.RawURLEncoding.EncodeToString(sum[:3])
}

// storable reports whether PostgreSQL can store a text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// indexable reports whether a lexeme can be indexed. Other lexemes are omitted from chunks and
// queries.
func indexable(lexeme string) bool {
	return lexeme != "" && len(lexeme) <= maxLexeme && storable(lexeme)
}

// lexemeQuotes escapes a lexeme for PostgreSQL's tsvector and tsquery.
var lexemeQuotes = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// quoteLexeme quotes a lexeme, so that no part of it is parsed as syntax.
func quoteLexeme(prefix, lexeme string) string {
	return "'" + prefix + lexemeQuotes.Replace(lexeme) + "'"
}

// indexed yields the terms of a chunk that fit into a tsvector.
func indexed(terms []Term) iter.Seq[*Term] {
	return func(yield func(*Term) bool) {
		size := 0
		for i := range terms {
			t := &terms[i]
			// A lexeme that cannot be indexed would make the whole statement fail.
			if !indexable(t.Lexeme) {
				continue
			}
			if size += prefixLength + len(t.Lexeme) + 2*len(t.Positions) + 4; size > maxLexemes || !yield(t) {
				return
			}
		}
	}
}

// vectorFor writes terms as a tsvector, with the organization's prefix. PostgreSQL merges the
// positions of a repeated lexeme.
func vectorFor(prefix string, terms []Term) string {
	var b strings.Builder
	b.Grow((len(prefix) + 16) * len(terms))
	for t := range indexed(terms) {
		b.WriteString(quoteLexeme(prefix, t.Lexeme))
		writePositions(&b, t)
		b.WriteByte(' ')
	}
	return b.String()
}

// writePositions writes a term's positions and its weight. Terms of headings get the weight A, and
// all other terms get the default weight D.
func writePositions(b *strings.Builder, t *Term) {
	// A term without a position gets the highest position, because only positions can have a
	// weight.
	positions := t.Positions
	if len(positions) == 0 {
		positions = []int{lastPosition}
	}
	var digits [8]byte
	for i, p := range positions[:min(len(positions), maxPositions)] {
		b.WriteByte(":,"[min(i, 1)])
		b.Write(strconv.AppendInt(digits[:0], int64(min(max(p, 1), lastPosition)), 10))
		if t.Heading {
			b.WriteByte('A')
		}
	}
}

// signsFor encodes a vector as bits: 1 for each number above 0. The number of different bits is an
// estimate of the distance between two vectors.
func signsFor(vector []float32) string {
	bits := make([]byte, len(vector))
	for i, v := range vector {
		bits[i] = '0'
		if v > 0 {
			bits[i] = '1'
		}
	}
	return string(bits)
}

// chunkBatch is the number of chunks that one statement removes.
const chunkBatch = 1000

// removeIndexed removes the index entries of documents that the caller has locked. These are the
// chunks, the vectors and, for ready documents, their part of the term counts. Documents are
// handled in the order of their ids.
func removeIndexed(ctx context.Context, tx *sqlx.Tx, org string, documents []string) error {
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(documents), cmp.Compare[string])) {
		for more := true; more; {
			var err error
			if more, err = removeSome(ctx, tx, org, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeSome removes a part of the index entries of a document that the caller has locked. It
// subtracts up to termBatch terms from the counts or, if no terms are left, removes up to
// chunkBatch chunks. It returns false if no index entries are left.
func removeSome(ctx context.Context, tx *sqlx.Tx, org, document string) (more bool, err error) {
	more, err = uncountTerms(ctx, tx, org, document)
	if more || err != nil {
		return more, err
	}

	removed, err := tx.ExecContext(ctx, `WITH batch AS MATERIALIZED (
		  SELECT id FROM document_chunks WHERE document_id = $2 AND org_id = $1 ORDER BY n LIMIT $3
		), vectors AS (
		  DELETE FROM document_vectors v USING batch b WHERE v.chunk_id = b.id)
		DELETE FROM document_chunks c USING batch b WHERE c.id = b.id`, org, document, chunkBatch)
	if err != nil {
		return false, fmt.Errorf("removing chunks: %w", err)
	}

	n, err := removed.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("removing chunks: %w", err)
	}

	return n == chunkBatch, nil
}
