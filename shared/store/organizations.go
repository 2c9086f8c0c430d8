package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/id"
)

type organizationRow struct {
	ID        string      `db:"id"`
	Name      string      `db:"name"`
	Role      string      `db:"role"`
	CreatedAt domain.Time `db:"created_at"`
}

func (row organizationRow) organization() domain.Organization {
	return domain.Organization{ID: row.ID, Name: row.Name, CreatedAt: row.CreatedAt}
}

// Organization gives an organization by id; not_found when there is none.
func (s *Store) Organization(ctx context.Context, org string) (domain.Organization, error) {
	var row organizationRow
	err := s.db.GetContext(ctx, &row, `SELECT id, name, created_at FROM organizations WHERE id = $1`, org)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Organization{}, notFound()
	}
	if err != nil {
		return domain.Organization{}, fmt.Errorf("reading organization: %w", err)
	}
	return row.organization(), nil
}

// Memberships lists a user's organizations with their role there, the oldest membership first:
// that one is the default.
func (s *Store) Memberships(ctx context.Context, userID string) ([]domain.Membership, error) {
	return memberships(ctx, s.db, userID)
}

const membershipsQuery = `SELECT o.id, o.name, o.created_at, m.role
	FROM memberships m JOIN organizations o ON o.id = m.org_id
	WHERE m.user_id = $1 ORDER BY m.created_at, m.org_id`

func memberships(ctx context.Context, q sqlx.QueryerContext, userID string) ([]domain.Membership, error) {
	var rows []organizationRow
	if err := sqlx.SelectContext(ctx, q, &rows, membershipsQuery, userID); err != nil {
		return nil, fmt.Errorf("reading memberships: %w", err)
	}
	out := make([]domain.Membership, len(rows))
	for i, row := range rows {
		out[i] = domain.Membership{Organization: row.organization(), Role: domain.Role(row.Role)}
	}
	return out, nil
}

// EnsureOrganization gives the user's default organization, and makes one that they own when they
// have none.
func (s *Store) EnsureOrganization(ctx context.Context, userID string) (domain.Organization, error) {
	var account Account
	err := s.tx(ctx, func(tx *sqlx.Tx) error {
		var err error
		account, err = lockAccount(ctx, tx, userID)
		return err
	})
	return account.Organization, err
}

// lockAccount locks the user, so that two first logins at once make one organization.
func lockAccount(ctx context.Context, tx *sqlx.Tx, userID string) (Account, error) {
	var row userRow
	err := tx.GetContext(ctx, &row, `SELECT `+userColumns+` FROM users WHERE id = $1 FOR UPDATE`, userID)
	if errors.Is(err, sql.ErrNoRows) {
		return Account{}, notFound()
	}
	if err != nil {
		return Account{}, fmt.Errorf("locking user: %w", err)
	}
	all, err := memberships(ctx, tx, userID)
	if err != nil {
		return Account{}, err
	}
	if len(all) > 0 {
		return Account{User: row.user(), Organization: all[0].Organization}, nil
	}
	org, err := createOrganization(ctx, tx, row.Name+"'s organization", userID)
	return Account{User: row.user(), Organization: org}, err
}

func createOrganization(ctx context.Context, tx *sqlx.Tx, name, owner string) (domain.Organization, error) {
	var row organizationRow
	err := tx.GetContext(ctx, &row, `INSERT INTO organizations (id, name) VALUES ($1, $2) RETURNING id, name, created_at`,
		id.New(id.Organization), name)
	if err != nil {
		return domain.Organization{}, fmt.Errorf("creating organization: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, $3)`,
		row.ID, owner, domain.RoleOwner)
	if err != nil {
		return domain.Organization{}, fmt.Errorf("creating membership: %w", err)
	}
	return row.organization(), nil
}
