package executiondb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/lease"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// Claimed is a run that a worker has claimed, with its fence. A later claim of the run has a higher
// fence, and the database then rejects all writes with the lower fence.
type Claimed struct {
	RunID          string            `db:"run_id"`
	OrganizationID string            `db:"org_id"`
	AgentID        *string           `db:"agent_id"`
	TemplateID     *string           `db:"template_id"`
	ConfigVersion  int               `db:"config_version"` // of the agent or template, for Config
	SessionRef     int64             `db:"session_ref"`    // the database's id of the session
	Seq            int               `db:"seq"`            // the run's position in its session
	SessionID      string            `db:"session_id"`
	TriggerType    string            `db:"trigger_type"`
	AutomationID   *string           `db:"automation_id"`
	IdempotencyKey *string           `db:"idempotency_key"`
	RawInput       []byte            `db:"input"`       // nil if the input is large
	LargeInput     int               `db:"large_input"` // size in bytes of an input that RunInput must read; 0: not large
	CallerKind     domain.CallerKind `db:"caller_kind"`
	RetentionSecs  int64             `db:"retention"` // 0: kept until its session is erased
	Fence          int64             `db:"fence"`
	Attempts       int               `db:"attempts"`       // including this one
	Deaths         int               `db:"deaths"`         // the number of lost workers
	CallerAllowed  bool              `db:"caller_allowed"` // the agent exists and allows the run's kind of caller
	LastError      sql.Null[[]byte]  `db:"last_error"`     // JSON of the domain.RunError of the last failed attempt
	CreatedAt      time.Time         `db:"created_at"`
	StartedAt      time.Time         `db:"started_at"`
	Deadline       time.Time         `db:"deadline"`     // time after which the sweeper times the run out
	Now            time.Time         `db:"db_now"`       // the database's clock at the claim
	PreviousRun    *string           `db:"previous_run"` // the previous run, which this run continues; nil or empty: none
}

// TargetID is the id of the run's agent or template.
func (c *Claimed) TargetID() string {
	if c.AgentID != nil {
		return *c.AgentID
	}
	return *c.TemplateID
}

// Input decodes the run's input. RawInput must be set: for a large input the worker first stores
// the result of RunInput in it.
func (c *Claimed) Input() (domain.Input, error) {
	var in domain.Input
	if err := json.Unmarshal(c.RawInput, &in); err != nil {
		return in, fmt.Errorf("reading run input: %w", err)
	}
	return in, nil
}

// Run returns the run object at the time of the claim.
func (c *Claimed) Run() domain.Run {
	return domain.Run{
		ID: c.RunID, Status: domain.RunRunning, AgentID: c.AgentID, TemplateID: c.TemplateID, SessionID: c.SessionID,
		PreviousRunID: rundb.NamedRun(c.PreviousRun),
		Trigger:       domain.Trigger{Type: c.TriggerType, AutomationID: c.AutomationID},
		Attempts:      c.Attempts, IdempotencyKey: c.IdempotencyKey, AgentVersion: c.agentVersion(),
		CreatedAt: domain.At(c.CreatedAt), StartedAt: domain.AtPtr(c.StartedAt),
	}
}

// agentVersion returns the version of the run's agent, or nil for a template.
func (c *Claimed) agentVersion() *int {
	if c.AgentID == nil {
		return nil
	}
	return &c.ConfigVersion
}

// Claim is the result of one claim: the run, or the reason why its job message is no longer valid.
type Claim struct {
	// Run is the claimed run, or nil if the run was not claimed.
	Run    *Claimed
	Result []byte // rendered object of a finished run, which is sent again because its reply may have been lost
	// Ended means that the run has finished or does not exist. If Run is nil and neither Ended nor
	// Locked is set, the run is leased or must wait for its turn; a new job message will be
	// published when its turn comes.
	Ended  bool
	Locked bool // another transaction has locked the run; it can be claimed later
}

// claimedRow is a row of claim_runs: a claimed run, or only the id of a run that another
// transaction has locked.
type claimedRow struct {
	Claimed

	Locked bool `db:"locked"`
}

// largeInput is the maximum size in bytes of an input that is read together with its run. The limit
// bounds the memory of a claim, because a batch may claim hundreds of runs.
const largeInput = 256 << 10

// claimQuery claims the runs $1 for the lease $2. Inputs above $3 bytes are not read.
//
// A job message contains only a run id and not the organization. The SQL function therefore
// searches the runs of all organizations.
const claimQuery = `SELECT run_id, org_id, agent_id, template_id, config_version, session_ref, seq, session_id, trigger_type,
  automation_id, idempotency_key, CASE WHEN octet_length(input::text) <= $3 THEN input END AS input,
  CASE WHEN octet_length(input::text) > $3 THEN octet_length(input::text) ELSE 0 END AS large_input,
  caller_kind, retention, fence, attempts, deaths, last_error, created_at, started_at,
  deadline, db_now, caller_allowed, locked, previous_run FROM claim_runs($1, $2)`

// Claim claims the runs among runIDs that may start now, with one statement that waits for no lock.
// The results are in the order of runIDs.
//
// A claim raises the run's fence and its number of attempts, and leases the run for lease.Lease.
// The worker must renew the lease with Extend. If Claim returns an error, runs may have been
// claimed; their leases expire, and the sweeper requeues them.
func (s *Store) Claim(ctx context.Context, runIDs []string) ([]Claim, error) {
	var claimed []claimedRow
	if err := s.claims.SelectInto(ctx, &claimed, claimQuery, pq.Array(runIDs), pg.Interval(lease.Lease), largeInput); err != nil {
		return nil, fmt.Errorf("claiming runs: %w", err)
	}

	// The statement returns rows in any order, and may return no rows for some ids.
	out := make([]Claim, len(runIDs))
	byID := make(map[string]*claimedRow, len(claimed))
	for i := range claimed {
		byID[claimed[i].RunID] = &claimed[i]
	}

	// void lists the ids for which the statement returned no row.
	var void []string
	for i, id := range runIDs {
		switch row := byID[id]; {
		case row == nil:
			void = append(void, id)
		case row.Locked:
			out[i].Locked = true
		default:
			out[i].Run = &row.Claimed
			delete(byID, id) // if a batch contains an id twice, the second occurrence gets an empty Claim
		}
	}

	if len(void) == 0 {
		return out, nil
	}

	return out, explainVoid(ctx, s.db, runIDs, out, void)
}

// RunInput reads the input of a run, as JSON. It is used for inputs that Claim has not read because
// of their size.
func (s *Store) RunInput(ctx context.Context, org, runID string) ([]byte, error) {
	var input []byte
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &input, `SELECT input FROM runs WHERE org_id = $1 AND id = $2`, org, runID)
	})
	if err != nil {
		return nil, fmt.Errorf("reading run input: %w", err)
	}
	return input, nil
}

// explainVoid distinguishes runs that have finished from runs that must wait, and sets Ended and
// Result in out. out has an entry for each of runIDs; void contains the ids without a row.
// explainVoid also releases the dispatch slots of the waiting runs, because their job messages are
// about to be acknowledged.
func explainVoid(ctx context.Context, db *pg.DB, runIDs []string, out []Claim, void []string) error {
	var rows []struct {
		ID     string         `db:"id"`
		Ended  bool           `db:"ended"`
		Result sql.NullString `db:"result"`
	}

	err := db.Tx(ctx, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT id, ended, result FROM void_claims($1)`, pq.Array(void))
	})
	if err != nil {
		return fmt.Errorf("reading runs that cannot be started: %w", err)
	}

	found := make(map[string]int, len(rows))
	for i, r := range rows {
		found[r.ID] = i
	}

	for i, id := range runIDs {
		if out[i].Run != nil || out[i].Locked {
			continue
		}
		j, known := found[id]
		// A run without a row no longer exists, for example because its retention has ended.
		out[i].Ended = !known || rows[j].Ended

		// The result of a finished run is returned, so that the worker sends it again: the first
		// reply may have been lost.
		if known && rows[j].Result.Valid {
			out[i].Result = []byte(rows[j].Result.String)
		}
	}

	return nil
}

// Held returns the run's identity and the claim's fence, with which the worker writes to the run.
func (c *Claimed) Held() lease.Held {
	return lease.Held{RunID: c.RunID, OrganizationID: c.OrganizationID, Fence: c.Fence}
}

// Leases is the result of renewing leases, with run ids as keys. If a run is in neither map, its
// worker no longer holds the run and must stop executing it.
type Leases struct {
	Extended map[string]bool
	Locked   map[string]bool // another transaction has locked the run; its lease is unchanged and can be extended later
}

// Extend renews the leases of held runs for lease.Lease from now, with one statement that waits for
// no lock. After an error it is unknown which leases were renewed; the worker still holds its runs
// until their leases expire.
func (s *Store) Extend(ctx context.Context, held []lease.Held) (Leases, error) {
	// The fences determine which runs the worker holds. The organizations only limit which rows the
	// statement can read. A worker with an old fence gets no row for its run.
	var rows []heldRow
	err := s.db.Tx(ctx, func(tx *sqlx.Tx) error {
		rows = rows[:0]
		return tx.SelectContext(ctx, &rows, `SELECT run_id, locked FROM extend_leases($1, $2, $3, $4)`,
			pq.Array(pg.Column(held, func(h *lease.Held) string { return h.RunID })),
			pq.Array(pg.Column(held, func(h *lease.Held) int64 { return h.Fence })), pg.Interval(lease.Lease),
			pq.Array(pg.Column(held, func(h *lease.Held) string { return h.OrganizationID })))
	})
	if err != nil {
		return Leases{}, fmt.Errorf("extending leases: %w", err)
	}

	out := Leases{}
	out.Extended, out.Locked = byLock(rows)
	return out, nil
}

// heldRow is a run that its worker still holds. If Locked is set, another transaction has locked
// the run, and the row contains the last committed state.
type heldRow struct {
	RunID  string `db:"run_id"`
	Locked bool   `db:"locked"`
}

// byLock returns the runs in two maps: those that another transaction has locked, and all others.
func byLock(rows []heldRow) (free, locked map[string]bool) {
	free, locked = make(map[string]bool, len(rows)), map[string]bool{}
	for _, r := range rows {
		if r.Locked {
			locked[r.RunID] = true
			continue
		}
		free[r.RunID] = true
	}
	return free, locked
}

// Config reads the configuration of one version of a template, or of one version of an
// organization's agent. A version never changes.
func (s *Store) Config(ctx context.Context, org, targetID string, version int) (domain.Config, error) {
	var raw []byte
	var cfg domain.Config
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &raw, `SELECT config FROM agent_configs WHERE target_id = $1 AND version = $2
			AND (org_id IS NULL OR org_id = $3)`, targetID, version, org)
	})
	if err != nil {
		return cfg, fmt.Errorf("reading agent configuration: %w", err)
	}

	if err := json.Unmarshal(raw, &cfg); err != nil {
		return cfg, fmt.Errorf("reading agent configuration: %w", err)
	}

	return cfg, nil
}

// OrganizationName returns the name of an organization, or "" if it has been deleted.
func (s *Store) OrganizationName(ctx context.Context, org string) (string, error) {
	var names []string
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		names = nil
		return tx.SelectContext(ctx, &names, `SELECT name FROM organizations WHERE id = $1`, org)
	})
	if err != nil {
		return "", fmt.Errorf("reading the name of an organization: %w", err)
	}
	return strings.Join(names, ""), nil
}
