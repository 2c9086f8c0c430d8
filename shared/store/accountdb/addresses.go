package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// An address belongs to nobody until it is proven: its holder signed in by an OpenID provider that verified it, or
// used a link that whoever runs the service made. An invitation's link proves nothing to anybody but the organization
// that made it, for its maker holds it as well. So the holder of a link may take an unproven address over, and neither
// side gains anything of the other's: the taker gets an account of their own, and the account before keeps what it has
// and its password, but not the address. One that has nothing is closed instead.

// maxDisplaced bounds the displaced accounts of an address that have a password: a login compares all of them.
const maxDisplaced = 4

// maxListed bounds the accounts of an address that the operator sees.
const maxListed = 100

// AddressAccount is an account that has an address, or had it before another account took it over.
type AddressAccount struct {
	User         domain.User
	PasswordHash string // empty: nobody logs in to it by password
	Proven       bool   // the address
	Displaced    bool   // another account holds the address
}

// AccountsAt lists the accounts of an email address in any case: its holder, if there is one, and the displaced ones
// that still have a password.
func (s *Store) AccountsAt(ctx context.Context, email string) ([]AddressAccount, error) {
	return s.accountsAt(ctx, `lower(email) = lower($1) AND (displaced_at IS NULL OR password_hash <> '')`, email, 1+maxDisplaced)
}

// AllAccountsAt is AccountsAt with the displaced accounts that have no password any more, at most 100.
func (s *Store) AllAccountsAt(ctx context.Context, email string) ([]AddressAccount, error) {
	return s.accountsAt(ctx, `lower(email) = lower($1)`, email, maxListed)
}

func (s *Store) accountsAt(ctx context.Context, where, email string, limit int) ([]AddressAccount, error) {
	var rows []userRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+userColumns+` FROM users WHERE `+where+`
		ORDER BY displaced_at IS NOT NULL, id LIMIT $2`, email, limit)
	if err != nil {
		return nil, fmt.Errorf("reading accounts of an address: %w", err)
	}
	out := make([]AddressAccount, len(rows))
	for i, row := range rows {
		out[i] = AddressAccount{row.user(), row.PasswordHash, row.Proven, row.Displaced}
	}
	return out, nil
}

// ProveAddress notes that whoever runs the service vouches for the address of a user.
func (s *Store) ProveAddress(ctx context.Context, userID string) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error { return prove(ctx, tx, userID) })
}

// HoldsAddress reports whether a user has proven their address and holds it still.
func (s *Store) HoldsAddress(ctx context.Context, userID string) (bool, error) {
	return holdsProven(ctx, s.db, userID)
}

func holdsProven(ctx context.Context, q sqlx.QueryerContext, userID string) (bool, error) {
	var holds bool
	err := sqlx.GetContext(ctx, q, &holds, `SELECT email_proven_at IS NOT NULL AND displaced_at IS NULL FROM users WHERE id = $1`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, pg.NotFound()
	}
	return holds, wrap("reading a user's address", err)
}

// prove notes that the holder of an address has proven it. A displaced account does not hold its address.
func prove(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE users SET email_proven_at = clock_timestamp()
		WHERE id = $1 AND displaced_at IS NULL AND email_proven_at IS NULL`, userID)
	return wrap("noting a proven address", err)
}

// holderOf locks the account that holds an address; false when there is none.
func holderOf(ctx context.Context, tx *sqlx.Tx, email string) (userRow, bool, error) {
	var row userRow
	err := tx.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users
		WHERE lower(email) = lower($1) AND displaced_at IS NULL FOR NO KEY UPDATE`, email)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, wrap("reading the holder of an address", err)
}

// accountUsed reports whether an account has anything that its holder would miss.
func accountUsed(ctx context.Context, tx *sqlx.Tx, userID string) (bool, error) {
	if err := actAs(ctx, tx, userID); err != nil {
		return false, err
	}
	var used bool
	err := tx.GetContext(ctx, &used, `SELECT parley_account_used()`)
	return used, wrap("reading what an account has", err)
}

// actAs names the user whose own rows the transaction sees.
func actAs(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `SELECT set_config('parley.user', $1, true)`, userID)
	return wrap("naming user", err)
}

// displace takes an address from the locked account that holds it, for somebody who has proven it or holds the link of an
// invitation. email_taken when the account has proven it. The transaction names another user and other organizations afterwards.
func displace(ctx context.Context, tx *sqlx.Tx, holder userRow) error {
	if holder.Proven {
		return apierr.New(apierr.EmailTaken, "this email address already has an account")
	}
	used, err := accountUsed(ctx, tx, holder.ID)
	if err != nil {
		return err
	}
	if !used {
		if err := closeAccount(ctx, tx, holder.ID); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE users SET displaced_at = clock_timestamp() WHERE id = $1`, holder.ID); err != nil {
		return fmt.Errorf("displacing account: %w", err)
	}
	if err := voidLinksOf(ctx, tx, holder.ID); err != nil {
		return err
	}
	return dropPasswords(ctx, tx, holder.Email)
}

// dropPasswords leaves maxDisplaced displaced accounts of an address their passwords. The others keep their login sessions
// and keys, and get a password again by a link of the operator. The first to go are accounts made by invitations of the
// organization that made most of them, so that one organization cannot lock out another's members; among equals, the
// account that was displaced first.
func dropPasswords(ctx context.Context, tx *sqlx.Tx, email string) error {
	_, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = '' WHERE id IN (
		SELECT id FROM (
			SELECT id, displaced_at, count(*) OVER (PARTITION BY coalesce(invited_to, id)) AS alike FROM users
			WHERE lower(email) = lower($1) AND displaced_at IS NOT NULL AND password_hash <> '') AS displaced
		ORDER BY alike, displaced_at DESC, id DESC OFFSET $2)`, email, maxDisplaced)
	return wrap("dropping passwords of displaced accounts", err)
}

// closeAccount ends all ways into an account, and all keys of it and of its organizations.
func closeAccount(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if _, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = '' WHERE id = $1`, userID); err != nil {
		return fmt.Errorf("closing account: %w", err)
	}
	if err := deleteLogins(ctx, tx, userID); err != nil {
		return err
	}
	all, err := memberships(ctx, tx, userID)
	if err != nil {
		return err
	}
	orgs := make([]string, len(all))
	for i, m := range all {
		orgs[i] = m.ID
	}
	if err := pg.ActFor(ctx, tx, orgs...); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = clock_timestamp()
		WHERE revoked_at IS NULL AND org_id = ANY ($1)`, pq.Array(orgs))
	if err != nil {
		return fmt.Errorf("revoking API keys: %w", err)
	}
	return revokeUserKeys(ctx, tx, userID)
}

// revokeUserKeys ends a user's own API keys.
func revokeUserKeys(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if err := actAs(ctx, tx, userID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = clock_timestamp()
		WHERE revoked_at IS NULL AND org_id IS NULL AND user_id = $1`, userID)
	return wrap("revoking API keys", err)
}

// voidLinksOf ends the links that open a user's account.
func voidLinksOf(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE login_links SET used_at = clock_timestamp() WHERE user_id = $1 AND used_at IS NULL`, userID)
	return wrap("spending links", err)
}
