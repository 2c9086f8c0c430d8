package main

import (
	"encoding/json"
	"os"
	"testing"

	"parley/scripts/bench/internal/report"
	search "parley/scripts/bench/internal/retrieval"
)

// A few questions about a few pages, through everything: that both searches find them, not how well.
func TestRetrieval(t *testing.T) {
	t.Parallel()
	if _, err := search.Gather(os.DirFS("/usr/share/man"), 60); err != nil {
		t.Skipf("NOT TESTED: what searches find: container images of Debian have no manual pages: %v", err)
	}
	r := retrieval{options: quick(t).options, retrievalFlags: retrievalFlags{RetrievalSections: 60, RetrievalQuestions: 12}}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(r.JSON)
	if err != nil {
		t.Fatal(err)
	}
	var got report.Report
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	found := got.Retrieval
	if found == nil || found.Questions != 12 || found.Passages < 60 || len(found.Sides) != 4 || len(got.Goals) != 4 {
		t.Fatalf("it found %+v, with goals %v", found, got.Goals)
	}
	for _, side := range found.Sides[1:] {
		if side.All.Recall < 0.3 || side.All.NDCG < 0.3 || side.All.Questions != 12 || len(side.Kinds) != len(found.Kinds) {
			t.Errorf("%s: %+v", side.Name, side)
		}
	}
}

func TestValidateRetrieval(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]retrievalFlags{
		"no section":               {RetrievalQuestions: 1},
		"no question":              {RetrievalSections: 1},
		"more questions than that": {RetrievalSections: 1, RetrievalQuestions: 2},
	} {
		if (&retrieval{options: quick(t).options, retrievalFlags: flags}).Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := (&retrieval{options: quick(t).options, retrievalFlags: retrievalFlags{RetrievalSections: 2, RetrievalQuestions: 2}}).Validate(); err != nil {
		t.Error(err)
	}
}
