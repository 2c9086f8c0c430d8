package report

import (
	"strings"
	"testing"
)

func TestRetrieval(t *testing.T) {
	t.Parallel()
	var r Report
	r.AddRetrieval(&Retrieval{
		Documents: 10, Sections: 40, Passages: 90, Questions: 8, Kinds: []string{"plain"},
		Sides: []RetrievalSide{
			{"ts_rank, all words", Quality{8, .2, .1}, []Quality{{8, .2, .1}}},
			{"ts_rank, any word", Quality{8, .5, .6}, []Quality{{8, .5, .6}}},
			{"lexical", Quality{8, .75, .3}, []Quality{{8, .75, .3}}},
		},
	})
	if len(r.Goals) != 2 || r.Goals[0].Value != 1.5 || !r.Goals[0].Met || r.Goals[1].Value != .5 || r.Goals[1].Met {
		t.Errorf("goals are %+v", r.Goals)
	}
	var b strings.Builder
	if err := r.WriteTables(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"8 questions", "10 manual pages", "0.750 / 0.300", "lexical recall@5 / ts_rank"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
