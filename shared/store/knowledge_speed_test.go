package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"parley/shared/store/knowledgedb"
)

// vocabulary generates words with frequencies like those of natural languages: the n-th word has a
// probability of about 1/n.
type vocabulary struct {
	random *rand.Rand
	zipf   *rand.Zipf
}

func newVocabulary(seed uint64) *vocabulary {
	random := rand.New(rand.NewPCG(seed, 5))
	return &vocabulary{random: random, zipf: rand.NewZipf(random, 1.07, 8, 150_000)}
}

func (v *vocabulary) word() string { return fmt.Sprintf("w%d", v.zipf.Uint64()) }

// chunk returns a chunk of 120 words, some of which belong to its document's subject.
func (v *vocabulary) chunk(n int, subject []string) knowledgedb.NewChunk {
	words := make([]string, 120)
	for i := range words {
		if words[i] = v.word(); v.random.IntN(4) == 0 {
			words[i] = subject[v.random.IntN(len(subject))]
		}
	}
	return chunkFor(n, words...)
}

// fill indexes documents with 100 chunks each and returns questions about them with 3 to 8 words
// each.
func (b *testEnv) fill(documents int, seed uint64) (questions [][]string, adding, finishing []time.Duration) {
	b.Helper()
	v := newVocabulary(seed)
	for range documents {
		subject := make([]string, 30)
		for i := range subject {
			subject[i] = v.word()
		}
		var chunks []knowledgedb.NewChunk
		for n := range 100 {
			chunks = append(chunks, v.chunk(n, subject))
		}
		content := b.upload(fmt.Append(nil, v.random.Uint64()))
		b.add(knowledgedb.NewDocument{Name: "d", Content: &content})
		held := b.claimDocument()
		start := time.Now()
		if kept, err := b.s.Knowledge.AddChunks(b.Context(), held, chunks, "", nil, 0); err != nil || !kept {
			b.Fatal(kept, err)
		}
		adding = append(adding, time.Since(start))
		start = time.Now()
		if kept, err := b.s.Knowledge.FinishDocument(b.Context(), held, knowledgedb.FinishedDocument{Terms: termsIn(chunks)}); err != nil || !kept {
			b.Fatal(kept, err)
		}
		finishing = append(finishing, time.Since(start))
		words := strings.Fields(chunks[v.random.IntN(100)].Text)
		at := v.random.IntN(len(words) - 8)
		questions = append(questions, words[at:at+3+v.random.IntN(6)])
	}
	return questions, adding, finishing
}

func percentiles(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("p50 %v, p99 %v", times[len(times)/2].Round(time.Millisecond/10), times[len(times)*99/100].Round(time.Millisecond/10))
}

// TestSearchingManyChunksIsFast compares searches with a plain query for the same words, with and
// without the documents of another organization. With KNOWLEDGE_SPEED=1, it searches 100,000 chunks
// and needs -timeout 30m. Otherwise it searches 300 chunks.
func TestSearchingManyChunksIsFast(t *testing.T) { //nolint:paralleltest // it measures
	documents := 3
	if os.Getenv("KNOWLEDGE_SPEED") != "" {
		documents = 1000
	}
	b := newTestEnv(t)
	questions, adding, finishing := b.fill(documents, 1)
	questions = questions[:min(len(questions), 100)]
	b.exec(`VACUUM ANALYZE`)
	t.Logf("100 chunks added: %s; finished: %s", percentiles(adding), percentiles(finishing))
	ours, plain := b.measure(questions)
	t.Logf("%d chunks: ours %s; plain %s", documents*100, percentiles(ours), percentiles(plain))
	if median, of := ours[len(ours)/2], plain[len(plain)/2]; documents == 1000 && median > 2*of {
		t.Errorf("searching took %v, the plain query %v", median, of)
	}
	newEnvOn(t, b.s, b.raw, "bob@example.com").fill(documents, 2)
	b.exec(`VACUUM ANALYZE`)
	ours, plain = b.measure(questions)
	t.Logf("beside an organization with as many: ours %s; plain %s", percentiles(ours), percentiles(plain))
}

// measure searches for each question with Parley's search function and with the plain query, and
// returns the durations.
func (b *testEnv) measure(questions [][]string) (ours, plain []time.Duration) {
	b.Helper()
	prefix := b.text(`SELECT left(word, 4) FROM ts_stat('SELECT terms FROM document_chunks WHERE org_id = ' || quote_literal('` + b.org + `') || ' LIMIT 1') LIMIT 1`)
	for range 2 { // the first round warms up the caches
		ours, plain = nil, nil
		for _, words := range questions {
			start := time.Now()
			hits, err := b.s.Knowledge.SearchText(b.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked(strings.Join(words, " ")), 10)
			if err != nil || len(hits) == 0 {
				b.Fatalf("%v: %v, %v", words, hits, err)
			}
			ours = append(ours, time.Since(start))
			query := "'" + prefix + strings.Join(words, "'|'"+prefix) + "'"
			start = time.Now()
			var found []int64
			if err := b.raw.QueryRowContext(b.Context(), `SELECT array_agg(id) FROM (SELECT id FROM document_chunks WHERE org_id = $1 AND terms @@ $2::tsquery
				ORDER BY ts_rank(terms, $2::tsquery) DESC LIMIT 10) b`, b.org, query).Scan(pq.Array(&found)); err != nil || len(found) == 0 {
				b.Fatalf("%v: %v, %v", words, found, err)
			}
			plain = append(plain, time.Since(start))
		}
	}
	return ours, plain
}
