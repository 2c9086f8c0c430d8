package accountdb

import (
	"context"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// Key returns one of the keys that the filter selects, in the form that lists show. It returns
// not_found if no key has this id.
func (s *Organizations) Key(ctx context.Context, f KeyFilter, keyID string) (domain.APIKey, error) {
	var row keyRow
	err := s.db.WithinUser(ctx, f.OrganizationID, f.UserID, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT `+keyColumns+` FROM api_keys WHERE`+keyVisible+`AND id = $3`, f.OrganizationID, f.UserID, keyID)
	})
	return row.key(), pg.OneRow(err, "reading API key")
}

// Member returns a member or an open invitation of an organization by its id. It returns not_found
// if there is no such entry.
func (s *Organizations) Member(ctx context.Context, org, entry string) (Member, error) {
	var row memberRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &row, `SELECT u.id, u.email, u.name, m.role, 'active' AS status, m.created_at
				FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1 AND u.id = $2
				UNION ALL
				SELECT id, email, NULL, role, 'invited', created_at FROM invitations
				WHERE org_id = $1 AND id = $2 AND expires_at > clock_timestamp() AND `+keyHolds, org, entry)
	})
	return row.member(), pg.OneRow(err, "reading member")
}

// Login returns an open login session of a user by its id, and marks it as current if its token
// hash equals the argument current. It returns not_found if there is no such session.
func (s *Store) Login(ctx context.Context, userID string, current []byte, loginID string) (domain.LoginSession, error) {
	var row loginRow
	err := s.db.GetContext(ctx, &row, `SELECT `+loginColumns+`
		FROM login_sessions WHERE user_id = $1 AND id = $3 AND expires_at > clock_timestamp()`, userID, current, loginID)
	return row.login(), pg.OneRow(err, "reading login session")
}
