package notificationdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// notificationRow is a row of notificationColumns. Data, from which the payload is made, is null if
// it was not read or no longer exists.
type notificationRow struct {
	ID            string         `db:"id"`
	EndpointID    string         `db:"endpoint_id"`
	Event         string         `db:"event"`
	Status        string         `db:"status"`
	Attempts      int            `db:"attempts"`
	ResponseCode  *int           `db:"response_status"`
	Error         *string        `db:"error"`
	NextAttemptAt *domain.Time   `db:"next_attempt_at"`
	CreatedAt     domain.Time    `db:"created_at"`
	DeliveredAt   *domain.Time   `db:"delivered_at"`
	Data          sql.NullString `db:"data"`
}

// notificationColumns are the columns of a notificationRow without its data, from notifications n.
// Only a pending notification has a next attempt.
const notificationColumns = `n.id, n.endpoint_id, n.event, n.status, n.attempts, n.response_status, n.error,
	CASE WHEN n.status = 'pending' THEN n.next_attempt_at END AS next_attempt_at, n.created_at, n.delivered_at`

// notificationFrom is the FROM clause for notifications. It omits notifications to deleted
// endpoints.
const notificationFrom = ` FROM notifications n JOIN notification_endpoints e ON e.id = n.endpoint_id AND e.org_id = n.org_id AND e.deleted_at IS NULL
	WHERE n.org_id = $1 `

// subjectExists is the SQL condition that the subject of a notification still exists. The data
// about a run can be read only as long as the run itself.
const (
	subjectExists    = `(n.event NOT LIKE 'run.%' OR EXISTS (SELECT FROM runs r WHERE r.id = n.subject_id AND` + rundb.RunLive + `))`
	notificationData = `CASE WHEN ` + subjectExists + ` THEN n.data END AS data`
)

// notification converts the row.
func (row *notificationRow) notification() domain.Notification {
	out := domain.Notification{
		ID: row.ID, EndpointID: row.EndpointID, Event: row.Event, Status: domain.NotificationStatus(row.Status), Attempts: row.Attempts,
		ResponseCode: row.ResponseCode, Error: row.Error, NextAttemptAt: row.NextAttemptAt,
		CreatedAt: row.CreatedAt, DeliveredAt: row.DeliveredAt,
	}
	if row.Data.Valid {
		out.Payload = NotificationPayload(row.Event, row.CreatedAt, []byte(row.Data.String))
	}
	return out
}

// NotificationPayload is the body of a notification: the event, its time, and the run, the document
// or, for a test, the endpoint. data is the JSON of that object. If a run is larger than
// maxPayload, the inputs and outputs of its tool calls are omitted.
func NotificationPayload(event string, at domain.Time, data []byte) []byte {
	// A large run is shortened, because the receiver can read the whole run through the API.
	if len(data) > maxPayload {
		data = omitToolData(data)
	}
	quoted, _ := at.MarshalJSON() // never fails
	return slices.Concat([]byte(`{"type":"`+event+`","timestamp":`), quoted, []byte(`,"data":`), data, []byte("}"))
}

// maxPayload is the size in bytes above which a run is shortened.
const maxPayload = 256 << 10

// omitToolData removes the inputs and outputs of the tool calls of a run object. It returns
// other data unchanged.
func omitToolData(data []byte) []byte {
	var run domain.Run
	// If the data is not a run, it is a document or an endpoint, which is never that large.
	if json.Unmarshal(data, &run) != nil || run.ID == "" {
		return data
	}
	for i := range run.ToolCalls {
		run.ToolCalls[i].Input, run.ToolCalls[i].Output = json.RawMessage("null"), json.RawMessage("null")
	}
	short, err := run.Render()
	if err != nil {
		return data
	}
	return short
}

// NotificationFilter narrows a list of notifications. A notification must satisfy both conditions.
// Zero fields are ignored.
type NotificationFilter struct {
	EndpointID string
	Status     domain.NotificationStatus
}

// Notifications lists up to limit notifications of an organization, newest first, without their
// payloads. If the argument after is not empty, it is the last id of the previous page.
func (s *Store) Notifications(
	ctx context.Context, org string, f NotificationFilter, after string, limit int,
) ([]domain.Notification, error) {
	query, args := `SELECT `+notificationColumns+notificationFrom, []any{org}
	add := func(condition string, arg any) {
		args = append(args, arg)
		query += fmt.Sprintf(" AND "+condition, len(args))
	}
	if f.EndpointID != "" {
		add(`n.endpoint_id = $%d`, f.EndpointID)
	}

	if f.Status != "" {
		add(`n.status = $%d`, string(f.Status))
	}

	// With this condition, PostgreSQL can use the partial index of undelivered notifications.
	if f.Status != "" && f.Status != domain.NotificationDelivered { // delivered notifications are not in the index
		query += ` AND n.status <> 'delivered'`
	}

	if after != "" {
		add(`n.id < $%d`, after)
	}

	args = append(args, limit)
	query += fmt.Sprintf(` ORDER BY n.id DESC LIMIT $%d`, len(args))
	var rows []notificationRow
	err := s.db.WithinPage(ctx, org, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, query, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("listing notifications: %w", err)
	}

	out := make([]domain.Notification, len(rows))
	for i := range rows {
		out[i] = rows[i].notification()
	}

	return out, nil
}

// Notification returns a notification of an organization, with its payload if the payload is still
// stored. It returns not_found if no notification has this id.
func (s *Store) Notification(ctx context.Context, org, id string) (domain.Notification, error) {
	return s.oneNotification(ctx, org, func(tx *sqlx.Tx, row *notificationRow) error {
		return tx.GetContext(ctx, row, `SELECT `+notificationColumns+`, `+notificationData+notificationFrom+`AND n.id = $2`, org, id)
	})
}

// oneNotification calls read in a transaction and converts the row that read returns. It returns
// not_found if there is no row.
func (s *Store) oneNotification(
	ctx context.Context, org string, read func(*sqlx.Tx, *notificationRow) error,
) (domain.Notification, error) {
	var row notificationRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error { return read(tx, &row) })
	if errors.Is(err, sql.ErrNoRows) {
		return domain.Notification{}, pg.NotFound()
	}
	if err != nil {
		return domain.Notification{}, fmt.Errorf("with notification: %w", err)
	}
	return row.notification(), nil
}

// ResendNotification schedules a notification to be sent again with the same id. A pending
// notification is sent immediately. ResendNotification returns not_found if no notification has
// this id, and erased if the payload is no longer stored.
func (s *Store) ResendNotification(ctx context.Context, org, id string) (domain.Notification, error) {
	return s.oneNotification(ctx, org, func(tx *sqlx.Tx, row *notificationRow) error {
		err := tx.GetContext(ctx, row, `SELECT `+notificationColumns+`, CASE WHEN `+subjectExists+` THEN coalesce(n.data, n.source) END AS data`+notificationFrom+
			`AND n.id = $2 FOR UPDATE OF n`, org, id)
		if err != nil {
			return err
		}

		// The run's retention period has ended since the notification was created, so there is no
		// payload any more.
		if !row.Data.Valid {
			return apierr.New(apierr.Erased, "the payload of this notification is no longer stored")
		}
		return tx.GetContext(ctx, row, `UPDATE notifications n SET status = 'pending', delivered_at = NULL,
			attempts = CASE WHEN status = 'pending' THEN attempts ELSE 0 END,
			next_attempt_at = CASE WHEN lease_until > clock_timestamp() THEN next_attempt_at ELSE clock_timestamp() END
			WHERE n.id = $2 AND n.org_id = $1 RETURNING `+notificationColumns+`, `+notificationData, org, id)
	})
}

// TestEndpoint creates one ping to an endpoint, which a worker sends even if the endpoint is
// disabled. TestEndpoint returns the pending ping, or not_found if no endpoint has this id.
func (s *Store) TestEndpoint(ctx context.Context, org, endpointID string) (domain.Notification, error) {
	ping := id.New(id.Notification)
	data, err := json.Marshal(struct {
		EndpointID string `json:"endpointId"`
	}{endpointID})
	if err != nil {
		return domain.Notification{}, fmt.Errorf("rendering ping: %w", err)
	}
	return s.oneNotification(ctx, org, func(tx *sqlx.Tx, row *notificationRow) error {
		return tx.GetContext(ctx, row, `INSERT INTO notifications AS n (id, org_id, endpoint_id, event, subject_id, n, data)
			SELECT $1, e.org_id, e.id, $4, $1, 0, $5 FROM notification_endpoints e WHERE e.id = $3 AND e.org_id = $2 AND e.deleted_at IS NULL
			RETURNING `+notificationColumns+`, `+notificationData, ping, org, endpointID, domain.NotifyPing, string(data))
	})
}
