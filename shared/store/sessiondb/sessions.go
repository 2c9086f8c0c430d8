package sessiondb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// CountedRuns is the maximum number of runs of a session that are counted.
const CountedRuns = 10_000

// Session is a session of an organization in the form in which lists show it.
type Session struct {
	Ref       int64     `db:"ref"`        // newer sessions have higher values
	TargetID  string    `db:"target_id"`  // the id of the agent or template
	SessionID string    `db:"session_id"` // the client's id of the session
	Principal string    `db:"principal"`
	CreatedAt time.Time `db:"created_at"`
	Runs      int       `db:"runs"` // number of readable runs, at most CountedRuns
}

// runInSession is the condition that a run belongs to the session and has neither expired nor been
// erased.
const runInSession = `r.session_ref = s.ref AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
	AND (r.status IS NULL OR r.result IS NOT NULL)`

// sessionsQuery reads sessions that have at least one run. The lateral count with a limit makes the
// planner walk the sessions in order and stop after the page. Without the limit, the planner would
// read and join all runs.
const sessionsQuery = `SELECT s.ref, s.target_id, s.session_id, s.principal, s.created_at, counted.runs FROM sessions s
	CROSS JOIN LATERAL (SELECT count(*) AS runs FROM (SELECT 1 FROM runs r WHERE ` + runInSession + ` LIMIT 10000) one) counted
	WHERE counted.runs > 0 AND s.org_id = $1`

// SessionFilter narrows a list of sessions. A session must satisfy all conditions. Zero fields are
// ignored.
type SessionFilter struct {
	Principals []string // nil: all principals
	Before     int64    // only sessions older than the session with this Ref
}

// Sessions lists the sessions of an organization that have runs, newest first, at most limit of
// them.
func (s *Store) Sessions(ctx context.Context, org string, f SessionFilter, limit int) ([]Session, error) {
	// The first page begins with the newest session.
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}

	if f.Principals == nil {
		return s.sessions(ctx, org, "", f.Before, limit)
	}

	var out []Session
	for _, principal := range f.Principals { // one query per principal, because a query can use the index for only one principal
		found, err := s.sessions(ctx, org, principal, f.Before, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}

	slices.SortFunc(out, func(a, b Session) int { return cmp.Compare(b.Ref, a.Ref) })
	return out[:min(len(out), limit)], nil
}

// sessions implements Sessions for one principal, or for all principals if principal is "".
func (s *Store) sessions(ctx context.Context, org, principal string, before int64, limit int) ([]Session, error) {
	query, args := sessionsQuery+` AND s.ref < $2`, []any{org, before, limit}
	switch principal {
	case "":
	case domain.SystemPrincipal:
		query += ` AND s.principal = 'system'`
	default: // the condition on the principal selects the right partial index
		query, args = query+` AND s.principal = $4 AND s.principal <> 'system'`, append(args, principal)
	}

	var out []Session
	err := s.db.WithinPage(ctx, org, func(tx *sqlx.Tx) error {
		out = nil
		return tx.SelectContext(ctx, &out, query+` ORDER BY s.ref DESC LIMIT $3`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}

	return out, nil
}

// SessionsNamed returns the sessions of an organization that have runs and the given name, which is
// the session id that the client chose. If principals is not nil, only their sessions are returned.
// SessionsNamed returns at most two sessions, enough to detect that the name is ambiguous.
func (s *Store) SessionsNamed(ctx context.Context, org, name string, principals []string) (out []Session, err error) {
	query, args := sessionsQuery+` AND s.session_id = $2`, []any{org, name}
	if suffix, own := strings.CutPrefix(name, OwnSessionPrefix); own && utf8.RuneCountInString(name) == ownSessionLength {
		query += ` AND s.ref = (SELECT session_ref FROM runs WHERE id = $3)` // the index contains no sessions with generated ids
		args = append(args, id.Run+"_"+suffix)
	} else {
		query += ` AND NOT (s.session_id LIKE 'auto\_%' AND length(s.session_id) = 31)`
	}

	// A parameter may have been added above, so the number of this parameter is computed.
	if principals != nil {
		query += fmt.Sprintf(` AND s.principal = ANY ($%d)`, len(args)+1)
		args = append(args, pq.Array(principals))
	}

	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		out = nil
		return tx.SelectContext(ctx, &out, query+` LIMIT 2`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("looking up sessions by name: %w", err)
	}

	return out, nil
}

// OwnSessionPrefix is the prefix of the session id that is generated for a run without a session.
// It is followed by the end of the run's id.
const OwnSessionPrefix = "auto_"

// ownSessionLength is the length of a generated session id: the prefix and the end of a run's id.
const ownSessionLength = len(OwnSessionPrefix) + 26

// SessionName identifies a session of an organization in the way in which callers identify it.
type SessionName struct {
	OrganizationID string
	TargetID       string
	SessionID      string
	Key            []byte // a hash over the organization, the target, the session id and the principal
}

// findSession returns a session by its key. It returns not_found if the session does not exist or
// all of its runs are gone.
func findSession(ctx context.Context, tx *sqlx.Tx, name SessionName) (Session, error) {
	var found Session
	err := tx.GetContext(ctx, &found, sessionsQuery+` AND s.key = $2`, name.OrganizationID, name.Key)
	if errors.Is(err, sql.ErrNoRows) {
		return Session{}, pg.NotFound()
	}
	if err != nil {
		return Session{}, fmt.Errorf("looking for session: %w", err)
	}
	return found, nil
}

// SessionTurn is one run of a session: the message and, once it has finished, the answer.
type SessionTurn struct {
	RunID       string           `db:"id"`
	PreviousRun *string          `db:"previous_run"` // the previous run, which this run continues; nil or empty: none
	Seq         int              `db:"seq"`
	Status      domain.RunStatus `db:"status"`
	Message     string           `db:"message"`
	Files       []byte           `db:"files"`     // the attachments of the message, as in the run object; nil: none
	Answer      *string          `db:"answer"`    // nil: no answer, or an empty one
	Heard       *string          `db:"heard"`     // the part of an interrupted answer that was played or shown; nil if it was not interrupted
	Citations   []byte           `db:"citations"` // the answer's citations, as in the run object; nil while the run is open
	CreatedAt   time.Time        `db:"created_at"`
	FinishedAt  *time.Time       `db:"finished_at"`
	Fits        bool             `db:"fits"`
	Bytes       int              `db:"bytes"` // bytes of the newest turn's input and result
}

// sessionBytes is the maximum total size of the inputs and results that are read for one page of
// turns.
const sessionBytes = 1 << 20

// turnsQuery reads a page of turns. Texts that do not fit into the maximum size are not returned.
// If $5 is true, the newest turn always fits. The exact size of an input is computed only if the
// stored size, which PostgreSQL knows without reading the text, fits. Most texts that do not fit
// are therefore not read.
//
// The run that a turn continues is usually the previous turn of the page.
const turnsQuery = `SELECT id, seq, status, created_at, finished_at, fits, heard, bytes,
	coalesce(previous_run, CASE WHEN lag(seq) OVER (ORDER BY seq) = seq - 1 THEN lag(id) OVER (ORDER BY seq)
	  WHEN seq > 1 THEN preceding_run($1, seq) END) AS previous_run,
	CASE WHEN fits THEN coalesce(input->>'message', '') ELSE '' END AS message,
	CASE WHEN fits THEN input->'attachments' END AS files, CASE WHEN fits THEN answer END AS answer,
	CASE WHEN fits AND result IS NOT NULL THEN coalesce(replace(result, '\u0000', '\ufffd')::json->'citations', '[]') END AS citations
	FROM (
	  SELECT sums.*, CASE row_number() OVER w WHEN 1 THEN octet_length(input::text) + coalesce(octet_length(result), 0) ELSE 0 END AS bytes,
	    $5 AND row_number() OVER w = 1 OR least_bytes <= $4
	      AND sum(CASE WHEN least_bytes <= $4 THEN octet_length(input::text) + coalesce(octet_length(result), 0) END) OVER w <= $4 AS fits
	  FROM (
	    SELECT page.*, sum(pg_column_size(input) + coalesce(octet_length(result), 0)) OVER w AS least_bytes
	    FROM (
	      SELECT r.id, r.seq, r.previous_run, coalesce(r.status, o.status, 'queued') AS status, r.input,
	        CASE WHEN r.status = 'completed' THEN r.answer END AS answer, h.text AS heard, r.result,
	        r.created_at, r.finished_at
	      FROM sessions s JOIN runs r ON ` + runInSession + ` LEFT JOIN open_runs o ON o.run_id = r.id LEFT JOIN heard h ON h.run_id = r.id
	      WHERE s.ref = $1 AND r.seq < $2 ORDER BY r.seq DESC LIMIT $3) page
	    WINDOW w AS (ORDER BY seq DESC)) sums
	  WINDOW w AS (ORDER BY seq DESC)) sized
	ORDER BY seq DESC`

// SessionPage is a session with some of its turns, newest first.
type SessionPage struct {
	Session Session
	Turns   []SessionTurn
	More    bool // older turns exist
	Cut     bool // further turns would have exceeded the maximum size
	Newest  int  // bytes of the newest turn's input and result
}

// PageOfSession returns a session and its newest turns. If before is not 0, only turns with a lower
// number are returned. It returns at most limit turns, whose texts have at most the given total
// size in bytes. If bytes is 0, the maximum is sessionBytes, and at least one turn is returned even
// if it is larger. PageOfSession returns not_found if the session does not exist or all of its runs
// are gone.
func (s *Store) PageOfSession(ctx context.Context, name SessionName, before, limit, bytes int) (page SessionPage, err error) {
	if before == 0 {
		before = math.MaxInt32
	}

	// A page for a list contains at least one turn. If the caller limits the bytes, the page may
	// contain none.
	whole := bytes == 0
	if whole {
		bytes = sessionBytes
	}

	err = s.db.Within(ctx, []string{name.OrganizationID}, func(tx *sqlx.Tx) (err error) {
		page = SessionPage{}
		if page.Session, err = findSession(ctx, tx, name); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &page.Turns, turnsQuery, page.Session.Ref, before, limit+1, bytes, whole)
	})
	if err != nil {
		return SessionPage{}, fmt.Errorf("reading session: %w", err)
	}

	if len(page.Turns) > 0 {
		page.Newest = page.Turns[0].Bytes
	}

	// The query reads one turn more than the limit, to find out whether there are further turns.
	for i, turn := range page.Turns {
		if i == limit || !turn.Fits {
			page.Turns, page.More, page.Cut = page.Turns[:i], true, i < limit
			break
		}
	}

	return page, nil
}
