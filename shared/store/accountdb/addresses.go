package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// An email address is proven in one of two ways: its user logs in through an OpenID provider that
// verified it, or uses a reset link that the operator created. An invitation link proves nothing to
// other organizations, because the inviter knows the link, too. The user of an invitation link may
// take over an unproven address. Neither this user nor the previous holder gains the other's data:
// the new holder gets a new account. The displaced account loses only the address and keeps, for
// example, its password and login sessions.

// maxListed is the maximum number of accounts that are listed for an email address.
const maxListed = 100

// schemeExpression is the SQL expression for the scheme of a stored password: the whole
// value except the key.
const schemeExpression = `substring(password_hash FROM '^(.*)[$]')`

// AddressAccount is an account that has an email address, or had the address before another account
// took it over.
type AddressAccount struct {
	User      domain.User
	Displaced bool // another account has the address now
}

// AccountsAt lists up to 100 accounts of an email address, ignoring case: the current holder
// first, if any, then the displaced accounts.
func (s *Store) AccountsAt(ctx context.Context, email string) ([]AddressAccount, error) {
	var rows []userRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+userColumns+` FROM users WHERE lower(email) = lower($1)
		ORDER BY displaced_at IS NOT NULL, displaced_at, id LIMIT $2`, email, maxListed)
	if err != nil {
		return nil, fmt.Errorf("reading the accounts with an email address: %w", err)
	}
	out := make([]AddressAccount, len(rows))
	for i, row := range rows {
		out[i] = AddressAccount{row.user(), row.Displaced}
	}
	return out, nil
}

// AddressKnown reports whether any account has or had an email address, and whether the address is
// proven for one of these accounts. It ignores case.
func (s *Store) AddressKnown(ctx context.Context, email string) (known, proven bool, err error) {
	var row struct {
		Known  bool `db:"known"`
		Proven bool `db:"proven"`
	}
	err = s.db.GetContext(ctx, &row, `SELECT count(*) > 0 AS known, coalesce(bool_or(email_proven_at IS NOT NULL), false) AS proven
		FROM users WHERE lower(email) = lower($1)`, email)
	return row.Known, row.Proven, wrap("looking for accounts with an email address", err)
}

// PasswordSchemes lists the distinct schemes of the passwords stored for an email address. A scheme
// is a stored value without its key. The caller derives a key for each scheme from the entered
// password, and passes the results to ByPassword.
func (s *Store) PasswordSchemes(ctx context.Context, email string) ([]string, error) {
	var schemes []string
	err := s.db.SelectContext(ctx, &schemes, `SELECT DISTINCT `+schemeExpression+` FROM users
		WHERE lower(email) = lower($1) AND password_hash <> '' ORDER BY 1`, email)
	return schemes, wrap("reading the schemes of stored passwords", err)
}

// ByPassword returns the account of an email address whose stored password is in the list hashes.
// It also returns this stored password. If several accounts match, it prefers the account that has
// proven the address. Next comes an account with an open login session from the client address, and
// then the oldest account. If the argument only is true, accounts without such a session do not
// match. If no account matches, ByPassword returns WrongPassword.
func (s *Store) ByPassword(ctx context.Context, email string, hashes []string, client string, only bool) (userID, hash string, err error) {
	// familiar is an SQL condition: the account has an open login session that began at the
	// client's address.
	const familiar = `EXISTS (SELECT FROM login_sessions l WHERE l.user_id = users.id AND l.address = $3 AND l.expires_at > clock_timestamp())`
	var row userRow
	err = s.db.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users WHERE lower(email) = lower($1) AND password_hash = ANY ($2)
		AND (NOT $4 OR `+familiar+`)
		ORDER BY email_proven_at IS NULL, NOT `+familiar+`, created_at, id LIMIT 1`, email, pq.Array(hashes), client, only)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", WrongPassword()
	}
	return row.ID, row.PasswordHash, wrap("looking for an account by its password", err)
}

// Passwords of one email address that have the same hash cost share a salt, so that a login derives
// only one key per cost. checkScheme returns an unavailable error if the user's new password would
// break this rule. This happens if two accounts with the address set passwords at the same time,
// and thus with different salts.
func checkScheme(ctx context.Context, tx *sqlx.Tx, userID, email, hash string) error {
	end := strings.LastIndexByte(hash, '$')
	if end < 0 { // no password
		return nil
	}

	scheme := hash[:end]

	// The last part of a scheme is the salt. The part before it identifies the hash cost.
	cost := scheme[:strings.LastIndexByte(scheme, '$')+1]
	var alone bool

	// alone is true if other accounts have passwords of this cost, but none of these passwords has
	// this salt.
	err := tx.GetContext(ctx, &alone, `SELECT count(*) > 0 AND NOT bool_or(`+schemeExpression+` = $3) FROM users
		WHERE lower(email) = lower($1) AND id <> $2 AND starts_with(password_hash, $4)`, email, userID, scheme, cost)
	if err == nil && alone {
		return apierr.New(apierr.Unavailable, "another account with this email address set its password at the same time; try again")
	}

	return wrap("comparing the schemes of stored passwords", err)
}

// ProveAddress records that the operator has confirmed a user's email address. It does nothing for
// an unknown or displaced account.
func (s *Store) ProveAddress(ctx context.Context, userID string) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error { return prove(ctx, tx, userID) })
}

// Access describes how a user can use the account.
type Access struct {
	Proven   bool `db:"proven"`   // the email address is proven, and no other account has taken it over
	Password bool `db:"password"` // the user can log in with a password
	OpenID   bool `db:"openid"`   // the user has logged in through an OpenID provider
}

// Access returns how a user can use the account. It returns not_found if the user does not exist.
func (s *Store) Access(ctx context.Context, userID string) (Access, error) {
	var access Access
	err := s.db.GetContext(ctx, &access, `SELECT email_proven_at IS NOT NULL AND displaced_at IS NULL AS proven, password_hash <> '' AS password,
		EXISTS (SELECT FROM identities WHERE user_id = users.id) AS openid FROM users WHERE id = $1`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return access, pg.NotFound()
	}
	return access, wrap("reading a user's access", err)
}

// holdsProven reports whether a user's email address is proven and no other account has taken it
// over. It returns not_found if the user does not exist.
func holdsProven(ctx context.Context, q sqlx.QueryerContext, userID string) (bool, error) {
	var holds bool
	err := sqlx.GetContext(ctx, q, &holds, `SELECT email_proven_at IS NOT NULL AND displaced_at IS NULL FROM users WHERE id = $1`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, pg.NotFound()
	}
	return holds, wrap("reading a user's email address", err)
}

// prove records that a user's email address is proven. It does nothing for a displaced account.
func prove(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE users SET email_proven_at = clock_timestamp()
		WHERE id = $1 AND displaced_at IS NULL AND email_proven_at IS NULL`, userID)
	return wrap("recording a verified email address", err)
}

// holderFor locks and returns the account that has an email address. It returns false if there is
// none.
func holderFor(ctx context.Context, tx *sqlx.Tx, email string) (userRow, bool, error) {
	var row userRow
	err := tx.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users
		WHERE lower(email) = lower($1) AND displaced_at IS NULL FOR NO KEY UPDATE`, email)
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, wrap("reading the account with an email address", err)
}

// actAs sets the user whose rows the transaction can see, until the transaction ends.
func actAs(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `SELECT set_config('parley.user', $1, true)`, userID)
	return wrap("naming user", err)
}

// displace takes an email address away from the locked account that has it. The new holder has
// proven the address or has an invitation link for it. displace returns email_taken if the account
// has proven the address. The account's links become void, except reset links created by the
// operator.
func displace(ctx context.Context, tx *sqlx.Tx, holder userRow) error {
	// The account has proven its address, so the address cannot be taken away from it.
	if holder.Proven {
		return apierr.New(apierr.EmailTaken, "an account with this email address already exists")
	}
	if _, err := tx.ExecContext(ctx, `UPDATE users SET displaced_at = clock_timestamp() WHERE id = $1`, holder.ID); err != nil {
		return fmt.Errorf("displacing account: %w", err)
	}
	_, err := tx.ExecContext(ctx, `UPDATE login_links SET used_at = clock_timestamp()
		WHERE user_id = $1 AND used_at IS NULL AND (kind <> 'reset' OR org_id IS NOT NULL)`, holder.ID)
	return wrap("spending links", err)
}

// revokeUserKeys revokes a user's own API keys. Keys of organizations that the user has created
// stay valid.
func revokeUserKeys(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if err := actAs(ctx, tx, userID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = clock_timestamp()
		WHERE revoked_at IS NULL AND org_id IS NULL AND user_id = $1`, userID)
	return wrap("revoking API keys", err)
}

// voidLinks invalidates the unused links that open a user's account: login links and reset links.
func voidLinks(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE login_links SET used_at = clock_timestamp() WHERE user_id = $1 AND used_at IS NULL`, userID)
	return wrap("spending links", err)
}
