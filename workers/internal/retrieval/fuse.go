package retrieval

import (
	"cmp"
	"slices"

	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
)

// depth is the number of chunks that each source returns. Chunks with a lower rank are hardly
// related to the query.
const depth = 60

// rankOffset is the constant k of reciprocal rank fusion. With a larger k, the first ranks have
// less of an advantage. With the usual 60, a chunk that two sources rank low can beat the first
// chunk of the text search. A weak embeddings model then makes searches worse (see the retrieval
// measurements in docs/performance.md). With 10, such a chunk wins only if both of its sources rank
// the chunk among about the first eight.
const rankOffset = 10

// weights contains the weights of the sources. Words have more weight than vectors, because words
// can be cited. Similar words have the least weight, because they are guesses at the intended word.
var weights = map[string]float64{ByText: 1, ByVector: 0.7, ByTrigram: 0.5}

// ranks contains the chunks that each source has found, the best first.
type ranks map[string][]knowledgedb.Hit

// fusedHit is a chunk with its fused score.
type fusedHit struct {
	// Id of the chunk.
	chunk int64
	score float64
	// Names of the sources that have found the chunk.
	by []string
	// Cosine similarity to the query, or 0 if the vector search has not found the chunk.
	similarity float64
}

// with returns a candidate that consists of the hit and the passage p.
func (h fusedHit) with(p domain.Passage) candidate {
	return candidate{Found: domain.Found{Passage: p, Score: h.score, MatchedBy: h.by}, similarity: h.similarity}
}

// fuse merges the results of all sources. It uses their ranks, because the scores of different
// sources are not comparable.
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
				continue // the source has already listed this chunk
			}
			list[n].score += weights[source] / float64(rankOffset+rank+1)
			list[n].by = append(list[n].by, source)
			if source == ByVector {
				list[n].similarity = hit.Score
			}
		}
	}

	// If scores are equal, the id decides, so that repeated searches return the same order.
	slices.SortFunc(list, func(a, b fusedHit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
	})
	return list
}
