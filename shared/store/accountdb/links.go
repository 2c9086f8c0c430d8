package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// Errors of one-time login links.
var (
	ErrLinkUnknown = errors.New("the login link does not exist")
	ErrLinkSpent   = errors.New("the login link was already used or has expired")
)

// CreateLoginLink stores a one-time link that logs the user in. The argument expires is the time
// until which the link is valid. tokenHash is the SHA-256 of the link's token.
func (s *Store) CreateLoginLink(ctx context.Context, userID string, tokenHash []byte, expires time.Time) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO login_links (token_hash, user_id, expires_at) VALUES ($1, $2, $3)`,
			tokenHash, userID, expires)
		if err != nil {
			return fmt.Errorf("creating login link: %w", err)
		}
		return nil
	})
}

// UseLoginLink uses a one-time link and logs the link's user in. It returns ErrLinkUnknown or
// ErrLinkSpent if the link is not valid.
func (s *Store) UseLoginLink(ctx context.Context, linkHash []byte, login NewLogin) (Account, error) {
	var account Account
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		var link struct {
			UserID string `db:"user_id"`
			Spent  bool   `db:"spent"`
		}
		err := tx.GetContext(ctx, &link, `SELECT user_id, used_at IS NOT NULL OR expires_at <= clock_timestamp() AS spent
			FROM login_links WHERE token_hash = $1 AND kind = 'login' FOR UPDATE`, linkHash)
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
			return fmt.Errorf("using login link: %w", err)
		}

		account, err = logIn(ctx, tx, link.UserID, login)
		return err
	})
	return account, err
}

// CreateReset stores a one-time link with which the user sets a new password. The argument expires
// is the time until which the link is valid. Only the operator may create such a link: using it
// proves the user's address.
func (s *Store) CreateReset(ctx context.Context, userID string, tokenHash []byte, expires time.Time) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		return createReset(ctx, tx, reset{UserID: userID}, tokenHash, expires)
	})
}

// CreateMemberReset is like CreateReset, except that an admin creates the link for a member of the
// organization. It returns not_found if the user is not a member. It returns permission_denied
// unless all of these conditions hold:
//   - The member's role is not higher than the admin's.
//   - An invitation of this organization created the member's account, and the account's email
//     address is not proven.
//   - The member has nothing in any other organization.
func (s *Organizations) CreateMemberReset(ctx context.Context, actor Actor, userID string, tokenHash []byte, expires time.Time) error {
	return withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		// The lock keeps the roles of the admin and the member unchanged until the link is stored.
		own, err := lockOrganization(ctx, tx, actor)
		if err != nil {
			return err
		}

		role, err := memberRole(ctx, tx, actor.OrganizationID, userID)
		switch {
		case err != nil:
			return err
		case role == "":
			return pg.NotFound()
		case !own.AtLeast(domain.RoleAdmin) || !own.AtLeast(role):
			return apierr.New(apierr.PermissionDenied, "only an admin may reset a member's password, and only an owner may reset an owner's")
		}

		if _, err := lockUser(ctx, tx, userID); err != nil {
			return err
		}

		theirs, err := belongsTo(ctx, tx, userID, actor.OrganizationID)
		if err != nil {
			return err
		}

		if !theirs {
			return apierr.New(apierr.PermissionDenied, "an admin cannot reset an account that was not created by "+
				"an invitation of this organization, or that has data in "+
				"another organization: ask the operator to run `parley reset-password`")
		}

		// The conditions are stored with the link, because they are checked again when the link is
		// used.
		made := reset{
			UserID: userID, Organization: pg.Optional(actor.OrganizationID), Role: pg.Optional(string(own)),
			By: actor.UserID, With: pg.Optional(actor.KeyID),
		}
		return createReset(ctx, tx, made, tokenHash, expires)
	})
}

// reset is a password reset link and its restrictions. A link created by an admin becomes
// void in three cases:
//   - The user proves the email address, gains a membership or data in another organization, or
//     gets a higher role than the admin had.
//   - The admin loses the role that the link depends on.
//   - The API key with which the link was created ends.
type reset struct {
	UserID       string  `db:"user_id"`
	Organization *string `db:"org_id"`
	Role         *string `db:"role"`
	By           string  `db:"made_by"`
	With         *string `db:"made_with"`
}

// createReset inserts a password reset link with its restrictions.
func createReset(ctx context.Context, tx *sqlx.Tx, r reset, tokenHash []byte, expires time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO login_links (kind, token_hash, user_id, org_id, role, made_by, made_with, expires_at)
		VALUES ('reset', $1, $2, $3, $4, $5, $6, $7)`, tokenHash, r.UserID, r.Organization, r.Role, r.By, r.With, expires)
	if err != nil {
		return fmt.Errorf("creating password reset: %w", err)
	}
	return nil
}

// keyHolds is an SQL condition: the API key with which a link was created, if any, has not ended.
const keyHolds = ` (made_with IS NULL OR EXISTS (SELECT 1 FROM parley_key_credentials(ARRAY[made_with]) k
	WHERE k.expires_at IS NULL OR k.expires_at > clock_timestamp())) `

// voidLinksBy invalidates the reset links and deletes the invitations that a user created in an
// organization. It is called when the user loses a role.
func voidLinksBy(ctx context.Context, tx *sqlx.Tx, org, by string) error {
	_, err := tx.ExecContext(ctx, `UPDATE login_links SET used_at = clock_timestamp()
		WHERE kind = 'reset' AND org_id = $1 AND made_by = $2 AND used_at IS NULL`, org, by)
	if err != nil {
		return fmt.Errorf("invalidating password resets: %w", err)
	}

	// An invitation gives a role, so it must not outlive the role of its creator.
	if _, err := tx.ExecContext(ctx, `DELETE FROM invitations WHERE org_id = $1 AND made_by = $2`, org, by); err != nil {
		return fmt.Errorf("ending invitations: %w", err)
	}
	return nil
}

// Reset returns the user whose password a link's token may set. It returns not_found if the link is
// not valid. It does not use the link.
func (s *Store) Reset(ctx context.Context, tokenHash []byte) (domain.User, error) {
	var user domain.User
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		row, _, err := resetFor(ctx, tx, tokenHash)
		user = row.user()
		return err
	})
	return user, err
}

// resetFor locks a reset link and then its user. The result operators reports whether the operator
// created the link.
func resetFor(ctx context.Context, tx *sqlx.Tx, tokenHash []byte) (user userRow, operators bool, err error) {
	var link reset
	err = tx.GetContext(ctx, &link, `SELECT user_id, org_id, role FROM login_links
		WHERE token_hash = $1 AND kind = 'reset' AND used_at IS NULL AND expires_at > clock_timestamp() AND`+keyHolds+`FOR UPDATE`, tokenHash)
	if errors.Is(err, sql.ErrNoRows) {
		return user, false, pg.NotFound()
	}
	if err != nil {
		return user, false, fmt.Errorf("reading password reset: %w", err)
	}

	// A link created by the operator has no restrictions.
	if user, err = lockUserRow(ctx, tx, link.UserID); err != nil || link.Organization == nil {
		return user, true, err
	}

	// The user may have gained data in another organization since the link was created.
	theirs, err := belongsTo(ctx, tx, link.UserID, *link.Organization)
	if err != nil {
		return user, false, err
	}

	// The user may have been promoted since the link was created.
	all, err := memberships(ctx, tx, link.UserID)
	if err != nil {
		return user, false, err
	}

	here := slices.IndexFunc(all, func(m domain.Membership) bool { return m.ID == *link.Organization })
	if !theirs || here < 0 || !domain.Role(*link.Role).AtLeast(all[here].Role) {
		return user, false, pg.NotFound()
	}

	return user, false, nil
}

// belongsTo reports whether an organization may reset the password of an account: one of its
// invitations created the account, the account's email address is not proven, and the user has no
// data in another organization. A default organization that the user never used does not count.
func belongsTo(ctx context.Context, tx *sqlx.Tx, userID, org string) (bool, error) {
	var theirs bool
	err := tx.GetContext(ctx, &theirs, `SELECT coalesce(invited_to = $2, false) AND email_proven_at IS NULL AND NOT EXISTS (SELECT 1 FROM parley_holdings($1) WHERE id <> $2)
		FROM users WHERE id = $1`, userID, org)
	if err != nil {
		return false, fmt.Errorf("checking to which organization an account belongs: %w", err)
	}
	return theirs, nil
}

// UseReset uses a reset link. It sets the new password, ends all login sessions of the user,
// invalidates the user's other links and starts a new session. A link created by the operator also
// proves the address; the first such proof revokes the user's own API keys, because another person
// may have created them. UseReset returns not_found if the link is not valid.
func (s *Store) UseReset(ctx context.Context, tokenHash []byte, passwordHash string, login NewLogin) (Account, error) {
	var account Account
	attempt := func(tx *sqlx.Tx) error {
		user, operators, err := resetFor(ctx, tx, tokenHash)
		if err != nil {
			return err
		}

		if _, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $2 WHERE id = $1`, user.ID, passwordHash); err != nil {
			return fmt.Errorf("setting password: %w", err)
		}

		if err := checkScheme(ctx, tx, user.ID, user.Email, passwordHash); err != nil {
			return err
		}

		// The used link itself becomes void, too.
		if err := voidLinks(ctx, tx, user.ID); err != nil {
			return err
		}

		if operators {
			if err := proveByReset(ctx, tx, user); err != nil {
				return err
			}
		}

		// A person who knew the old password may still be logged in, so all login sessions end.
		if err := deleteLogins(ctx, tx, user.ID); err != nil {
			return err
		}

		account, err = logIn(ctx, tx, user.ID, login)
		return err
	}

	err := s.db.Tx(ctx, attempt)
	if pg.Violates(err, "users_email") {
		// If the first attempt fails because another account takes the address at the same time,
		// the second attempt sees that account.
		err = s.db.Tx(ctx, attempt)
	}

	return account, err
}

// proveByReset records that the operator has confirmed the address of a user. A displaced user gets
// the address back, unless another account has proven the address.
func proveByReset(ctx context.Context, tx *sqlx.Tx, user userRow) error {
	if user.Proven {
		return nil
	}

	if user.Displaced {
		holder, known, err := holderFor(ctx, tx, user.Email)
		switch {
		case err != nil:
			return err
		// Another account now has the address and has proven it. The user keeps the displaced
		// account, without the address.
		case known && holder.Proven:
			return nil
		case known:
			if err := displace(ctx, tx, holder); err != nil {
				return err
			}
		}
	}

	// Until now, the address was unproven. Another person may therefore have created the account
	// and its keys.
	if err := revokeUserKeys(ctx, tx, user.ID); err != nil {
		return err
	}

	return reclaim(ctx, tx, user.ID)
}
