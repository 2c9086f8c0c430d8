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

// organizationRow is an organization and, if a user's memberships were read, the user's role in it.
type organizationRow struct {
	ID        string      `db:"id"`
	Name      string      `db:"name"`
	Role      string      `db:"role"`
	CreatedAt domain.Time `db:"created_at"`
}

// organization converts the row without the role.
func (row organizationRow) organization() domain.Organization {
	return domain.Organization{ID: row.ID, Name: row.Name, CreatedAt: row.CreatedAt}
}

// membership converts a row with a role.
func (row organizationRow) membership() domain.Membership {
	return domain.Membership{Organization: row.organization(), Role: domain.Role(row.Role)}
}

// toMemberships converts rows that have a role.
func toMemberships(rows []organizationRow) []domain.Membership {
	out := make([]domain.Membership, len(rows))
	for i, row := range rows {
		out[i] = row.membership()
	}
	return out
}

// Organization returns an organization by id. It returns not_found if there is none.
func (s *Organizations) Organization(ctx context.Context, org string) (domain.Organization, error) {
	var out domain.Organization
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		var err error
		out, err = organization(ctx, tx, org)
		return err
	})
	return out, err
}

// organization reads an organization in a transaction that acts for it. It returns not_found if
// there is none.
func organization(ctx context.Context, tx *sqlx.Tx, org string) (domain.Organization, error) {
	var row organizationRow
	err := tx.GetContext(ctx, &row, `SELECT id, name, created_at FROM organizations WHERE id = $1`, org)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Organization{}, pg.NotFound()
	}
	if err != nil {
		return domain.Organization{}, fmt.Errorf("reading organization: %w", err)
	}
	return row.organization(), nil
}

// Memberships lists a user's organizations with the user's roles, oldest membership first. The
// first entry is the default organization.
func (s *Organizations) Memberships(ctx context.Context, userID string) ([]domain.Membership, error) {
	return memberships(ctx, s.db, userID)
}

// memberships is like Memberships, on a given connection or transaction.
func memberships(ctx context.Context, q sqlx.QueryerContext, userID string) ([]domain.Membership, error) {
	var rows []organizationRow
	if err := sqlx.SelectContext(ctx, q, &rows, `SELECT id, name, created_at, role FROM parley_memberships($1)`, userID); err != nil {
		return nil, fmt.Errorf("reading memberships: %w", err)
	}
	return toMemberships(rows), nil
}

// OrganizationsFor lists up to limit of a user's organizations, newest first. The argument after is
// the last id of the previous page.
func (s *Organizations) OrganizationsFor(ctx context.Context, userID, after string, limit int) ([]domain.Membership, error) {
	var rows []organizationRow
	err := s.db.SelectContext(ctx, &rows, `SELECT id, name, created_at, role FROM parley_memberships($1)
		WHERE $2 = '' OR id < $2 COLLATE "C" ORDER BY id COLLATE "C" DESC LIMIT $3`, userID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing organizations: %w", err)
	}
	return toMemberships(rows), nil
}

// MembershipIn returns a user's membership in an organization as a list of one, or an empty
// list if there is none.
func (s *Organizations) MembershipIn(ctx context.Context, userID, org string) ([]domain.Membership, error) {
	var rows []organizationRow
	err := s.db.SelectContext(ctx, &rows, `SELECT id, name, created_at, role FROM parley_memberships($1) WHERE id = $2`, userID, org)
	if err != nil {
		return nil, fmt.Errorf("reading membership: %w", err)
	}
	return toMemberships(rows), nil
}

// CreateOrganization creates an organization that the user owns. It returns conflict if a quota
// of the user is reached.
func (s *Organizations) CreateOrganization(ctx context.Context, userID, name string) (domain.Membership, error) {
	var org domain.Organization
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		if err := s.limits().checkOrganizationQuota(ctx, tx, userID); err != nil {
			return err
		}
		var err error
		org, err = createOrganization(ctx, tx, name, userID)
		return err
	})
	return domain.Membership{Organization: org, Role: domain.RoleOwner}, err
}

// RenameOrganization renames an organization. The actor must own it (permission_denied
// otherwise). It returns not_found if the actor is not a member.
func (s *Organizations) RenameOrganization(ctx context.Context, actor Actor, name string) (domain.Membership, error) {
	var row organizationRow
	err := withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		role, err := lockOrganization(ctx, tx, actor)
		if err != nil {
			return err
		}

		if !role.AtLeast(domain.RoleOwner) {
			return apierr.New(apierr.PermissionDenied, "only an owner may rename an organization")
		}

		err = tx.GetContext(ctx, &row, `UPDATE organizations SET name = $2 WHERE id = $1 RETURNING id, name, created_at`, actor.OrganizationID, name)
		if err != nil {
			return fmt.Errorf("renaming organization: %w", err)
		}

		row.Role = string(role)
		return nil
	})
	return row.membership(), err
}

// lockAccount locks the user, so that two concurrent first logins create only one organization. It
// returns the user and the default organization, which it creates if the user has no organization.
func lockAccount(ctx context.Context, tx *sqlx.Tx, userID string) (Account, error) {
	user, err := lockUser(ctx, tx, userID)
	if err != nil {
		return Account{}, err
	}

	// The oldest membership is the default organization.
	all, err := memberships(ctx, tx, userID)
	if err != nil {
		return Account{}, err
	}

	// Users created by the operator have no organization before their first login.
	if len(all) > 0 {
		return Account{User: user, Organization: all[0].Organization}, nil
	}

	org, err := createOrganization(ctx, tx, defaultName(user), userID)
	return Account{User: user, Organization: org}, err
}

// defaultName is the initial name of a user's default organization.
func defaultName(user domain.User) string { return user.Name + "'s organization" }

// createOrganization creates an organization that the user owner owns. Afterwards, the transaction
// acts only for that organization.
func createOrganization(ctx context.Context, tx *sqlx.Tx, name, owner string) (domain.Organization, error) {
	org := id.New(id.Organization)
	if err := pg.ActFor(ctx, tx, org); err != nil {
		return domain.Organization{}, err
	}
	var row organizationRow
	err := tx.GetContext(ctx, &row, `INSERT INTO organizations (id, name) VALUES ($1, $2) RETURNING id, name, created_at`, org, name)
	if err != nil {
		return domain.Organization{}, fmt.Errorf("creating organization: %w", err)
	}
	return row.organization(), addMembership(ctx, tx, org, owner, domain.RoleOwner)
}

// addMembership inserts a membership. If the user already is a member, the role does not change.
// The transaction must act for the organization.
func addMembership(ctx context.Context, tx *sqlx.Tx, org, userID string, role domain.Role) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, $3)
		ON CONFLICT (user_id, org_id) DO NOTHING`, org, userID, role)
	if err != nil {
		return fmt.Errorf("creating membership: %w", err)
	}
	return nil
}
