package executiondb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
)

// shownTexts returns, by run, the text of the answer that the client of an open run has received.
// This text becomes the message of a cancelled run. If a text was stored for the session's history,
// shownTexts returns this text. Otherwise it returns the text in the checkpoints of the last
// attempt. A client may have received some more text since the last checkpoint. Runs without text
// have no entry. Checkpoints are read up to a total of MaxBatchBytes; text in later checkpoints is
// omitted.
func shownTexts(ctx context.Context, tx *sqlx.Tx, orgs, runs []string) (map[string]string, error) {
	// The chunks of a run are in the order of their events, so that their texts can be joined.
	var chunks []struct {
		RunID  string `db:"run_id"`
		Events []byte `db:"events"`
	}
	if err := tx.SelectContext(ctx, &chunks, `SELECT run_id, events FROM (
		  SELECT e.run_id, e.first_n, e.events, sum(octet_length(e.events)) OVER (ORDER BY e.run_id, e.first_n) AS bytes
		  FROM run_events e WHERE e.run_id = ANY ($1) AND e.org_id = ANY ($2)
		    AND e.fence = (SELECT max(l.fence) FROM run_events l WHERE l.run_id = e.run_id)) last
		WHERE bytes <= $3 ORDER BY run_id, first_n`, pq.Array(runs), pq.Array(orgs), MaxBatchBytes); err != nil {
		return nil, fmt.Errorf("reading checkpoints: %w", err)
	}
	shown := map[string]string{}
	for _, c := range chunks {
		shown[c.RunID] += answerText(c.Events)
	}

	// A stored text replaces the text of the checkpoints, because the stored text is the one that
	// the client has received.
	var stored []struct {
		RunID string `db:"run_id"`
		Text  string `db:"text"`
	}
	if err := tx.SelectContext(ctx, &stored, `SELECT run_id, text FROM heard WHERE run_id = ANY ($1) AND org_id = ANY ($2)`,
		pq.Array(runs), pq.Array(orgs)); err != nil {
		return nil, fmt.Errorf("reading the texts that clients have received: %w", err)
	}
	for _, s := range stored {
		shown[s.RunID] = s.Text
	}
	return shown, nil
}

// keepShown stores texts of the cancelled runs among the given rows for the histories of their
// sessions, unless a text of the run is stored already, which is the one that the client has
// received. For a chat without text it stores an empty text, so that the history keeps the question.
// shown is a result of shownTexts for these runs.
//
// keepShown must be called after the rows in the table runs were written: as in SavePlayback, they
// are locked before the rows in heard.
func keepShown(ctx context.Context, tx *sqlx.Tx, rows []openRow, outcomes []Outcome, shown map[string]string) error {
	var runs, orgs, texts []string
	for i, row := range rows {
		text := shown[row.ID]
		if outcomes[i].Run.Status == domain.RunCancelled && (text != "" || row.Lane == domain.LaneChat) {
			runs, orgs, texts = append(runs, row.ID), append(orgs, row.OrganizationID), append(texts, text)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO heard (run_id, org_id, text, audio_ms)
		SELECT run_id, org_id, text, 0 FROM unnest($1::text[], $2::text[], $3::text[]) AS t (run_id, org_id, text)
		ORDER BY run_id COLLATE "C" ON CONFLICT DO NOTHING`, pq.Array(runs), pq.Array(orgs), pq.Array(texts))
	if err != nil {
		return fmt.Errorf("storing the texts that clients have received: %w", err)
	}
	return nil
}

// answerText returns the text of the answer in a chunk of events. It skips unreadable events,
// because they must not prevent a run from ending.
func answerText(lines []byte) string {
	events, err := domain.EventChunk{Lines: lines}.Events()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, e := range events {
		var delta struct {
			Text string `json:"text"`
		}
		if e.Type == domain.EventMessageDelta && json.Unmarshal(e.Data, &delta) == nil {
			_, _ = text.WriteString(delta.Text) // never fails
		}
	}
	return cleanText(text.String())
}
