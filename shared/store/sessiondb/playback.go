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

// notPlayed replaces an answer in a session's history if no part of the answer was played. The
// question stays in the history, and providers require an answer after it.
const notPlayed = "…"

const blanks = `E' \t\r\n'` // these characters around an answer are ignored, because they are not spoken

// SavePlayback records how much of a run's answer was played or shown. It replaces an earlier record,
// because the client's report arrives after the service's report and is more exact. From then on,
// the session's history contains the played text in place of the answer. If the whole answer was
// played, the record is removed, because the answer was not interrupted. SavePlayback returns
// not_found if the run does not exist, was erased, has expired or belongs to another organization.
func (s *Store) SavePlayback(ctx context.Context, org, runID string, heard domain.Playback) error {
	// PostgreSQL stores neither invalid UTF-8 nor NUL.
	text := strings.ReplaceAll(strings.ToValidUTF8(heard.Text, "\uFFFD"), "\x00", "")
	var found int64
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		// A concurrent transaction that erases the run either waits for this lock and then removes
		// the record, or has the lock first. In that case this statement waits and finds no run.
		return tx.GetContext(ctx, &found, `WITH run AS (
			  SELECT r.id, r.org_id, coalesce(r.status = 'completed' AND btrim(r.answer, `+blanks+`) = btrim($3, `+blanks+`), false) AS whole
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
		return fmt.Errorf("recording the playback: %w", err)
	case found == 0:
		return pg.NotFound()
	}

	return nil
}
