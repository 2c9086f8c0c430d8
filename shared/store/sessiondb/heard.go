package sessiondb

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"parley/shared/domain"
	"parley/shared/store/pg"
	"parley/shared/store/rundb"
)

// unheard stands in a session's history for an answer of which nothing was heard: what was asked stays there, and has an answer.
const unheard = "…"

const blanks = `E' \t\r\n'` // around an answer they are not spoken

// SaveHeard notes how much was heard of the spoken answer of a run, in place of what was noted before: clients know it better than
// the service, and say so later. From then on the session goes on from what was heard. An answer that was heard whole after all was
// not interrupted: then there is no note any more. A run that does not exist, was erased, has expired or belongs to others gives the
// coded not_found.
func (s *Store) SaveHeard(ctx context.Context, org, runID string, heard domain.Heard) error {
	text := strings.ReplaceAll(strings.ToValidUTF8(heard.Text, "\uFFFD"), "\x00", "")
	var found int64
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// Whoever erases the run waits for the lock and then finds the row, or came first and leaves nothing to be noted.
		return tx.GetContext(ctx, &found, `WITH run AS (
			  SELECT r.id, r.org_id, coalesce(btrim(r.answer, `+blanks+`) = btrim($3, `+blanks+`), false) AS whole
			  FROM runs r WHERE r.id = $1 AND r.org_id = $2 AND`+rundb.RunLive+`AND`+NotErased+` FOR SHARE
			), gone AS (
			  DELETE FROM heard h USING run WHERE h.run_id = run.id AND run.whole
			), noted AS (
			  INSERT INTO heard (run_id, org_id, text, audio_ms) SELECT run.id, run.org_id, $3, $4 FROM run WHERE NOT run.whole
			  ON CONFLICT (run_id) DO UPDATE SET text = excluded.text, audio_ms = excluded.audio_ms
			) SELECT count(*) FROM run`, runID, org, text, max(heard.AudioMS, 0))
	})
	switch {
	case err != nil:
		return fmt.Errorf("noting what was heard: %w", err)
	case found == 0:
		return pg.NotFound()
	}
	return nil
}
