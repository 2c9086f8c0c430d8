package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// NewChunk is a chunk of a document to be indexed.
type NewChunk struct {
	domain.Passage // without its document and name

	Terms  []Term
	Vector []float32 // of length 1; nil: none
}

// Term is a word of a chunk as it is looked for.
type Term struct {
	Lexeme    string
	Positions []int // from 1
	Heading   bool  // it is of the headings or of the document's name
}

// What PostgreSQL takes into a tsvector: lexemes of so many bytes, all of them less than 1 MiB, and so many places of each,
// not beyond the last one.
const (
	lexemeMost   = 2040
	lexemesMost  = 900_000
	placesMost   = 255
	lastPosition = 16383
)

// AddChunks indexes chunks of a document, which are found once it is ready, and notes how far it was read: done of pages,
// nil when that is not known. Chunks may be added again, when it is not known whether they were. model made the
// vectors. false: the document was taken from the worker and nothing was written.
func (s *Store) AddChunks(ctx context.Context, held HeldDocument, chunks []NewChunk, model string, pages *int, done int) (bool, error) {
	rows, err := chunkRows(held.OrganizationID, chunks)
	if err != nil {
		return false, fmt.Errorf("adding chunks: %w", err)
	}
	kept, err := s.withDocument(ctx, held, func(tx *sqlx.Tx) error {
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
	}, `pages = coalesce($4, pages), pages_done = greatest(pages_done, $5), chunks = greatest(chunks, $6), updated_at = clock_timestamp()`,
		pages, done, nextChunk(chunks))
	if err != nil {
		return false, fmt.Errorf("adding chunks: %w", err)
	}
	return kept, nil
}

// nextChunk is the number behind the last one.
func nextChunk(chunks []NewChunk) int {
	next := 0
	for i := range chunks {
		next = max(next, chunks[i].Chunk+1)
	}
	return next
}

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

// chunkRows writes chunks as the statement reads them.
func chunkRows(org string, chunks []NewChunk) ([]byte, error) {
	rows := make([]chunkRow, len(chunks))
	prefix := lexemePrefix(org)
	for i := range chunks {
		c := &chunks[i]
		rows[i] = chunkRow{
			N: c.Chunk, Page: c.Page, Headings: append([]string{}, c.Headings...), StartAt: c.StartIndex, EndAt: c.EndIndex,
			Box: c.Box, Text: c.Text, Terms: vectorOf(prefix, c.Terms), Vector: c.Vector,
		}
		if c.Vector != nil {
			signs := signsOf(c.Vector)
			rows[i].Signs = &signs
		}
	}
	out, err := json.Marshal(rows)
	if err != nil { // a number that is none
		return nil, fmt.Errorf("writing chunks: %w", err)
	}
	return out, nil
}

// lexemePrefix stands for an organization in the lexemes of its chunks. Two that share one would read each other's lists in the
// index, for nothing: what these lead to is looked at by organization.
func lexemePrefix(org string) string {
	sum := sha256.Sum256([]byte(org))
	return base64.RawURLEncoding.EncodeToString(sum[:3])
}

// storable reports whether PostgreSQL takes a text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// usable reports whether a lexeme can be indexed; others are passed over, in chunks and in queries.
func usable(lexeme string) bool { return lexeme != "" && len(lexeme) <= lexemeMost && storable(lexeme) }

// lexemeQuotes writes a lexeme for PostgreSQL's tsvector and tsquery.
var lexemeQuotes = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// quoteLexeme is how no lexeme can be read as syntax.
func quoteLexeme(prefix, lexeme string) string {
	return "'" + prefix + lexemeQuotes.Replace(lexeme) + "'"
}

// vectorOf writes terms as a tsvector.
func vectorOf(prefix string, terms []Term) string {
	places := make(map[string][]string, len(terms))
	var order []string
	size := 0
	for _, t := range terms {
		if !usable(t.Lexeme) {
			continue
		}
		at, there := places[t.Lexeme]
		if !there {
			if size += len(prefix) + len(t.Lexeme) + 2*len(t.Positions) + 4; size > lexemesMost {
				break
			}
			order = append(order, t.Lexeme)
		}
		places[t.Lexeme] = append(at, placesOf(t)...)
	}
	var b strings.Builder
	for _, lexeme := range order {
		b.WriteString(quoteLexeme(prefix, lexeme))
		for i, p := range places[lexeme][:min(len(places[lexeme]), placesMost)] {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(p)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// placesOf writes a term's positions and its weight.
func placesOf(t Term) []string {
	weight := ""
	if t.Heading {
		weight = "A"
	}
	positions := t.Positions
	if len(positions) == 0 {
		positions = []int{lastPosition}
	}
	out := make([]string, 0, len(positions))
	for _, p := range positions[:min(len(positions), placesMost)] {
		out = append(out, strconv.Itoa(min(max(p, 1), lastPosition))+weight)
	}
	return out
}

// signsOf writes which numbers of a vector are above 0.
func signsOf(vector []float32) string {
	bits := make([]byte, len(vector))
	for i, v := range vector {
		bits[i] = '0'
		if v > 0 {
			bits[i] = '1'
		}
	}
	return string(bits)
}

// countedAtOnce is of how many chunks the terms are counted in a statement: no statement may take long, and a document may have as
// many terms as a language.
const countedAtOnce = 2000

// termsOf reads in how many chunks of a part of a document each term is; its parameters are the organization, the document, the
// length of the organization's prefix with one more, and the part's first chunk and the one behind it.
const termsOf = `SELECT substr(s.word, $3) AS term, s.ndoc AS chunks FROM ts_stat(format(
	'SELECT terms FROM document_chunks WHERE org_id = %L AND document_id = %L AND n >= %s AND n < %s', $1::text, $2::text, $4::int, $5::int)) s`

// eachPart runs a statement with termsOf for all parts of a document, whose chunks have numbers below next.
func eachPart(ctx context.Context, tx *sqlx.Tx, org, document string, next int, query string) error {
	for from := 0; from < next; from += countedAtOnce {
		if _, err := tx.ExecContext(ctx, query, org, document, len(lexemePrefix(org))+1, from, from+countedAtOnce); err != nil {
			return fmt.Errorf("counting terms: %w", err)
		}
	}
	return nil
}

// countTerms adds a finished document's terms to its organization's.
func countTerms(ctx context.Context, tx *sqlx.Tx, held HeldDocument) error {
	var next int
	err := tx.GetContext(ctx, &next, `WITH counted AS (
		  INSERT INTO indexed_documents (document_id, org_id, chunks)
		  SELECT $2, $1, count(*) FROM document_chunks WHERE document_id = $2 AND org_id = $1 RETURNING chunks
		), all_of AS (
		  INSERT INTO knowledge_terms AS t (org_id, term, chunks) SELECT $1, '', chunks FROM counted
		  ON CONFLICT (org_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks)
		SELECT coalesce(max(n) + 1, 0) FROM document_chunks WHERE document_id = $2 AND org_id = $1`, held.OrganizationID, held.ID)
	if err != nil {
		return fmt.Errorf("counting chunks: %w", err)
	}
	return eachPart(ctx, tx, held.OrganizationID, held.ID, next, `INSERT INTO knowledge_terms AS t (org_id, term, chunks)
		SELECT $1, u.term, u.chunks FROM (`+termsOf+`) u ORDER BY u.term COLLATE "C"
		ON CONFLICT (org_id, term) DO UPDATE SET chunks = t.chunks + excluded.chunks`)
}

// removeIndexed removes what is indexed of documents, which the caller has locked: chunks, vectors, and of the counts of terms
// what those of them were that are ready. Whatever stays of the documents is unknown to searches.
func removeIndexed(ctx context.Context, tx *sqlx.Tx, org string, documents []string) error {
	documents = slices.Compact(slices.SortedFunc(slices.Values(documents), cmp.Compare[string]))
	var counted []countedDocument
	err := tx.SelectContext(ctx, &counted, `DELETE FROM indexed_documents i WHERE i.document_id = ANY ($2) AND i.org_id = $1
		RETURNING i.document_id, i.chunks,
		  (SELECT coalesce(max(c.n) + 1, 0) FROM document_chunks c WHERE c.document_id = i.document_id) AS next`, org, pq.Array(documents))
	if err != nil {
		return fmt.Errorf("removing index of documents: %w", err)
	}
	if err := uncountTerms(ctx, tx, org, counted); err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM document_vectors WHERE document_id = ANY ($2) AND org_id = $1`,
		`DELETE FROM document_chunks WHERE document_id = ANY ($2) AND org_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, query, org, pq.Array(documents)); err != nil {
			return fmt.Errorf("removing index of documents: %w", err)
		}
	}
	return nil
}

// countedDocument is one whose terms are counted.
type countedDocument struct {
	ID     string `db:"document_id"`
	Chunks int    `db:"chunks"`
	Next   int    `db:"next"` // the number behind its last chunk
}

// uncountTerms takes the terms of documents from their organization's. The row that everybody locks first is locked by a
// statement of its own: the next ones see what others have written.
func uncountTerms(ctx context.Context, tx *sqlx.Tx, org string, counted []countedDocument) error {
	for _, doc := range counted {
		_, err := tx.ExecContext(ctx, `UPDATE knowledge_terms SET chunks = chunks - $2 WHERE org_id = $1 AND term = ''`, org, doc.Chunks)
		if err != nil {
			return fmt.Errorf("counting chunks: %w", err)
		}
		err = eachPart(ctx, tx, org, doc.ID, doc.Next, `WITH less AS MATERIALIZED (`+termsOf+`), gone AS (
			  DELETE FROM knowledge_terms t USING less l WHERE t.org_id = $1 AND t.term = l.term AND t.chunks <= l.chunks)
			UPDATE knowledge_terms t SET chunks = t.chunks - l.chunks FROM less l
			WHERE t.org_id = $1 AND t.term = l.term AND t.chunks > l.chunks`)
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM knowledge_terms WHERE org_id = $1 AND term = '' AND chunks <= 0`, org)
	if err != nil {
		return fmt.Errorf("counting chunks: %w", err)
	}
	return nil
}
