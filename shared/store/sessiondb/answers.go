package sessiondb

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/store/rundb"
)

// Answer is the answer of a chat's run as the session's history contains it. If the run has no
// answer, because it is open or has failed, Text is notPlayed. If only a part of the answer was
// played, Text contains that part.
type Answer struct {
	RunID     string  `db:"id"`
	TargetID  string  `db:"target_id"`
	SessionID string  `db:"session_id"`
	Text      *string `db:"text"` // nil: it exceeds the size
}

// Answers reads answers of the given runs in any order. It omits runs that are gone, belong to
// another principal, are not chats, or cannot be read as responses. Texts are returned for the
// newest runs, up to the total size in the argument bytes. The Text of the remaining answers is
// nil.
func (s *Store) Answers(ctx context.Context, org, principal string, runIDs []string, bytes int) (out []Answer, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// The transaction may be retried, so each try starts with an empty list.
		out = nil
		return tx.SelectContext(ctx, &out, `SELECT id, target_id, session_id,
			  CASE WHEN sum(octet_length(text)) OVER (ORDER BY id DESC) <= $5 THEN text END AS text
			FROM (SELECT r.id, coalesce(r.agent_id, r.template_id) AS target_id, r.session_id,
			    coalesce(nullif(coalesce(h.text, r.answer), ''), $4) AS text
			  FROM runs r LEFT JOIN heard h ON h.run_id = r.id
			  WHERE r.org_id = $1 AND r.principal = $2 AND r.id = ANY ($3) AND r.trigger_type = 'chat' AND`+rundb.RunLive+`AND`+NotErased+`
			    AND left(r.input::text, length($6)) <> $6) a`,
			org, principal, pq.Array(runIDs), notPlayed, bytes, domain.UnstoredInput)
	})
	if err != nil {
		return nil, fmt.Errorf("reading answers: %w", err)
	}
	return out, nil
}

// Preceding returns the id of the run that the given run of a session continues. It returns "" if
// the given run continues no run of the session. found reports whether the given run exists in the
// principal's session.
func (s *Store) Preceding(ctx context.Context, of SessionName, principal, runID string) (previous string, found bool, err error) {
	var rows []string
	err = s.db.Within(ctx, []string{of.OrganizationID}, func(tx *sqlx.Tx) error {
		rows = nil
		return tx.SelectContext(ctx, &rows, `SELECT coalesce(previous_run, '') FROM (SELECT `+rundb.PreviousRun+`
			FROM runs r WHERE r.id = $4 AND r.org_id = $1 AND coalesce(r.agent_id, r.template_id) = $2 AND r.session_id = $3
			  AND r.principal = $5 AND`+rundb.RunLive+`AND`+NotErased+`) found`, of.OrganizationID, of.TargetID, of.SessionID, runID, principal)
	})
	if err != nil {
		return "", false, fmt.Errorf("reading the preceding run: %w", err)
	}

	// If there is no row, the given run belongs to another session or principal, or no longer
	// exists.
	if len(rows) == 0 {
		return "", false, nil
	}
	return rows[0], true, nil
}

// FirstAnswered reports whether a session has an answer and its first run has the given message.
// key identifies the session.
func (s *Store) FirstAnswered(ctx context.Context, org string, key []byte, message string) (answered bool, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &answered, `SELECT coalesce((SELECT r.input->>'message' = $3 FROM sessions s JOIN runs r ON `+runInSession+`
			  WHERE s.key = $1 AND s.org_id = $2 ORDER BY r.seq LIMIT 1), false)
			AND EXISTS (SELECT FROM sessions s JOIN runs r ON `+runInSession+` LEFT JOIN heard h ON h.run_id = r.id
			  WHERE s.key = $1 AND s.org_id = $2 AND coalesce(h.text, r.answer) <> '')`, key, org, message)
	})
	if err != nil {
		return false, fmt.Errorf("looking up the first message of a session: %w", err)
	}
	return answered, nil
}
