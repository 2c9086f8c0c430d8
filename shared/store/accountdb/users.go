package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// NewUser is a user to create. A user with an empty PasswordHash can log in only with links or an
// identity.
type NewUser struct {
	Email        string
	Name         string
	PasswordHash string
	invitedTo    string // id of the organization whose invitation created the account; empty: none
	proven       bool   // an OpenID provider verified the address
}

// userRow is a row of userColumns.
type userRow struct {
	ID           string      `db:"id"`
	Email        string      `db:"email"`
	Name         string      `db:"name"`
	PasswordHash string      `db:"password_hash"`
	CreatedAt    domain.Time `db:"created_at"`
	Proven       bool        `db:"proven"`    // the user has proven the address
	Displaced    bool        `db:"displaced"` // another account has the address now
}

// user converts the row without the password.
func (row userRow) user() domain.User {
	return domain.User{ID: row.ID, Email: row.Email, Name: row.Name, CreatedAt: row.CreatedAt}
}

// userColumns are the columns of a userRow.
const userColumns = `id, email, name, password_hash, created_at, email_proven_at IS NOT NULL AS proven, displaced_at IS NOT NULL AS displaced`

// CreateUser stores a user without an organization; the first login creates one. CreateUser returns
// email_taken if an account with the email address (ignoring case) exists. A displaced account does
// not count.
func (s *Store) CreateUser(ctx context.Context, u NewUser) (domain.User, error) {
	var user domain.User
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		var err error
		user, err = createUser(ctx, tx, u)
		return err
	})
	return user, err
}

// createUser inserts a user. It returns email_taken if an account with the email address exists.
func createUser(ctx context.Context, tx *sqlx.Tx, u NewUser) (domain.User, error) {
	var row userRow
	err := tx.GetContext(ctx, &row, `INSERT INTO users (id, email, name, password_hash, invited_to, email_proven_at)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $6 THEN clock_timestamp() END)
		RETURNING `+userColumns, id.New(id.User), u.Email, u.Name, u.PasswordHash, pg.Optional(u.invitedTo), u.proven)
	// The unique index users_email ignores case. It does not contain the addresses of displaced
	// accounts.
	if pg.Violates(err, "users_email") {
		return domain.User{}, apierr.New(apierr.EmailTaken, "an account with this email address already exists")
	}
	if err != nil {
		return domain.User{}, fmt.Errorf("creating user: %w", err)
	}
	return row.user(), checkScheme(ctx, tx, row.ID, u.Email, u.PasswordHash)
}

// User returns a user by id. It returns not_found if there is none.
func (s *Store) User(ctx context.Context, userID string) (domain.User, error) {
	var row userRow
	err := s.db.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users WHERE id = $1`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.User{}, pg.NotFound()
	}
	if err != nil {
		return domain.User{}, fmt.Errorf("reading user: %w", err)
	}
	return row.user(), nil
}

// UserByEmail returns the user with the email address, ignoring case, and the hash of the user's
// password. It returns not_found if there is none.
func (s *Store) UserByEmail(ctx context.Context, email string) (domain.User, string, error) {
	var row userRow
	err := s.db.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users WHERE lower(email) = lower($1) AND displaced_at IS NULL`, email)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.User{}, "", pg.NotFound()
	}
	if err != nil {
		return domain.User{}, "", fmt.Errorf("reading user: %w", err)
	}
	return row.user(), row.PasswordHash, nil
}

// lockUser locks a user's row until the transaction ends, and returns the user. It returns
// not_found if the user does not exist.
func lockUser(ctx context.Context, tx *sqlx.Tx, userID string) (domain.User, error) {
	row, err := lockUserRow(ctx, tx, userID)
	return row.user(), err
}

// lockUserRow locks and returns a user. It returns not_found if there is none.
func lockUserRow(ctx context.Context, tx *sqlx.Tx, userID string) (userRow, error) {
	var row userRow
	err := tx.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users WHERE id = $1 FOR NO KEY UPDATE`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return userRow{}, pg.NotFound()
	}
	if err != nil {
		return userRow{}, fmt.Errorf("locking user: %w", err)
	}
	return row, nil
}
