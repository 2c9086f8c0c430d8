package retrieval_test

import (
	"context"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/analysis"
	"parley/workers/internal/retrieval"
)

// TestSupport: agents receive only passages that are related to their query. A word has more weight
// if fewer chunks contain it.
func TestSupport(t *testing.T) {
	t.Parallel()
	const many = 1000 // number of chunks
	for name, c := range map[string]struct {
		chunks  int64
		query   string
		have    map[string]int64 // number of chunks that contain each word of the query
		passage string
		similar bool    // true if the search for similar words has also found the passage
		cosine  float64 // cosine similarity, if the vector search has also found the passage
		want    bool
	}{
		"all words":                        {many, "warranty period", map[string]int64{"warranty": 20, "period": 50}, "The warranty period is two years.", false, 0, true},
		"in another form":                  {many, "How are ladders inspected?", map[string]int64{"ladders": 20, "inspected": 30}, "Inspect each ladder before use.", false, 0, true},
		"one rare word of two":             {many, "flange torque", map[string]int64{"flange": 3, "torque": 4}, "Tighten the flange by hand.", false, 0, true},
		"one frequent word of two":         {many, "Parley CEO", map[string]int64{"parley": 700}, "Parley stores documents.", false, 0, false},
		"one frequent word of several":     {many, "When does Parley raise salaries in Berlin?", map[string]int64{"parley": 700, "berlin": 5, "raise": 8}, "Parley stores documents.", false, 0, false},
		"the rare ones of several":         {many, "When does Parley raise salaries in Berlin?", map[string]int64{"parley": 700, "berlin": 5, "raise": 8}, "The Berlin office will raise pay.", false, 0, true},
		"one ordinary word of several":     {many, "maximum ladder height for warehouse workers", map[string]int64{"maximum": 80, "ladder": 9, "height": 30, "warehouse": 20, "workers": 40}, "The maximum is reached.", false, 0, false},
		"two ordinary words of several":    {many, "maximum ladder height for warehouse workers", map[string]int64{"maximum": 80, "ladder": 9, "height": 30, "warehouse": 20, "workers": 40}, "A ladder's height is fixed.", false, 0, true},
		"a question in other words":        {many, "How many vacation days do new employees receive?", map[string]int64{"days": 60, "employees": 100, "receive": 100, "new": 200}, "Employees have 28 days of holiday.", false, 0, true},
		"nothing in common":                {many, "capital of Mongolia", nil, "The warranty period is two years.", false, 0, false},
		"few pages know no frequent words": {3, "How tall is the tower?", map[string]int64{"tower": 3}, "The tower is 330 m high.", false, 0, true},
		"few pages, nothing in common":     {3, "capital of Mongolia", nil, "The tower is 330 m high.", false, 0, false},
		"a name that no document has":      {many, "What is the capital of Mongolia?", map[string]int64{"capital": 4}, "A capital Z acts as an escape character.", false, 0, false},
		"such a name, near in meaning":     {many, "What is the capital of Mongolia?", map[string]int64{"capital": 4}, "Ulan Bator is the seat of government.", false, 0.5, true},
		"such a name, misspelled":          {many, "What is the capital of Mongollia?", map[string]int64{"capital": 4}, "The capital of Mongolia is Ulan Bator.", true, 0, true},
		"the commoner of two":              {many, "flange torque", map[string]int64{"flange": 3, "torque": 40}, "The torque is 12 Nm.", false, 0, false},
		"a lesser one of three":            {many, "who wrote the generator of poems", map[string]int64{"wrote": 2, "generator": 30, "poems": 1}, "It is a pseudo-random generator.", false, 0, false},
		"frequent ones of many":            {many, "maximum ladder height for new warehouse workers", map[string]int64{"maximum": 300, "ladder": 9, "height": 300, "new": 400, "warehouse": 300, "workers": 400}, "New workers reach the maximum height in a warehouse.", false, 0, false},
		"misspelled":                       {many, "warrenty", nil, "The warranty period is two years.", true, 0, true},
		"misspelled, but not alike":        {many, "warrenty", nil, "Warts are deep.", true, 0, false},
		"alike, but a word that is known":  {many, "warrant", map[string]int64{"warrant": 4}, "The warranties hold.", true, 0, false},
		"near in meaning":                  {many, "Wie hoch ist der Turm?", nil, "The tower is 330 m high.", false, 0.45, true},
		"far in meaning":                   {many, "Wie hoch ist der Turm?", nil, "The warranty period is two years.", false, 0.12, false},
		"a code":                           {many, "What does ERR-4021 mean?", map[string]int64{"err-4021": 1, "mean": 50}, "ERR-4021: the disk is full.", false, 0, true},
		"another code":                     {many, "What does ERR-4021 mean?", map[string]int64{"err-4021": 1, "mean": 50}, "Errors mean little.", false, 0, false},
		"another script":                   {many, "保修期是多久", map[string]int64{"保修": 5, "修期": 5}, "本产品的保修期为两年。", false, 0, true},
	} {
		s := &fakeStore{chunks: c.chunks, counts: map[string]int64{}, text: hits(1), texts: map[int64]string{1: c.passage}}
		for _, w := range analysis.Query(c.query) {
			for _, l := range w.Lexemes {
				if n, known := c.have[w.Text]; known {
					s.counts[l] = n
				}
			}
		}
		if c.similar {
			s.similar = hits(1)
		}
		if c.cosine > 0 {
			s.vectors = []knowledgedb.Hit{{ChunkID: 1, Score: c.cosine}}
		}
		for _, supported := range []bool{true, false} {
			got, err := retrieval.New(s, &embedder{model: "m"}).Search(t.Context(), retrieval.Query{
				OrganizationID: "org_1", Text: c.query, Supported: supported,
			})
			if err != nil || (len(got.Found) == 1) != (c.want || !supported) {
				t.Errorf("%s, supported %v: %+v, %v", name, supported, got.Found, err)
			}
		}
	}
}

// TestHeadingsSupport: words in a passage's headings and in the document's name count like words in
// the passage's text.
func TestHeadingsSupport(t *testing.T) {
	t.Parallel()
	s := &headedStore{fakeStore: &fakeStore{chunks: 1000, text: hits(1), counts: map[string]int64{}}}
	for name, want := range map[string]bool{"flange torque": true, "gearbox": true, "capital of Mongolia": false} {
		for _, w := range analysis.Query(name) {
			for _, l := range w.Lexemes {
				s.counts[l] = 5
			}
		}
		got, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: name, Supported: true})
		if err != nil || (len(got.Found) == 1) != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// headedStore returns a single passage, which has headings.
type headedStore struct{ *fakeStore }

func (headedStore) Passages(context.Context, string, []int64) ([]domain.Passage, error) {
	return []domain.Passage{{DocumentID: "doc_1", Name: "gearbox.pdf", Headings: []string{"Assembly", "Flange torque"}, Text: "It is 12 Nm."}}, nil
}

// TestLowerRanksReplaceOmittedPassages: if a passage is omitted, a passage with a lower rank takes
// its place, and the order stays the same.
func TestLowerRanksReplaceOmittedPassages(t *testing.T) {
	t.Parallel()
	s := full()
	s.counts = map[string]int64{"ladder": 10}
	for n := range int64(3) {
		s.texts[n] = "nothing of the kind"
	}
	s.text = hits(0, 7, 1, 6, 2, 5)
	got, err := retrieval.New(s, nil).Search(t.Context(), retrieval.Query{OrganizationID: "org_1", Text: "ladder", Supported: true, Limit: 3})
	if err != nil || chunks(got) != "7:text 6:text 5:text" {
		t.Errorf("%s, %v", chunks(got), err)
	}
}
