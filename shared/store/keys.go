package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// NewKey is an API key to create. An organization's key has OrganizationID and, when a person made
// it, UserID; a user's key has UserID only. SecretHash is the SHA-256 of the whole key.
type NewKey struct {
	ID             string
	Scope          domain.KeyScope
	OrganizationID string
	UserID         string
	Name           string
	SecretHash     []byte
	LastFour       string
	ExpiresAt      *domain.Time
}

type keyRow struct {
	ID         string       `db:"id"`
	Scope      string       `db:"scope"`
	Name       string       `db:"name"`
	LastFour   string       `db:"last_four"`
	CreatedAt  domain.Time  `db:"created_at"`
	ExpiresAt  *domain.Time `db:"expires_at"`
	LastUsedAt *domain.Time `db:"last_used_at"`
}

const keyColumns = `id, scope, name, last_four, created_at, expires_at, last_used_at`

func (row keyRow) key() domain.APIKey {
	return domain.APIKey{
		ID: row.ID, Name: row.Name, Scope: domain.KeyScope(row.Scope), Prefix: domain.KeyPrefix(row.ID),
		LastFour: row.LastFour, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt,
	}
}

// CreateKey stores an API key and gives it as lists show it.
func (s *Store) CreateKey(ctx context.Context, k NewKey) (domain.APIKey, error) {
	var org *string
	if k.Scope == domain.KeyScopeOrganization {
		org = &k.OrganizationID
	}
	var row keyRow
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `INSERT INTO api_keys (id, scope, org_id, user_id, name, secret_hash, last_four, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING `+keyColumns,
			k.ID, k.Scope, org, optional(k.UserID), k.Name, k.SecretHash, k.LastFour, k.ExpiresAt)
	})
	if err != nil {
		return domain.APIKey{}, fmt.Errorf("creating API key: %w", err)
	}
	return row.key(), nil
}

// KeyFilter says whose keys are meant: those of an organization, when it is named, and the user keys
// of a user, when one is named.
type KeyFilter struct {
	OrganizationID string
	UserID         string
	After          string // list keys older than the one of this id
}

const keyVisible = ` revoked_at IS NULL AND ((scope = 'organization' AND org_id = $1) OR (scope = 'user' AND user_id = $2)) `

// Keys lists up to limit keys, newest first; revoked ones are gone.
func (s *Store) Keys(ctx context.Context, f KeyFilter, limit int) ([]domain.APIKey, error) {
	var rows []keyRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+keyColumns+` FROM api_keys
		WHERE`+keyVisible+`AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4`, f.OrganizationID, f.UserID, f.After, limit)
	if err != nil {
		return nil, fmt.Errorf("listing API keys: %w", err)
	}
	out := make([]domain.APIKey, len(rows))
	for i, row := range rows {
		out[i] = row.key()
	}
	return out, nil
}

// RevokeKey ends a key that the caller's organization or user has. Only an admin may end an
// organization's: permission_denied; any other key is not_found.
func (s *Store) RevokeKey(ctx context.Context, org, userID string, admin bool, keyID string) error {
	return s.tx(ctx, func(tx *sqlx.Tx) error {
		var scope string
		err := tx.GetContext(ctx, &scope, `SELECT scope FROM api_keys WHERE`+keyVisible+`AND id = $3 FOR UPDATE`, org, userID, keyID)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return fmt.Errorf("reading API key: %w", err)
		}
		if scope == string(domain.KeyScopeOrganization) && !admin {
			return apierr.New(apierr.PermissionDenied, "only an admin may revoke an organization's key")
		}
		if _, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = clock_timestamp() WHERE id = $1`, keyID); err != nil {
			return fmt.Errorf("revoking API key: %w", err)
		}
		return nil
	})
}

// TouchKeys notes when keys were last used, given as id and instant.
func (s *Store) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	ids, at := make([]string, 0, len(used)), make([]time.Time, 0, len(used))
	for keyID, t := range used {
		ids, at = append(ids, keyID), append(at, t)
	}
	return s.tx(ctx, func(tx *sqlx.Tx) error {
		// Rows are locked in the order of their ids, as everywhere, so that two ingresses cannot deadlock.
		_, err := tx.ExecContext(ctx, `UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, l.at)
			FROM (SELECT a.id, u.at FROM unnest(CAST($1 AS text[]), CAST($2 AS timestamptz[])) AS u (id, at)
			      JOIN api_keys a ON a.id = u.id ORDER BY a.id FOR UPDATE OF a) l
			WHERE k.id = l.id`, pq.Array(ids), pq.Array(at))
		if err != nil {
			return fmt.Errorf("noting use of API keys: %w", err)
		}
		return nil
	})
}

// Credential is what authentication needs of an API key or a login session. Of a user's, it holds
// the memberships, oldest first; an organization's key has OrganizationID instead. Label names it
// where limits are kept, and gives nothing away.
type Credential struct {
	Label          string
	KeyID          string
	OrganizationID string
	UserID         string
	SecretHash     []byte
	ExpiresAt      time.Time // zero: never
	Memberships    []Standing
}

// Standing is a role in an organization.
type Standing struct {
	OrganizationID string
	Role           domain.Role
}

type credentialRow struct {
	KeyID          string         `db:"key_id"`
	OrganizationID sql.NullString `db:"org_id"`
	UserID         sql.NullString `db:"user_id"`
	SecretHash     []byte         `db:"secret_hash"`
	ExpiresAt      sql.NullTime   `db:"expires_at"`
	Organizations  pq.StringArray `db:"orgs"`
	Roles          pq.StringArray `db:"roles"`
}

func (row credentialRow) credential() *Credential {
	c := &Credential{
		KeyID: row.KeyID, OrganizationID: row.OrganizationID.String, UserID: row.UserID.String,
		SecretHash: row.SecretHash, ExpiresAt: row.ExpiresAt.Time, Label: row.KeyID,
	}
	if c.Label == "" {
		c.Label = "login_" + base64.RawURLEncoding.EncodeToString(row.SecretHash[:9])
	}
	for i, org := range row.Organizations {
		c.Memberships = append(c.Memberships, Standing{org, domain.Role(row.Roles[i])})
	}
	return c
}

// standings joins a user's memberships as two arrays, oldest first.
const standings = ` LEFT JOIN LATERAL (SELECT array_agg(m.org_id ORDER BY m.created_at, m.org_id) AS orgs,
	array_agg(m.role ORDER BY m.created_at, m.org_id) AS roles FROM memberships m WHERE m.user_id = u.user_id) s ON true `

const keyCredentialsQuery = `SELECT k.id AS key_id, k.org_id, u.user_id, k.secret_hash, k.expires_at, s.orgs, s.roles
	FROM api_keys k CROSS JOIN LATERAL (SELECT CASE WHEN k.scope = 'user' THEN k.user_id END AS user_id) u` + standings + `
	WHERE k.id = ANY ($1) AND k.revoked_at IS NULL`

// KeyCredentials reads the keys with these ids that are not revoked, by id.
func (s *Store) KeyCredentials(ctx context.Context, keyIDs []string) (map[string]*Credential, error) {
	rows, err := s.credentials(ctx, keyCredentialsQuery, pq.Array(keyIDs))
	if err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	out := make(map[string]*Credential, len(rows))
	for _, row := range rows {
		out[row.KeyID] = row.credential()
	}
	return out, nil
}

const loginCredentialsQuery = `SELECT '' AS key_id, NULL AS org_id, u.user_id, u.token_hash AS secret_hash, u.expires_at, s.orgs, s.roles
	FROM login_sessions u` + standings + `WHERE u.token_hash = ANY ($1) AND u.expires_at > clock_timestamp()`

// LoginCredentials reads the open login sessions with these token hashes, by hash.
func (s *Store) LoginCredentials(ctx context.Context, hashes [][]byte) (map[string]*Credential, error) {
	rows, err := s.credentials(ctx, loginCredentialsQuery, pq.Array(hashes))
	if err != nil {
		return nil, fmt.Errorf("reading login sessions: %w", err)
	}
	out := make(map[string]*Credential, len(rows))
	for _, row := range rows {
		out[string(row.SecretHash)] = row.credential()
	}
	return out, nil
}

func (s *Store) credentials(ctx context.Context, query string, list any) ([]credentialRow, error) {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	var rows []credentialRow
	if err := stmt.SelectContext(ctx, &rows, list); err != nil {
		return nil, fmt.Errorf("selecting credentials: %w", err)
	}
	return rows, nil
}
