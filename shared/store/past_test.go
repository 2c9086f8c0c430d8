package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/sessiondb"
	"parley/shared/store/usagedb"
)

const pastInsert = `INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type,
	automation_id, input, retention, created_at, status, finished_at, result, input_tokens, output_tokens, cost_micros, expires_at, sweep_after) `

// expiredCalls counts the calls to insertExpired, so that each call uses separate sessions and ids.
var expiredCalls atomic.Int64

// insertExpired inserts runs whose retention period has ended, one for each duration in the
// argument took, in milliseconds. The runs are spread over the given number of hours before now.
func (b *testEnv) insertExpired(agent string, now time.Time, hours int, took []int64) {
	b.Helper()
	const status = `(ARRAY['completed', 'completed', 'failed', 'cancelled', 'timed_out'])[1 + n % 5]`
	n := make([]int64, len(took))
	for i := range n {
		n[i] = int64(i)
	}
	b.exec(pastInsert+`SELECT $1 || lpad(ref::text, 16, '0'), $2, $3, 1, ref, 1, 's', 'system', 'system', 'schedule',
		'auto' || n % 7, '{}', 1, at, `+status+`, at + ms * interval '1 ms', '{}', n, 2, 3, now(), now()
		FROM (SELECT n, ms, $8::bigint * 1000000 + n AS ref, $4::timestamptz - (n % ($5::int * 60) + 1) * interval '1 minute' AS at
		  FROM unnest(string_to_array($6, ',')::bigint[], string_to_array($7, ',')::bigint[]) AS u (n, ms)) m`,
		id.First(id.Run, now.Add(-time.Minute))[:14], b.org, agent, now, hours, joined(n), joined(took), expiredCalls.Add(1))
}

func joined(n []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(n), " ", ","), "[]")
}

// sweep removes all expired data, with several concurrent sweepers.
func (b *testEnv) sweep(sweepers, limit int) {
	b.Helper()
	var all sync.WaitGroup
	for range sweepers {
		all.Go(func() {
			for {
				n, err := b.s.Sessions.DeleteExpired(b.Context(), limit)
				if err != nil {
					b.Errorf("sweeping: %v", err)
				}
				if n == 0 || err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// latencies returns durations that vary by orders of magnitude, like the durations of runs.
func latencies(n int, seed uint64) []int64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(math.Exp(7 + 1.5*r.NormFloat64()))
	}
	return out
}

// wantSameUsage compares the usage before and after runs were removed. Everything must be equal
// except the percentiles of durations, which are estimates after the removal.
func wantSameUsage(t *testing.T, what string, before, after domain.UsageReport) {
	t.Helper()
	near := func(a, b *int64) bool {
		return (a == nil) == (b == nil) && (a == nil || math.Abs(float64(*a-*b)) <= 1+0.05*float64(*a))
	}
	all := func(r domain.UsageReport) (out []domain.Consumption) {
		for _, row := range r.Data {
			out = append(out, row.Consumption)
		}
		return append(out, r.Totals)
	}
	was, is := all(before), all(after)
	for i := range was {
		if !near(was[i].P50Ms, is[i].P50Ms) || !near(was[i].P95Ms, is[i].P95Ms) {
			t.Errorf("%s, %d: percentiles %d %d, were %d %d", what, i, *is[i].P50Ms, *is[i].P95Ms, *was[i].P50Ms, *was[i].P95Ms)
		}
		is[i].P50Ms, is[i].P95Ms, was[i].P50Ms, was[i].P95Ms = nil, nil, nil, nil
	}
	if !slices.Equal(was, is) {
		t.Errorf("%s: %+v\nwas %+v", what, is, was)
	}
}

// exactly returns the exact percentile of the durations.
func exactly(percent int, took []int64) int64 {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*percent+99)/100-1]
}

// The usage of removed runs still counts, for the organization and the agent, even if several
// sweepers remove the runs concurrently.
func TestRemovedRunsStayCounted(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	now := time.Now().UTC()
	mine, theirs := latencies(3000, 1), latencies(2000, 2)
	b.insertExpired("ag_a", now, 30, mine)
	b.insertExpired("ag_b", now, 30, latencies(1000, 3))
	other.insertExpired("ag_z", now, 30, theirs)
	kept := latencies(500, 4)
	b.insertExpired("ag_k", now, 30, kept)
	b.exec(`UPDATE runs SET expires_at = now() + interval '1 hour', sweep_after = now() + interval '1 hour' WHERE agent_id = 'ag_k'`)
	b.ended("ag_a", now.Add(-time.Hour), "", 0) // this run is still running
	filters := map[string]usagedb.UsageFilter{"a week": {Days: 7}, "two days": {Days: 2}, "an agent": {Days: 2, AgentID: "ag_a"}, "another": {Days: 3, AgentID: "ag_b"}}
	before, theirsBefore := map[string]domain.UsageReport{}, other.usage(usagedb.UsageFilter{Days: 2}, now)
	for what, f := range filters {
		before[what] = b.usage(f, now)
	}
	if n := before["two days"].Totals.Runs; n != 4501 {
		t.Fatalf("%d runs", n)
	}
	b.sweep(4, 97)
	if left := texts(t, raw, `SELECT count(*)::text FROM runs`); left[0] != "501" {
		t.Fatalf("%s runs are left", left)
	}
	for what, f := range filters {
		wantSameUsage(t, what, before[what], b.usage(f, now))
	}
	after := other.usage(usagedb.UsageFilter{Days: 2}, now)
	wantSameUsage(t, "the other organization", theirsBefore, after)
	for percent, got := range map[int]int64{50: *after.Totals.P50Ms, 95: *after.Totals.P95Ms} {
		want := exactly(percent, theirs)
		t.Logf("p%d: %d ms, of the runs themselves %d ms", percent, got, want)
		if math.Abs(float64(got-want)) > 1+0.05*float64(want) {
			t.Errorf("p%d: %d ms, want about %d ms", percent, got, want)
		}
	}
	b.exec(`UPDATE runs SET expires_at = now(), sweep_after = now() WHERE agent_id = 'ag_k'`)
	b.sweep(1, 1000)
	wantSameUsage(t, "the rest", before["a week"], b.usage(filters["a week"], now))
}

// The usage includes an erased run exactly once, both while its tombstone exists and after the
// tombstone is removed. A run that an older binary removes also counts once.
func TestTombstonesAreCountedOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := b.mustClaim(b.accept(wideWindow, b.run("k", "s"))[0].Run.Run.ID)
	b.finish(c, "answer")
	b.accept(wideWindow, b.run("", "s"))
	b.exec(`UPDATE runs SET input_tokens = 7 WHERE id = $1`, c.RunID)
	name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	if _, err := b.s.Sessions.EraseSession(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Minute)
	check := func(when, want string) {
		t.Helper()
		if got := shown(b.usage(usagedb.UsageFilter{Days: 1}, now)); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("erased", "all:2=1+0+1+0 7/0/0")
	b.exec(`UPDATE runs SET expires_at = now(), sweep_after = now()`)
	b.sweep(1, 1)
	check("swept", "all:2=1+0+1+0 7/0/0")
	third := b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)
	b.finish(third, "answer")
	b.exec(`DELETE FROM runs`)
	check("removed by hand", "all:3=2+0+1+0 7/0/0")
	if left := texts(t, b.raw, `SELECT automation_id FROM past_automations`); len(left) != 0 {
		t.Errorf("automations %v", left)
	}
}

// Concurrent removals wait for each other if their runs belong to the same hours and automations.
// No count is lost, and no removal fails.
func TestRemovingConcurrently(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const agents, runs = 20, 4000
	now := time.Now()
	b.insertExpired(b.agent, now, 48, latencies(runs, 5))
	b.exec(`UPDATE runs SET agent_id = 'ag_' || (hashtext(id) & 1023) % $1`, agents)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for part := range 5 { // each statement contains rows of all hours, agents and automations, each time in another order
				_, err := b.raw.ExecContext(t.Context(), `DELETE FROM runs WHERE id = ANY (ARRAY(
					SELECT id FROM runs WHERE (hashtext(id) & 65535) % 40 = $1 ORDER BY hashtext(id || $1)))`, n*5+part)
				if err != nil {
					t.Errorf("removing: %v", err)
				}
			}
		})
	}
	all.Wait()
	got := b.usage(usagedb.UsageFilter{Days: 7}, now).Totals
	if got.Runs != runs || got.InputTokens != runs*(runs-1)/2 || got.Completed != 2*got.Failed || got.TimedOut != runs/5 {
		t.Errorf("%+v", got)
	}
	if n := len(b.automations("", 100)); n != 7 {
		t.Errorf("%d automations", n)
	}
}

// A removed run's automation stays listed for 90 days with its newest run.
func TestAutomationsWhoseRunsWereRemoved(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	ended := func(automation, trigger, session string) string {
		c := b.mustClaim(b.automationRun(automation, trigger, session))
		b.finish(c, "answer")
		return c.RunID
	}
	ended("nightly", "schedule", "")
	newest := ended("nightly", "webhook", "")
	ended("erased", "schedule", "s")
	ended("old", "schedule", "")
	name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	if _, err := s.Sessions.EraseSession(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE runs SET expires_at = now(), sweep_after = now()`)
	// The runs are removed one at a time, newest first. The stored record always describes the
	// newest run, whichever run is removed last.
	b.exec(`DELETE FROM runs WHERE id = $1`, newest)
	b.sweep(1, 1)
	lives := b.automationRun("lives", "api", "")
	all := b.automations("", 10)
	if got := automationNames(all); got != "lives nightly old" {
		t.Fatalf("automations %s", got)
	}
	if a := all[1]; a.AgentID != b.agent || a.TriggerType != "webhook" || a.LastRun.ID != newest || a.LastRun.Status != domain.RunCompleted ||
		a.LastRun.FinishedAt == nil || a.LastRun.Kept || time.Since(a.LastRun.CreatedAt.Time) > time.Minute {
		t.Errorf("%+v", a)
	}
	if a := all[0]; a.LastRun.ID != lives || !a.LastRun.Kept {
		t.Errorf("%+v", a)
	}
	for after, want := range map[string]string{"": "lives nightly", "lives": "nightly old", "nightly": "old", "old": ""} {
		if got := automationNames(b.automations(after, 2)); got != want {
			t.Errorf("two after %q: %s", after, got)
		}
	}
	if got := other.automations("", 10); len(got) != 0 {
		t.Errorf("the other organization has %+v", got)
	}
	again := b.automationRun("nightly", "api", "")
	if a := b.automations("lives", 1)[0]; a.LastRun.ID != again || !a.LastRun.Kept || a.TriggerType != "api" {
		t.Errorf("runs again: %+v", a)
	}
	b.exec(`UPDATE past_automations SET created_at = now() - interval '90 days' WHERE automation_id = 'old'`)
	if got := automationNames(b.automations("", 10)); got != "lives nightly" {
		t.Errorf("90 days later %s", got)
	}
}

func TestWhatIsKnownOfRemovedRunsGoes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.exec(`INSERT INTO past_usage SELECT $1, now() - n * interval '100 days' - interval '1 hour', 'ag', 1, 1, 0, 0, 0, 0, 0, 0, '{}' FROM generate_series(0, 9) n`, b.org)
	b.exec(`INSERT INTO past_automations SELECT $1, 'a' || n, 'ag', 'api', 'run', 'failed', now() - n * interval '30 days' - interval '1 hour', NULL
		FROM generate_series(0, 5) n`, b.org)
	for i, want := range []string{"4: 6 3", "2: 4 3", "0: 4 3"} {
		n, err := b.s.Sessions.PrunePast(t.Context(), 4)
		left := texts(t, b.raw, `SELECT (SELECT count(*) FROM past_usage) || ' ' || (SELECT count(*) FROM past_automations)`)[0]
		if got := fmt.Sprintf("%d: %s", n, left); err != nil || got != want {
			t.Errorf("round %d: %s, %v, want %s", i, got, err, want)
		}
	}
}

// TestCostOfRecordingRemovedUsage measures how long it takes to record the usage of removed runs.
func TestCostOfRecordingRemovedUsage(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const runs = 2_000
	fill := func(round int) {
		b.insertExpired(b.agent, time.Now().Add(-time.Duration(round)*time.Hour), 24, latencies(runs, uint64(round)))
		b.exec(`ANALYZE runs`)
	}
	took := func() time.Duration {
		began := time.Now()
		b.sweep(1, 500)
		return time.Since(began)
	}
	var with, without time.Duration
	for round := range 3 {
		fill(2 * round)
		b.exec(`ALTER TABLE runs DISABLE TRIGGER runs_leave_numbers`)
		without += took()
		fill(2*round + 1)
		b.exec(`ALTER TABLE runs ENABLE TRIGGER runs_leave_numbers`)
		with += took()
	}
	t.Logf("removing %d runs took %v, without leaving their numbers %v", runs, with/3, without/3)
	if with > 3*without+time.Second {
		t.Errorf("removing runs took %v, without leaving their numbers %v", with, without)
	}
}

// The cost of counting the usage of removed runs does not depend on their number.
func TestUsageOfManyRemovedRuns(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.exec(`INSERT INTO past_usage SELECT $1, date_trunc('hour', now(), 'UTC') - h * interval '1 hour', 'ag_' || a, 1000, 1000, 0, 0, 0, 1, 1, 1,
		'[140:199]={`+strings.Repeat("16,", 39)+strings.Repeat("18,", 20)+`16}' FROM generate_series(1, 2159) h, generate_series(1, 8) a`, b.org)
	b.exec(`ANALYZE past_usage`)
	began := time.Now()
	got := b.usage(usagedb.UsageFilter{Days: 90}, time.Now())
	t.Logf("%d removed runs of 8 agents were counted in %v", got.Totals.Runs, time.Since(began))
	if got.Totals.Runs < 16_800_000 || got.Totals.P50Ms == nil || *got.Totals.P50Ms < 3500 || *got.Totals.P50Ms > 4500 {
		t.Errorf("%+v, p50 %v", got.Totals, got.Totals.P50Ms)
	}
}

// An organization that has no data except the usage of removed runs counts as used. Otherwise, a
// person who takes over the account of its only member would see this usage.
func TestUsageOfRemovedRunsCountsAsData(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	account, _ := signUp(t, s, "ada@example.com")
	held := func() string {
		t.Helper()
		return strings.Join(texts(t, s.SQL(), `SELECT id FROM parley_holdings($1)`, account.User.ID), " ")
	}
	if got := held(); got != "" {
		t.Errorf("an unused organization is held: %s", got)
	}
	mustExec(t, raw, `INSERT INTO past_usage SELECT id, now(), 'tpl', 1, 1, 0, 0, 0, 0, 0, 0, '{}' FROM organizations`)
	if got := held(); got != account.Organization.ID {
		t.Errorf("held are %q", got)
	}
}
