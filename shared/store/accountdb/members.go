package accountdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// Actor is the caller who changes an organization. It is either a user, whose role is read again
// after the organization is locked, or an organization's key, which has the role Role. KeyID or
// LoginID is the caller's API key or login session, which must still be valid.
type Actor struct {
	OrganizationID string
	UserID         string
	KeyID          string
	LoginID        string
	Role           domain.Role
}

// lockOrganization locks the memberships of the actor's organization, by locking the organization's
// row, and returns the actor's current role in it. It returns not_found if the actor has no role
// there, and unauthenticated if the actor's credential has ended.
func lockOrganization(ctx context.Context, tx *sqlx.Tx, actor Actor) (domain.Role, error) {
	role, err := lockStanding(ctx, tx, actor)
	if err == nil && role == "" {
		err = pg.NotFound()
	}
	return role, err
}

// lockStanding is like lockOrganization, except that it returns "" and not an error for an actor
// without a role.
func lockStanding(ctx context.Context, tx *sqlx.Tx, actor Actor) (domain.Role, error) {
	var known string

	// All changes of roles in an organization lock the organization's row first, so they happen one
	// after the other.
	err := tx.GetContext(ctx, &known, `SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE`, actor.OrganizationID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", pg.NotFound()
	}
	if err != nil {
		return "", fmt.Errorf("locking organization: %w", err)
	}
	if err := holdCredential(ctx, tx, actor); err != nil || actor.UserID == "" {
		return actor.Role, err
	}
	return memberRole(ctx, tx, actor.OrganizationID, actor.UserID)
}

// memberRole returns a user's role, or "" if the user is not a member.
func memberRole(ctx context.Context, tx *sqlx.Tx, org, userID string) (domain.Role, error) {
	var role string
	err := tx.GetContext(ctx, &role, `SELECT role FROM memberships WHERE org_id = $1 AND user_id = $2`, org, userID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading membership: %w", err)
	}
	return domain.Role(role), nil
}

// Member is an entry of an organization's list of members. At is its creation time; At and the id
// are its pagination cursor.
type Member struct {
	domain.Member
	At time.Time
}

// memberRow is a member or an invitation. Name is nil for an invitation.
type memberRow struct {
	ID        string    `db:"id"`
	Email     string    `db:"email"`
	Name      *string   `db:"name"`
	Role      string    `db:"role"`
	Status    string    `db:"status"`
	CreatedAt time.Time `db:"created_at"`
}

// member converts the row.
func (row memberRow) member() Member {
	return Member{At: row.CreatedAt, Member: domain.Member{
		ID: row.ID, Email: row.Email, Name: row.Name, Role: domain.Role(row.Role),
		Status: domain.MemberStatus(row.Status), CreatedAt: domain.At(row.CreatedAt),
	}}
}

// Members lists up to limit members and open invitations of an organization, newest first. An
// invitation that was created with an API key is not listed once that key has ended.
func (s *Organizations) Members(ctx context.Context, org string, after After, limit int) ([]Member, error) {
	var rows []memberRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.SelectContext(ctx, &rows, `SELECT id, email, name, role, status, created_at FROM (
				SELECT u.id, u.email, u.name, m.role, 'active' AS status, m.created_at
				FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1
				UNION ALL
				SELECT id, email, NULL, role, 'invited', created_at FROM invitations
				WHERE org_id = $1 AND expires_at > clock_timestamp() AND `+keyHolds+`
			) l WHERE $2 = '' OR (created_at, id) < ($3, $2 COLLATE "C") ORDER BY created_at DESC, id DESC LIMIT $4`,
			org, after.ID, after.At, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing members: %w", err)
	}

	out := make([]Member, len(rows))
	for i, row := range rows {
		out[i] = row.member()
	}

	return out, nil
}

// NewInvitation is the data of an invitation link to create: the SHA-256 of its token, and its
// expiry.
type NewInvitation struct {
	TokenHash []byte
	ExpiresAt time.Time
}

// AddMember invites an email address to a role in the actor's organization, whether or not an
// account with the address exists. The invitation replaces an earlier invitation, whose link
// becomes void. If the address belongs to a member, AddMember changes that member's role instead.
//
// Only an owner may call it (permission_denied). AddMember returns last_owner if the organization
// would have no owner left.
func (s *Organizations) AddMember(ctx context.Context, actor Actor, email string, role domain.Role, link NewInvitation) (Member, error) {
	var added Member
	err := withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		own, err := lockOrganization(ctx, tx, actor)
		if err != nil {
			return err
		}

		// Only owners may give roles to others. Otherwise an admin could become an owner.
		if !own.AtLeast(domain.RoleOwner) {
			return apierr.New(apierr.PermissionDenied, "only an owner may manage members")
		}

		// A displaced account with the address may also be a member, but the current holder of the
		// address takes precedence.
		var user userRow
		err = tx.GetContext(ctx, &user, `SELECT `+userColumns+` FROM users WHERE lower(email) = lower($1)
			AND id IN (SELECT user_id FROM memberships WHERE org_id = $2) ORDER BY displaced_at IS NOT NULL, id LIMIT 1`,
			email, actor.OrganizationID)
		if errors.Is(err, sql.ErrNoRows) {
			added, err = invite(ctx, tx, actor, email, role, link)
			return err
		}

		if err != nil {
			return fmt.Errorf("reading user: %w", err)
		}

		added, err = setRole(ctx, tx, actor.OrganizationID, user.user(), role)
		return err
	})
	return added, err
}

// invite inserts an invitation, or replaces the invitation for the same email address.
func invite(ctx context.Context, tx *sqlx.Tx, actor Actor, email string, role domain.Role, link NewInvitation) (Member, error) {
	var row memberRow
	err := tx.GetContext(ctx, &row, `INSERT INTO invitations (id, org_id, email, role, token_hash, expires_at, made_by, made_with)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (org_id, lower(email)) DO UPDATE SET email = excluded.email, role = excluded.role, token_hash = excluded.token_hash,
			expires_at = excluded.expires_at, made_by = excluded.made_by, made_with = excluded.made_with
		RETURNING id, email, NULL AS name, role, 'invited' AS status, created_at`,
		id.New(id.Invitation), actor.OrganizationID, email, role, link.TokenHash, link.ExpiresAt, actor.UserID, pg.Optional(actor.KeyID))
	if err != nil {
		return Member{}, fmt.Errorf("creating invitation: %w", err)
	}
	return row.member(), nil
}

// setRole changes a member's role, and deletes an open invitation to the member's address. It
// returns last_owner if no owner would be left. The caller must have locked the organization.
func setRole(ctx context.Context, tx *sqlx.Tx, org string, user domain.User, role domain.Role) (Member, error) {
	before, err := memberRole(ctx, tx, org, user.ID)
	if err != nil {
		return Member{}, err
	}

	// The last owner must not lose the role, because an organization without an owner could not be
	// managed any more.
	if before == domain.RoleOwner && role != domain.RoleOwner {
		if err := otherOwner(ctx, tx, org, user.ID); err != nil {
			return Member{}, err
		}
	}

	// Links that the member created with the higher role must not outlive that role.
	if before.AtLeast(domain.RoleAdmin) && !role.AtLeast(before) {
		if err := voidLinksBy(ctx, tx, org, user.ID); err != nil {
			return Member{}, err
		}
	}

	var at time.Time
	err = tx.GetContext(ctx, &at, `UPDATE memberships SET role = $3 WHERE org_id = $1 AND user_id = $2 RETURNING created_at`,
		org, user.ID, role)
	if err != nil {
		return Member{}, fmt.Errorf("setting role: %w", err)
	}

	if _, err := tx.ExecContext(ctx, `DELETE FROM invitations WHERE org_id = $1 AND lower(email) = lower($2)`, org, user.Email); err != nil {
		return Member{}, fmt.Errorf("deleting invitation: %w", err)
	}

	row := memberRow{user.ID, user.Email, &user.Name, string(role), string(domain.MemberActive), at}
	return row.member(), nil
}

// otherOwner returns last_owner unless another user also owns the organization.
func otherOwner(ctx context.Context, tx *sqlx.Tx, org, userID string) error {
	var others int
	err := tx.GetContext(ctx, &others, `SELECT count(*) FROM memberships WHERE org_id = $1 AND role = 'owner' AND user_id <> $2`, org, userID)
	if err != nil {
		return fmt.Errorf("counting owners: %w", err)
	}
	if others == 0 {
		return apierr.New(apierr.LastOwner, "the organization must have at least one owner")
	}
	return nil
}

// RemoveMember ends a membership or deletes an invitation. An owner may remove any entry, and
// any member may leave. It returns last_owner if no owner would be left, and last_organization
// if the user would belong to no organization.
func (s *Organizations) RemoveMember(ctx context.Context, actor Actor, entry string) error {
	return withinActor(ctx, s.db, actor, func(tx *sqlx.Tx) error {
		own, err := lockOrganization(ctx, tx, actor)
		if err != nil {
			return err
		}

		if strings.HasPrefix(entry, id.Invitation+"_") {
			return removeInvitation(ctx, tx, own, actor.OrganizationID, entry)
		}

		role, err := memberRole(ctx, tx, actor.OrganizationID, entry)
		switch {
		case err != nil:
			return err
		case role == "":
			return pg.NotFound()
		case entry != actor.UserID && !own.AtLeast(domain.RoleOwner):
			return apierr.New(apierr.PermissionDenied, "only an owner may remove other members")
		}

		return removeMembership(ctx, tx, actor.OrganizationID, entry, role)
	})
}

// removeMembership removes a member and voids the links that the member created. It returns
// last_owner or last_organization if that is not allowed.
func removeMembership(ctx context.Context, tx *sqlx.Tx, org, userID string, role domain.Role) error {
	if role == domain.RoleOwner {
		if err := otherOwner(ctx, tx, org, userID); err != nil {
			return err
		}
	}

	// The user may be leaving another organization concurrently, and must remain a member of one of
	// the two.
	if _, err := lockUser(ctx, tx, userID); err != nil {
		return err
	}

	all, err := memberships(ctx, tx, userID)
	if err != nil {
		return err
	}

	// A user must remain a member of at least one organization, because requests without an
	// organization act in the user's default organization.
	if len(all) < 2 {
		return apierr.New(apierr.LastOrganization, "a person cannot leave their last organization")
	}

	if err := voidLinksBy(ctx, tx, org, userID); err != nil {
		return err
	}

	if _, err := tx.ExecContext(ctx, `DELETE FROM memberships WHERE org_id = $1 AND user_id = $2`, org, userID); err != nil {
		return fmt.Errorf("removing member: %w", err)
	}

	return nil
}

// removeInvitation deletes an invitation. The argument own is the role of the actor, who must be an
// owner.
func removeInvitation(ctx context.Context, tx *sqlx.Tx, own domain.Role, org, entry string) error {
	var known bool
	err := tx.GetContext(ctx, &known, `SELECT EXISTS (SELECT FROM invitations WHERE org_id = $1 AND id = $2)`, org, entry)
	switch {
	case err != nil:
		return fmt.Errorf("reading invitation: %w", err)
	case !known:
		return pg.NotFound()
	case !own.AtLeast(domain.RoleOwner):
		return apierr.New(apierr.PermissionDenied, "only an owner may revoke an invitation")
	}

	if _, err := tx.ExecContext(ctx, `DELETE FROM invitations WHERE org_id = $1 AND id = $2`, org, entry); err != nil {
		return fmt.Errorf("deleting invitation: %w", err)
	}

	return nil
}
