package notificationdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/knowledgedb"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// An endpoint is disabled after disableAfter consecutive failed attempts, if the first of them was
// at least disableAfterTime ago.
const (
	disableAfter     = 20
	disableAfterTime = 24 * time.Hour
)

// notificationsKept is how long notifications are kept. PruneNotifications removes older ones.
const notificationsKept = 30 * 24 * time.Hour

// RunExpiredError is the error of a notification about a run whose retention period ended before
// the notification was sent. The SQL function unnotify_runs_removed uses the same text.
const RunExpiredError = "The run's retention period ended before the run could be reported."

// LeasedNotification is a notification that a worker is sending. Its fence guards every write to
// it.
type LeasedNotification struct {
	OrganizationID string
	EndpointID     string
	ID             string
	Fence          int64
}

// ClaimedNotification is a notification that a worker has claimed to send now.
type ClaimedNotification struct {
	LeasedNotification
	Event     string
	Attempts  int // number of attempts, including this one
	CreatedAt domain.Time
	URL       string
	// SealedSecrets are the secrets with which the notification is signed, newest first. They are
	// sealed for this endpoint.
	SealedSecrets []string

	// id of the run, the document or the ping
	subject string
	// the run's required action, or the document's row, at the time of the event; JSON
	source []byte
	data   []byte // the rendered payload; nil: to be rendered from source
}

// Payload is the body to send, the same for every attempt. Render must have been called.
func (n *ClaimedNotification) Payload() []byte {
	return NotificationPayload(n.Event, n.CreatedAt, n.data)
}

// claimedNotificationRow is a row of claim_notifications. Data is the rendered subject; if it is
// nil, it must be rendered from Source.
type claimedNotificationRow struct {
	ID             string      `db:"id"`
	OrganizationID string      `db:"org_id"`
	EndpointID     string      `db:"endpoint_id"`
	Event          string      `db:"event"`
	SubjectID      string      `db:"subject_id"`
	Source         []byte      `db:"source"`
	Data           []byte      `db:"data"`
	Fence          int64       `db:"fence"`
	Attempts       int         `db:"attempts"`
	CreatedAt      domain.Time `db:"created_at"`
	URL            string      `db:"url"`
	Secret         string      `db:"secret"`
	Previous       *string     `db:"previous_secret"`
}

// ClaimNotifications claims up to maximum due notifications for the duration lease. All workers
// together hold at most maxConcurrent notifications of one endpoint, and only one if the endpoint's
// last attempt failed. If a worker dies, the lease expires and another worker claims its
// notifications; a receiver may therefore get a notification twice.
func (s *Store) ClaimNotifications(ctx context.Context, maximum, maxConcurrent int, lease time.Duration) ([]ClaimedNotification, error) {
	var rows []claimedNotificationRow
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT id, org_id, endpoint_id, event, subject_id, source, data, fence, attempts, created_at,
			url, secret, previous_secret FROM claim_notifications($1, $2, $3)`, maximum, pg.Interval(lease), maxConcurrent)
	})
	if err != nil {
		return nil, fmt.Errorf("claiming notifications: %w", err)
	}

	out := make([]ClaimedNotification, len(rows))
	for i, row := range rows {
		out[i] = ClaimedNotification{
			LeasedNotification: LeasedNotification{OrganizationID: row.OrganizationID, EndpointID: row.EndpointID, ID: row.ID, Fence: row.Fence},
			Event:              row.Event, Attempts: row.Attempts, CreatedAt: row.CreatedAt, URL: row.URL, SealedSecrets: []string{row.Secret},
			subject: row.SubjectID, source: row.Source, data: row.Data,
		}
		// Until the old secret expires, the notification is signed with the new and the old secret,
		// because the receiver may not have the new one yet.
		if row.Previous != nil {
			out[i].SealedSecrets = append(out[i].SealedSecrets, *row.Previous)
		}
	}

	return out, nil
}

// Render renders and stores the payload of a claimed notification, so that every attempt sends the
// same payload even if the notification's subject changes. Render returns erased if the subject is
// a run that no longer exists or whose retention period has ended. It returns not_found if the
// worker no longer holds the notification.
func (s *Store) Render(ctx context.Context, n *ClaimedNotification) error {
	// If an earlier attempt has already rendered the payload, the same payload is sent again.
	if n.data != nil {
		return nil
	}

	var err error
	switch n.Event {
	case domain.NotifyRunRequiresAction:
		n.data, err = s.renderWaitingRun(ctx, n)
	case domain.NotifyKnowledgeReady, domain.NotifyKnowledgeFailed:
		n.data, err = s.renderDocument(ctx, n)
	default: // the payload of any other event is rendered when the notification is created
		err = pg.NotFound()
	}

	if apierr.CodeFor(err) == apierr.NotFound && strings.HasPrefix(n.Event, "run.") {
		err = apierr.New(apierr.Erased, "the payload of this notification is no longer stored")
	}

	if err != nil {
		return err
	}

	// The fence rejects the write if the worker no longer holds the notification.
	kept := false
	err = s.db.Within(ctx, []string{n.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		kept, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE notifications SET data = $4 WHERE id = $1 AND org_id = $2 AND fence = $3`,
			n.ID, n.OrganizationID, n.Fence, string(n.data)))
		return err
	})
	if err != nil {
		return fmt.Errorf("storing notification's payload: %w", err)
	}

	if !kept {
		return pg.NotFound()
	}

	return nil
}

// renderWaitingRun renders the run in the state in which it began to wait, even if it has continued
// since then. Only the usage and the tool calls are those at the time of rendering.
func (s *Store) renderWaitingRun(ctx context.Context, n *ClaimedNotification) ([]byte, error) {
	found, err := s.runs.RunByID(ctx, n.OrganizationID, "", n.subject)
	if err != nil {
		return nil, err
	}

	var action domain.RequiredAction
	if err := json.Unmarshal(n.source, &action); err != nil {
		return nil, fmt.Errorf("reading action of notification: %w", err)
	}

	result, err := found.Result()
	if err != nil {
		return nil, err
	}

	// The row of a finished run has no usage and tool calls, but its result has them.
	run := found.Run
	if result != nil {
		var ended domain.Run
		if err := json.Unmarshal(result, &ended); err != nil {
			return nil, fmt.Errorf("reading run of notification: %w", err)
		}
		done := rundb.Progress{Usage: ended.Usage, ToolCalls: ended.ToolCalls, CitationsRemoved: ended.CitationsRemoved}
		done.Show(&run)
	}

	run.Status, run.RequiredAction, run.FinishedAt, run.ExpiresAt = domain.RunRequiresAction, &action, nil, nil
	return run.Render()
}

// renderDocument renders the document in the state that it had when a worker finished it.
func (s *Store) renderDocument(ctx context.Context, n *ClaimedNotification) ([]byte, error) {
	var row knowledgedb.DocumentRow
	err := s.db.GetContext(ctx, &row, `SELECT `+knowledgedb.DocumentColumns+` FROM jsonb_populate_record(NULL::documents, $1::jsonb) d`, string(n.source))
	if err != nil {
		return nil, fmt.Errorf("reading document of notification: %w", err)
	}

	doc, err := row.Document()
	if err != nil {
		return nil, err
	}

	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("rendering document: %w", err)
	}

	return out, nil
}

// Attempt is the result of an attempt to send a notification. A worker passes it to RecordAttempt.
type Attempt struct {
	Status         domain.NotificationStatus
	ResponseStatus int           // 0: there was no response
	Error          string        // "" if it was delivered
	Next           time.Duration // time until the next attempt, if the notification is pending
	Gone           bool          // the endpoint responded that it wants no more notifications
	Unsent         bool          // no request was sent, for a reason for which the endpoint is not responsible
}

// RecordAttempt records the result of an attempt. If the endpoint wants no more notifications or
// has failed for too long, RecordAttempt disables the endpoint and returns true. If the worker no
// longer holds the notification, RecordAttempt writes nothing. If the run's retention period has
// ended, a failed attempt is not retried, and the notification fails.
func (s *Store) RecordAttempt(ctx context.Context, held LeasedNotification, a Attempt) (disabled bool, err error) {
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		disabled = false
		const over = `$4 = 'pending' AND NOT ` + subjectExists
		kept, err := pg.AnyRow(tx.ExecContext(ctx, `UPDATE notifications n SET status = CASE WHEN `+over+` THEN 'failed' ELSE $4 END,
			response_status = nullif($5, 0), error = CASE WHEN `+over+` THEN $8 ELSE nullif($6, '') END,
			lease_until = NULL, next_attempt_at = clock_timestamp() + $7::interval,
			delivered_at = CASE WHEN $4 = 'delivered' THEN clock_timestamp() END,
			source = CASE WHEN n.data IS NULL THEN n.source END,
			data = CASE WHEN `+subjectExists+` THEN n.data END
			WHERE n.id = $1 AND n.org_id = $2 AND n.fence = $3 AND n.status = 'pending'`,
			held.ID, held.OrganizationID, held.Fence, string(a.Status), a.ResponseStatus, a.Error, pg.Interval(a.Next), RunExpiredError))
		// If the worker no longer holds the notification, another worker has claimed it and will
		// record the result of its own attempt.
		if err != nil || !kept {
			return err
		}

		if a.Status == domain.NotificationDelivered {
			return noteSuccess(ctx, tx, held)
		}

		// If a notification could not be signed, for example because the operator's key is missing,
		// it was not sent. The attempt must not count as a failure of the endpoint.
		if !a.Unsent {
			disabled, err = noteFailure(ctx, tx, held, a)
		}

		return err
	})
	if err != nil {
		return false, fmt.Errorf("settling notification: %w", err)
	}

	return disabled, nil
}

// noteSuccess records a successful attempt. If there are no failures to reset, it writes at most
// once a second, because all notifications of an endpoint contend for the endpoint's row.
func noteSuccess(ctx context.Context, tx *sqlx.Tx, held LeasedNotification) error {
	_, err := tx.ExecContext(ctx, `UPDATE notification_endpoints SET failures = 0, failing_since = NULL, last_success_at = clock_timestamp()
		WHERE id = $1 AND org_id = $2 AND (failures > 0 OR coalesce(last_success_at < clock_timestamp() - interval '1 second', true))`,
		held.EndpointID, held.OrganizationID)
	return err
}

// noteFailure counts a failed attempt to send to an endpoint. If the endpoint has failed for too
// long or wants no more notifications, noteFailure disables the endpoint and returns true.
func noteFailure(ctx context.Context, tx *sqlx.Tx, held LeasedNotification, a Attempt) (disabled bool, err error) {
	reason := "Every attempt in the last 24 hours failed. The last error: " + a.Error
	// The endpoint has responded that it wants no more notifications, so the count of failures does
	// not matter.
	if a.Gone {
		reason = a.Error
	}

	err = tx.GetContext(ctx, &disabled, `UPDATE notification_endpoints e SET failures = w.failures, failing_since = w.since,
		enabled = w.enabled AND NOT w.over,
		disabled_at = CASE WHEN w.enabled AND w.over THEN clock_timestamp() ELSE e.disabled_at END,
		disabled_reason = CASE WHEN w.enabled AND w.over THEN $4 ELSE e.disabled_reason END
		FROM (SELECT id, enabled, failures + 1 AS failures, coalesce(failing_since, clock_timestamp()) AS since,
		  $3 OR (failures + 1 >= $5 AND failing_since <= clock_timestamp() - $6::interval) IS TRUE AS over
		  FROM notification_endpoints WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL FOR UPDATE) w
		WHERE e.id = w.id RETURNING w.enabled AND w.over`,
		held.EndpointID, held.OrganizationID, a.Gone, reason, disableAfter, pg.Interval(disableAfterTime))
	if errors.Is(err, sql.ErrNoRows) { // the endpoint was deleted meanwhile
		return false, nil
	}

	return disabled, err
}

// DropNotification removes a notification whose subject no longer exists. It does nothing if the
// worker no longer holds the notification.
func (s *Store) DropNotification(ctx context.Context, held LeasedNotification) error {
	err := s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM notifications WHERE id = $1 AND org_id = $2 AND fence = $3`,
			held.ID, held.OrganizationID, held.Fence)
		return err
	})
	if err != nil {
		return fmt.Errorf("removing notification: %w", err)
	}
	return nil
}

// PruneNotifications removes up to limit old notifications, and up to limit notifications to
// deleted endpoints. It returns the larger of the two counts. The sweeper calls it until the result
// is below limit.
func (s *Store) PruneNotifications(ctx context.Context, limit int) (n int, err error) {
	if err := s.db.GetContext(ctx, &n, `SELECT prune_notifications($1, $2)`, limit, pg.Interval(notificationsKept)); err != nil {
		return 0, fmt.Errorf("pruning notifications: %w", err)
	}
	return n, nil
}
