package rundb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/pg"
)

// StoredRun is a run as stored in the database.
type StoredRun struct {
	Run            domain.Run // the run object; the answer of a finished run is only in Result
	OrganizationID string
	Principal      string
	Fingerprint    []byte // a hash of the request, to detect a different request with the same key
	Erased         bool   // the run's result was erased, so Result returns nil
	// Deferred is the size of the data that was not read: the result, or the progress of an open
	// run. RunByID reads this data. 0 means that no data is missing.
	Deferred int

	result []byte // rendered run object of a finished run; nil if the run is open or erased, or if the result is Deferred
}

const (
	// ShortBytes is the maximum size of a result or of progress that ShortRun reads.
	ShortBytes = 64 << 10

	// togetherBytes is the maximum total size of the results that one statement reads for several
	// runs. All further results are Deferred, even small ones.
	togetherBytes = 1 << 20
)

// SetResult sets the result, which is the rendered run object. The run then counts as finished.
func (r *StoredRun) SetResult(result []byte) { r.result, r.Deferred = result, 0 }

// Ended reports whether the run has finished. It does not need the run's result.
func (r *StoredRun) Ended() bool {
	return r.result != nil || r.Erased || r.Run.Status.Terminal()
}

// Result returns the rendered run object of a finished run. It returns nil while the run is open
// and after it was erased. It returns an error if the result is Deferred, so that no caller
// mistakes a large result for a missing one.
func (r *StoredRun) Result() ([]byte, error) {
	if r.Deferred > 0 {
		return nil, fmt.Errorf("%d bytes of the result of run %s have not been read", r.Deferred, r.Run.ID)
	}
	return r.result, nil
}

// Target returns the id of the run's agent or template.
func (r *StoredRun) Target() string { return pg.Deref(r.Run.AgentID) + pg.Deref(r.Run.TemplateID) }

// Body returns the run object as callers see it: the stored result, or the current state. It
// returns an error if the result or the progress is Deferred.
func (r *StoredRun) Body() ([]byte, error) {
	result, err := r.Result()
	if result != nil || err != nil {
		return result, err
	}
	return r.Run.Render()
}

// RunRow is a row of RunColumns or of a list that omits some of these columns. Fields of omitted
// columns are zero.
type RunRow struct {
	ID             string         `db:"id"`
	OrganizationID string         `db:"org_id"`
	AgentID        *string        `db:"agent_id"`
	TemplateID     *string        `db:"template_id"`
	SessionID      string         `db:"session_id"`
	Principal      string         `db:"principal"`
	TriggerType    string         `db:"trigger_type"`
	AutomationID   *string        `db:"automation_id"`
	IdempotencyKey *string        `db:"idempotency_key"`
	Hash           []byte         `db:"idempotency_hash"`
	Fingerprint    []byte         `db:"fingerprint"`
	Status         string         `db:"status"`
	Ended          bool           `db:"ended"`        // the run has finished: its row in the table runs has a status
	Result         sql.NullString `db:"result"`       // the rendered run object; null while the run is open and after its erasure
	ResultBytes    sql.NullInt64  `db:"result_bytes"` // only selected by statements that may leave the result in the database
	Attempts       int            `db:"attempts"`
	CreatedAt      time.Time      `db:"created_at"`
	StartedAt      sql.NullTime   `db:"started_at"`
	FinishedAt     sql.NullTime   `db:"finished_at"`
	ExpiresAt      sql.NullTime   `db:"expires_at"`
	RequiredAction []byte         `db:"required_action"` // set for open runs
	PreviousRun    *string        `db:"previous_run"`    // see PreviousRun
	ConfigVersion  sql.NullInt64  `db:"config_version"`  // version of the agent or template; selected only for open runs
	Attachments    []byte         `db:"attachments"`     // attachments in the input of an open run; selected only for single runs
}

// RunColumns lists the columns of a RunRow, for statements that name the tables runs r and
// open_runs o.
const RunColumns = shortColumns + `, r.result`

// PreviousRun is the column previous_run of a run r: the id of the run that r continues. The column
// is null or empty if r continues no run.
const PreviousRun = `coalesce(r.previous_run, CASE WHEN r.seq > 1 THEN preceding_run(r.session_ref, r.seq) END) AS previous_run`

// OpenAttachments is the column attachments of an open run r. It reads the input only of runs that
// have attachments.
const OpenAttachments = `CASE WHEN r.status IS NULL AND EXISTS (SELECT 1 FROM files f WHERE f.run_id = r.id AND f.call_id = '` +
	domain.AttachmentCall + `' AND f.org_id = r.org_id) THEN r.input->'attachments' END AS attachments`

// shortColumns are RunColumns without the result.
const shortColumns = `r.id, r.org_id, r.agent_id, r.template_id, r.session_id, r.principal, r.trigger_type, r.automation_id,
	r.idempotency_key, r.idempotency_hash, r.fingerprint, coalesce(r.status, o.status, 'queued') AS status,
	r.status IS NOT NULL AS ended, coalesce(r.attempts, o.attempts, 0) AS attempts, r.created_at,
	coalesce(o.started_at, r.started_at) AS started_at, r.finished_at, r.expires_at, o.required_action, ` + PreviousRun + `,
	r.config_version`

// storedColumns lists the columns of the view stored_runs, except the result.
const storedColumns = `id, org_id, agent_id, template_id, session_id, principal, trigger_type, automation_id, idempotency_key,
	idempotency_hash, fingerprint, status, ended, attempts, created_at, started_at, finished_at, expires_at, required_action,
	previous_run, config_version`

// OpenResult lists the columns of a function that returns open and finished runs, with their
// results.
const OpenResult = storedColumns + `, result`

// resultsThatFit lists the columns of a function that returns open and finished runs, with the sizes
// of their results and with the results that fit. A result fits if it has at most $3 bytes, and the
// results up to and including it have at most $4 bytes in total. PostgreSQL reads only the selected
// results, because functions return references to large values.
const resultsThatFit = storedColumns + `, octet_length(result) AS result_bytes, CASE WHEN octet_length(result) <= $3
	AND sum(octet_length(result)) FILTER (WHERE octet_length(result) <= $3) OVER (ORDER BY id) <= $4 THEN result END AS result`

// runFrom is the FROM clause of statements that read runs. The table open_runs has a row for a run
// only while the run is open.
const runFrom = ` FROM runs r LEFT JOIN open_runs o ON o.run_id = r.id `

// RunLive is the SQL condition that the retention period of a run r has not ended. After that, the
// run is treated as removed, even while its row exists.
const RunLive = ` (r.expires_at IS NULL OR r.expires_at > clock_timestamp()) `

// Stored converts the row to the form that callers use.
func (row RunRow) Stored() StoredRun {
	out := StoredRun{
		OrganizationID: row.OrganizationID,
		Principal:      row.Principal,
		Fingerprint:    row.Fingerprint,
		Erased:         row.Ended && !row.Result.Valid && !row.ResultBytes.Valid,
		Run: domain.Run{
			ID: row.ID, Status: domain.RunStatus(row.Status), AgentID: row.AgentID, TemplateID: row.TemplateID,
			SessionID: row.SessionID, PreviousRunID: NamedRun(row.PreviousRun),
			Trigger:  domain.Trigger{Type: row.TriggerType, AutomationID: row.AutomationID},
			Attempts: row.Attempts, IdempotencyKey: row.IdempotencyKey, CreatedAt: domain.At(row.CreatedAt),
			StartedAt: domain.AtPtr(row.StartedAt.Time), FinishedAt: domain.AtPtr(row.FinishedAt.Time),
			ExpiresAt: domain.AtPtr(row.ExpiresAt.Time),
		},
	}
	if row.AgentID != nil && row.ConfigVersion.Valid {
		out.Run.AgentVersion = new(int(row.ConfigVersion.Int64))
	}

	// If the statement has left the result in the database, the row contains only the result's
	// size.
	if row.Result.Valid {
		out.result = []byte(row.Result.String)
	} else {
		out.Deferred = int(row.ResultBytes.Int64)
	}

	// The service itself has written these values. If one is unreadable, only the corresponding
	// field is missing in the run object.
	if row.Attachments != nil && json.Unmarshal(row.Attachments, &out.Run.Attachments) != nil {
		out.Run.Attachments = nil
	}
	var action domain.RequiredAction
	if out.Run.Status == domain.RunRequiresAction && json.Unmarshal(row.RequiredAction, &action) == nil {
		out.Run.RequiredAction = &action
	}

	return out
}

// NamedRun returns the id in a column previous_run, or nil if the column is null or empty.
func NamedRun(previous *string) *string { return pg.Optional(pg.Deref(previous)) }

// RunByID reads a run of an organization, and the progress of an open run. If principal is not
// empty, only that principal's runs are found. It returns not_found if the run does not exist,
// has expired or belongs to another organization.
func (s *Store) RunByID(ctx context.Context, org, principal, runID string) (StoredRun, error) {
	return s.runUpTo(ctx, org, principal, runID, math.MaxInt32)
}

// ShortRun is like RunByID, except that it does not read a result or progress of more than
// ShortBytes. In that case, Deferred is the size of the omitted data.
func (s *Store) ShortRun(ctx context.Context, org, principal, runID string) (StoredRun, error) {
	return s.runUpTo(ctx, org, principal, runID, ShortBytes)
}

// runUpTo reads a run, without its result or progress if these are larger than maximum bytes. Its
// errors are those of RunByID.
func (s *Store) runUpTo(ctx context.Context, org, principal, runID string, maximum int) (StoredRun, error) {
	var row RunRow
	var done map[string]*Progress
	var open int
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		done, open = nil, 0
		err := tx.GetContext(ctx, &row, `SELECT `+shortColumns+`, octet_length(r.result) AS result_bytes,
			CASE WHEN octet_length(r.result) <= $4 THEN r.result END AS result,
			`+OpenAttachments+runFrom+
			`WHERE r.id = $1 AND r.org_id = $2 AND ($3 = '' OR r.principal = $3) AND`+RunLive, runID, org, principal, maximum)
		// The result of a finished run contains its progress. A run that no attempt has begun has
		// no progress.
		if err != nil || row.Ended || row.Attempts == 0 {
			return err
		}

		// Without a maximum, the size of the progress need not be checked.
		if maximum < math.MaxInt32 {
			if open, err = progressBytes(ctx, tx, org, runID); err != nil || open > maximum {
				return err
			}
		}

		done, err = ReadProgress(ctx, tx, []string{org}, []string{runID})
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return StoredRun{}, pg.NotFound()
	}
	if err != nil {
		return StoredRun{}, fmt.Errorf("reading run: %w", err)
	}

	out := row.Stored()

	// If the progress is too large, it is not read, and the caller must read it with RunByID.
	if open > maximum {
		out.Deferred = open
	} else if p := done[runID]; p != nil {
		p.showOpen(&out.Run)
	}
	return out, nil
}

// Echo returns the field echo of a run's input, or nil if the input has none or the run does not
// exist; see domain.Input.
func (s *Store) Echo(ctx context.Context, org, runID string) (echo []byte, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &echo, `SELECT input->'echo' FROM runs WHERE org_id = $1 AND id = $2`, org, runID)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("reading the echoed values of a run's input: %w", err)
	}
	return echo, nil
}

// Input returns a run's input, the JSON of a domain.Input. It returns not_found if the run does not
// exist.
func (s *Store) Input(ctx context.Context, org, runID string) (input []byte, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &input, `SELECT input FROM runs WHERE org_id = $1 AND id = $2`, org, runID)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, pg.NotFound()
	}
	if err != nil {
		return nil, fmt.Errorf("reading input of run: %w", err)
	}
	return input, nil
}

// Unstored reports whether the request for an organization's run asked not to store the response.
// Such a run cannot be read as a response of OpenAI's protocol. Unstored reads only the beginning
// of the run's input.
func (s *Store) Unstored(ctx context.Context, org, runID string) (unstored bool, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &unstored, `SELECT coalesce((SELECT left(r.input::text, length($3)) = $3 FROM runs r
			WHERE r.id = $1 AND r.org_id = $2), false)`, runID, org, domain.UnstoredInput)
	})
	if err != nil {
		return false, fmt.Errorf("reading input of run: %w", err)
	}
	return unstored, nil
}

// RunRef identifies a run of an organization.
type RunRef struct {
	OrganizationID string
	RunID          string
}

// AwaitedRuns returns the given runs that have finished or wait for a person, in any order.
// Requests that wait for a run call AwaitedRuns periodically, because a reply or a notice may be
// lost. Results of more than ShortBytes are Deferred. Once the total size of the results reaches
// togetherBytes, further results are also Deferred.
func (s *Store) AwaitedRuns(ctx context.Context, runs []RunRef) ([]StoredRun, error) {
	stmt, err := s.db.Prepared(ctx, `SELECT `+resultsThatFit+` FROM awaited_runs($1, $2)`)
	if err != nil {
		return nil, err
	}

	var rows []RunRow
	err = stmt.SelectContext(ctx, &rows, pq.Array(pg.Column(runs, func(r *RunRef) string { return r.OrganizationID })),
		pq.Array(pg.Column(runs, func(r *RunRef) string { return r.RunID })), ShortBytes, togetherBytes)
	if err != nil {
		return nil, fmt.Errorf("reading awaited runs: %w", err)
	}

	// The statement may return runs of all organizations of the batch, so check that each run
	// belongs to the organization of its reference.
	owner := make(map[string]string, len(runs))
	for _, r := range runs {
		owner[r.RunID] = r.OrganizationID
	}

	var out []StoredRun
	for _, row := range rows {
		if owner[row.ID] == row.OrganizationID {
			out = append(out, row.Stored())
		}
	}
	return out, nil
}

// KeyRef identifies an idempotency key of an organization by its hash.
type KeyRef struct {
	OrganizationID string
	Hash           []byte // of the idempotency key
}

// RunsByKey returns the live runs that have the idempotency keys, in the order of keys; a missing
// run is nil. An expired run has lost its key. Results are Deferred as in AwaitedRuns. The progress
// of open runs is not read.
func (s *Store) RunsByKey(ctx context.Context, keys []KeyRef) ([]*StoredRun, error) {
	stmt, err := s.db.Prepared(ctx, `SELECT `+resultsThatFit+` FROM runs_holding_keys($1, $2)`)
	if err != nil {
		return nil, err
	}

	var rows []RunRow
	err = stmt.SelectContext(ctx, &rows, pq.Array(pg.Column(keys, func(k *KeyRef) string { return k.OrganizationID })),
		pq.ByteaArray(pg.Column(keys, func(k *KeyRef) []byte { return k.Hash })), ShortBytes, togetherBytes)
	if err != nil {
		return nil, fmt.Errorf("reading runs by key: %w", err)
	}

	// Two keys of different organizations have different hashes, because the hash covers the
	// organization.
	byHash := make(map[string]*StoredRun, len(rows))
	for _, row := range rows {
		run := row.Stored()
		byHash[string(row.Hash)] = &run
	}

	out := make([]*StoredRun, len(keys))
	for i, k := range keys {
		// The statement may return runs of all organizations of the batch, so check that each run
		// belongs to the organization of its key.
		if run := byHash[string(k.Hash)]; run != nil && run.OrganizationID == k.OrganizationID {
			out[i] = run
		}
	}

	return out, nil
}
