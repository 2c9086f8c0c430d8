package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/rundb"
)

// indexRuns adds the words of all finished runs to the index of searches.
func (b *testEnv) indexRuns() {
	b.Helper()
	for {
		n, err := b.s.Runs.IndexRuns(b.Context(), 100)
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// answeredRun accepts and finishes a run.
func (b *testEnv) answeredRun(question, answer string) string {
	b.Helper()
	run := b.run("", "")
	run.Input = fmt.Appendf(nil, `{"message":%q}`, question)
	b.finish(b.mustClaim(b.accept(wideWindow, run)[0].Run.Run.ID), answer)
	return run.ID
}

// finds returns the ids of the runs that a search for the words returns.
func (b *testEnv) finds(f rundb.RunFilter, limit int) []string {
	b.Helper()
	found, next, err := b.s.Runs.SearchRuns(b.Context(), b.org, f, limit)
	if err != nil || next != "" {
		b.Fatalf("next %q, %v", next, err)
	}
	out := []string{}
	for _, run := range found {
		out = append(out, run.ID)
	}
	return out
}

func TestRunsAreFoundByTheirWords(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	lamp := b.answeredRun("How long is the warranty of the lamps?", "Two years, see *page 4*.")
	cafe := b.answeredRun("Wo ist das Café \u201eLampe\u201c?", `C:\lamp "quoted" it's `+"\x01")
	lost := other.answeredRun("warranty", "lamp")
	scheduled := other.run("", "")
	scheduled.AutomationID, scheduled.Input = "Lantern-Check", []byte(`{"message":"How many are lit?"}`)
	other.finish(other.mustClaim(other.accept(wideWindow, scheduled)[0].Run.Run.ID), "Seven.")
	b.indexRuns()
	for words, want := range map[string][]string{
		"lantern-check":  {},
		"warranty":       {lamp},
		"LAMP":           {cafe, lamp},
		"lamps page":     {lamp},
		"page-4":         {lamp},
		"two warranties": {lamp},
		"cafe":           {cafe},
		"CAFÉ lampe":     {cafe},
		"quoted":         {cafe},
		`it's c:\lamp`:   {cafe},
		"warranty cafe":  {},
		"war":            {},
		"?!":             {},
		"'":              {},
		"@":              {},
		"message":        {},
	} {
		if got := b.finds(rundb.RunFilter{Words: words}, 9); !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", words, got, want)
		}
	}
	if got := other.finds(rundb.RunFilter{Words: "lamp"}, 9); !slices.Equal(got, []string{lost}) {
		t.Errorf("the other organization finds %v", got)
	}
	for _, words := range []string{"lantern-check", "lanterns seven"} { // the name of the automation, and words of the name and of the answer
		if got := other.finds(rundb.RunFilter{Words: words}, 9); !slices.Equal(got, []string{scheduled.ID}) {
			t.Errorf("%q finds %v in the other organization, want %v", words, got, scheduled.ID)
		}
	}

	tried := map[string]bool{"Words": true, "WaitsFor": true, "Characters": true} // WaitsFor is for open runs, which searches do not find
	for name, c := range map[string]struct {
		filter rundb.RunFilter
		limit  int
		want   []string
	}{
		"one":                 {rundb.RunFilter{}, 1, []string{cafe}},
		"after it":            {rundb.RunFilter{Before: cafe}, 9, []string{lamp}},
		"another principal":   {rundb.RunFilter{Principals: []string{"usr_1"}}, 9, []string{}},
		"the principal":       {rundb.RunFilter{Principals: []string{"usr_1", "system"}}, 9, []string{cafe, lamp}},
		"the agent":           {rundb.RunFilter{AgentID: b.agent}, 9, []string{cafe, lamp}},
		"another agent":       {rundb.RunFilter{AgentID: other.agent}, 9, []string{}},
		"its session":         {rundb.RunFilter{SessionID: lamp}, 9, []string{lamp}},
		"the trigger":         {rundb.RunFilter{TriggerType: "api"}, 9, []string{cafe, lamp}},
		"another trigger":     {rundb.RunFilter{TriggerType: "chat"}, 9, []string{}},
		"another automation":  {rundb.RunFilter{AutomationID: "nightly"}, 9, []string{}},
		"failed":              {rundb.RunFilter{Status: domain.RunFailed}, 9, []string{}},
		"today":               {rundb.RunFilter{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}, 9, []string{cafe, lamp}},
		"later":               {rundb.RunFilter{From: time.Now().Add(time.Minute)}, 9, []string{}},
		"earlier":             {rundb.RunFilter{Until: time.Now().Add(-time.Minute)}, 9, []string{}},
		"much earlier":        {rundb.RunFilter{Until: time.Now().AddDate(-1, 0, 0)}, 9, []string{}},
		"an unknown position": {rundb.RunFilter{Before: "run_00000000000000000000000000"}, 9, []string{}},
	} {
		for field, value := range reflect.ValueOf(c.filter).Fields() {
			tried[field.Name] = tried[field.Name] || !value.IsZero()
		}
		c.filter.Words = "lamp"
		if got := b.finds(c.filter, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		c.filter.Words = ""
		list, err := s.Runs.ListRuns(t.Context(), b.org, c.filter, c.limit)
		if err != nil || len(list) != len(c.want) {
			t.Errorf("%s: a list without a search has %d runs, %v", name, len(list), err)
		}
	}
	for field, has := range tried {
		if !has {
			t.Errorf("add a case with %s: a search must obey each filter", field)
		}
	}
}

// The index loses a run's words when the run is erased or its retention period ends. A run that is
// erased before indexing is not indexed.
func TestWordsOfRemovedRunsAreRemoved(t *testing.T) {
	t.Parallel()
	r := newStoredEnvFor(t)
	words := func() int { return r.number(`SELECT count(*) FROM run_terms WHERE terms::text LIKE '%zebra%'`) }
	said := func(session string) { r.said(r.chat("usr_1", session, "zebra"), "zebra") }
	said("early")
	r.indexRuns()
	said("late")
	if words() != 1 {
		t.Fatalf("%d runs are indexed", words())
	}
	r.erase(r.named("usr_1", "early"))
	r.erase(r.named("usr_1", "late"))
	r.indexRuns()
	if words() != 0 {
		t.Errorf("%d erased runs are indexed", words())
	}

	for range 2 {
		r.answeredRun("zebra", "zebra")
	}
	r.indexRuns()
	r.raw(`UPDATE runs SET sweep_after = now() - interval '1 hour', expires_at = now() - interval '1 hour' WHERE input::text LIKE '%zebra%'`)
	if got := r.finds(rundb.RunFilter{Words: "zebra"}, 9); len(got) != 0 {
		t.Errorf("found %v after their retention", got)
	}
	if n, err := r.s.Sessions.DeleteExpired(t.Context(), 10); err != nil || n != 2 || words() != 0 {
		t.Errorf("%d runs removed, %d still indexed, %v", n, words(), err)
	}
}

// A question that PostgreSQL or the index cannot read does not keep other questions from being
// indexed.
func TestUnreadableQuestionsAreSkipped(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	var want []string
	for _, input := range []string{
		`{"message":"zebra \u0000"}`, `{"message":"zebra \ud800"}`, `{"unstored":true,"message":"zebra"}`, `{}`,
		`{"message":"` + strings.Repeat("zebra ", 100_000) + `"}`, `{"message":"` + strings.Repeat("z", 100_000) + `"}`,
	} {
		run := b.run("", "")
		run.Input = []byte(input)
		b.finish(b.mustClaim(b.accept(wideWindow, run)[0].Run.Run.ID), "giraffe")
		want = append(want, run.ID)
	}
	b.indexRuns()
	slices.Reverse(want)
	if got := b.finds(rundb.RunFilter{Words: "giraffe"}, 9); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if got := b.finds(rundb.RunFilter{Words: "zebra"}, 9); len(got) != 2 {
		t.Errorf("found %d questions, want 2", len(got))
	}
}

// A search finds an old run among many newer ones, page by page. Each call continues after the last
// run of the previous page.
func TestSearchesGoBackThroughTime(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const runs = 5000
	rare := map[int]bool{1: true, 2: true, 2500: true, runs: true}
	b.exec(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input, retention,
		created_at, status, result, answer) SELECT 'run_01' || lpad((n * 10000)::text, 8, '0') || '7' || lpad(n::text, 15, '0'), $1, $2, 1, n, 1, 's' || n,
		'system', 'system', 'schedule', '{"message":"common"}', 0, now(), 'completed', '{"id":"r"}',
		CASE WHEN n IN (1, 2, 2500, $3) THEN 'rare' END FROM generate_series(1, $3::int) n`, b.org, b.agent, runs)
	b.exec(`INSERT INTO unindexed_runs (run_id, org_id) SELECT id, org_id FROM runs`)
	b.indexRuns()
	seen := map[string]bool{}
	for before := ""; ; {
		got := b.finds(rundb.RunFilter{Words: "rare", Before: before}, 3)
		for _, found := range got {
			seen[found] = true
		}
		if len(got) < 3 {
			break
		}
		before = got[len(got)-1]
	}
	if len(seen) != len(rare) {
		t.Errorf("found %d runs, want %d", len(seen), len(rare))
	}
	if got := b.finds(rundb.RunFilter{Words: "common"}, 100); len(got) != 100 {
		t.Errorf("found %d runs with a common word", len(got))
	}

	// A search whose time limit has already passed still makes one step per call.
	seen, before, steps := map[string]bool{}, "", 0
	for ; steps < 3*runs; steps++ {
		var found []string
		var next string
		rows := texts(t, b.raw, `WITH acting AS MATERIALIZED (SELECT set_config('parley.organizations', $1, true) AS org)
			SELECT f.run_id || ' ' || f.found FROM acting, search_runs(acting.org, 'rare', $2, '', NULL, '', '', '', '', '', NULL, NULL::timestamptz, 10, '0') f`, b.org, before)
		for _, row := range rows {
			if runID, is := strings.CutSuffix(row, " true"); is {
				found = append(found, runID)
			} else {
				next = strings.TrimSuffix(row, " false")
			}
		}
		for _, f := range found {
			seen[f] = true
		}
		if next == "" {
			break
		}
		if !id.Valid(id.Run, next) || before != "" && next >= before {
			t.Fatalf("the search continues from %q after %q", next, before)
		}
		before = next
	}
	if len(seen) != len(rare) || steps < 100 {
		t.Errorf("found %d runs in %d steps", len(seen), steps)
	}
}
