package retrieval

import (
	"cmp"
	"slices"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

// depth is how many chunks each source gives: beyond, a rank says next to nothing.
const depth = 60

// rankOffset is the k of reciprocal rank fusion: how little the first ranks stand out. The usual 60 lets a chunk that two sources have far
// down come before one that words alone have first, so that a weak embeddings model makes searches worse than none; see the
// retrieval measurements of docs/performance.md. With 10 both would have to be among the first eight or so.
const rankOffset = 10

// weights are what a source's ranks count. Words before meanings, for they are what can be cited; words that are only alike are
// guesses at what was meant.
var weights = map[string]float64{ByText: 1, ByVector: 0.7, ByTrigram: 0.5}

// ranks are the chunks that each source has found, the best first.
type ranks map[string][]knowledgedb.Hit

// fusedHit is a chunk with its place among those of all sources.
type fusedHit struct {
	chunk      int64
	score      float64
	by         []string
	similarity float64
}

// with gives the passage that was found.
func (h fusedHit) with(p domain.Passage) candidate {
	return candidate{Found: domain.Found{Passage: p, Score: h.score, MatchedBy: h.by}, similarity: h.similarity}
}

// fuse makes one list of those of all sources, by their ranks: scores of different sources do not compare.
func fuse(found ranks) []fusedHit {
	at := map[int64]int{}
	var list []fusedHit
	for _, source := range []string{ByText, ByTrigram, ByVector} {
		for rank, hit := range found[source] {
			n, known := at[hit.ChunkID]
			if !known {
				n = len(list)
				at[hit.ChunkID] = n
				list = append(list, fusedHit{chunk: hit.ChunkID})
			}
			if slices.Contains(list[n].by, source) {
				continue // a source that tells a chunk twice means one
			}
			list[n].score += weights[source] / float64(rankOffset+rank+1)
			list[n].by = append(list[n].by, source)
			if source == ByVector {
				list[n].similarity = hit.Score
			}
		}
	}
	slices.SortFunc(list, func(a, b fusedHit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
	})
	return list
}
