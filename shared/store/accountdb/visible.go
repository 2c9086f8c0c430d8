package accountdb

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// as is withinOwn for what an actor does.
func (s *Store) as(ctx context.Context, who Actor, f func(*sqlx.Tx) error) error {
	return s.db.WithinUser(ctx, who.OrganizationID, who.UserID, f)
}
