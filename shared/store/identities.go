package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// Identity is what an OpenID provider says of a person. Only Issuer and Subject name them; Email counts when
// the provider has verified it.
type Identity struct {
	Issuer, Subject string
	Email           string
	Verified        bool
	Name            string
}

// LogInByIdentity logs in the person behind an identity. One seen for the first time must have a verified
// address (permission_denied); a new person is made for it, unless it has an account: then email_taken, but for
// the account of loggedIn, which the identity is linked to while the login session of login.LoginID holds.
func (s *Store) LogInByIdentity(ctx context.Context, who Identity, loggedIn string, login NewLogin) (Account, error) {
	var account Account
	attempt := func(tx *sqlx.Tx) error {
		userID, err := identified(ctx, tx, who, loggedIn, login.LoginID)
		if err != nil {
			return err
		}
		by := login
		by.LoginID = "" // the identity lets them in, and not the session
		account, err = logIn(ctx, tx, userID, by)
		return err
	}
	err := s.tx(ctx, attempt)
	if violates(err, "identities_pkey") || apierr.CodeOf(err) == apierr.EmailTaken {
		err = s.tx(ctx, attempt) // the same person logged in twice at once: the other one may have made the account
	}
	return account, err
}

// identified gives the user of an identity, made or linked when it is new.
func identified(ctx context.Context, tx *sqlx.Tx, who Identity, loggedIn, loginID string) (string, error) {
	var userID string
	err := tx.GetContext(ctx, &userID, `SELECT user_id FROM identities WHERE issuer = $1 AND subject = $2`, who.Issuer, who.Subject)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return userID, wrap("reading identity", err)
	}
	if who.Email == "" || !who.Verified {
		return "", apierr.New(apierr.PermissionDenied, "the provider has not verified an email address of yours")
	}
	var known userRow
	err = tx.GetContext(ctx, &known, `SELECT `+userColumns+` FROM users WHERE lower(email) = lower($1)`, who.Email)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		var user domain.User
		if user, err = createUser(ctx, tx, NewUser{Email: who.Email, Name: who.Name}); err != nil {
			return "", err
		}
		known.ID = user.ID
	case err != nil:
		return "", fmt.Errorf("reading user: %w", err)
	case known.ID != loggedIn:
		return "", apierr.New(apierr.EmailTaken, "this email address already has an account: log in to it first, and the two are linked")
	}
	if known.ID == loggedIn && loginID != "" {
		if err := holdLogin(ctx, tx, loggedIn, loginID); err != nil {
			return "", err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO identities (issuer, subject, user_id) VALUES ($1, $2, $3)`, who.Issuer, who.Subject, known.ID)
	return known.ID, wrap("linking identity", err)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
