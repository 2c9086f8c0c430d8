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
	"parley/shared/store/pg"
)

// Invitation returns the invitation to which a link's token belongs. It returns not_found if the
// token is unknown, used or expired.
func (s *Organizations) Invitation(ctx context.Context, tokenHash []byte) (domain.Invitation, error) {
	return invitation(ctx, s.db, tokenHash)
}

// invitation reads the open invitation to which a token belongs. It returns not_found if there is
// none. It locks nothing, so the invitation may be used concurrently.
func invitation(ctx context.Context, q sqlx.QueryerContext, tokenHash []byte) (domain.Invitation, error) {
	var row struct {
		ID           string `db:"id"`
		OrgID        string `db:"org_id"`
		Organization string `db:"organization"`
		Email        string `db:"email"`
		Role         string `db:"role"`
	}

	err := sqlx.GetContext(ctx, q, &row, `SELECT id, org_id, organization, email, role FROM parley_invitation($1)`, tokenHash)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Invitation{}, pg.NotFound()
	}
	if err != nil {
		return domain.Invitation{}, fmt.Errorf("reading invitation: %w", err)
	}

	return domain.Invitation{
		ID: row.ID, OrganizationID: row.OrgID, Organization: row.Organization, Email: row.Email, Role: domain.Role(row.Role),
	}, nil
}

// Join uses an invitation link for a user and logs the user in. It returns not_found if the
// invitation is for another email address, or if the API key that created the link has ended. A
// displaced account may use invitations for the address that it has lost. Join returns conflict if
// the user has reached the membership quota. After an error the link is still valid.
func (s *Store) Join(ctx context.Context, tokenHash []byte, userID string, login NewLogin) (Account, error) {
	var account Account
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		invited, err := takeInvitation(ctx, tx, tokenHash)
		if err != nil {
			return err
		}

		// An invitation is personal: no other account can become a member with its link.
		var same bool
		err = tx.GetContext(ctx, &same, `SELECT lower(email) = lower($2) FROM users WHERE id = $1`, userID, invited.Email)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("reading user: %w", err)
		}
		if !same {
			return pg.NotFound()
		}

		if err := s.limits().checkMembershipQuota(ctx, tx, userID, invited.OrganizationID); err != nil {
			return err
		}

		account, err = join(ctx, tx, invited, userID, login)
		return err
	})
	return account, err
}

// JoinNew is like Join, for a person who has no account with the address. It creates the account,
// the membership, and then the person's default organization. If an account has proven the address,
// JoinNew returns email_taken. If an account has the address without proof, that account is
// displaced and named in the result.
func (s *Store) JoinNew(ctx context.Context, tokenHash []byte, name, passwordHash string, login NewLogin) (Account, error) {
	var account Account
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		invited, err := takeInvitation(ctx, tx, tokenHash)
		if err != nil {
			return err
		}

		before, known, err := holderFor(ctx, tx, invited.Email)
		if err != nil {
			return err
		}

		// Neither the inviter nor the existing account has proven the address, so the displaced
		// account keeps its data.
		if known {
			if err := displace(ctx, tx, before); err != nil {
				return err
			}
		}

		// The account stores which organization has invited it, because that organization may reset
		// its password.
		made := NewUser{Email: invited.Email, Name: name, PasswordHash: passwordHash, invitedTo: invited.OrganizationID}
		user, err := createUser(ctx, tx, made)
		if err != nil {
			return err
		}

		if account, err = join(ctx, tx, invited, user.ID, login); err != nil {
			return err
		}

		account.Before = before.ID
		_, err = createOrganization(ctx, tx, defaultName(user), user.ID)
		return err
	})
	return account, err
}

// OwnInvitation is an open invitation to the caller's own email address, with its pagination
// cursor.
type OwnInvitation struct {
	ID           string
	Organization domain.OrganizationName
	Role         domain.Role
	ExpiresAt    domain.Time
	At           time.Time
}

// ownInvitationRow is a row of parley_own_invitations.
type ownInvitationRow struct {
	ID           string      `db:"id"`
	OrgID        string      `db:"org_id"`
	Organization string      `db:"organization"`
	Role         string      `db:"role"`
	CreatedAt    time.Time   `db:"created_at"`
	ExpiresAt    domain.Time `db:"expires_at"`
}

// invitation converts the row.
func (row ownInvitationRow) invitation() OwnInvitation {
	return OwnInvitation{
		ID: row.ID, Organization: domain.OrganizationName{ID: row.OrgID, Name: row.Organization},
		Role: domain.Role(row.Role), ExpiresAt: row.ExpiresAt, At: row.CreatedAt,
	}
}

// ownInvitationColumns are the columns of an ownInvitationRow.
const ownInvitationColumns = `id, org_id, organization, role, created_at, expires_at`

// OwnInvitations lists up to limit open invitations to a user's email address, newest first. It
// returns permission_denied unless the address is proven, because anyone can create an account with
// an address that is not theirs.
func (s *Organizations) OwnInvitations(ctx context.Context, userID string, after After, limit int) ([]OwnInvitation, error) {
	var rows []ownInvitationRow
	err := s.db.WithinUser(ctx, "", userID, func(tx *sqlx.Tx) error {
		if err := holdsAddress(ctx, tx, userID); err != nil {
			return err
		}
		err := tx.SelectContext(ctx, &rows, `SELECT `+ownInvitationColumns+` FROM parley_own_invitations()
			WHERE $1 = '' OR (created_at, id COLLATE "C") < ($2, $1 COLLATE "C") ORDER BY created_at DESC, id COLLATE "C" DESC LIMIT $3`,
			after.ID, after.At, limit)
		return wrap("listing invitations", err)
	})

	out := make([]OwnInvitation, len(rows))
	for i, row := range rows {
		out[i] = row.invitation()
	}

	return out, err
}

// OwnInvitation returns the open invitation with the id, if it is for the user's email address. Its
// errors are those of AnswerInvitation.
func (s *Organizations) OwnInvitation(ctx context.Context, userID, invitationID string) (OwnInvitation, error) {
	var row ownInvitationRow
	err := s.db.WithinUser(ctx, "", userID, func(tx *sqlx.Tx) error {
		if err := holdsAddress(ctx, tx, userID); err != nil {
			return err
		}
		err := tx.GetContext(ctx, &row, `SELECT `+ownInvitationColumns+` FROM parley_own_invitations() WHERE id = $1`, invitationID)
		return pg.OneRow(err, "reading invitation")
	})
	return row.invitation(), err
}

// holdsAddress returns permission_denied unless a user's email address is proven and no other
// account has taken it over.
func holdsAddress(ctx context.Context, tx *sqlx.Tx, userID string) error {
	holds, err := holdsProven(ctx, tx, userID)
	if err == nil && !holds {
		err = apierr.New(apierr.PermissionDenied, "the email address of this account is not verified: accept the invitation through its link")
	}
	return err
}

// AnswerInvitation accepts or declines an invitation to a user's email address, and deletes the
// invitation. If the argument accept is true, the user becomes a member. loginID is the user's
// login session, which must not have ended. AnswerInvitation returns not_found if the invitation is
// for another address, and permission_denied unless the address is proven.
func (s *Organizations) AnswerInvitation(ctx context.Context, userID, loginID, invitationID string, accept bool) (OwnInvitation, error) {
	var row ownInvitationRow
	err := s.db.WithinUser(ctx, "", userID, func(tx *sqlx.Tx) error {
		// The user is locked before the login session, as in logIn.
		if _, err := lockUser(ctx, tx, userID); err != nil {
			return err
		}

		if err := holdLogin(ctx, tx, userID, loginID); err != nil {
			return err
		}

		if err := holdsAddress(ctx, tx, userID); err != nil {
			return err
		}

		err := tx.GetContext(ctx, &row, `SELECT `+ownInvitationColumns+` FROM parley_own_invitations() WHERE id = $1`, invitationID)
		if errors.Is(err, sql.ErrNoRows) {
			return pg.NotFound()
		}
		if err != nil {
			return fmt.Errorf("reading invitation: %w", err)
		}

		// From here on, the transaction acts for the inviting organization, so it can see and
		// change the organization's rows.
		if err := pg.ActFor(ctx, tx, row.OrgID); err != nil {
			return err
		}

		role, err := spendInvitation(ctx, tx, `id = $1`, invitationID)
		if err != nil || !accept {
			return err
		}

		if err := s.limits().checkMembershipQuota(ctx, tx, userID, row.OrgID); err != nil {
			return err
		}

		// The role in the invitation may have changed since the invitation was read.
		row.Role = string(role)
		return addMembership(ctx, tx, row.OrgID, userID, role)
	})
	return row.invitation(), err
}

// DeclineByLink deletes the invitation to which a link belongs. It returns not_found if the link is
// not valid.
func (s *Organizations) DeclineByLink(ctx context.Context, tokenHash []byte) error {
	return s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		_, err := takeInvitation(ctx, tx, tokenHash)
		return err
	})
}

// takeInvitation deletes an invitation, so that its link works only once. Afterwards, the
// transaction acts for the inviting organization.
func takeInvitation(ctx context.Context, tx *sqlx.Tx, tokenHash []byte) (domain.Invitation, error) {
	invited, err := invitation(ctx, tx, tokenHash)
	if err != nil {
		return invited, err
	}
	// The rows of the organization are visible only to transactions that act for it.
	if err := pg.ActFor(ctx, tx, invited.OrganizationID); err != nil {
		return invited, err
	}
	invited.Role, err = spendInvitation(ctx, tx, `token_hash = $1`, tokenHash)
	return invited, err
}

// spendInvitation deletes an invitation of the transaction's organization and returns its current
// role. If two transactions use an invitation concurrently, the second waits for the first and then
// returns not_found.
func spendInvitation(ctx context.Context, tx *sqlx.Tx, where string, arg any) (domain.Role, error) {
	var role domain.Role
	err := tx.GetContext(ctx, &role, `DELETE FROM invitations WHERE `+where+` RETURNING role`, arg)
	if errors.Is(err, sql.ErrNoRows) {
		return "", pg.NotFound()
	}
	return role, wrap("spending invitation", err)
}

// join adds the user to the inviting organization and logs the user in. The returned Account has
// that organization.
func join(ctx context.Context, tx *sqlx.Tx, invited domain.Invitation, userID string, login NewLogin) (Account, error) {
	if err := addMembership(ctx, tx, invited.OrganizationID, userID, invited.Role); err != nil {
		return Account{}, err
	}
	org, err := organization(ctx, tx, invited.OrganizationID)
	if err != nil {
		return Account{}, err
	}
	account, err := logIn(ctx, tx, userID, login)
	account.Organization = org
	return account, err
}
