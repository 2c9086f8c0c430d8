package overviewdb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// The limits of an overview.
const (
	minFailures  = 3   // number of consecutive failed attempts after which an endpoint counts as failing
	newestRuns   = 100 // number of newest runs that are searched for a run of an automation without a name
	newestFailed = 3   // maximum number of failed documents that are listed
	maxShown     = 10  // maximum number of hooks and endpoints that are listed
)

// Reader is the person, or the key, for whom an overview is read. It determines which parts of the
// overview are filled.
type Reader struct {
	OrganizationID string
	UserID         string   // the user whose API keys count; "": the reader is a key of the organization
	Principal      string   // the principal whose sessions count as the reader's own
	Principals     []string // the principals whose runs the reader may decide about; nil: all
	Admin          bool     // the reader is an admin of the organization
}

// Overview reads an overview. A reader who is not an admin gets only the reader's own steps and
// approvals. The result lacks the budgets, which package budgetdb reads. Each statement reads only
// a few rows along an index, whatever the size of the organization.
func (s *Store) Overview(ctx context.Context, r Reader) (domain.Overview, error) {
	var view domain.Overview
	err := s.db.WithinUser(ctx, r.OrganizationID, r.UserID, func(tx *sqlx.Tx) error {
		view = domain.Overview{Webhooks: []domain.FailingHook{}, Notifications: []domain.FailingTarget{}, Budgets: []domain.TightBudget{}}
		view.Documents.Newest = []domain.FailedDocument{}
		reads := []func(context.Context, *sqlx.Tx, Reader, *domain.Overview) error{readOwn}
		if r.Admin {
			reads = append(reads, readSteps, readHooks, readEndpoints, readDocuments)
		}
		for _, read := range reads {
			if err := read(ctx, tx, r, &view); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return domain.Overview{}, fmt.Errorf("reading overview: %w", err)
	}
	return view, nil
}

// readOwn reads the data that every member may see: whether the reader has chatted, and the number
// of runs that wait for the reader's decision. Runs that wait for results of their client's tools
// do not count.
func readOwn(ctx context.Context, tx *sqlx.Tx, r Reader, view *domain.Overview) error {
	var row struct {
		Chat      bool `db:"chat"`
		Approvals int  `db:"approvals"`
	}
	err := tx.GetContext(ctx, &row, `SELECT
		EXISTS (SELECT FROM sessions s WHERE s.org_id = $1 AND s.principal = $2 AND s.principal <> 'system') AS chat,
		(SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.org_id = $1 AND o.status = 'requires_action'
		  AND NOT waits_for_client(o.required_action)
		  AND ($3::text[] IS NULL OR EXISTS (SELECT FROM runs r WHERE r.id = o.run_id AND r.org_id = $1 AND r.principal = ANY ($3)))
		  LIMIT $4) waiting) AS approvals`,
		r.OrganizationID, r.Principal, pq.Array(r.Principals), domain.MaxOverviewCount)
	view.Steps = []domain.Step{{Name: domain.StepChat, Done: row.Chat}}
	view.Approvals = row.Approvals
	return err
}

// readSteps reads the steps that only admins can take: whether the organization has a document of
// its own, a key, an automation, and an embedded widget. Most automations have a name, and an index
// finds their runs. A run of an automation without a name is found only among the newest runs, by
// the type of its trigger.
func readSteps(ctx context.Context, tx *sqlx.Tx, r Reader, view *domain.Overview) error {
	var row struct {
		Document bool `db:"document"`
		Key      bool `db:"key"`
		Schedule bool `db:"schedule"`
		Embed    bool `db:"embed"`
	}
	err := tx.GetContext(ctx, &row, `SELECT
		EXISTS (SELECT FROM documents d WHERE d.org_id = $1 AND NOT d.metadata ? $4) AS document,
		EXISTS (SELECT FROM api_keys k WHERE (k.org_id = $1 OR k.user_id = $2) AND k.revoked_at IS NULL
		  AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
		  AND NOT EXISTS (SELECT FROM documents d WHERE d.org_id = $1 AND d.metadata ? $4 AND d.created_by = coalesce(k.lineage, k.id))) AS key,
		EXISTS (SELECT FROM runs r WHERE r.org_id = $1 AND r.automation_id IS NOT NULL)
		  OR EXISTS (SELECT FROM past_automations p WHERE p.org_id = $1)
		  OR EXISTS (SELECT FROM (SELECT r.trigger_type FROM runs r WHERE r.org_id = $1 ORDER BY r.id DESC LIMIT $3) newest
		    WHERE newest.trigger_type NOT IN ('chat', 'api')) AS schedule,
		EXISTS (SELECT FROM agents a WHERE a.org_id = $1 AND a.deleted_at IS NULL AND a.widget ->> 'enabled' = 'true'
		  AND jsonb_array_length(a.widget -> 'allowedOrigins') > 0) AS embed`,
		r.OrganizationID, r.UserID, newestRuns, domain.MetadataExample)
	view.Steps = append(view.Steps,
		domain.Step{Name: domain.StepDocument, Done: row.Document}, domain.Step{Name: domain.StepKey, Done: row.Key},
		domain.Step{Name: domain.StepSchedule, Done: row.Schedule}, domain.Step{Name: domain.StepEmbed, Done: row.Embed})
	return err
}

// readHooks reads the enabled hooks whose last delivery was refused or rejected, at most maxShown
// of them. Anyone can send deliveries without a valid signature. A rejected delivery from an
// unknown address therefore counts only if the hook has had no delivery with a valid signature.
func readHooks(ctx context.Context, tx *sqlx.Tx, r Reader, view *domain.Overview) error {
	var rows []struct {
		ID         string      `db:"id"`
		Name       string      `db:"name"`
		Status     string      `db:"status"`
		Code       *string     `db:"error_code"`
		Message    *string     `db:"error_message"`
		ReceivedAt domain.Time `db:"received_at"`
	}
	err := tx.SelectContext(ctx, &rows, `SELECT h.id, h.name, last.status, last.error_code, last.error_message, last.received_at
		FROM hooks h CROSS JOIN LATERAL (
		  SELECT d.status, d.error_code, d.error_message, d.received_at FROM deliveries d
		  WHERE d.hook_id = h.id AND d.org_id = $1 AND NOT (d.status = 'rejected' AND starts_with(d.delivery_id, 'rejected:unverified:')
		    AND EXISTS (SELECT FROM hook_senders s WHERE s.hook_id = h.id AND s.org_id = $1))
		  ORDER BY d.ref DESC LIMIT 1) last
		WHERE h.org_id = $1 AND h.deleted_at IS NULL AND h.enabled AND last.status IN ('refused', 'rejected')
		ORDER BY last.received_at DESC LIMIT $2`, r.OrganizationID, maxShown)
	for _, row := range rows {
		hook := domain.FailingHook{ID: row.ID, Name: row.Name, Status: domain.DeliveryStatus(row.Status), ReceivedAt: row.ReceivedAt}
		if row.Code != nil {
			hook.Error = &domain.RunError{Code: *row.Code, Message: pg.Deref(row.Message)}
		}
		view.Webhooks = append(view.Webhooks, hook)
	}
	return err
}

// readEndpoints reads the notification endpoints that the service has disabled, and the endpoints
// whose last minFailures attempts failed. An endpoint that a person has disabled is not a problem.
func readEndpoints(ctx context.Context, tx *sqlx.Tx, r Reader, view *domain.Overview) error {
	var rows []struct {
		ID          string  `db:"id"`
		URL         string  `db:"url"`
		Description string  `db:"description"`
		Reason      *string `db:"disabled_reason"`
		Failures    int     `db:"failures"`
	}
	err := tx.SelectContext(ctx, &rows, `SELECT e.id, e.url, e.description, e.failures,
		  CASE WHEN NOT e.enabled THEN e.disabled_reason END AS disabled_reason
		FROM notification_endpoints e WHERE e.org_id = $1 AND e.deleted_at IS NULL
		  AND (NOT e.enabled AND e.disabled_reason IS NOT NULL OR e.enabled AND e.failures >= $2)
		ORDER BY e.id LIMIT $3`, r.OrganizationID, minFailures, maxShown)
	for _, row := range rows {
		view.Notifications = append(view.Notifications, domain.FailingTarget{
			ID: row.ID, URL: row.URL, Description: row.Description, DisabledReason: row.Reason, Failures: row.Failures,
		})
	}
	return err
}

// readDocuments reads the documents whose processing failed: their number, up to
// domain.MaxOverviewCount, and the newest ones. Documents that are being deleted do not count.
func readDocuments(ctx context.Context, tx *sqlx.Tx, r Reader, view *domain.Overview) error {
	var rows []struct {
		ID      string  `db:"id"`
		Name    string  `db:"name"`
		Code    *string `db:"error_code"`
		Message *string `db:"error_message"`
	}
	err := tx.SelectContext(ctx, &rows, `SELECT d.id, d.name, d.error_code, d.error_message FROM documents d
		WHERE d.org_id = $1 AND d.status = 'failed' AND d.error_code IS DISTINCT FROM 'deleting' ORDER BY d.id DESC LIMIT $2`,
		r.OrganizationID, domain.MaxOverviewCount)
	view.Documents.Count = len(rows)
	for _, row := range rows[:min(len(rows), newestFailed)] {
		document := domain.FailedDocument{ID: row.ID, Name: row.Name}
		if row.Code != nil {
			document.Error = &domain.DocumentError{Code: *row.Code, Message: pg.Deref(row.Message)}
		}
		view.Documents.Newest = append(view.Documents.Newest, document)
	}
	return err
}
