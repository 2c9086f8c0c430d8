package accountdb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
)

// Limits bound what one person can multiply. 0 stands for no limit.
type Limits struct {
	KeysPerOrganization  int // that are neither revoked nor expired
	KeysPerUser          int // likewise, of user keys
	OrganizationsPerUser int // that a user owns
	MembershipsPerUser   int
}

// LimitAccounts sets the limits of accounts that the store makes from now on. It is for the start of a process.
func (s *Store) LimitAccounts(limits Limits) { s.bounds = limits }

func (s *Store) limits() Limits { return s.bounds }

func (s *Organizations) limits() Limits { return s.accounts.bounds }

// roomForKey reports conflict when an organization, or a user, has as many keys as it may. It keeps others from making more
// of the same meanwhile. The organization must be locked.
func (l Limits) roomForKey(ctx context.Context, tx *sqlx.Tx, k NewKey) error {
	const live = ` AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`
	if k.OrganizationID != "" {
		return room(ctx, tx, l.KeysPerOrganization,
			"API key quota of the organization exceeded (%d); revoke keys or raise KEYS_PER_ORGANIZATION",
			`SELECT count(*) FROM api_keys WHERE scope = 'organization' AND org_id = $1`+live, k.OrganizationID)
	}
	if l.KeysPerUser == 0 {
		return nil
	}
	if _, err := lockUser(ctx, tx, k.UserID); err != nil {
		return err
	}
	return room(ctx, tx, l.KeysPerUser, "API key quota of the user exceeded (%d); revoke keys or raise KEYS_PER_USER",
		`SELECT count(*) FROM api_keys WHERE scope = 'user' AND user_id = $1`+live, k.UserID)
}

// roomForOrganization reports conflict when a user owns as many organizations as they may, or belongs to as many. It keeps
// others from adding to them meanwhile.
func (l Limits) roomForOrganization(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if err := l.roomForMembership(ctx, tx, userID, ""); err != nil || l.OrganizationsPerUser == 0 {
		return err
	}
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}
	return room(ctx, tx, l.OrganizationsPerUser, "organization quota of the user exceeded (%d); raise ORGANIZATIONS_PER_USER",
		`SELECT count(*) FROM parley_memberships($1) WHERE role = 'owner'`, userID)
}

// roomForMembership reports conflict when a user belongs to as many organizations as they may and would be new in this one.
// It keeps others from adding to them meanwhile.
func (l Limits) roomForMembership(ctx context.Context, tx *sqlx.Tx, userID, org string) error {
	if l.MembershipsPerUser == 0 {
		return nil
	}
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}
	return room(ctx, tx, l.MembershipsPerUser,
		"membership quota of the user exceeded (%d); leave an organization or raise MEMBERSHIPS_PER_USER",
		`SELECT CASE WHEN bool_or(id = $2) THEN 0 ELSE count(*) END FROM parley_memberships($1)`, userID, org)
}

// room reports conflict when the count has reached a limit.
func room(ctx context.Context, tx *sqlx.Tx, maximum int, exceeded, count string, args ...any) error {
	if maximum == 0 {
		return nil
	}
	var n int
	if err := tx.GetContext(ctx, &n, count, args...); err != nil {
		return fmt.Errorf("counting against a limit of accounts: %w", err)
	}
	if n >= maximum {
		return apierr.New(apierr.Conflict, exceeded, maximum)
	}
	return nil
}
