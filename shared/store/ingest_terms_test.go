package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

func isConflict(err error) bool { return apierr.CodeFor(err) == apierr.Conflict }

// If a document has very many words, its rare words are not counted, but searches find them.
func TestWordsThatAreNotCounted(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.s.Knowledge.LimitCountedTerms(3)
	chunks := []knowledgedb.NewChunk{
		chunkFor(0, "lamp", "brass", "oil", "zylinder"), chunkFor(1, "lamp", "brass", "oil", "wick's"), chunkFor(2, "lamp", "brass", "oil"),
	}
	doc := b.readyDocument(nil, chunks...)
	if got := b.text(`SELECT string_agg(term || ' ' || chunks || ' ' || rest, ', ' ORDER BY term) FROM knowledge_terms`); got != " 3 1, brass 3 0, lamp 3 0, oil 3 0" {
		t.Errorf("counted: %s", got)
	}
	b.wantFound("zylinder", "lamp brass oil zylinder")
	b.wantFound("lamp wick's nothing", "lamp brass oil wick's / lamp brass oil / lamp brass oil zylinder")
	scope := knowledgedb.SearchScope{OrganizationID: b.org}
	for question, known := range map[string]bool{"zylinder": true, "wick's": true, "zylinder lamp": true, "lampp": false, "zylinder lampp": false} {
		got := b.shown(b.s.Knowledge.SearchSimilar(t.Context(), scope, asked(question), 10))
		if known != (got == "") {
			t.Errorf("%s: %s", question, got)
		}
	}
	all, counts, err := b.s.Knowledge.KnowledgeWords(t.Context(), b.org, []string{"lamp", "zylinder", "wick's", "nothing", ""})
	if got := fmt.Sprint(all, counts, err); got != "3 map[lamp:3 wick's:1 zylinder:1] <nil>" {
		t.Errorf("words: %s", got)
	}
	other := newEnvOn(t, b.s, b.raw, "bob@example.com")
	other.s.Knowledge.LimitCountedTerms(3)
	other.readyDocument(nil, chunkFor(0, "a", "b", "c", "theirs"))
	b.document([]byte("unread"))
	unread := []knowledgedb.NewChunk{chunkFor(0, "unread", "words")}
	if kept, err := b.s.Knowledge.AddChunks(t.Context(), b.claimDocument(), unread, "", nil, 0); err != nil || !kept {
		t.Fatal(kept, err)
	}
	if _, counts, err = b.s.Knowledge.KnowledgeWords(t.Context(), b.org, []string{"theirs", "unread"}); err != nil || len(counts) != 0 {
		t.Errorf("of others, and unread: %v, %v", counts, err)
	}
	b.s.Knowledge.LimitCountedTerms(2) // lowers the limit; nevertheless, all counted terms of the document are removed
	second := b.readyDocument(nil, chunkFor(0, "lamp", "brass", "oil"))
	b.deleteDocument(doc)
	if got := b.text(`SELECT string_agg(term || ' ' || chunks || ' ' || rest, ', ' ORDER BY term) FROM knowledge_terms WHERE org_id = '` + b.org + `'`); got != " 1 1, brass 1 0, lamp 1 0" {
		t.Errorf("after deleting one: %s", got)
	}
	b.deleteDocument(second)
	if got := b.text(`SELECT count(*) FROM knowledge_terms k WHERE org_id = '` + b.org + `'`); got != "0" {
		t.Errorf("%s terms are left", got)
	}
}

// As soon as the deletion of a document begins, searches no longer find the document. If the
// deletion fails, the document does not become searchable again.
func TestDocumentsBeingDeletedDoNotComeBack(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	content := b.upload([]byte("going"))
	doc := b.add(knowledgedb.NewDocument{Name: "going", Content: &content})[0].Document.ID
	b.process(doc)
	b.exec(`CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'dies'; END $$`)
	b.exec(`CREATE TRIGGER dies BEFORE DELETE ON document_chunks FOR EACH ROW EXECUTE FUNCTION dies()`)
	if _, err := b.s.Knowledge.DeleteDocument(t.Context(), b.org, doc); err == nil {
		t.Fatal("deleted")
	}
	if d := b.wantDocument(doc, domain.DocumentFailed, "going"); d.Error == nil || d.Error.Code != "deleting" {
		t.Errorf("%+v", d.Error)
	}
	b.wantIndexed("going", "2 chunks 2 vectors 0 terms")
	b.wantFound("second", "")
	another := knowledgedb.NewDocument{ID: "doc_another", Name: "x", URL: "https://example.com/"}
	_, addErr := b.s.Knowledge.AddDocuments(t.Context(), b.org, []knowledgedb.NewDocument{another, {ID: "doc_x", Name: "again", Content: &content}}, knowledgedb.DocumentLimits{})
	_, retryErr := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc)
	_, replaceErr := b.s.Knowledge.ReplaceDocument(t.Context(), b.org, doc, another, knowledgedb.DocumentLimits{})
	other := b.document([]byte("other")).ID
	_, sameErr := b.s.Knowledge.ReplaceDocument(t.Context(), b.org, other, knowledgedb.NewDocument{Content: &content}, knowledgedb.DocumentLimits{})
	for what, err := range map[string]error{"sent again": addErr, "tried again": retryErr, "replaced": replaceErr, "what replaces another": sameErr} {
		if apierr.CodeFor(err) != apierr.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.wantDocument(doc, domain.DocumentFailed, "going")
	b.exec(`DROP TRIGGER dies ON document_chunks`)
	b.deleteDocument(doc)
	b.wantIndexed("gone", "0 chunks 0 vectors 0 terms")
	content = b.upload([]byte("going"))
	if again := b.add(knowledgedb.NewDocument{Name: "again", Content: &content})[0]; again.Job == nil {
		t.Errorf("%+v", again)
	}
}

// TestLargeDocumentsAreProcessedAndDeletedQuickly measures how long documents take to become ready
// and to be deleted. The documents have 20 MiB with LARGE_DOCUMENTS=1, and otherwise a hundredth of
// this size.
func TestLargeDocumentsAreProcessedAndDeletedQuickly(t *testing.T) { //nolint:paralleltest // it measures
	size := 1
	if os.Getenv("LARGE_DOCUMENTS") != "" {
		size = 100
	}
	b := newTestEnv(t)
	if size == 1 {
		b.s.Knowledge.LimitCountedTerms(200)
	}
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		w := make([]byte, 9)
		for i := range w {
			w[i] = byte('a' + random.IntN(26))
		}
		return string(w)
	}
	v := newVocabulary(3)
	for what, row := range map[string]func(n int) []string{
		"different words": func(int) (words []string) { // 2.1 million different words
			for range 86 {
				words = append(words, word())
			}
			return words
		},
		"table": func(n int) (words []string) {
			for i := range 20 {
				words = append(words, fmt.Sprint(n*20+i), v.word(), "paid", "city", fmt.Sprint("c", i))
			}
			return words
		},
	} {
		b.large(what, size*243, row)
	}
}

// large processes a document with the given number of chunks three times, and deletes it each time.
func (b *testEnv) large(what string, chunks int, row func(n int) []string) {
	b.Helper()
	for range 3 {
		b.document([]byte(what))
		held := b.claimDocument()
		var counts knowledgedb.TermCounts
		var counting time.Duration
		began := time.Now()
		word := ""
		for first := 0; first < chunks; first += 200 {
			var part []knowledgedb.NewChunk
			for n := first; n < min(first+200, chunks); n++ {
				c := chunkFor(n, row(n)...)
				word = c.Terms[0].Lexeme
				start := time.Now()
				counts.Add(c.Terms)
				counting += time.Since(start)
				part = append(part, c)
			}
			if kept, err := b.s.Knowledge.AddChunks(b.Context(), held, part, "", nil, 0); err != nil || !kept {
				b.Fatal(kept, err)
			}
		}
		added := time.Since(began)
		began = time.Now()
		if kept, err := b.s.Knowledge.FinishDocument(b.Context(), held, knowledgedb.FinishedDocument{Terms: counts}); err != nil || !kept {
			b.Fatal(kept, err)
		}
		finished := time.Since(began)
		if got := b.shown(b.s.Knowledge.SearchText(b.Context(), knowledgedb.SearchScope{OrganizationID: b.org}, asked(word), 1)); !strings.Contains(got, word) {
			b.Errorf("%s: %s is not found", what, word)
		}
		began = time.Now()
		b.deleteDocument(held.ID)
		b.Logf("%s, %d chunks: added in %v, of that counting %v; finished in %v, deleted in %v", what, chunks,
			added.Round(time.Millisecond), counting.Round(time.Millisecond), finished.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		b.wantIndexed(what, "0 chunks 0 vectors 0 terms")
	}
}
