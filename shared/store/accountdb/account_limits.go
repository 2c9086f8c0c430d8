package accountdb

import (
	"context"

	"github.com/jmoiron/sqlx"

	"parley/shared/store/pg"
)

// Limits are quotas on the keys, organizations and memberships of one user or organization. 0 means
// no limit.
type Limits struct {
	KeysPerOrganization  int // maximum number of keys that are neither revoked nor expired
	KeysPerUser          int // maximum number of a user's own keys that are neither revoked nor expired
	OrganizationsPerUser int // maximum number of organizations that a user owns
	MembershipsPerUser   int
}

// LimitAccounts sets the quotas of accounts. It is not safe for concurrent use, so it must be
// called before the store is used.
func (s *Store) LimitAccounts(limits Limits) { s.quotas = limits }

// limits returns the quotas set by LimitAccounts.
func (s *Store) limits() Limits { return s.quotas }

// limits returns the quotas that LimitAccounts has set on the store of accounts.
func (s *Organizations) limits() Limits { return s.accounts.quotas }

// checkKeyQuota returns a conflict error if the organization (or, for a user key, the user) has
// reached its key quota. It prevents concurrent creation of further keys until the transaction
// ends. For a key of an organization, the caller must have locked the organization.
func (l Limits) checkKeyQuota(ctx context.Context, tx *sqlx.Tx, k NewKey) error {
	const live = ` AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`
	// The lock on the organization already prevents concurrent creation of its keys.
	if k.OrganizationID != "" {
		return pg.CheckQuota(ctx, tx, l.KeysPerOrganization,
			"API key quota of the organization exceeded (%d); revoke keys or raise KEYS_PER_ORGANIZATION",
			`SELECT count(*) FROM api_keys WHERE scope = 'organization' AND org_id = $1`+live, k.OrganizationID)
	}

	// If there is no quota for users, the user need not be locked.
	if l.KeysPerUser == 0 {
		return nil
	}

	if _, err := lockUser(ctx, tx, k.UserID); err != nil {
		return err
	}

	return pg.CheckQuota(ctx, tx, l.KeysPerUser, "API key quota of the user exceeded (%d); revoke keys",
		`SELECT count(*) FROM api_keys WHERE scope = 'user' AND user_id = $1`+live, k.UserID)
}

// checkOrganizationQuota returns a conflict error if the user has reached the quota of owned
// organizations or of memberships. If such a quota is set, it locks the user, so that neither
// number increases before the transaction ends.
func (l Limits) checkOrganizationQuota(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if err := l.checkMembershipQuota(ctx, tx, userID, ""); err != nil || l.OrganizationsPerUser == 0 {
		return err
	}
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}
	return pg.CheckQuota(ctx, tx, l.OrganizationsPerUser, "organization quota of the user exceeded (%d); raise ORGANIZATIONS_PER_USER",
		`SELECT count(*) FROM parley_memberships($1) WHERE role = 'owner'`, userID)
}

// checkMembershipQuota returns a conflict error if the user has reached the membership quota and is
// not yet a member of org; org may be empty. If the quota is set, it locks the user, so that the
// number does not grow until the transaction ends.
func (l Limits) checkMembershipQuota(ctx context.Context, tx *sqlx.Tx, userID, org string) error {
	if l.MembershipsPerUser == 0 {
		return nil
	}
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}
	return pg.CheckQuota(ctx, tx, l.MembershipsPerUser,
		"membership quota of the user exceeded (%d); leave an organization",
		`SELECT CASE WHEN bool_or(id = $2) THEN 0 ELSE count(*) END FROM parley_memberships($1)`, userID, org)
}
