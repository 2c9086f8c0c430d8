package store_test

import (
	"math/rand/v2"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/testkit"
)

func TestAttemptsAtADocumentAreCapped(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	doc := b.document([]byte("never ready")).ID
	for n := 1; n <= knowledgedb.MaxDocumentAttempts; n++ {
		if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), b.claimDocument(), broken, 0); err != nil || !kept {
			t.Fatalf("attempt %d: %v, %v", n, kept, err)
		}
		if n < knowledgedb.MaxDocumentAttempts {
			b.wantDocument(doc, domain.DocumentQueued, "put back")
		}
	}
	if got := b.wantDocument(doc, domain.DocumentFailed, "no attempt is left"); got.Error == nil || *got.Error != broken {
		t.Errorf("%+v", got.Error)
	}
	b.wantNoClaim("after the last attempt")

	if _, err := b.s.Knowledge.RetryDocument(t.Context(), b.org, doc); err != nil {
		t.Fatal(err)
	}
	if kept, err := b.s.Knowledge.PostponeDocument(t.Context(), b.claimDocument(), broken, 0); err != nil || !kept {
		t.Fatalf("after a retry: %v, %v", kept, err)
	}
	b.wantDocument(doc, domain.DocumentQueued, "attempts are counted from the retry")
}

// interleavings returns every interleaving of two sequences. The value false stands for a step of
// the first sequence, the value true for a step of the second.
func interleavings(first, second int) (out [][]bool) {
	if first == 0 && second == 0 {
		return [][]bool{nil}
	}
	for _, of := range []bool{false, true} {
		if !of && first > 0 {
			for _, rest := range interleavings(first-1, second) {
				out = append(out, append([]bool{of}, rest...))
			}
		}
		if of && second > 0 {
			for _, rest := range interleavings(first, second-1) {
				out = append(out, append([]bool{of}, rest...))
			}
		}
	}
	return out
}

// interleavingsShort is the number of interleavings that -short tries for each pair of ends.
const interleavingsShort = 4

// A worker may execute any steps after it has lost its lease, and may die after any step. In each
// case, the document is finished once and has the content of exactly one attempt. With -short, the
// test tries a random part of the interleavings.
func TestInterleavingsOfTwoAttempts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.serverStarted(longAgo)
	draw := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	orders := interleavings(3, 4)
	if len(orders) != 35 {
		t.Fatalf("%d orders", len(orders))
	}
	for _, ends := range [][2]string{{"finish", "finish"}, {"fail", "finish"}, {"postpone", "finish"}, {"release", "finish"}, {"finish", "fail"}} {
		tried := draw.Perm(len(orders))
		if testing.Short() {
			tried = tried[:interleavingsShort]
		}
		for _, n := range tried {
			b.interleave(orders[n], []string{"0", "1", ends[0]}, []string{"lose", "0", "1", ends[1]})
		}
	}
	if testing.Short() {
		t.Logf("NOT TESTED without LONG=1: %d of %d interleavings for each pair of ends", len(orders)-interleavingsShort, len(orders))
	}
}
