package store_test

import (
	"strconv"
	"testing"

	"parley/shared/store/knowledgedb"
)

// An organization's debt is the processor time that its documents used recently. Documents of
// organizations with smaller debts are claimed first. A claim that is restricted to short documents
// skips large documents and documents that are not fetched yet.
func TestClaimsGoByDebts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	names := map[string]string{}
	debts := map[string]int64{}
	for n, name := range []string{"much", "little", "none"} {
		other := newEnvOn(t, b.s, b.raw, name+"@example.com")
		for _, bytes := range []int{knowledgedb.ShortDocument, knowledgedb.ShortDocument + 1} {
			doc := other.document([]byte(name + strconv.Itoa(bytes))).ID
			names[doc] = name + map[bool]string{true: " short"}[bytes == knowledgedb.ShortDocument]
			b.exec(`UPDATE documents SET bytes = $2 WHERE id = $1`, doc, bytes)
		}
		names[other.add(knowledgedb.NewDocument{Name: "page", URL: "https://example.com/" + name})[0].Document.ID] = name + " address"
		if n < 2 {
			debts[other.org] = int64(10 - 5*n)
		}
	}
	claim := func(short bool) (got string) {
		claimed, err := b.s.Knowledge.ClaimDocuments(t.Context(), knowledgedb.DocumentClaim{Max: 1, Debts: debts, Short: short})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claimed {
			got = names[c.ID]
		}
		return got
	}
	for _, want := range []string{"none short", "little short", "much short", ""} {
		if got := claim(true); got != want {
			t.Errorf("claimed %q for the short lane, want %q", got, want)
		}
	}
	for _, want := range []string{"none", "none address", "little", "little address", "much", "much address", ""} {
		if got := claim(false); got != want {
			t.Errorf("claimed %q, want %q", got, want)
		}
	}
}
