package store

import "context"

// SearchSimilar is SearchText for words that the organization's documents lack: those that are like them count instead. There is
// nothing when they have every word.
func (s *Store) SearchSimilar(ctx context.Context, scope SearchScope, words []QueryWord, limit int) ([]Hit, error) {
	return nil, nil
}
