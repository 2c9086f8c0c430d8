package sweep

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/rundb"
	"parley/shared/testkit"
	"parley/shared/testkit/running"
)

// A finished run appears in searches within five seconds.
func TestFinishedRunsAreFoundSoon(t *testing.T) {
	t.Parallel()
	st, b := open(t, testkit.Postgres(t), testkit.NATS(t))
	org, agent := newAgent(t, st)
	ended, _, _ := parked(t, st, org, agent, "", domain.At(time.Now().Add(-time.Second)))
	running.Start(t, New(st, b, zerolog.Nop()).Run)

	limit, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-limit:
			t.Fatal("the search did not find the run")
		case <-tick.C:
		}
		found, _, err := st.Runs.SearchRuns(t.Context(), org, rundb.RunFilter{Words: "hi"}, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			continue
		}
		if took := time.Since(found[0].FinishedAt.Time); found[0].ID != ended.RunID || took > testkit.Within(5*time.Second) {
			t.Errorf("found %s, %s after its finish", found[0].ID, took)
		}
		return
	}
}
