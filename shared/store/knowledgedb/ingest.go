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

// LeasedDocument is a document that a worker has claimed. Its fence guards every write: a later
// claim, a change or a deletion of the document raises the fence. The type is comparable.
type LeasedDocument struct {
	OrganizationID string
	ID             string
	Fence          int64
}

// ClaimedDocument is a document that a worker has claimed, with the data that the worker needs to
// read it.
type ClaimedDocument struct {
	LeasedDocument
	Document domain.Document
	Attempts int       // number of attempts, including this one
	Deadline time.Time // before this time, the document is queued again after a transient error; afterwards it fails
}

// FinishedDocument is the result of reading a document. AddChunks has already stored the document's
// chunks.
type FinishedDocument struct {
	MIMEType string // the detected format; "": the format that the sender declared
	Title    string
	Language string
	Pages    *int
	Notes    []string
	Model    string // the model that computed the vectors; "": there are no vectors
	Terms    TermCounts
}

// MaxDocumentAttempts is the maximum number of attempts to read a document. With the delays between
// them, these attempts take most of the hour in which a document must be read.
const MaxDocumentAttempts = 10

// The errors of documents that the sweeper fails.
var (
	DocumentWorkerLost = domain.DocumentError{
		Code: "worker_lost", Message: "The workers that processed this document stopped unexpectedly too often.",
	}
	DocumentNotProcessed = domain.DocumentError{Code: "not_processed", Message: "No worker processed this document in time. Retry it."}
)

// DocumentClaim restricts the documents that a worker claims. An organization's debt is the
// processor time that its documents used recently.
type DocumentClaim struct {
	Max   int              // maximum number of documents
	Not   []string         // organizations to skip
	Debts map[string]int64 // by organization; a missing debt is 0; the organization with the smallest debt comes first
	Short bool             // only documents of at most ShortDocument bytes
}

// ShortDocument is the maximum size of a short document, in bytes. A document that is not
// fetched yet is not short.
const ShortDocument = 64 << 10

// ClaimDocuments claims documents for the duration lease.Lease, which the worker extends with
// ExtendDocuments. It prefers the organization with the smallest debt, and among equal debts the
// organization with the fewest claimed documents. Within an organization, it prefers short
// documents and documents that have waited for a long time.
//
// ClaimDocuments removes everything that lost attempts have written for these documents. It returns
// no documents and no error if none waits.
func (s *Store) ClaimDocuments(ctx context.Context, claim DocumentClaim) ([]ClaimedDocument, error) {
	heaviest := int64(math.MaxInt64)
	if claim.Short {
		heaviest = ShortDocument // selects the short documents, which all have this weight
	}

	// The SQL function takes the debts as two parallel lists.
	debtors := slices.Sorted(maps.Keys(claim.Debts))
	debts := make([]int64, len(debtors))
	for i, org := range debtors {
		debts[i] = claim.Debts[org]
	}

	var rows []DocumentRow
	err := s.db.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM claim_documents($1, $2, $3, $4, $5, $6, $7) d`,
		claim.Max, pg.Interval(lease.Lease), lease.MaxDeaths, pq.Array(claim.Not), pq.Array(debtors), pq.Array(debts), heaviest)
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

		held := LeasedDocument{OrganizationID: row.OrganizationID, ID: row.ID, Fence: row.Fence}
		out[i] = ClaimedDocument{LeasedDocument: held, Document: doc, Attempts: row.Attempts, Deadline: row.Deadline.Time}
	}

	return out, nil
}

// ExtendDocuments renews the leases of documents and returns the documents that the worker no
// longer holds. It does not wait for locks. A document whose row is locked counts as held. The
// transaction that has locked the row either renews the lease or ends it; the next call shows
// which.
func (s *Store) ExtendDocuments(ctx context.Context, held []LeasedDocument) (lost []LeasedDocument, err error) {
	if len(held) == 0 {
		return nil, nil
	}

	var kept []LeasedDocument
	orgs := pg.Column(held, func(h *LeasedDocument) string { return h.OrganizationID })
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
			pq.Array(pg.Column(held, func(h *LeasedDocument) string { return h.ID })), pq.Array(orgs),
			pq.Array(pg.Column(held, func(h *LeasedDocument) int64 { return h.Fence })), pg.Interval(lease.Lease))

		// The statement also returns held documents whose rows are locked, although it did not
		// renew them.
		kept = kept[:0]
		for _, r := range rows {
			kept = append(kept, LeasedDocument{OrganizationID: r.Org, ID: r.ID, Fence: r.Fence})
		}

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("extending leases of documents: %w", err)
	}

	return missing(held, kept), nil
}

// missing returns the elements of the list all that are not in the list some.
func missing(all, some []LeasedDocument) (out []LeasedDocument) {
	// Elements include the fence. A document that is held under another fence therefore counts as
	// missing.
	there := make(map[LeasedDocument]bool, len(some))
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

// whereHeld is the WHERE clause of a statement that changes one held document. It selects no row if
// the worker no longer holds the document. heldArgs returns the parameters of the clause.
const whereHeld = ` WHERE id = $1 AND org_id = $2 AND fence = $3 AND status = 'processing'`

// heldArgs returns the parameters of whereHeld, followed by more.
func heldArgs(held LeasedDocument, more ...any) []any {
	return append([]any{held.ID, held.OrganizationID, held.Fence}, more...)
}

// withDocument changes a held document and then calls f in the same transaction. set is the SET
// list of the UPDATE; its parameters args start at $4. If the worker no longer holds the document,
// withDocument does not call f and returns false. Every such transaction locks the document's row
// before other rows.
func (s *Store) withDocument(
	ctx context.Context, held LeasedDocument, f func(*sqlx.Tx) error, set string, args ...any,
) (kept bool, err error) {
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		var err error
		kept, err = changeHeld(ctx, tx, held, f, set, args...)
		return err
	})
	return kept && err == nil, err
}

// changeHeld implements withDocument within a transaction. f may be nil.
func changeHeld(ctx context.Context, tx *sqlx.Tx, held LeasedDocument, f func(*sqlx.Tx) error, set string, args ...any) (bool, error) {
	kept, err := pg.AnyRow(tx.ExecContext(ctx, `UPDATE documents SET `+set+whereHeld, heldArgs(held, args...)...))
	// If the worker no longer holds the document, no other row is changed.
	if err != nil || !kept || f == nil {
		return kept, err
	}
	return kept, f(tx)
}

// lockFinishing makes the transactions that finish documents of an organization wait for each
// other, before they lock a row. Leases can be renewed in the meantime. Counting terms may take
// seconds, so this lock has no timeout except the statement timeout, after which the caller
// retries.
func lockFinishing(ctx context.Context, tx *sqlx.Tx, org string) error {
	if _, err := tx.ExecContext(ctx, `SET LOCAL lock_timeout = 0`); err != nil {
		return err
	}
	return pg.AdvisoryLock(ctx, tx, "finished documents "+org)
}

// FinishDocument makes a document ready: from now on, searches find its chunks, and the term counts
// include its terms. If the worker no longer holds the document, FinishDocument writes nothing and
// returns false. FinishDocument may take seconds for a large document.
func (s *Store) FinishDocument(ctx context.Context, held LeasedDocument, done FinishedDocument) (bool, error) {
	// A nil slice would be encoded as null, but the column requires an array.
	notes, err := json.Marshal(append([]string{}, done.Notes...))
	if err != nil {
		return false, fmt.Errorf("finishing document: %w", err)
	}

	kept := false
	err = s.db.Within(ctx, []string{held.OrganizationID}, func(tx *sqlx.Tx) error {
		if err := lockFinishing(ctx, tx, held.OrganizationID); err != nil {
			return err
		}
		kept, err = changeHeld(ctx, tx, held, s.countTerms(ctx, held, &done.Terms),
			`status = 'ready', lease_until = NULL, error_code = NULL, error_message = NULL, mime_type = coalesce(nullif($4, ''), mime_type),
			title = $5, language = $6, pages = coalesce($7, pages), pages_done = coalesce($7, pages, pages_done), notes = $8, model = nullif($9, ''),
			chunks = (SELECT count(*) FROM document_chunks c WHERE c.document_id = documents.id), updated_at = clock_timestamp()`,
			done.MIMEType, done.Title, done.Language, done.Pages, string(notes), done.Model)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("finishing document: %w", err)
	}

	return kept, nil
}

// FailDocument ends the processing of a document with an error, the reason why the document cannot
// be read. It keeps only the document's row and content. A person may retry the document.
// FailDocument returns false if the worker no longer holds the document.
func (s *Store) FailDocument(ctx context.Context, held LeasedDocument, cause domain.DocumentError) (bool, error) {
	kept, err := s.withDocument(ctx, held, removeIndexedStep(ctx, held), failed, cause.Code, cause.Message)
	if err != nil {
		return false, fmt.Errorf("failing document: %w", err)
	}
	return kept, nil
}

// failed is the SET list of an UPDATE that gives a held document the status failed, with the error
// code $4 and the message $5.
const failed = `status = 'failed', lease_until = NULL, error_code = $4, error_message = $5, chunks = 0, updated_at = clock_timestamp()`

// removeIndexedStep returns a transaction step that removes the index entries of a document.
func removeIndexedStep(ctx context.Context, held LeasedDocument) func(*sqlx.Tx) error {
	return func(tx *sqlx.Tx) error { return removeIndexed(ctx, tx, held.OrganizationID, []string{held.ID}) }
}

// PostponeDocument requeues a document to be read again after delay. If the document's deadline is
// before that time, or if this was attempt MaxDocumentAttempts, it fails the document with cause
// instead. It returns false if the worker no longer holds the document.
func (s *Store) PostponeDocument(ctx context.Context, held LeasedDocument, cause domain.DocumentError, delay time.Duration) (bool, error) {
	kept, err := s.withDocument(ctx, held, removeIndexedStep(ctx, held),
		`status = CASE WHEN clock_timestamp() + $6::interval < deadline AND attempts < $7 THEN 'queued' ELSE 'failed' END,
		lease_until = NULL, error_code = $4, error_message = $5, not_before = clock_timestamp() + $6::interval, chunks = 0,
		updated_at = clock_timestamp()`,
		cause.Code, cause.Message, pg.Interval(delay), MaxDocumentAttempts)
	if err != nil {
		return false, fmt.Errorf("postponing document: %w", err)
	}
	return kept, nil
}

// ReleaseDocument requeues a document for another worker immediately, for example when the process
// stops. The attempt is not counted, and the document keeps its position in the queue. Nothing
// happens if the worker no longer holds the document.
func (s *Store) ReleaseDocument(ctx context.Context, held LeasedDocument) error {
	_, err := s.withDocument(ctx, held, removeIndexedStep(ctx, held),
		`status = 'queued', lease_until = NULL, attempts = attempts - 1, deadline = CASE WHEN attempts > 1 THEN deadline END, chunks = 0,
		updated_at = clock_timestamp()`)
	if err != nil {
		return fmt.Errorf("releasing document: %w", err)
	}
	return nil
}

// EndDocuments fails up to limit documents that would never become ready. These are documents that
// have lost MaxDeaths workers, documents whose deadline has passed, and documents that wait while
// no worker reads documents. A queued document keeps its last error. EndDocuments returns the
// organization of each failed document.
func (s *Store) EndDocuments(ctx context.Context, limit int) (orgs []string, err error) {
	var rows []struct {
		ID  string `db:"id"`
		Org string `db:"org_id"`
	}
	err = s.db.SelectContext(ctx, &rows, `SELECT id, org_id FROM hopeless_documents($1, $2, $3)`, limit, pg.Interval(lease.Lease), lease.MaxDeaths)
	if err != nil {
		return nil, fmt.Errorf("looking for documents that cannot become ready: %w", err)
	}

	// If one document cannot be failed, the remaining documents are failed nevertheless.
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

// endDocument fails a document if it would never become ready, and removes its index entries. It
// returns false if the document's state has changed since EndDocuments found it.
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
