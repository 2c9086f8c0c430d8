package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lib/pq"

	"parley/shared/store/knowledgedb"
)

// wantComparedBy searches and returns the hits. If the argument database is true, it checks that
// the database has computed the scores. Otherwise it checks that the database has computed none of
// them.
func (b *testEnv) wantComparedBy(database bool, what string, sought []float32) []knowledgedb.Hit {
	b.Helper()
	signs := make([]byte, len(sought))
	for i, v := range sought {
		if signs[i] = '0'; v > 0 {
			signs[i] = '1'
		}
	}
	var rows, scored int
	err := b.raw.QueryRowContext(b.Context(), `WITH named AS MATERIALIZED (SELECT set_config('parley.organizations', $1, true) AS org)
		SELECT count(*), count(score) FROM named, search_vectors(named.org, 'm', $2, $3, '{}', '{}', 2000, 7) WHERE (score IS NULL) <> (numbers IS NULL)`, b.org, string(signs), pq.Array(sought)).Scan(&rows, &scored)
	if err != nil || rows == 0 || database && (scored != 7 || rows != 7) || !database && scored != 0 {
		b.Fatalf("%s: %d rows, %d of them compared by the database, %v", what, rows, scored, err)
	}
	hits, err := b.s.Knowledge.SearchVectors(b.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, "m", sought, 7)
	if err != nil || len(hits) != 7 {
		b.Fatalf("%s: %+v, %v", what, hits, err)
	}
	return hits
}

// wantSame checks that two searches found the same chunks with the same scores.
func wantSame(t *testing.T, what string, got, want []knowledgedb.Hit) {
	t.Helper()
	for i := range want {
		if got[i].ChunkID != want[i].ChunkID || !(math.Abs(got[i].Score-want[i].Score) < 1e-5) { // also detects NaN
			t.Errorf("%s: found %+v, want %+v", what, got, want)
			return
		}
	}
}

// spread returns chunks with vectors: the zero vector for the first chunk, and unit vectors for all
// others.
func spread(chunks, dimensions int) []knowledgedb.NewChunk {
	random := rand.New(rand.NewPCG(7, 7))
	out := make([]knowledgedb.NewChunk, chunks)
	for n := range out {
		out[n] = chunkFor(n, fmt.Sprint("n", n))
		out[n].Vector = make([]float32, dimensions)
		if n == 0 {
			continue
		}
		sum := 0.0
		for i := range out[n].Vector {
			v := random.NormFloat64()
			out[n].Vector[i], sum = float32(v), sum+v*v
		}
		for i := range out[n].Vector {
			out[n].Vector[i] /= float32(math.Sqrt(sum))
		}
	}
	return out
}

// withPgvector returns a test environment on a server with pgvector's files, in a database
// without the extension.
func withPgvector(t *testing.T) *testEnv {
	t.Helper()
	b := newTestEnv(t)
	var version string
	err := b.raw.QueryRowContext(t.Context(), `SELECT default_version FROM pg_available_extensions WHERE name = 'vector'`).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		t.Skip("NOT TESTED: vectors compared by pgvector, which the server does not have (install the package postgresql-N-pgvector)")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pgvector %s", version)
	if got := b.text(`SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'vector'`); got != "public" {
		t.Errorf("the migration put pgvector into %s", got)
	}
	b.exec(`DROP EXTENSION vector`)
	return b
}

// If pgvector is installed after the migration, and after documents were indexed, searches use
// pgvector nevertheless. Searches also continue to work if the extension is dropped again.
func TestPgvectorComparesWhenItIsThere(t *testing.T) {
	t.Parallel()
	b := withPgvector(t)
	chunks := spread(2600, 48) // more chunks than are compared exactly
	sought := chunks[40].Vector
	b.readyDocument(nil, chunks...)
	want := b.wantComparedBy(false, "without", sought)
	b.exec(`CREATE TABLE vector (x int)`) // a type named vector that does not belong to the extension
	wantSame(t, "beside a table of that name", b.wantComparedBy(false, "beside a table of that name", sought), want)
	b.exec(`DROP TABLE vector`)
	b.exec(`CREATE EXTENSION vector`)
	wantSame(t, "installed", b.wantComparedBy(true, "installed", sought), want)
	b.exec(`DROP EXTENSION vector`)
	wantSame(t, "dropped", b.wantComparedBy(false, "dropped", sought), want)
	b.exec(`CREATE SCHEMA "its ""own"`)
	b.exec(`CREATE EXTENSION vector SCHEMA "its ""own"`)
	wantSame(t, "in a schema that is closed", b.wantComparedBy(false, "in a schema that is closed", sought), want)
	b.exec(`GRANT USAGE ON SCHEMA "its ""own" TO parley_system`)
	wantSame(t, "in a schema of its own", b.wantComparedBy(true, "in a schema of its own", sought), want)
}

// Searches give the same results with and without pgvector. This includes chunks with the zero
// vector, and vectors with more dimensions than pgvector supports.
func TestPgvectorAtItsLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		chunks, dimensions int
		database           bool
	}{{7, 16, true}, {7, 16_000, true}, {7, 16_001, false}} {
		t.Run(fmt.Sprint(c.dimensions), func(t *testing.T) {
			t.Parallel()
			b := withPgvector(t)
			chunks := spread(c.chunks, c.dimensions) // all chunks are found, including the chunk with the zero vector
			b.readyDocument(nil, chunks...)
			want := b.wantComparedBy(false, "without", chunks[3].Vector)
			b.exec(`CREATE EXTENSION vector`)
			wantSame(t, "with", b.wantComparedBy(c.database, "with", chunks[3].Vector), want)
		})
	}
}
