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
	"parley/shared/id"
	"parley/shared/store/pg"
)

// NewLogin is a login session to create: the SHA-256 of its token, its expiry, and the client that
// logged in. Replaces, if not nil, is the hash of an earlier token of the same browser; that
// token's session is deleted. PasswordHash or LoginID, if not empty, is the user's proof: the
// stored hash that the password matched, or the id of a login session. The proof must still be
// valid when the session is created (unauthenticated otherwise).
type NewLogin struct {
	TokenHash []byte
	ExpiresAt time.Time
	Replaces  []byte
	// shown in the list of login sessions, so that users recognize their devices
	UserAgent    string
	Address      string
	PasswordHash string
	LoginID      string
}

// Account is a user who logged in, and the user's default organization. If another account lost its
// email address to this user, Before is the id of that account; otherwise it is empty.
type Account struct {
	User         domain.User
	Organization domain.Organization
	Before       string
}

// SignUp creates a user and logs the user in, in one transaction. It returns email_taken if an
// account with the email address exists.
func (s *Store) SignUp(ctx context.Context, u NewUser, login NewLogin) (Account, error) {
	var account Account
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		user, err := createUser(ctx, tx, u)
		if err != nil {
			return err
		}
		account, err = logIn(ctx, tx, user.ID, login)
		return err
	})
	return account, err
}

// LogIn creates a login session for the user. The first login of a user also creates their default
// organization. LogIn returns not_found for an unknown user, and unauthenticated if the proof in
// login is no longer valid.
func (s *Store) LogIn(ctx context.Context, userID string, login NewLogin) (Account, error) {
	var account Account
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		var err error
		account, err = logIn(ctx, tx, userID, login)
		return err
	})
	return account, err
}

// logIn creates a login session while the user is locked. It first checks that the proof in login
// is still valid.
func logIn(ctx context.Context, tx *sqlx.Tx, userID string, login NewLogin) (Account, error) {
	account, err := lockAccount(ctx, tx, userID)
	if err != nil {
		return Account{}, err
	}

	if err := login.checkProof(ctx, tx, userID); err != nil {
		return Account{}, err
	}

	// A browser has one session cookie, so its earlier session would never be used again and is
	// deleted.
	if login.Replaces != nil {
		if err := deleteLogin(ctx, tx, login.Replaces); err != nil {
			return Account{}, err
		}
	}

	_, err = tx.ExecContext(ctx, `INSERT INTO login_sessions (id, token_hash, user_id, expires_at, user_agent, address)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		id.New(id.Login), login.TokenHash, userID, login.ExpiresAt, login.UserAgent, login.Address)
	if err != nil {
		return Account{}, fmt.Errorf("creating login session: %w", err)
	}

	return account, nil
}

// checkProof checks that the proof in login is still valid. The caller must have locked the user. A
// password reset may have happened since the proof was first checked.
func (login NewLogin) checkProof(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if login.LoginID != "" {
		return holdLogin(ctx, tx, userID, login.LoginID)
	}

	// Links and identities have their own checks.
	if login.PasswordHash == "" {
		return nil
	}

	var same bool
	err := tx.GetContext(ctx, &same, `SELECT password_hash = $2 FROM users WHERE id = $1`, userID, login.PasswordHash)
	if err != nil {
		return fmt.Errorf("reading password: %w", err)
	}

	if !same {
		return WrongPassword()
	}

	return nil
}

// WrongPassword is the error for any failed login by password. It does not say whether the email
// address or the password was wrong.
func WrongPassword() error {
	return apierr.New(apierr.Unauthenticated, "the email address or the password is wrong")
}

// LogOut ends the login session with this token hash. It returns nil if there is none.
func (s *Store) LogOut(ctx context.Context, tokenHash []byte) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error { return deleteLogin(ctx, tx, tokenHash) })
}

// deleteLogin deletes the login session with this token hash, if there is one.
func deleteLogin(ctx context.Context, tx *sqlx.Tx, tokenHash []byte) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM login_sessions WHERE token_hash = $1`, tokenHash); err != nil {
		return fmt.Errorf("deleting login session: %w", err)
	}
	return nil
}

// LogOutEverywhere ends all login sessions of a user. API keys stay valid.
func (s *Store) LogOutEverywhere(ctx context.Context, userID string) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error { return deleteLogins(ctx, tx, userID) })
}

// deleteLogins deletes all login sessions of a user.
func deleteLogins(ctx context.Context, tx *sqlx.Tx, userID string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM login_sessions WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("deleting login sessions: %w", err)
	}
	return nil
}

// LoggedInFrom reports whether an account with the email address has an open login session that
// began at the given client address. The login uses it to distinguish familiar clients from others.
func (s *Store) LoggedInFrom(ctx context.Context, email, address string) (bool, error) {
	var known bool
	err := s.db.GetContext(ctx, &known, `SELECT EXISTS (SELECT FROM users u JOIN login_sessions l ON l.user_id = u.id
		WHERE lower(u.email) = lower($1) AND l.address = $2 AND l.expires_at > clock_timestamp())`, email, address)
	return known, wrap("looking for login sessions", err)
}

// After identifies the last entry of the previous page in a list ordered by time, newest first.
// The zero value selects the first page.
type After struct {
	At time.Time
	ID string
}

// Login is an entry of a user's list of login sessions. At is the creation time of the session; At
// and the id are its pagination cursor. Current is true for the session of the caller.
type Login struct {
	domain.LoginSession
	At time.Time
}

// loginRow is a row of login_sessions, with the columns loginColumns. Current reports whether the
// session has the token hash $2.
type loginRow struct {
	ID         string       `db:"id"`
	CreatedAt  time.Time    `db:"created_at"`
	LastUsedAt *domain.Time `db:"last_used_at"`
	ExpiresAt  domain.Time  `db:"expires_at"`
	Current    bool         `db:"current"`
	UserAgent  string       `db:"user_agent"`
	Address    string       `db:"address"`
}

const loginColumns = `id, created_at, last_used_at, expires_at, token_hash = $2 AS current, user_agent, address`

// login converts the row.
func (row *loginRow) login() domain.LoginSession {
	return domain.LoginSession{
		ID: row.ID, CreatedAt: domain.At(row.CreatedAt), LastUsedAt: row.LastUsedAt, ExpiresAt: row.ExpiresAt,
		Current: row.Current, UserAgent: row.UserAgent, Address: row.Address,
	}
}

// Logins lists up to limit open login sessions of a user, newest first. It marks as current the
// session whose token hash equals the argument current.
func (s *Store) Logins(ctx context.Context, userID string, current []byte, after After, limit int) ([]Login, error) {
	var rows []loginRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+loginColumns+`
		FROM login_sessions WHERE user_id = $1 AND expires_at > clock_timestamp() AND ($3 = '' OR (created_at, id) < ($4, $3))
		ORDER BY created_at DESC, id DESC LIMIT $5`, userID, current, after.ID, after.At, limit)
	if err != nil {
		return nil, fmt.Errorf("listing login sessions: %w", err)
	}

	out := make([]Login, len(rows))
	for i, row := range rows {
		out[i] = Login{At: row.CreatedAt, LoginSession: row.login()}
	}

	return out, nil
}

// EndLogin ends a login session of a user by its id and returns its token hash. It returns
// not_found if there is none.
func (s *Store) EndLogin(ctx context.Context, userID, loginID string) ([]byte, error) {
	var hash []byte
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		err := tx.GetContext(ctx, &hash, `DELETE FROM login_sessions WHERE user_id = $1 AND id = $2 RETURNING token_hash`, userID, loginID)
		if errors.Is(err, sql.ErrNoRows) {
			return pg.NotFound()
		}
		if err != nil {
			return fmt.Errorf("ending login session: %w", err)
		}
		return nil
	})
	return hash, err
}

// PruneLogins deletes expired login sessions, and links and invitations that expired more than a
// day ago. It returns the number of deleted rows. The sweeper calls it periodically. An expired row
// is invalid even before it is deleted.
func (s *Store) PruneLogins(ctx context.Context) (int, error) {
	var gone int64
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each attempt starts the count at 0.
		gone = 0
		for _, query := range []string{
			`WITH gone AS (DELETE FROM login_sessions WHERE expires_at <= clock_timestamp() RETURNING id) SELECT count(*) FROM gone`,
			`WITH gone AS (DELETE FROM login_links WHERE expires_at <= clock_timestamp() - interval '1 day' RETURNING user_id)
				SELECT count(*) FROM gone`,
			`SELECT parley_prune_invitations()`,
		} {
			var n int64
			if err := tx.GetContext(ctx, &n, query); err != nil {
				return fmt.Errorf("deleting ended logins: %w", err)
			}
			gone += n
		}

		return nil
	})
	return int(gone), err
}
