package workers

import (
	"context"
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/workers/internal/retrieval"
)

// commonWordStore is a store in which all passages share only a frequent word with the query.
type commonWordStore struct{ retrieval.Store }

func (commonWordStore) SearchText(context.Context, knowledgedb.SearchScope, []knowledgedb.QueryWord, int) ([]knowledgedb.Hit, error) {
	return []knowledgedb.Hit{{ChunkID: 1, Score: 0.1}}, nil
}

func (commonWordStore) SearchSimilar(context.Context, knowledgedb.SearchScope, []knowledgedb.QueryWord, int) ([]knowledgedb.Hit, error) {
	return nil, nil
}

func (commonWordStore) KnowledgeWords(context.Context, string, []string) (int64, map[string]int64, error) {
	return 10_000, map[string]int64{"company": 9_900}, nil
}

func (commonWordStore) Passages(context.Context, string, []int64) ([]domain.Passage, error) {
	return []domain.Passage{{DocumentID: "doc_1", Name: "rules", Text: "The company closes at noon."}}, nil
}

// An ingress receives all passages that share words with the query. An agent receives only passages
// that are related to the query.
func TestAgentsGetRelatedPassagesOnly(t *testing.T) {
	t.Parallel()
	s := documentSearch{retrieval.New(commonWordStore{}, nil)}
	query := contract.SearchRequest{Query: "company zeppelin vaccination volcano saxophone", Limit: 5}
	reply, err := s.Search(t.Context(), "org_a", query)
	if err != nil || len(reply.Found) != 1 {
		t.Errorf("who searches sees %+v, %v", reply, err)
	}
	if reply, err = s.SearchFor(t.Context(), "org_a", query); err != nil || len(reply.Found) != 0 {
		t.Errorf("an agent is given %+v, %v", reply, err)
	}
}
