package runner

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/store/executiondb"
	"parley/shared/store/pg"
)

// rejectingRecords saves all chunks except one, which it always rejects.
type rejectingRecords struct {
	Records
	runID string
	err   error
}

func (r rejectingRecords) SaveEvents(context.Context, []executiondb.Checkpoint) (executiondb.SavedEvents, error) {
	return executiondb.SavedEvents{
		Saved: map[string]bool{"run_good": true}, Locked: map[string]bool{"run_locked": true},
		Rejected: map[string]error{r.runID: errors.New("no such character")},
	}, r.err
}

func TestRejectedEventsStopNoRun(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &Runner{records: rejectingRecords{runID: "run_bad"}, log: zerolog.New(&log)}
	checkpoints := make([]checkpoint, 4)
	for i, runID := range []string{"run_good", "run_bad", "run_taken", "run_locked"} {
		checkpoints[i].RunID = runID
	}
	answers, err := r.saveEvents(t.Context(), checkpoints)
	if err != nil || !slices.Equal(answers, []error{nil, nil, errTaken, pg.ErrLocked}) {
		t.Errorf("answers %v, %v", answers, err)
	}
	if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "run_bad") || !strings.Contains(lines, "no such character") {
		t.Errorf("logged %s", lines)
	}
	r.records = rejectingRecords{err: errors.New("away")}
	if answers, err = r.saveEvents(t.Context(), checkpoints); err == nil || answers != nil {
		t.Errorf("a database that is away answered %v", answers)
	}
}
