package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lib/pq"

	"parley/shared/store/knowledgedb"
)

// The following calls use the schema's search functions directly, because the store never passes
// arguments of another organization.
const (
	callTerms   = `search_terms($1, $2, '{0}', '{secret}', '{1}', $3, '{}', 10)`
	callVectors = `search_vectors($1, 'm', '10', '{1,0}', $3, '{}', $2::int, 10)`
)

// called calls a search function in a transaction that acts for orgs, and returns the sorted texts
// of the chunks that it finds.
func (b *testEnv) called(orgs []string, call string, args ...any) string {
	b.Helper()
	tx, err := b.raw.BeginTx(b.Context(), nil)
	b.must(err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(b.Context(), `SELECT set_config('parley.organizations', $1, true)`, strings.Join(orgs, ","))
	b.must(err)
	var found pq.StringArray
	b.must(tx.QueryRowContext(b.Context(), `SELECT array_agg(c.text ORDER BY c.text) FROM `+call+` f JOIN document_chunks c ON c.id = f.chunk_id`, args...).Scan(&found))
	return strings.Join(found, " / ")
}

// shared is the test data of two organizations: documents with common words and vectors, and rows
// that name one organization but belong to a document of the other.
type shared struct {
	own, other        *testEnv
	ownDoc, otherDoc  string
	ownWord, otherOne string // prefixes of the lexemes of both organizations
}

func newShared(t *testing.T) shared {
	t.Helper()
	s, raw := openRaw(t)
	x := shared{own: newEnvOn(t, s, raw, "ada@example.com"), other: newEnvOn(t, s, raw, "bob@example.com")}
	enter := func(b *testEnv, whose string) (string, string) {
		chunk, misfit := chunkFor(0, "secret", whose), chunkFor(1, "secret", "misfit", whose)
		chunk.Vector, misfit.Vector = []float32{1, 0}, []float32{1, 0}
		return b.readyDocument(nil, chunk, misfit),
			b.text(`SELECT min(left(u.lexeme, 4)) FROM document_chunks c, unnest(c.terms) u WHERE c.org_id = $1`, b.org)
	}
	x.ownDoc, x.ownWord = enter(x.own, "own")
	x.otherDoc, x.otherOne = enter(x.other, "other")
	for from, to := range map[string]string{x.ownDoc: x.otherDoc, x.otherDoc: x.ownDoc} {
		for _, change := range []string{`document_vectors SET document_id = $2 WHERE chunk_id`, `document_chunks SET document_id = $2, n = 9 WHERE id`} {
			x.own.exec(`UPDATE `+change+` IN (SELECT id FROM document_chunks WHERE document_id = $1 AND n = 1)`, from, to)
		}
	}
	return x
}

// The functions' results belong to the requested organization and its documents. This is true for
// any lexemes, vectors and documents in the arguments.
func TestSearchFunctionsLookAtOneOrganization(t *testing.T) {
	t.Parallel()
	x := newShared(t)
	b, both := x.own, []string{x.own.org, x.other.org}
	for _, ids := range [][]string{{}, {x.otherDoc}, {x.ownDoc}, {x.ownDoc, x.otherDoc}} {
		own := ""
		if len(ids) != 1 || ids[0] == x.ownDoc {
			own = "secret own"
		}
		for _, c := range []struct {
			what, call, want string
			second           any
		}{
			{"own words", callTerms, own, x.ownWord},
			{"another's words", callTerms, "", x.otherOne},
			{"vectors", callVectors, own, 100},
		} {
			if got := b.called(both, c.call, b.org, c.second, pq.Array(ids)); got != c.want {
				t.Errorf("%s in %v: found %q, want %q", c.what, ids, got, c.want)
			}
		}
	}
	if got := b.called(both, callTerms, x.other.org, x.otherOne, pq.Array([]string{})); got != "secret other" {
		t.Errorf("the other organization finds %q", got) // the lexeme is valid: with it, the other organization finds its own chunk
	}
	for _, chosen := range []any{nil, pq.Array([]string{x.ownDoc, x.otherDoc})} {
		places := func(org string) int {
			return b.number(`SELECT cardinality(search_places($1, $2::tsquery, NULL, $3, 10))`, org, "'"+x.otherOne+"secret'", chosen)
		}
		if n, others := places(b.org), places(x.other.org); n != 0 || others == 0 {
			t.Errorf("%d positions of the other organization's words, %d for the other organization", n, others)
		}
	}
}

// The documents of other organizations have no influence on the rarity of a word, on which words
// are known, or on which words are similar.
func TestOtherOrganizationsWordsDoNotCount(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	b.readyDocument(nil, chunkFor(0, "zylinder", "bolt"), chunkFor(1, "bolt", "nut"), chunkFor(2, "nut"))
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	search := func() [][]knowledgedb.Hit {
		var all [][]knowledgedb.Hit
		for _, f := range []func() ([]knowledgedb.Hit, error){
			func() ([]knowledgedb.Hit, error) {
				return s.Knowledge.SearchText(t.Context(), scope, asked("bolt nut"), 10)
			},
			func() ([]knowledgedb.Hit, error) {
				return s.Knowledge.SearchSimilar(t.Context(), scope, asked("zylidner nut"), 10)
			},
		} {
			hits, err := f()
			if err != nil || len(hits) == 0 {
				t.Fatal(hits, err)
			}
			all = append(all, hits)
		}
		return all
	}
	before := search()
	var chunks []knowledgedb.NewChunk
	for n, word := range []string{"zylidner", "zylidners", "zylidnera", "zylidnero", "zylidnery", "zylidnert", "zylidnerx", "bolt", "bolt", "bolt"} {
		chunks = append(chunks, chunkFor(n, word, "bolt"))
	}
	other.readyDocument(nil, chunks...)
	if after := search(); !slices.EqualFunc(before, after, slices.Equal[[]knowledgedb.Hit]) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// Chunks of documents that are not ready are not hits and do not displace hits.
func TestUnreadyDocumentsAreNotFound(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	far := chunkFor(0, "word", "among", "many", "others", "that", "say", "less")
	far.Vector = []float32{-1, 0}
	ready := b.readyDocument(nil, far)
	b.document([]byte("unread"))
	held := b.claimDocument()
	var chunks []knowledgedb.NewChunk
	for n := range 130 { // more chunks than a search ranks when one hit is requested
		c := chunkFor(n, "word", "word", "word")
		c.Vector = []float32{1, 0}
		chunks = append(chunks, c)
	}
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), held, chunks, "m", nil, 0); err != nil || !kept {
		t.Fatal(kept, err)
	}
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	hits, err := b.s.Knowledge.SearchText(t.Context(), scope, asked("word"), 1)
	if got := b.shown(hits, err); got != far.Text {
		t.Errorf("by words: %q of %v", got, hits)
	}
	if got := b.called([]string{b.org}, callVectors, b.org, 1, pq.Array([]string{})); got != far.Text {
		t.Errorf("by vectors: %q", got)
	}
	for _, status := range []string{"processing", "queued", "failed"} {
		b.exec(`UPDATE documents SET status = $1`, status)
		for _, ids := range [][]string{nil, {ready, held.ID}} {
			scope.DocumentIDs = ids
			for what, search := range b.searches(scope, asked("word")) {
				if hits, err := search(); err != nil || len(hits) != 0 {
					t.Errorf("%s of what is %s: %v, %v", what, status, hits, err)
				}
			}
		}
	}
}
