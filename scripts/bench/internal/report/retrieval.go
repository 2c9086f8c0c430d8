package report

import (
	"fmt"
	"strings"
)

// Quality is how well questions were answered, from 0 to 1.
type Quality struct {
	Questions int     `json:"questions"`
	Recall    float64 `json:"recallAt5"`
	NDCG      float64 `json:"ndcgAt10"`
}

// RetrievalSide is how well one side answered: all questions, and those of each kind.
type RetrievalSide struct {
	Name  string    `json:"name"`
	All   Quality   `json:"all"`
	Kinds []Quality `json:"kinds"`
}

// Retrieval is what searches find: questions about sections of manual pages, asked of PostgreSQL's ts_rank and of Parley, of the
// same passages.
type Retrieval struct {
	Documents int             `json:"documents"`
	Sections  int             `json:"sections"`
	Passages  int             `json:"passages"`
	Questions int             `json:"questions"`
	Kinds     []string        `json:"kinds"`
	Sides     []RetrievalSide `json:"sides"` // PostgreSQL's first, then lexical and hybrid
}

// AddRetrieval adds what searches found.
func (r *Report) AddRetrieval(found *Retrieval) {
	r.Retrieval = found
	r.judge()
}

// goals compares with whichever of PostgreSQL's own answered better.
func (r *Retrieval) goals() []Goal {
	var best Quality
	var out []Goal
	for _, side := range r.Sides {
		if strings.HasPrefix(side.Name, "ts_rank") {
			best.Recall, best.NDCG = max(best.Recall, side.All.Recall), max(best.NDCG, side.All.NDCG)
			continue
		}
		out = append(
			out,
			Goal{Clients: 1, Measure: side.Name + " recall@5 / ts_rank", Value: ratio(side.All.Recall, best.Recall), Limit: 1, AtLeast: true},
			Goal{Clients: 1, Measure: side.Name + " nDCG@10 / ts_rank", Value: ratio(side.All.NDCG, best.NDCG), Limit: 1, AtLeast: true},
		)
	}
	return out
}

func (r *Retrieval) write(b *strings.Builder) {
	fmt.Fprintf(b, "%d questions made by rules about sections of %d manual pages (%d sections, %d passages): recall@5 / nDCG@10\n",
		r.Questions, r.Documents, r.Sections, r.Passages)
	b.WriteString("hybrid: with vectors of hashed character sequences, which know spelling and no meaning\n\n")
	out := grid{append([]string{"side", "all"}, r.Kinds...)}
	for _, side := range r.Sides {
		line := []string{side.Name, side.All.String()}
		for _, kind := range side.Kinds {
			line = append(line, kind.String())
		}
		out = append(out, line)
	}
	out.write(b)
}

// String is the two figures.
func (q Quality) String() string { return fmt.Sprintf("%.3f / %.3f", q.Recall, q.NDCG) }
