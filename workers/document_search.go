package workers

import (
	"context"

	"parley/shared/contract"
	"parley/shared/secrets"
	"parley/workers/internal/retrieval"
	"parley/workers/internal/searchserver"
)

// documentSearch searches documents. An ingress receives all matching passages, while an agent
// receives only the passages that are related to its query.
type documentSearch struct{ searcher *retrieval.Searcher }

// Search returns all matching passages, for an ingress.
func (s documentSearch) Search(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error) {
	return s.search(ctx, org, request, false)
}

// SearchFor returns the passages that are related to the query, for an agent.
func (s documentSearch) SearchFor(ctx context.Context, org string, request contract.SearchRequest) (contract.SearchReply, error) {
	return s.search(ctx, org, request, true)
}

// First returns the beginnings of the newest documents. It is for agents and ignores the query.
func (s documentSearch) First(ctx context.Context, org string, r contract.SearchRequest) (contract.SearchReply, error) {
	found, err := s.searcher.First(ctx, retrieval.Query{OrganizationID: org, DocumentIDs: r.DocumentIDs, Metadata: r.Metadata, Limit: r.Limit})
	return contract.SearchReply{Found: found}, err
}

// search searches the documents of an organization. If supported is true, it omits passages that
// are not related to the query.
func (s documentSearch) search(ctx context.Context, org string, r contract.SearchRequest, supported bool) (contract.SearchReply, error) {
	result, err := s.searcher.Search(ctx, retrieval.Query{
		OrganizationID: org, Text: r.Query, DocumentIDs: r.DocumentIDs, Metadata: r.Metadata, Limit: r.Limit, Supported: supported,
	})
	if err != nil {
		return contract.SearchReply{}, err
	}
	return contract.SearchReply{Found: result.Found, Without: result.Without}, nil
}

// setUpSearch sets up the document search, and the server that handles search requests from
// ingresses.
func (w *Workers) setUpSearch(signer *secrets.Signer) (documentSearch, error) {
	s := documentSearch{retrieval.New(w.deps.Store.Knowledge, w.embedder)}
	var err error
	w.search, err = searchserver.New(searchserver.Config{Concurrency: w.cfg.ToolConcurrency}, searchserver.Deps{
		Bus: w.deps.Bus, Searcher: s, Verifier: signer, Tracer: w.deps.Tracer, Metrics: w.deps.Metrics, Log: w.deps.Log,
	})
	return s, err
}
