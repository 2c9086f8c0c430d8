package sessiondb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// Turn is an earlier run in the history of a session. If the run has no answer, the turn has no
// message either, and contains only the history in the run's request.
type Turn struct {
	Seq     int    `db:"seq"`
	RunID   string `db:"run_id"`
	Message string `db:"message"`
	Answer  string `db:"answer"`
	Earlier []byte `db:"earlier"` // the history that the run's request contained; see Brought
	Files   []byte `db:"files"`   // the attachments of the message; see Attachments
}

// Attachments returns the attachments of the turn's message.
func (t Turn) Attachments() ([]domain.Attachment, error) {
	if t.Files == nil {
		return nil, nil
	}
	var out []domain.Attachment
	if err := json.Unmarshal(t.Files, &out); err != nil {
		return nil, fmt.Errorf("reading attachments of a turn: %w", err)
	}
	return out, nil
}

// Brought returns the messages and answers that the turn's request contained as earlier history.
func (t Turn) Brought() ([]domain.Exchange, error) {
	// Most requests contain no history.
	if t.Earlier == nil {
		return nil, nil
	}
	var out []domain.Exchange
	if err := json.Unmarshal(t.Earlier, &out); err != nil {
		return nil, fmt.Errorf("reading history of a turn: %w", err)
	}
	return out, nil
}

const (
	// historyBytes is the maximum total size of the turns that one statement reads. No model's
	// context is larger.
	historyBytes = 8 << 20
	// shortHistory is the maximum total size of the turns that ShortHistory reads, in bytes.
	shortHistory = 256 << 10
)

// maxSteps bounds the number of visited runs per turn. A visited run without an answer is no turn,
// but provides the history that its request contained.
const maxSteps = 3

// visitedBytes is the maximum total size, as stored, of the inputs of the visited runs.
const visitedBytes = 2 * historyBytes

// historyQuery reads the newest turns before a run, oldest first. It begins at the run with the
// number $3, which need not exist, and goes from each run to the run that it continues. The
// continued run is the run in previous_run or, if that column is null, the preceding run of the
// session. An empty previous_run, or the id of a run that no longer exists, ends the history. A run
// continues only runs with lower numbers, so every path ends.
//
// $5 is the text that replaces an answer of which no part was played. If the turns exceed $7 bytes,
// only their total size is read.
const historyQuery = `WITH RECURSIVE path AS (
    SELECT $3::int AS seq, ''::text COLLATE "C" AS run_id,
      (SELECT r.previous_run FROM runs r WHERE r.session_ref = $2 AND r.seq = $3 AND r.org_id = $1) AS previous,
      0 AS turns, 0 AS steps, 0::bigint AS bytes, 0::bigint AS visited, ''::text AS message, NULL::json AS earlier, NULL::text AS answer,
      NULL::json AS files
  UNION ALL
    SELECT r.seq, r.id, r.previous_run, p.turns + (r.answer IS NOT NULL)::int, p.steps + 1,
      p.bytes + octet_length(r.message) + coalesce(octet_length(r.answer), 0) + coalesce(octet_length(r.earlier::text), 0),
      p.visited + r.size,
      r.message, r.earlier, r.answer, r.files
    FROM path p CROSS JOIN LATERAL (
      SELECT r.seq, r.id, r.previous_run, t.answer, CASE WHEN t.answer IS NULL THEN '' ELSE r.input->>'message' END AS message,
        r.input->'history' AS earlier, CASE WHEN t.answer IS NOT NULL THEN r.input->'attachments' END AS files,
        pg_column_size(r.input) AS size
      FROM runs r LEFT JOIN heard h ON h.run_id = r.id CROSS JOIN LATERAL (
        SELECT CASE WHEN h.run_id IS NOT NULL AND r.result IS NOT NULL THEN coalesce(nullif(h.text, ''), $5)
          WHEN r.status = 'completed' THEN r.answer END AS answer OFFSET 0) t
      WHERE r.org_id = $1 AND r.session_ref = $2 AND r.seq = CASE WHEN p.previous IS NULL
        THEN (SELECT max(q.seq) FROM runs q WHERE q.session_ref = $2 AND q.seq < p.seq)
        ELSE (SELECT q.seq FROM runs q WHERE q.id = p.previous AND q.session_ref = $2 AND q.seq < p.seq) END) r
    WHERE p.turns < $4 AND p.steps < $8 AND p.bytes <= $6 AND p.visited <= $9)
SELECT seq, run_id, CASE WHEN total <= $7 THEN message ELSE '' END AS message, CASE WHEN total <= $7 THEN earlier END AS earlier,
  CASE WHEN total <= $7 THEN coalesce(answer, '') ELSE '' END AS answer, CASE WHEN total <= $7 THEN files END AS files, total
FROM (SELECT seq, run_id, message, earlier, answer, files, max(bytes) OVER () AS total FROM path
  WHERE (answer IS NOT NULL OR earlier IS NOT NULL) AND bytes <= $6) fitting
ORDER BY seq`

// History reads the newest completed turns that the run with the number seq continues, oldest
// first. It reads no more turns than limit, and at most 8 MiB in total. An interrupted answer is
// shortened to the part that was played or shown, and is included even if the interruption
// cancelled the run.
func (s *Store) History(ctx context.Context, org string, sessionRef int64, seq, limit int) ([]Turn, error) {
	turns, _, err := s.history(ctx, org, sessionRef, seq, limit, historyBytes)
	return turns, err
}

// ShortHistory is the variant of History for turns of at most 256 KiB in total. If the turns are
// larger, it reads no turns and returns their size in bytes.
func (s *Store) ShortHistory(ctx context.Context, org string, sessionRef int64, seq, limit int) (turns []Turn, large int, err error) {
	return s.history(ctx, org, sessionRef, seq, limit, shortHistory)
}

// history reads the turns, or only their total size if that exceeds maximum bytes. large is that
// size, and 0 if the turns were read.
func (s *Store) history(ctx context.Context, org string, sessionRef int64, seq, limit, maximum int) (turns []Turn, large int, err error) {
	var rows []struct {
		Turn

		Total int `db:"total"`
	}

	err = s.db.WithinPrepared(ctx, org, historyQuery, func(stmt *sqlx.Stmt) error {
		rows = nil
		return stmt.SelectContext(ctx, &rows, org, sessionRef, seq, limit, notPlayed, historyBytes, maximum, maxSteps*limit, visitedBytes)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("reading session history: %w", err)
	}

	// If the total exceeds the maximum, the rows contain no texts.
	if len(rows) > 0 && rows[0].Total > maximum {
		return nil, rows[0].Total, nil
	}

	turns = make([]Turn, len(rows))
	for i := range rows {
		turns[i] = rows[i].Turn
	}

	return turns, 0, nil
}

// KnownAnswers returns the subset of the given runs that belong to a session and can be read. key
// identifies the session. The result same is the newest of the session's 20 newest runs whose
// answer, or its last paragraph, equals the argument text. If no run has such an answer, same is
// empty.
func (s *Store) KnownAnswers(
	ctx context.Context, org string, key []byte, runIDs []string, text string,
) (known []string, same string, err error) {
	err = s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		known, same = nil, ""
		if err := tx.SelectContext(ctx, &known, `SELECT r.id FROM runs r JOIN sessions s ON `+runInSession+`
			WHERE s.key = $1 AND s.org_id = $2 AND r.org_id = $2 AND r.id = ANY ($3)`, key, org, pq.Array(runIDs)); err != nil || text == "" {
			return err
		}
		return tx.GetContext(ctx, &same, `SELECT coalesce((SELECT id FROM (SELECT r.id, r.seq, CASE WHEN r.status = 'completed' THEN r.answer END AS answer
			FROM sessions s JOIN runs r ON `+runInSession+` WHERE s.key = $1 AND s.org_id = $2 ORDER BY r.seq DESC LIMIT 20) newest
			WHERE answer = $3 OR right(answer, length($3) + 2) = E'\n\n' || $3 ORDER BY seq DESC LIMIT 1), '')`, key, org, text)
	})
	if err != nil {
		return nil, "", fmt.Errorf("looking up answers of a session: %w", err)
	}
	return known, same, nil
}
