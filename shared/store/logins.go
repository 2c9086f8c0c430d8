package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// Sentinels of one-time login links.
var (
	ErrLinkUnknown = errors.New("login link does not exist")
	ErrLinkSpent   = errors.New("login link was used or has expired")
)

// NewLogin is a login session to create: the SHA-256 of its token and its end. Replaces, when not
// nil, is the hash of an earlier token of the same browser, which ends.
type NewLogin struct {
	TokenHash []byte
	ExpiresAt time.Time
	Replaces  []byte
}

// Account is who logged in, and their default organization.
type Account struct {
	User         domain.User
	Organization domain.Organization
}

// SignUp creates a user and logs them in, all or nothing; email_taken when the address has an account.
func (s *Store) SignUp(ctx context.Context, u NewUser, login NewLogin) (Account, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		user, err := createUser(ctx, tx, u)
		if err != nil {
			return err
		}
		account, err = logIn(ctx, tx, user.ID, login)
		return err
	})
	return account, err
}

// LogIn opens a login session for the user; the first one ever gives them an organization of their own.
func (s *Store) LogIn(ctx context.Context, userID string, login NewLogin) (Account, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		var err error
		account, err = logIn(ctx, tx, userID, login)
		return err
	})
	return account, err
}

func logIn(ctx context.Context, tx *sqlx.Tx, userID string, login NewLogin) (Account, error) {
	account, err := lockAccount(ctx, tx, userID)
	if err != nil {
		return Account{}, err
	}
	if login.Replaces != nil {
		if err := deleteLogin(ctx, tx, login.Replaces); err != nil {
			return Account{}, err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO login_sessions (token_hash, user_id, expires_at) VALUES ($1, $2, $3)`,
		login.TokenHash, userID, login.ExpiresAt)
	if err != nil {
		return Account{}, fmt.Errorf("creating login session: %w", err)
	}
	return account, nil
}

// LogOut ends the login session of a token's hash; there being none is no error.
func (s *Store) LogOut(ctx context.Context, tokenHash []byte) error {
	return s.tx(ctx, func(tx *sqlx.Tx) error { return deleteLogin(ctx, tx, tokenHash) })
}

func deleteLogin(ctx context.Context, tx *sqlx.Tx, tokenHash []byte) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM login_sessions WHERE token_hash = $1`, tokenHash); err != nil {
		return fmt.Errorf("deleting login session: %w", err)
	}
	return nil
}

// CreateLoginLink stores a one-time link that logs the user in until expires.
func (s *Store) CreateLoginLink(ctx context.Context, userID string, tokenHash []byte, expires time.Time) error {
	return s.tx(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO login_links (token_hash, user_id, expires_at) VALUES ($1, $2, $3)`,
			tokenHash, userID, expires)
		if err != nil {
			return fmt.Errorf("creating login link: %w", err)
		}
		return nil
	})
}

// UseLoginLink spends a one-time link and logs its user in; ErrLinkUnknown or ErrLinkSpent otherwise.
func (s *Store) UseLoginLink(ctx context.Context, linkHash []byte, login NewLogin) (Account, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		var link struct {
			UserID string `db:"user_id"`
			Spent  bool   `db:"spent"`
		}
		err := tx.GetContext(ctx, &link, `SELECT user_id, used_at IS NOT NULL OR expires_at <= clock_timestamp() AS spent
			FROM login_links WHERE token_hash = $1 FOR UPDATE`, linkHash)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrLinkUnknown
		}
		if err != nil {
			return fmt.Errorf("reading login link: %w", err)
		}
		if link.Spent {
			return ErrLinkSpent
		}
		if _, err := tx.ExecContext(ctx, `UPDATE login_links SET used_at = clock_timestamp() WHERE token_hash = $1`, linkHash); err != nil {
			return fmt.Errorf("spending login link: %w", err)
		}
		account, err = logIn(ctx, tx, link.UserID, login)
		return err
	})
	return account, err
}

// PruneLogins deletes login sessions that have ended, and links a day after their end, and says how
// many rows went.
func (s *Store) PruneLogins(ctx context.Context) (int, error) {
	var gone int64
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		for _, query := range []string{
			`DELETE FROM login_sessions WHERE expires_at <= clock_timestamp()`,
			`DELETE FROM login_links WHERE expires_at <= clock_timestamp() - interval '1 day'`,
		} {
			done, err := tx.ExecContext(ctx, query)
			if err != nil {
				return fmt.Errorf("deleting ended logins: %w", err)
			}
			n, err := done.RowsAffected()
			if err != nil {
				return fmt.Errorf("counting ended logins: %w", err)
			}
			gone += n
		}
		return nil
	})
	return int(gone), err
}
