package runner

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"parley/shared/store"
)

// rejecting keeps all chunks but one, which it will never keep.
type rejecting struct {
	Records
	runID string
	err   error
}

func (r rejecting) SaveEvents(_ context.Context, checkpoints []store.Checkpoint) (map[string]bool, error) {
	held := map[string]bool{}
	for _, c := range checkpoints {
		held[c.RunID] = c.RunID != "run_taken"
	}
	if r.err != nil {
		return nil, r.err
	}
	return held, &store.RejectedEventsError{Runs: map[string]error{r.runID: errors.New("no such character")}}
}

func TestEventsThatAreRejectedStopNoRun(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &Runner{records: rejecting{runID: "run_bad"}, log: zerolog.New(&log)}
	checkpoints := make([]store.Checkpoint, 3)
	for i, runID := range []string{"run_good", "run_bad", "run_taken"} {
		checkpoints[i].RunID = runID
	}
	held, err := r.saveEvents(t.Context(), checkpoints)
	if err != nil || !slices.Equal(held, []bool{true, true, false}) {
		t.Errorf("held %v, %v", held, err)
	}
	if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "run_bad") || !strings.Contains(lines, "no such character") {
		t.Errorf("logged %s", lines)
	}
	r.records = rejecting{err: errors.New("away")}
	if held, err = r.saveEvents(t.Context(), checkpoints); err == nil || held != nil {
		t.Errorf("a database that is away held %v", held)
	}
}
