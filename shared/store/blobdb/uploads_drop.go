package blobdb

import (
	"context"
	"fmt"

	"parley/shared/store/pg"
)

// DropUploads removes contents that nothing links to, sooner than the sweeper would: of uploads that came to nothing.
func (s *Store) DropUploads(ctx context.Context, org string, uploads []Upload) error {
	if err := s.DropUnlinked(ctx, org, pg.Column(uploads, func(u *Upload) []byte { return u.Hash })...); err != nil {
		return fmt.Errorf("removing uploads: %w", err)
	}
	return nil
}
