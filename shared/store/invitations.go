package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
)

// Invitation gives what a link's token stands for; not_found when it is unknown, was used or has ended.
func (s *Store) Invitation(ctx context.Context, tokenHash []byte) (domain.Invitation, error) {
	return invitation(ctx, s.db, tokenHash)
}

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
		return domain.Invitation{}, notFound()
	}
	if err != nil {
		return domain.Invitation{}, fmt.Errorf("reading invitation: %w", err)
	}
	return domain.Invitation{
		ID: row.ID, OrganizationID: row.OrgID, Organization: row.Organization, Email: row.Email, Role: domain.Role(row.Role),
	}, nil
}

// Join spends an invitation's link for the user of that id, and logs them in. It is for them only if their
// address is the invited one: not_found otherwise, also when the link was made with an API key that has ended. conflict when they belong to as many organizations as they may.
func (s *Store) Join(ctx context.Context, tokenHash []byte, userID string, login NewLogin) (Account, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		invited, err := takeInvitation(ctx, tx, tokenHash)
		if err != nil {
			return err
		}
		var same bool
		err = tx.GetContext(ctx, &same, `SELECT lower(email) = lower($2) FROM users WHERE id = $1`, userID, invited.Email)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("reading user: %w", err)
		}
		if !same {
			return notFound()
		}
		if err := s.roomForMembership(ctx, tx, userID, invited.OrganizationID); err != nil {
			return err
		}
		account, err = join(ctx, tx, invited, userID, login)
		return err
	})
	return account, err
}

// JoinNew is Join for an address without an account: it makes one, and their default organization after
// the membership, which is the older one. email_taken when the address got an account meanwhile.
func (s *Store) JoinNew(ctx context.Context, tokenHash []byte, name, passwordHash string, login NewLogin) (Account, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		invited, err := takeInvitation(ctx, tx, tokenHash)
		if err != nil {
			return err
		}
		made := NewUser{Email: invited.Email, Name: name, PasswordHash: passwordHash, invitedTo: invited.OrganizationID}
		user, err := createUser(ctx, tx, made)
		if err != nil {
			return err
		}
		if account, err = join(ctx, tx, invited, user.ID, login); err != nil {
			return err
		}
		_, err = createOrganization(ctx, tx, defaultName(user), user.ID)
		return err
	})
	return account, err
}

// takeInvitation deletes an invitation, so that its link works once, and acts for its organization.
func takeInvitation(ctx context.Context, tx *sqlx.Tx, tokenHash []byte) (domain.Invitation, error) {
	invited, err := invitation(ctx, tx, tokenHash)
	if err != nil {
		return invited, err
	}
	if err := actFor(ctx, tx, invited.OrganizationID); err != nil {
		return invited, err
	}
	// Whoever comes second waits here for the first one, and finds nothing. The role is that of the row as it is now.
	err = tx.GetContext(ctx, &invited.Role, `DELETE FROM invitations WHERE token_hash = $1 RETURNING role`, tokenHash)
	if errors.Is(err, sql.ErrNoRows) {
		return invited, notFound()
	}
	if err != nil {
		return invited, fmt.Errorf("spending invitation: %w", err)
	}
	return invited, nil
}

// join adds the user and logs them in; the account's organization is the inviting one.
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
