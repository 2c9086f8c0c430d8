package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// Credential is the data needed to authenticate an API key or a login session. A user's credential
// has Memberships, oldest first; an organization's key has OrganizationID instead. Callers cache
// credentials and must not change them.
//
// Label identifies the credential in rate limits and reveals no secret. Lineage is the id of the
// first key in the chain of rotations that led to this key. For a key that replaced no other key,
// it is the key's own id.
type Credential struct {
	Label          string
	KeyID          string // the API key; "" for a login session
	Lineage        string
	LoginID        string // the login session; "" for an API key
	OrganizationID string
	UserID         string
	SecretHash     []byte    // SHA-256 of the key or of the session's token
	ExpiresAt      time.Time // zero: never expires
	Memberships    []Standing
}

// Standing is an organization and a user's role in it.
type Standing struct {
	OrganizationID string
	Role           domain.Role
}

// credentialRow is a row of the functions that find credentials. Exactly one of LoginID and KeyID
// is set; Organizations and Roles are parallel.
type credentialRow struct {
	LoginID        string         `db:"login_id"`
	KeyID          string         `db:"key_id"`
	Lineage        string         `db:"lineage"`
	OrganizationID sql.NullString `db:"org_id"`
	UserID         sql.NullString `db:"user_id"`
	SecretHash     []byte         `db:"secret_hash"`
	ExpiresAt      sql.NullTime   `db:"expires_at"`
	Organizations  pq.StringArray `db:"orgs"`
	Roles          pq.StringArray `db:"roles"`
}

// credential converts the row.
func (row credentialRow) credential() *Credential {
	c := &Credential{
		KeyID: row.KeyID, Lineage: row.Lineage, LoginID: row.LoginID, OrganizationID: row.OrganizationID.String, UserID: row.UserID.String,
		SecretHash: row.SecretHash, ExpiresAt: row.ExpiresAt.Time, Label: row.KeyID + row.LoginID,
	}
	// The two lists come from the same rows, so they have the same length.
	for i, org := range row.Organizations {
		c.Memberships = append(c.Memberships, Standing{org, domain.Role(row.Roles[i])})
	}
	return c
}

// credentialColumns are the columns of a credentialRow except lineage, which login sessions lack.
const credentialColumns = `login_id, key_id, org_id, user_id, secret_hash, expires_at, orgs, roles`

// KeyCredentials returns the API keys that have these ids and are not revoked, in a map by id. An
// expired key is included: the caller checks ExpiresAt and the secret.
func (s *Store) KeyCredentials(ctx context.Context, keyIDs []string) (map[string]*Credential, error) {
	rows, err := readCredentials(ctx, s.db, `SELECT lineage, `+credentialColumns+` FROM parley_key_credentials($1)`, pq.Array(keyIDs))
	if err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	out := make(map[string]*Credential, len(rows))
	for _, row := range rows {
		out[row.KeyID] = row.credential()
	}
	return out, nil
}

// LoginCredentials returns the open login sessions with these token hashes, in a map by hash. An
// unknown hash is missing in the result.
func (s *Store) LoginCredentials(ctx context.Context, hashes [][]byte) (map[string]*Credential, error) {
	rows, err := readCredentials(ctx, s.db, `SELECT '' AS lineage, `+credentialColumns+` FROM parley_login_credentials($1)`, pq.Array(hashes))
	if err != nil {
		return nil, fmt.Errorf("reading login sessions: %w", err)
	}
	out := make(map[string]*Credential, len(rows))
	for _, row := range rows {
		out[string(row.SecretHash)] = row.credential()
	}
	return out, nil
}

// readCredentials runs one of the functions that find credentials by ids or token hashes.
func readCredentials(ctx context.Context, db *pg.DB, query string, list any) ([]credentialRow, error) {
	stmt, err := db.Prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	var rows []credentialRow
	if err := stmt.SelectContext(ctx, &rows, list); err != nil {
		return nil, fmt.Errorf("selecting credentials: %w", err)
	}
	return rows, nil
}

// holdCredential locks the credential of an actor, so that the credential is not revoked before the
// transaction ends. It returns unauthenticated if the credential has already ended. This is
// possible because the request may have been authenticated from a cache that is some seconds old.
func holdCredential(ctx context.Context, tx *sqlx.Tx, actor Actor) error {
	if actor.LoginID != "" {
		return holdLogin(ctx, tx, actor.UserID, actor.LoginID)
	}
	// A request without a credential was authenticated by other means, for example by a link.
	if actor.KeyID == "" {
		return nil
	}
	return lockCredentialRow(ctx, tx, `SELECT id FROM api_keys WHERE id = $1 AND revoked_at IS NULL
		AND (expires_at IS NULL OR expires_at > clock_timestamp()) FOR NO KEY UPDATE`, actor.KeyID)
}

// holdLogin is like holdCredential, for the login session with an id.
func holdLogin(ctx context.Context, tx *sqlx.Tx, userID, loginID string) error {
	return lockCredentialRow(ctx, tx, `SELECT id FROM login_sessions WHERE id = $1 AND user_id = $2 AND expires_at > clock_timestamp()
		FOR KEY SHARE`, loginID, userID)
}

// lockCredentialRow runs a query that locks a credential's row. It returns unauthenticated if
// there is no row.
func lockCredentialRow(ctx context.Context, tx *sqlx.Tx, query string, args ...any) error {
	var found string
	err := tx.GetContext(ctx, &found, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return apierr.New(apierr.Unauthenticated, "the credential was revoked or has expired")
	}
	if err != nil {
		return fmt.Errorf("holding credential: %w", err)
	}
	return nil
}

// Touch stores the times when API keys and login sessions were last used. The keys of the map are
// the ids of the API keys and login sessions. Ids that no longer exist are ignored. If the stored
// time is later, it is kept.
func (s *Store) Touch(ctx context.Context, used map[string]time.Time) error {
	var keys, logins touched
	for name, at := range used {
		// Keys and login sessions are in different tables.
		if strings.HasPrefix(name, id.Login+"_") {
			logins.add(name, at)
		} else {
			keys.add(name, at)
		}
	}

	return s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		if err := keys.write(ctx, tx, `SELECT parley_touch_keys($1, $2)`); err != nil {
			return err
		}
		return logins.write(ctx, tx, `UPDATE login_sessions s SET last_used_at = greatest(s.last_used_at, l.at)
			FROM (SELECT a.id, u.at FROM unnest(CAST($1 AS text[]), CAST($2 AS timestamptz[])) AS u (id, at)
			      JOIN login_sessions a ON a.id = u.id ORDER BY a.id FOR UPDATE OF a) l
			WHERE s.id = l.id`)
	})
}

// touched contains the ids of credentials of one kind, and the times when these were last used.
type touched struct {
	ids []string
	at  []time.Time
}

// add appends a credential. It truncates the time to milliseconds, the precision that the API
// shows. PostgreSQL would round it to microseconds, sometimes into the next millisecond.
func (t *touched) add(name string, at time.Time) {
	t.ids, t.at = append(t.ids, name), append(t.at, domain.At(at).Time)
}

// write runs query with the ids and times. It does nothing if the list is empty.
func (t *touched) write(ctx context.Context, tx *sqlx.Tx, query string) error {
	if len(t.ids) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, query, pq.Array(t.ids), pq.Array(t.at)); err != nil {
		return fmt.Errorf("recording the use of credentials: %w", err)
	}
	return nil
}

// withinActor is like pg.DB.WithinUser, but takes an actor. The transaction sees the rows of the
// actor's organization and user.
func withinActor(ctx context.Context, db *pg.DB, actor Actor, f func(*sqlx.Tx) error) error {
	return db.WithinUser(ctx, actor.OrganizationID, actor.UserID, f)
}
