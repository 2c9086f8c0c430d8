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

// CountedRuns is how far the runs of a session are counted: a session that has more shows this number.
const CountedRuns = 10_000

// Session is a session of an organization as lists show it.
type Session struct {
	Ref       int64     `db:"ref"`        // newer sessions have higher ones
	TargetID  string    `db:"target_id"`  // the agent or template
	SessionID string    `db:"session_id"` // the client's name of it
	Principal string    `db:"principal"`
	CreatedAt time.Time `db:"created_at"`
	Runs      int       `db:"runs"` // that can be read; CountedRuns at most
}

// A run is part of its session until it has expired or was erased.
const runInSession = `r.session_ref = s.ref AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
	AND (r.status IS NULL OR r.result IS NOT NULL)`

// sessionsQuery reads sessions that have at least one run. Counting is lateral, with a limit, so that the
// planner walks sessions in order and stops with the page, instead of reading all runs to join them.
const sessionsQuery = `SELECT s.ref, s.target_id, s.session_id, s.principal, s.created_at, counted.runs FROM sessions s
	CROSS JOIN LATERAL (SELECT count(*) AS runs FROM (SELECT 1 FROM runs r WHERE ` + runInSession + ` LIMIT 10000) one) counted
	WHERE counted.runs > 0 AND s.org_id = $1`

// SessionFilter narrows a list of sessions; zero fields do not narrow.
type SessionFilter struct {
	Principals []string // nil: everybody's
	Before     int64    // only sessions older than the one of this Ref
}

// Sessions reads up to limit sessions of an organization that have runs, newest first.
func (s *Store) Sessions(ctx context.Context, org string, f SessionFilter, limit int) ([]Session, error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	if f.Principals == nil {
		return s.sessions(ctx, org, "", f.Before, limit)
	}
	var out []Session
	for _, principal := range f.Principals { // an index serves each one, and none serves several
		found, err := s.sessions(ctx, org, principal, f.Before, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Compare(b.Ref, a.Ref) })
	return out[:min(len(out), limit)], nil
}

// sessions is Sessions of one principal, or of everybody.
func (s *Store) sessions(ctx context.Context, org, principal string, before int64, limit int) ([]Session, error) {
	query, args := sessionsQuery+` AND s.ref < $2`, []any{org, before, limit}
	switch principal {
	case "":
	case domain.SystemPrincipal:
		query += ` AND s.principal = 'system'`
	default: // which index serves it depends on the second half
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

// SessionsNamed reads sessions of an organization that a client gave that name and that have runs, of the principals (nil: of anybody):
// up to two, which is enough to see that there are several.
func (s *Store) SessionsNamed(ctx context.Context, org, name string, principals []string) (out []Session, err error) {
	query, args := sessionsQuery+` AND s.session_id = $2`, []any{org, name}
	if suffix, own := strings.CutPrefix(name, OwnSessionPrefix); own && utf8.RuneCountInString(name) == ownSessionLength {
		query += ` AND s.ref = (SELECT session_ref FROM runs WHERE id = $3)` // which the index leaves out
		args = append(args, id.Run+"_"+suffix)
	} else {
		query += ` AND NOT (s.session_id LIKE 'auto\_%' AND length(s.session_id) = 31)`
	}
	if principals != nil {
		query += fmt.Sprintf(` AND s.principal = ANY ($%d)`, len(args)+1)
		args = append(args, pq.Array(principals))
	}
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		out = nil
		return tx.SelectContext(ctx, &out, query+` LIMIT 2`, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("looking for sessions of a name: %w", err)
	}
	return out, nil
}

// OwnSessionPrefix begins the name of a session that a run has by itself; the end of the run's id follows.
const OwnSessionPrefix = "auto_"

const ownSessionLength = len(OwnSessionPrefix) + 26

// SessionName names a session of an organization as its callers do.
type SessionName struct {
	OrganizationID string
	TargetID       string
	SessionID      string
	Key            []byte // a hash over the three and the principal that is meant
}

// findSession gives the session that is meant; not_found when there is none, or nothing is left in it.
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

// SessionTurn is one run of a session: the message, and once it has ended the answer.
type SessionTurn struct {
	RunID      string           `db:"id"`
	Seq        int              `db:"seq"`
	Status     domain.RunStatus `db:"status"`
	Message    string           `db:"message"`
	Answer     *string          `db:"answer"`    // nil: none, or an empty one
	Heard      *string          `db:"heard"`     // of a spoken answer that was interrupted; nil: it was not
	Citations  []byte           `db:"citations"` // of the answer, as the run object has them; nil while the run is open
	CreatedAt  time.Time        `db:"created_at"`
	FinishedAt *time.Time       `db:"finished_at"`
	Fits       bool             `db:"fits"`
	Bytes      int              `db:"bytes"` // of the newest turn's input and result
}

// sessionBytes bounds the inputs and results of the turns that are read at a time.
const sessionBytes = 1 << 20

// turnsQuery reads a page of turns. Texts of turns that do not fit are null, and so stay in the database. The newest turn always fits into
// a whole page. Sizes of inputs are exact only where the sizes that PostgreSQL knows without reading the texts leave room: to refuse a
// page is cheap.
const turnsQuery = `SELECT id, seq, status, created_at, finished_at, fits, heard, bytes,
	CASE WHEN fits THEN coalesce(input->>'message', '') ELSE '' END AS message, CASE WHEN fits THEN answer END AS answer,
	CASE WHEN fits AND result IS NOT NULL THEN coalesce(replace(result, '\u0000', '\ufffd')::json->'citations', '[]') END AS citations
	FROM (
	  SELECT sums.*, CASE row_number() OVER w WHEN 1 THEN octet_length(input::text) + coalesce(octet_length(result), 0) ELSE 0 END AS bytes,
	    $5 AND row_number() OVER w = 1 OR least_bytes <= $4
	      AND sum(CASE WHEN least_bytes <= $4 THEN octet_length(input::text) + coalesce(octet_length(result), 0) END) OVER w <= $4 AS fits
	  FROM (
	    SELECT page.*, sum(pg_column_size(input) + coalesce(octet_length(result), 0)) OVER w AS least_bytes
	    FROM (
	      SELECT r.id, r.seq, coalesce(r.status, o.status, 'queued') AS status, r.input, r.answer, h.text AS heard, r.result,
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
	More    bool // older ones are left
	Cut     bool // the turns end where they would have had more bytes than asked for
	Newest  int  // bytes of the newest turn's input and result
}

// PageOfSession returns a session and its newest turns before the turn of that seq (0: all), at most limit, and no more than so many
// bytes. With 0 bytes it returns as many as a page may have, and one turn in any case. It is not_found when there is no such session, or
// nothing is left in it.
func (s *Store) PageOfSession(ctx context.Context, name SessionName, before, limit, bytes int) (page SessionPage, err error) {
	if before == 0 {
		before = math.MaxInt32
	}
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
	for i, turn := range page.Turns {
		if i == limit || !turn.Fits {
			page.Turns, page.More, page.Cut = page.Turns[:i], true, i < limit
			break
		}
	}
	return page, nil
}
