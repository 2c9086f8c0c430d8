package knowledgedb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
)

// HeldDocument is a document in a worker's hand: every write about it is fenced by this.
type HeldDocument struct {
	OrganizationID string
	ID             string
	Fence          int64
}

// ClaimedDocument is a document that a worker now reads, under its fence.
type ClaimedDocument struct {
	HeldDocument
	Document domain.Document
	Attempts int       // with this one
	Deadline time.Time // until when causes that a retry can cure put it back
}

// FinishedDocument is what has been learned of a document by reading it.
type FinishedDocument struct {
	MIMEType string // what it is; "": as the sender said
	Title    string
	Language string
	Pages    *int
	Notes    []string
	Model    string // that made the vectors; "": there are none
	Terms    TermCounts
}

// MaxDocumentAttempts bounds the attempts at a document, whatever cause put it back: with the ingest workers' backoff they
// fill most of the hour that a document has.
const MaxDocumentAttempts = 10

// The causes for which the sweeper fails documents.
var (
	DocumentWorkerLost   = domain.DocumentError{Code: "worker_lost", Message: "the workers processing this document were lost too often"}
	DocumentNotProcessed = domain.DocumentError{Code: "not_processed", Message: "no worker processed this document in time; retry it"}
)

// DocumentClaim says which documents a worker would take.
type DocumentClaim struct {
	Max   int              // documents
	Not   []string         // organizations of which none is taken
	Debts map[string]int64 // what organizations owe: those that owe less come first; those that are not in it owe nothing
	Short bool             // only contents of at most ShortDocument
}

// ShortDocument is the size of the largest content that is a short one, in bytes. Documents that are to be fetched are not short.
const ShortDocument = 64 << 10

// ClaimDocuments takes documents into the worker's hand, for a Lease: each of the organization that owes the least, and among those of
// the one that has the fewest in hand then, short ones and such as have waited for long first. What dead attempts at them have written
// is removed.
func (s *Store) ClaimDocuments(ctx context.Context, claim DocumentClaim) ([]ClaimedDocument, error) {
	heaviest := int64(math.MaxInt64)
	if claim.Short {
		heaviest = ShortDocument // the weight of all contents that are not larger
	}
	owing := slices.Sorted(maps.Keys(claim.Debts))
	debts := make([]int64, len(owing))
	for i, org := range owing {
		debts[i] = claim.Debts[org]
	}
	var rows []DocumentRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM claim_documents($1, $2, $3, $4, $5, $6, $7) d`,
		claim.Max, pg.Interval(lease.Lease), lease.MaxDeaths, pq.Array(claim.Not), pq.Array(owing), pq.Array(debts), heaviest)
	if err != nil {
		return nil, fmt.Errorf("claiming documents: %w", err)
	}
	out := make([]ClaimedDocument, len(rows))
	for i := range rows {
		row := &rows[i]
		doc, err := row.Document()
		if err != nil {
			return nil, fmt.Errorf("claiming documents: %w", err)
		}
		held := HeldDocument{OrganizationID: row.OrganizationID, ID: row.ID, Fence: row.Fence}
		out[i] = ClaimedDocument{HeldDocument: held, Document: doc, Attempts: row.Attempts, Deadline: row.Deadline.Time}
	}
	return out, nil
}

// ExtendDocuments renews the leases of documents and gives those that are in the worker's hand no longer. It waits for nobody: who
// has the row of one that is in hand locked renews its lease, or takes it, as the next heartbeat will see.
func (s *Store) ExtendDocuments(ctx context.Context, held []HeldDocument) (lost []HeldDocument, err error) {
	if len(held) == 0 {
		return nil, nil
	}
	var kept []HeldDocument
	orgs := pg.Column(held, func(h *HeldDocument) string { return h.OrganizationID })
	err = s.db.Within(ctx, orgs, func(tx *sqlx.Tx) error {
		var rows []struct {
			ID    string `db:"id"`
			Fence int64  `db:"fence"`
			Org   string `db:"org_id"`
		}
		err := tx.SelectContext(ctx, &rows, `WITH mine AS MATERIALIZED (
			  SELECT d.id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (id, org_id, fence)
			  JOIN documents d ON d.id = u.id AND d.org_id = u.org_id AND d.fence = u.fence AND d.status = 'processing'
			  ORDER BY d.id FOR NO KEY UPDATE OF d SKIP LOCKED
			), renewed AS (
			  UPDATE documents d SET lease_until = clock_timestamp() + $4::interval FROM mine m WHERE d.id = m.id)
			SELECT d.id, d.fence, d.org_id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (id, org_id, fence)
			JOIN documents d ON d.id = u.id AND d.org_id = u.org_id AND d.fence = u.fence AND d.status = 'processing'`,
			pq.Array(pg.Column(held, func(h *HeldDocument) string { return h.ID })), pq.Array(orgs),
			pq.Array(pg.Column(held, func(h *HeldDocument) int64 { return h.Fence })), pg.Interval(lease.Lease))
		kept = kept[:0]
		for _, r := range rows {
			kept = append(kept, HeldDocument{OrganizationID: r.Org, ID: r.ID, Fence: r.Fence})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("extending leases of documents: %w", err)
	}
	return missing(held, kept), nil
}

// missing gives those of all that are not in some.
func missing(all, some []HeldDocument) (out []HeldDocument) {
	there := make(map[HeldDocument]bool, len(some))
	for _, h := range some {
		there[h] = true
	}
	for _, h := range all {
		if !there[h] {
			out = append(out, h)
		}
	}
	return out
}

// ofHeld restricts a statement on documents to one in hand; its parameters are heldArgs, the first ones.
const ofHeld = ` WHERE id = $1 AND org_id = $2 AND fence = $3 AND status = 'processing'`

func heldArgs(held HeldDocument, more ...any) []any {
	return append([]any{held.ID, held.OrganizationID, held.Fence}, more...)
}

// withDocument changes a document that is still in the worker's hand - set is the statement's list of changes - and runs f
// behind that, in the same transaction. Other rows are locked behind the document's, everywhere.
func (s *Store) withDocument(
	ctx context.Context, held HeldDocument, f func(*sqlx.Tx) error, set string, args ...any,
) (kept bool, err error) {
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		var err error
		kept, err = changeHeld(ctx, tx, held, f, set, args...)
		return err
	})
	return kept && err == nil, err
}

func changeHeld(ctx context.Context, tx *sqlx.Tx, held HeldDocument, f func(*sqlx.Tx) error, set string, args ...any) (bool, error) {
	kept, err := pg.AnyRow(tx.ExecContext(ctx, `UPDATE documents SET `+set+ofHeld, heldArgs(held, args...)...))
	if err != nil || !kept || f == nil {
		return kept, err
	}
	return kept, f(tx)
}

// queueToFinish lets those wait for each other who finish documents of an organization, before they lock a row: heartbeats
// go on meanwhile. Counting may take seconds, so they wait for as long as any statement may, which is to be tried again then.
func queueToFinish(ctx context.Context, tx *sqlx.Tx, org string) error {
	if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = 0`); err != nil {
		return err
	}
	return pg.AdvisoryLock(ctx, tx, "finished documents "+org)
}

// FinishDocument makes a document ready: its chunks can be found from then on. false: it was taken from the worker and nothing
// was written.
func (s *Store) FinishDocument(ctx context.Context, held HeldDocument, done FinishedDocument) (bool, error) {
	notes, err := json.Marshal(append([]string{}, done.Notes...))
	if err != nil {
		return false, fmt.Errorf("finishing document: %w", err)
	}
	kept := false
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		if err := queueToFinish(ctx, tx, held.OrganizationID); err != nil {
			return err
		}
		kept, err = changeHeld(ctx, tx, held, s.countTerms(ctx, held, &done.Terms),
			`status = 'ready', lease_until = NULL, error_code = NULL, error_message = NULL, mime_type = coalesce(nullif($4, ''), mime_type),
			title = $5, language = $6, pages = coalesce($7, pages), pages_done = coalesce($7, pages, pages_done), notes = $8, model = nullif($9, ''),
			chunks = (SELECT count(*) FROM document_chunks c WHERE c.document_id = documents.id), updated_at = clock_timestamp()`,
			done.MIMEType, done.Title, done.Language, done.Pages, notes, done.Model)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("finishing document: %w", err)
	}
	return kept, nil
}

// FailDocument ends a document with the reason why it cannot be read; nothing of it stays but its row and its content. false: it
// was taken from the worker.
func (s *Store) FailDocument(ctx context.Context, held HeldDocument, cause domain.DocumentError) (bool, error) {
	kept, err := s.withDocument(ctx, held, removing(ctx, held), failed, cause.Code, cause.Message)
	if err != nil {
		return false, fmt.Errorf("failing document: %w", err)
	}
	return kept, nil
}

const failed = `status = 'failed', lease_until = NULL, error_code = $4, error_message = $5, chunks = 0, updated_at = clock_timestamp()`

// removing returns the step of a transaction that removes the index entries of a document.
func removing(ctx context.Context, held HeldDocument) func(*sqlx.Tx) error {
	return func(tx *sqlx.Tx) error { return removeIndexed(ctx, tx, held.OrganizationID, []string{held.ID}) }
}

// PostponeDocument requeues a document to be read again after delay. It fails the document with the cause if its deadline comes
// first, or if this was attempt MaxDocumentAttempts. It returns false if the document was taken from the worker.
func (s *Store) PostponeDocument(ctx context.Context, held HeldDocument, cause domain.DocumentError, delay time.Duration) (bool, error) {
	kept, err := s.withDocument(ctx, held, removing(ctx, held),
		`status = CASE WHEN clock_timestamp() + $6::interval < deadline AND attempts < $7 THEN 'queued' ELSE 'failed' END,
		lease_until = NULL, error_code = $4, error_message = $5, not_before = clock_timestamp() + $6::interval, chunks = 0,
		updated_at = clock_timestamp()`,
		cause.Code, cause.Message, pg.Interval(delay), MaxDocumentAttempts)
	if err != nil {
		return false, fmt.Errorf("postponing document: %w", err)
	}
	return kept, nil
}

// ReleaseDocument gives a document back to be read by another worker at once, as if this one had not had it. It keeps its place.
func (s *Store) ReleaseDocument(ctx context.Context, held HeldDocument) error {
	_, err := s.withDocument(ctx, held, removing(ctx, held),
		`status = 'queued', lease_until = NULL, attempts = attempts - 1, deadline = CASE WHEN attempts > 1 THEN deadline END, chunks = 0,
		updated_at = clock_timestamp()`)
	if err != nil {
		return fmt.Errorf("releasing document: %w", err)
	}
	return nil
}

// EndDocuments fails up to limit documents that would not become ready by themselves: those that have cost MaxDeaths workers, and
// those whose deadline has passed, with the cause that put them back, and those that wait although nobody reads any. It gives
// their organizations, one for each.
func (s *Store) EndDocuments(ctx context.Context, limit int) (orgs []string, err error) {
	var rows []struct {
		ID  string `db:"id"`
		Org string `db:"org_id"`
	}
	err = s.db.SelectContext(ctx, &rows, `SELECT id, org_id FROM hopeless_documents($1, $2, $3)`, limit, pg.Interval(lease.Lease), lease.MaxDeaths)
	if err != nil {
		return nil, fmt.Errorf("looking for hopeless documents: %w", err)
	}
	var errs []error
	for _, row := range rows {
		ended, err := s.endDocument(ctx, row.Org, row.ID)
		if ended {
			orgs = append(orgs, row.Org)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return orgs, fmt.Errorf("ending documents: %w", err)
	}
	return orgs, nil
}

func (s *Store) endDocument(ctx context.Context, org, id string) (ended bool, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		var err error
		ended, err = pg.AnyRow(tx.ExecContext(ctx, `UPDATE documents SET status = 'failed', fence = fence + 1, lease_until = NULL, chunks = 0,
			deaths = deaths + (status = 'processing')::int, updated_at = clock_timestamp(),
			error_code = CASE WHEN status = 'processing' THEN $3 ELSE coalesce(error_code, $5) END,
			error_message = CASE WHEN status = 'processing' THEN $4 WHEN error_code IS NULL THEN $6 ELSE error_message END
			WHERE id = $1 AND org_id = $2 AND (status = 'queued' AND coalesce(deadline, not_before + interval '1 hour') <= clock_timestamp()
			  OR status = 'processing' AND lease_until < clock_timestamp() AND (deadline <= clock_timestamp() OR deaths + 1 >= $7))`,
			id, org, DocumentWorkerLost.Code, DocumentWorkerLost.Message, DocumentNotProcessed.Code, DocumentNotProcessed.Message, lease.MaxDeaths))
		if err != nil || !ended {
			return err
		}
		return removeIndexed(ctx, tx, org, []string{id})
	})
	return ended && err == nil, err
}
