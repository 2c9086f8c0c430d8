package notificationdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/pg"
)

// MaxEndpoints is the default maximum number of notification endpoints of an organization.
const MaxEndpoints = 10

// NewEndpoint is a notification endpoint to create. The caller validates the URL and the events,
// and seals the secret for this endpoint.
type NewEndpoint struct {
	OrganizationID string
	ID             string
	URL            string
	Description    string
	Events         []string
	AgentID        *string // an agent of the organization; nil: all agents
	Enabled        bool
	SealedSecret   string
}

// EndpointChange is a change to an endpoint. A nil field leaves the corresponding value unchanged.
// Enabling a disabled endpoint resets its count of failures.
type EndpointChange struct {
	URL, Description *string
	Events           []string
	AgentID          **string
	Enabled          *bool
	SealedSecret     *string       // replaces the current secret
	KeepPrevious     time.Duration // time for which notifications are also signed with the old secret
}

// endpointRow is a row of endpointColumns.
type endpointRow struct {
	ID             string         `db:"id"`
	URL            string         `db:"url"`
	Description    string         `db:"description"`
	Events         pq.StringArray `db:"events"`
	AgentID        *string        `db:"agent_id"`
	Enabled        bool           `db:"enabled"`
	DisabledReason *string        `db:"disabled_reason"`
	DisabledAt     *domain.Time   `db:"disabled_at"`
	PreviousUntil  *domain.Time   `db:"previous_until"`
	Failures       int            `db:"failures"` // consecutive failed attempts
	LastSuccessAt  *domain.Time   `db:"last_success_at"`
	CreatedAt      domain.Time    `db:"created_at"`
	UpdatedAt      domain.Time    `db:"updated_at"`
}

// endpointColumns lists the columns of an endpointRow. The time until which the previous secret is
// valid is null if that time has passed.
const endpointColumns = `id, url, description, events, agent_id, enabled, disabled_reason, disabled_at,
	CASE WHEN previous_until > clock_timestamp() THEN previous_until END AS previous_until, failures, last_success_at, created_at, updated_at`

// hiddenSecret is shown instead of a secret.
const hiddenSecret = "***"

// endpoint converts the row, with its secret hidden.
func (row *endpointRow) endpoint() domain.NotificationEndpoint {
	return domain.NotificationEndpoint{
		ID: row.ID, URL: row.URL, Description: row.Description, Events: row.Events, AgentID: row.AgentID, Enabled: row.Enabled,
		DisabledReason: row.DisabledReason, DisabledAt: row.DisabledAt, Secret: hiddenSecret, PreviousUntil: row.PreviousUntil,
		Failures: row.Failures, LastSuccessAt: row.LastSuccessAt, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}

// CreateEndpoint stores an endpoint and returns it with a hidden secret. It returns conflict if the
// organization already has the maximum number of endpoints. If the agent does not belong to the
// organization, the error is about agentId.
func (s *Store) CreateEndpoint(ctx context.Context, e NewEndpoint, maximum int) (domain.NotificationEndpoint, error) {
	var row endpointRow
	err := s.db.Within(ctx, []string{e.OrganizationID}, func(tx *sqlx.Tx) error {
		if err := checkEndpointQuota(ctx, tx, e.OrganizationID, maximum); err != nil {
			return err
		}
		// The foreign key is not a sufficient check, because it also accepts a deleted agent.
		if err := checkEndpointAgent(ctx, tx, e.OrganizationID, e.AgentID); err != nil {
			return err
		}
		return tx.GetContext(ctx, &row, `INSERT INTO notification_endpoints
			(id, org_id, url, description, events, agent_id, enabled, disabled_at, secret)
			VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN NOT $7 THEN clock_timestamp() END, $8) RETURNING `+endpointColumns,
			e.ID, e.OrganizationID, e.URL, e.Description, pq.Array(e.Events), e.AgentID, e.Enabled, e.SealedSecret)
	})
	if err != nil {
		return domain.NotificationEndpoint{}, fmt.Errorf("creating endpoint: %w", err)
	}

	return row.endpoint(), nil
}

// checkEndpointQuota returns a conflict error if the organization already has the maximum number of
// endpoints. It locks the organization's endpoints against concurrent creation.
func checkEndpointQuota(ctx context.Context, tx *sqlx.Tx, org string, maximum int) error {
	if err := pg.AdvisoryLock(ctx, tx, "notification endpoints "+org); err != nil {
		return err
	}
	return pg.CheckQuota(ctx, tx, maximum, "endpoint quota of the organization exceeded (%d); delete an endpoint first",
		`SELECT count(*) FROM notification_endpoints WHERE org_id = $1 AND deleted_at IS NULL`, org)
}

// checkEndpointAgent returns an error for agentId if the organization has no such agent. A nil
// agentID is valid.
func checkEndpointAgent(ctx context.Context, tx *sqlx.Tx, org string, agentID *string) error {
	if agentID == nil {
		return nil
	}
	var one int
	err := tx.GetContext(ctx, &one, `SELECT 1 FROM agents WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`, *agentID, org)
	if errors.Is(err, sql.ErrNoRows) {
		return apierr.Invalid("agentId", "invalid_value", "is not an agent of this organization")
	}
	return err
}

// Endpoints lists up to limit endpoints of an organization, newest first. If the argument after is
// not empty, it is the last id of the previous page.
func (s *Store) Endpoints(ctx context.Context, org, after string, limit int) ([]domain.NotificationEndpoint, error) {
	var rows []endpointRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT `+endpointColumns+` FROM notification_endpoints
			WHERE org_id = $1 AND deleted_at IS NULL AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3`, org, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}

	out := make([]domain.NotificationEndpoint, len(rows))
	for i := range rows {
		out[i] = rows[i].endpoint()
	}

	return out, nil
}

// Endpoint returns an endpoint of an organization. It returns not_found if no endpoint has this id.
func (s *Store) Endpoint(ctx context.Context, org, id string) (domain.NotificationEndpoint, error) {
	return s.oneEndpoint(ctx, org, func(ctx context.Context, tx *sqlx.Tx, row *endpointRow) error {
		return tx.GetContext(ctx, row, `SELECT `+endpointColumns+` FROM notification_endpoints
			WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`, id, org)
	})
}

// UpdateEndpoint changes an endpoint of an organization and returns it as stored. It returns
// not_found if no endpoint has this id, and the same error about agentId as CreateEndpoint. Pending
// notifications are sent to the new URL.
func (s *Store) UpdateEndpoint(ctx context.Context, org, id string, c EndpointChange) (domain.NotificationEndpoint, error) {
	// A pointer to nil selects all agents.
	var agent *string
	if c.AgentID != nil {
		agent = *c.AgentID
	}

	return s.oneEndpoint(ctx, org, func(ctx context.Context, tx *sqlx.Tx, row *endpointRow) error {
		if err := checkEndpointAgent(ctx, tx, org, agent); err != nil {
			return err
		}

		return tx.GetContext(ctx, row, `UPDATE notification_endpoints SET url = coalesce($3, url), description = coalesce($4, description),
			events = coalesce($5, events), agent_id = CASE WHEN $6 THEN $7 ELSE agent_id END,
			failures = CASE WHEN $8 AND NOT enabled THEN 0 ELSE failures END,
			failing_since = CASE WHEN $8 AND NOT enabled THEN NULL ELSE failing_since END,
			disabled_reason = CASE WHEN $8 IS NULL THEN disabled_reason WHEN NOT $8 AND NOT enabled THEN disabled_reason END,
			disabled_at = CASE WHEN coalesce($8, enabled) THEN NULL WHEN enabled THEN clock_timestamp() ELSE disabled_at END,
			enabled = coalesce($8, enabled),
			previous_secret = CASE WHEN $9::text IS NULL THEN previous_secret WHEN $10::interval > interval '0' THEN secret END,
			previous_until = CASE WHEN $9::text IS NULL THEN previous_until
			  WHEN $10::interval > interval '0' THEN clock_timestamp() + $10::interval END,
			secret = coalesce($9, secret), updated_at = clock_timestamp()
			WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL RETURNING `+endpointColumns,
			id, org, c.URL, c.Description, pq.Array(c.Events), c.AgentID != nil, agent, c.Enabled, c.SealedSecret, pg.Interval(c.KeepPrevious))
	})
}

// oneEndpoint calls read in a transaction and converts the row that read returns. It returns
// not_found if there is no row. read may be called again if the transaction is retried.
func (s *Store) oneEndpoint(
	ctx context.Context, org string, read func(context.Context, *sqlx.Tx, *endpointRow) error,
) (domain.NotificationEndpoint, error) {
	var row endpointRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return read(ctx, tx, &row) })
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NotificationEndpoint{}, pg.NotFound()
	}
	if err != nil {
		return domain.NotificationEndpoint{}, fmt.Errorf("with endpoint: %w", err)
	}
	return row.endpoint(), nil
}

// DeleteEndpoint deletes an endpoint of an organization. No more notifications are sent to the
// endpoint, and the sweeper removes its notifications. It returns not_found if no endpoint has this
// id.
func (s *Store) DeleteEndpoint(ctx context.Context, org, id string) error {
	found := false
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) (err error) {
		// The row stays, because notifications refer to it until the sweeper has removed them.
		found, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE notification_endpoints SET deleted_at = clock_timestamp(), enabled = false,
			url = '', description = '', secret = '', previous_secret = NULL WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL`, id, org))
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting endpoint: %w", err)
	}

	if !found {
		return pg.NotFound()
	}

	return nil
}
