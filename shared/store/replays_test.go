package store_test

import (
	"strings"
	"testing"

	"parley/shared/contract"
	"parley/shared/store/rundb"
)

// resultFor returns the result of a stored run. It panics if the result was not read.
func resultFor(run rundb.StoredRun) []byte {
	result, err := run.Result()
	if err != nil {
		panic(err)
	}
	return result
}

// A batch of runs is read without large results. Repeated and waiting requests read large results
// later, by id. Once the results of a batch reach a total size, only the sizes of the remaining
// results are returned.
func TestManyRunsAreReadWithoutLargeResults(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const small, large, erased = 20, "large", "erased"
	var keys []rundb.KeyRef
	var refs []rundb.RunRef
	sizes := map[string]int{}
	add := func(key, result string) {
		runID := b.accept(wideWindow, b.run(key, ""))[0].Run.Run.ID
		if b.finish(b.mustClaim(runID), "done"); key == erased {
			b.exec(`UPDATE runs SET result = NULL WHERE id = $1`, runID)
		} else {
			b.exec(`UPDATE runs SET result = (SELECT '{"m":"' || substr(string_agg(md5(n::text), ''), 9) || '"}' FROM generate_series(1, $2::int / 32) n)
				WHERE id = $1`, runID, len(result))
		}
		keys = append(keys, rundb.KeyRef{OrganizationID: b.org, Hash: contract.Hash(b.org, key)})
		refs = append(refs, rundb.RunRef{OrganizationID: b.org, RunID: runID})
		sizes[runID] = len(result)
	}
	for n := range small {
		add(string(rune('a'+n)), strings.Repeat("x", rundb.ShortBytes))
	}
	add(large, strings.Repeat("x", 4<<20))
	add(erased, "")

	check := func(what string, runs []rundb.StoredRun) {
		t.Helper()
		read := 0
		for _, run := range runs {
			size := sizes[run.Run.ID]
			result, err := run.Result()
			switch {
			case !run.Ended() || run.Erased != (size == 0):
				t.Errorf("%s: a run of %d bytes has ended: %v, was erased: %v", what, size, run.Ended(), run.Erased)
			case run.Deferred > 0 && (err == nil || run.Deferred != size):
				t.Errorf("%s: a deferred result of %d bytes has %d, and is %d bytes", what, size, run.Deferred, len(result))
			case run.Deferred == 0 && (err != nil || len(result) != size || size > rundb.ShortBytes):
				t.Errorf("%s: a result of %d bytes is %d bytes: %v", what, size, len(result), err)
			}
			if _, err := run.Body(); (err != nil) != (run.Deferred > 0) {
				t.Errorf("%s: the body of a result with %d bytes deferred: %v", what, run.Deferred, err)
			}
			read += len(result)
		}
		if len(runs) != small+2 || read != 1<<20 {
			t.Errorf("%s: %d runs with %d bytes", what, len(runs), read)
		}
	}
	ended, err := b.s.Runs.AwaitedRuns(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	check("awaited", ended)
	held, err := b.s.Runs.RunsByKey(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	var runs []rundb.StoredRun
	for _, run := range held {
		runs = append(runs, *run)
	}
	check("replayed", runs)
	for runID, size := range sizes {
		if run, err := b.s.Runs.RunByID(t.Context(), b.org, "", runID); err != nil || len(resultFor(run)) != size {
			t.Errorf("the result of a run read by its id has %d bytes, want %d: %v", len(resultFor(run)), size, err)
		}
	}
}
