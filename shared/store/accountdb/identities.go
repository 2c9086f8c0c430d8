package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/store/pg"
)

// Identity is what an OpenID provider reports about a person. Only Issuer and Subject identify the
// person; Email and Name may change. Email is used only if the provider has verified it, and only
// at the first login of the identity.
type Identity struct {
	Issuer, Subject string
	Email           string
	Verified        bool
	Name            string
}

// ErrMayTakeOver is wrapped by the email_taken error of LogInByIdentity if the same login would
// succeed with the argument takeOver set to true.
var ErrMayTakeOver = errors.New("the account with this email address has not verified the address")

// IdentityKnown reports whether an identity has logged in before.
func (s *Store) IdentityKnown(ctx context.Context, identity Identity) (bool, error) {
	var known bool
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &known, `SELECT EXISTS (SELECT FROM identities WHERE issuer = $1 AND subject = $2)`, identity.Issuer, identity.Subject)
	})
	return known, wrap("looking up an identity", err)
}

// LogInByIdentity logs in the user of an identity. A new identity must have a verified email
// address (permission_denied otherwise); the login then proves the address. The account for a new
// identity is chosen as follows:
//   - If the account loggedIn has or had this address, the identity is linked to that account. The
//     login session login.LoginID, if set, must still be open (unauthenticated otherwise).
//   - Otherwise a new account is created. If an existing account has the address, this requires
//     that takeOver is true.
//   - In both cases, any other account that has the address without proof loses the address. If
//     another account has proven the address, or a required takeOver is false, LogInByIdentity
//     returns email_taken.
func (s *Store) LogInByIdentity(ctx context.Context, identity Identity, loggedIn string, takeOver bool, login NewLogin) (Account, error) {
	var account Account
	attempt := func(tx *sqlx.Tx) error {
		userID, before, err := userForIdentity(ctx, tx, identity, loggedIn, takeOver, login.LoginID)
		if err != nil {
			return err
		}
		by := login
		by.LoginID = "" // the identity proves this login, so no open login session is needed
		account, err = logIn(ctx, tx, userID, by)
		account.Before = before
		return err
	}

	err := s.db.Tx(ctx, attempt)
	if pg.Violates(err, "identities_pkey") || apierr.CodeFor(err) == apierr.EmailTaken {
		// If the first attempt fails because a concurrent login of the same person has created the
		// account, the second attempt finds that account.
		err = s.db.Tx(ctx, attempt)
	}

	return account, err
}

// userForIdentity returns the user with an identity. If another account lost its email address to
// this user, userForIdentity also returns that account. userForIdentity creates or links the user
// of a new identity.
func userForIdentity( //nolint:cyclop // one step after the other, each of which may reject the login
	ctx context.Context, tx *sqlx.Tx, identity Identity, loggedIn string, takeOver bool, loginID string,
) (userID, before string, err error) {
	err = tx.GetContext(ctx, &userID, `SELECT user_id FROM identities WHERE issuer = $1 AND subject = $2`, identity.Issuer, identity.Subject)
	// The identity already belongs to a user, so its email address does not matter.
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return userID, "", wrap("reading identity", err)
	}
	// An unverified address could belong to another person.
	if identity.Email == "" || !identity.Verified {
		return "", "", apierr.New(apierr.PermissionDenied, "the identity provider has not verified your email address")
	}

	holder, known, err := holderFor(ctx, tx, identity.Email)
	if err != nil {
		return "", "", err
	}

	// An identity can be linked only if the login session is still open.
	linked, err := hasAddress(ctx, tx, loggedIn, identity.Email)
	if err == nil && linked && loginID != "" {
		err = holdLogin(ctx, tx, loggedIn, loginID)
	}

	if err != nil {
		return "", "", err
	}

	// Another account has the address.
	if known && (!linked || holder.ID != loggedIn) {
		before = holder.ID
		if err := takeAddress(ctx, tx, holder, linked || takeOver); err != nil {
			return "", "", err
		}
	}

	if userID, err = proven(ctx, tx, identity, loggedIn, linked); err != nil {
		return "", "", err
	}

	_, err = tx.ExecContext(ctx, `INSERT INTO identities (issuer, subject, user_id) VALUES ($1, $2, $3)`, identity.Issuer, identity.Subject, userID)
	return userID, before, wrap("linking identity", err)
}

// proven returns the user who has the identity's address from now on: the logged-in user if linked
// is true, otherwise a new user. The address must be free or belong to the logged-in user.
func proven(ctx context.Context, tx *sqlx.Tx, identity Identity, loggedIn string, linked bool) (string, error) {
	if linked {
		return loggedIn, reclaim(ctx, tx, loggedIn)
	}
	user, err := createUser(ctx, tx, NewUser{Email: identity.Email, Name: identity.Name, proven: true})
	return user.ID, err
}

// takeAddress displaces the holder of an email address for a person who has proven the address.
func takeAddress(ctx context.Context, tx *sqlx.Tx, holder userRow, confirmed bool) error {
	if err := mayTakeOver(holder, confirmed); err != nil {
		return err
	}
	return displace(ctx, tx, holder)
}

// hasAddress reports whether a user has an email address, even if another account has taken it
// over.
func hasAddress(ctx context.Context, tx *sqlx.Tx, userID, email string) (bool, error) {
	var has bool
	err := tx.GetContext(ctx, &has, `SELECT EXISTS (SELECT FROM users WHERE id = $1 AND lower(email) = lower($2))`, userID, email)
	return has, wrap("reading a user's email address", err)
}

// mayTakeOver returns email_taken if a person who has proven an email address may not displace the
// address's holder. The argument confirmed is true if the person has asked for the takeover.
func mayTakeOver(holder userRow, confirmed bool) error {
	switch {
	// The address is proven for another account. The person must first log in to that account, to
	// show that both accounts are theirs.
	case holder.Proven:
		return apierr.New(apierr.EmailTaken, "an account with this email address already exists: log in to it first to link the two")
	// The person may have forgotten the older account, and must therefore confirm the takeover of
	// its address.
	case !confirmed:
		return apierr.Wrap(apierr.EmailTaken, ErrMayTakeOver,
			"an account with this email address already exists: log in to it first to link the two; "+
				"or begin again with takeover=1 to get an account of your own, if the existing account is not yours")
	}
	return nil
}

// reclaim gives a displaced account its address back and records it as proven.
func reclaim(ctx context.Context, tx *sqlx.Tx, userID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE users SET displaced_at = NULL, email_proven_at = coalesce(email_proven_at, clock_timestamp())
		WHERE id = $1`, userID)
	return wrap("recording a verified email address", err)
}

// wrap prefixes an error with the description doing. It returns nil if err is nil.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
