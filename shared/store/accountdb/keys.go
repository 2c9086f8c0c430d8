package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/budgetdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
)

// NewKey is an API key to create. An organization's key has OrganizationID and, if a person created
// the key, UserID. A user's key has only UserID. CreateKey sets both fields from the actor.
// SecretHash is the SHA-256 of the whole key.
type NewKey struct {
	ID             string
	Scope          domain.KeyScope
	OrganizationID string
	UserID         string
	Name           string
	SecretHash     []byte
	LastFour       string
	ExpiresAt      *domain.Time
	lineage        string // id of the first key in the chain of rotations; empty: this key
}

// keyRow is a row of keyColumns.
type keyRow struct {
	ID         string         `db:"id"`
	Lineage    string         `db:"lineage"`
	Scope      string         `db:"scope"`
	OrgID      sql.NullString `db:"org_id"`
	UserID     sql.NullString `db:"user_id"`
	Name       string         `db:"name"`
	LastFour   string         `db:"last_four"`
	CreatedAt  domain.Time    `db:"created_at"`
	ExpiresAt  *domain.Time   `db:"expires_at"`
	LastUsedAt *domain.Time   `db:"last_used_at"`
}

// keyColumns are the columns of a keyRow. A key that replaced no other key has its own id as its
// lineage.
const keyColumns = `id, coalesce(lineage, id) AS lineage, scope, org_id, user_id, name, last_four, created_at, expires_at, last_used_at`

// key converts the row to the form that lists show, without its hash.
func (row keyRow) key() domain.APIKey {
	return domain.APIKey{
		ID: row.ID, Name: row.Name, Scope: domain.KeyScope(row.Scope), Prefix: domain.KeyPrefix(row.ID),
		LastFour: row.LastFour, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt,
	}
}

// CreateKey stores an API key for the actor or the actor's organization, and returns it in the form
// that lists show. It does not know the key itself, only its hash. A key of the organization
// requires the admin role (permission_denied). CreateKey returns conflict if the key quota is
// reached, and unauthenticated if the actor's credential has ended.
func (s *Organizations) CreateKey(ctx context.Context, actor Actor, k NewKey) (domain.APIKey, error) {
	k.OrganizationID, k.UserID = "", actor.UserID
	if k.Scope == domain.KeyScopeOrganization {
		// UserID stays set, because it identifies the user who created the key.
		k.OrganizationID = actor.OrganizationID
	}

	var key domain.APIKey
	err := withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		if err := mayCreateKey(ctx, tx, actor, k.Scope); err != nil {
			return err
		}
		if err := s.limits().checkKeyQuota(ctx, tx, k); err != nil {
			return err
		}
		var err error
		key, err = createKey(ctx, tx, k)
		return err
	})
	return key, err
}

// mayCreateKey returns an error if the actor may not create a key of this scope. It locks the
// actor's credential until the transaction ends.
func mayCreateKey(ctx context.Context, tx *sqlx.Tx, actor Actor, scope domain.KeyScope) error {
	// Every user may create user keys.
	if scope != domain.KeyScopeOrganization {
		return holdCredential(ctx, tx, actor)
	}
	role, err := lockOrganization(ctx, tx, actor)
	if err == nil && !role.AtLeast(domain.RoleAdmin) {
		err = apierr.New(apierr.PermissionDenied, "only an admin may create an organization's key")
	}
	return err
}

// createKey inserts a key. The caller has checked permission and quota.
func createKey(ctx context.Context, tx *sqlx.Tx, k NewKey) (domain.APIKey, error) {
	var row keyRow
	err := tx.GetContext(ctx, &row, `INSERT INTO api_keys (id, scope, org_id, user_id, name, secret_hash, last_four, expires_at, lineage)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING `+keyColumns,
		k.ID, k.Scope, pg.Optional(k.OrganizationID), pg.Optional(k.UserID), k.Name,
		k.SecretHash, k.LastFour, k.ExpiresAt, pg.Optional(k.lineage))
	if err != nil {
		return domain.APIKey{}, fmt.Errorf("creating API key: %w", err)
	}
	return row.key(), nil
}

// KeyFilter selects keys: the keys of OrganizationID, if set, and the user keys of UserID, if set.
type KeyFilter struct {
	OrganizationID string
	UserID         string
	After          string // id of the last key of the previous page
}

// keyVisible selects keys that are not revoked: the keys of organization $1 and the user keys of
// user $2.
const keyVisible = ` revoked_at IS NULL AND ((scope = 'organization' AND org_id = $1) OR (scope = 'user' AND user_id = $2)) `

// Keys lists up to limit keys that are not revoked, newest first. Expired keys are included.
func (s *Organizations) Keys(ctx context.Context, f KeyFilter, limit int) ([]domain.APIKey, error) {
	var rows []keyRow
	err := s.db.WithinUser(ctx, f.OrganizationID, f.UserID, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &rows, `SELECT `+keyColumns+` FROM api_keys
			WHERE`+keyVisible+`AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4`, f.OrganizationID, f.UserID, f.After, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing API keys: %w", err)
	}

	out := make([]domain.APIKey, len(rows))
	for i, row := range rows {
		out[i] = row.key()
	}

	return out, nil
}

// RevokeKey revokes a key of the actor's organization or user. A key of the organization requires
// the admin role (permission_denied). If neither has the key, RevokeKey returns not_found. Links
// and invitations that were created with the key become void, too. Other processes may accept the
// key from their cache for a few seconds.
func (s *Organizations) RevokeKey(ctx context.Context, actor Actor, keyID string) error {
	return withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		if _, err := lockKey(ctx, tx, actor, keyID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1`, keyID); err != nil {
			return fmt.Errorf("revoking API key: %w", err)
		}
		return nil
	})
}

// lockKey returns a key that the actor may change, and locks it until the transaction ends. It
// returns not_found or permission_denied like RevokeKey.
func lockKey(ctx context.Context, tx *sqlx.Tx, actor Actor, keyID string) (keyRow, error) {
	var row keyRow
	role, err := lockStanding(ctx, tx, actor)
	if err != nil {
		return row, err
	}

	org := actor.OrganizationID
	if role == "" { // a user who has left the organization may still revoke their own keys
		org = ""
	}

	err = tx.GetContext(ctx, &row, `SELECT `+keyColumns+` FROM api_keys WHERE`+keyVisible+`AND id = $3 FOR UPDATE`, org, actor.UserID, keyID)
	if errors.Is(err, sql.ErrNoRows) {
		return row, pg.NotFound()
	}
	if err != nil {
		return row, fmt.Errorf("reading API key: %w", err)
	}

	if row.Scope == string(domain.KeyScopeOrganization) && !role.AtLeast(domain.RoleAdmin) {
		return row, apierr.New(apierr.PermissionDenied, "only an admin may change an organization's key")
	}

	return row, nil
}

// RotateKey replaces a key with a new key. The argument k contains the new key's id, hash and last
// four characters. The other fields of k are ignored. The new key has the name, scope, owner,
// expiry and lineage of the old key, and takes over its budgets and hooks. The old key keeps
// working for at most overlap. RotateKey returns not_found if the old key has expired, and conflict
// if both keys together exceed the quota.
func (s *Organizations) RotateKey(ctx context.Context, actor Actor, keyID string, k NewKey, overlap time.Duration) (domain.APIKey, error) {
	var key domain.APIKey
	err := withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		old, err := lockKey(ctx, tx, actor, keyID)
		if err != nil {
			return err
		}

		// The old key must not be valid for longer than it would have been without the rotation.
		done, err := tx.ExecContext(ctx, `UPDATE api_keys
			SET expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $2))
			WHERE id = $1 AND (expires_at IS NULL OR expires_at > clock_timestamp())`, keyID, overlap.Seconds())
		if err != nil {
			return fmt.Errorf("revoking an API key: %w", err)
		}

		if n, err := done.RowsAffected(); err == nil && n == 0 {
			return pg.NotFound()
		}

		k.Scope, k.Name, k.ExpiresAt = domain.KeyScope(old.Scope), old.Name, old.ExpiresAt
		k.OrganizationID, k.UserID, k.lineage = old.OrgID.String, old.UserID.String, old.Lineage
		// The old key counts against the quota, too, unless it has ended immediately.
		if err := s.limits().checkKeyQuota(ctx, tx, k); err != nil {
			return err
		}

		// Only an organization's key has budgets and hooks.
		if key, err = createKey(ctx, tx, k); err != nil || k.OrganizationID == "" {
			return err
		}

		if err := budgetdb.MoveBudgets(ctx, tx, k.OrganizationID, keyID, k.ID); err != nil {
			return err
		}

		return hookdb.MoveHooks(ctx, tx, k.OrganizationID, keyID, k.ID)
	})
	return key, err
}
