package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/sessiondb"
	"parley/shared/store/usagedb"
)

// ended inserts a run with the given acceptance time and duration. If status is "", the run is
// still open.
func (b *testEnv) ended(agent string, at time.Time, status string, took time.Duration) {
	b.Helper()
	var finished *time.Time
	if status != "" {
		end := at.Add(took)
		finished = &end
	}
	b.exec(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input,
		retention, created_at, status, finished_at, result, input_tokens, output_tokens, cost_micros)
		SELECT $1, $2, $3, 1, 1000, coalesce(max(seq), 0) + 1, 's', 'p', 'user', 'chat', '{}', 0, $4, nullif($5, ''), $6, '{}', 10, 2, 3
		FROM runs WHERE session_ref = 1000`,
		id.First(id.Run, at)[:24]+id.New(id.Run)[24:], b.org, agent, at, status, finished)
}

// usage returns a report. On a busy machine, a report may exceed its time limit; the service then
// tells its callers to try again later.
func (b *testEnv) usage(f usagedb.UsageFilter, now time.Time) domain.UsageReport {
	b.Helper()
	out, err := b.s.Usage.Usage(b.Context(), b.org, f, now)
	for range 5 {
		if apierr.CodeFor(err) != apierr.Unavailable {
			break
		}
		out, err = b.s.Usage.Usage(b.Context(), b.org, f, now)
	}
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// shown formats the intervals that contain runs as text: number of the interval, runs by status,
// tokens and percentiles of durations.
func shown(of domain.UsageReport) string {
	var out []string
	write := func(name string, c domain.Consumption) {
		line := fmt.Sprintf("%s:%d=%d+%d+%d+%d %d/%d/%d", name, c.Runs, c.Completed, c.Failed, c.Cancelled, c.TimedOut, c.InputTokens, c.OutputTokens, c.CostMicros)
		if c.P50Ms != nil && c.P95Ms != nil {
			line += fmt.Sprintf(" %d %d", *c.P50Ms, *c.P95Ms)
		}
		out = append(out, line)
	}
	for i, row := range of.Data {
		if row.Runs > 0 {
			write(fmt.Sprint(i), row.Consumption)
		}
	}
	write("all", of.Totals)
	return strings.Join(out, ", ")
}

func TestUsageByIntervals(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	now := time.Date(2026, 11, 21, 13, 20, 0, 0, time.UTC)
	day, hour := now.Truncate(24*time.Hour), now.Truncate(time.Hour)
	all := usagedb.UsageFilter{Days: 7}
	if got := b.usage(all, now); shown(got) != "all:0=0+0+0+0 0/0/0" || got.Totals.P50Ms != nil || len(got.Data) != 7 {
		t.Errorf("an empty organization: %+v", got)
	}
	b.ended(b.agent, day.Add(-6*24*time.Hour-time.Millisecond), "completed", time.Second) // just before the first day
	b.ended(b.agent, day.Add(-6*24*time.Hour), "completed", time.Second)                  // at the beginning of the first day
	b.ended(b.agent, day.Add(-time.Microsecond), "failed", 2*time.Second)                 // at the very end of yesterday
	b.ended(b.agent, day, "timed_out", time.Minute)
	b.ended("ag_other", hour.Add(-time.Microsecond), "cancelled", 0)
	b.ended(b.agent, hour, "", 0)
	b.ended(b.agent, now.Add(-time.Microsecond), "completed", 1500*time.Microsecond)
	b.ended(b.agent, now, "completed", time.Second)                       // too late to be counted
	b.ended(b.agent, now.Add(-time.Minute), "completed", -20*time.Second) // a negative duration: the clock was set back during the run
	other.ended(b.agent, hour, "completed", time.Hour)
	for what, c := range map[string]struct {
		filter usagedb.UsageFilter
		want   string
	}{
		"a week":        {all, "0:1=1+0+0+0 10/2/3 1000 1000, 5:1=0+1+0+0 10/2/3 2000 2000, 6:5=2+0+1+1 50/10/15 0 60000, all:7=3+1+1+1 70/14/21 2 60000"},
		"one day":       {usagedb.UsageFilter{Days: 1}, "9:1=0+1+0+0 10/2/3 2000 2000, 10:1=0+0+0+1 10/2/3 60000 60000, 22:1=0+0+1+0 10/2/3 0 0, 23:3=2+0+0+0 30/6/9 0 2, all:6=2+1+1+1 60/12/18 2 60000"},
		"an agent":      {usagedb.UsageFilter{Days: 1, AgentID: "ag_other"}, "22:1=0+0+1+0 10/2/3 0 0, all:1=0+0+1+0 10/2/3 0 0"},
		"no agent":      {usagedb.UsageFilter{Days: 90, AgentID: "ag_none"}, "all:0=0+0+0+0 0/0/0"},
		"two days":      {usagedb.UsageFilter{Days: 2}, "33:1=0+1+0+0 10/2/3 2000 2000, 34:1=0+0+0+1 10/2/3 60000 60000, 46:1=0+0+1+0 10/2/3 0 0, 47:3=2+0+0+0 30/6/9 0 2, all:6=2+1+1+1 60/12/18 2 60000"},
		"days, by days": {usagedb.UsageFilter{Days: 3}, "1:1=0+1+0+0 10/2/3 2000 2000, 2:5=2+0+1+1 50/10/15 0 60000, all:6=2+1+1+1 60/12/18 2 60000"},
	} {
		got := b.usage(c.filter, now)
		if shown(got) != c.want {
			t.Errorf("%s: %s\nwant %s", what, shown(got), c.want)
		}
		n, each, name := c.filter.Days, 24*time.Hour, "day"
		if c.filter.Days <= 2 {
			n, each, name = 24*c.filter.Days, time.Hour, "hour"
		}
		evenly := slices.ContainsFunc(got.Data, func(row domain.UsageInterval) bool { return row.StartsAt.Truncate(each) != row.StartsAt.Time })
		if len(got.Data) != n || got.Interval != name || evenly || !got.From.Equal(got.Data[0].StartsAt.Time) || !got.To.Equal(now) ||
			!got.Data[n-1].StartsAt.Equal(now.Truncate(each)) {
			t.Errorf("%s: %d intervals of a %s from %s until %s", what, len(got.Data), got.Interval, got.From, got.To)
		}
	}
}

// The cost of an erased run still counts.
func TestErasedRunsAreCounted(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := b.mustClaim(b.accept(wideWindow, b.run("k", "s"))[0].Run.Run.ID)
	b.finish(c, "answer")
	waits := b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID
	b.exec(`UPDATE runs SET input_tokens = 7 WHERE id = $1`, c.RunID)
	if got := shown(b.usage(usagedb.UsageFilter{Days: 1}, time.Now().Add(time.Minute))); !strings.Contains(got, "all:2=1+0+0+0 7/0/0") {
		t.Errorf("before: %s", got)
	}
	name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	if ended, err := b.s.Sessions.EraseSession(t.Context(), name); err != nil || len(ended) != 1 || ended[0].RunID != waits {
		t.Fatalf("%+v, %v", ended, err)
	}
	if got := shown(b.usage(usagedb.UsageFilter{Days: 1}, time.Now().Add(time.Minute))); !strings.Contains(got, "all:2=1+0+1+0 7/0/0") {
		t.Errorf("after: %s", got)
	}
}

func TestUsageOfManyRuns(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	const runs = 100_000
	b.exec(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input,
		retention, created_at, status, finished_at, result, input_tokens, output_tokens, cost_micros)
		SELECT $1 || lpad(n::text, 16, '0'), $2, $3, 1, n, 1, 's', 'p', 'user', 'chat', '{}', 0, at, 'completed', at + (n % 1000) * interval '1 ms',
		'{"message":"an answer of a usual length"}', 10, 2, 3
		FROM (SELECT n, now() - n * interval '25 seconds' AS at FROM generate_series(1, $4::int) n) m`,
		id.First(id.Run, time.Now().Add(-24*time.Hour))[:14], b.org, b.agent, runs)
	b.exec(`ANALYZE runs`)
	began := time.Now()
	got := b.usage(usagedb.UsageFilter{Days: 90}, time.Now())
	t.Logf("%d runs over %d days were counted in %v", runs, len(got.Data), time.Since(began))
	if got.Totals.Runs != runs || *got.Totals.P50Ms < 490 || *got.Totals.P50Ms > 510 || *got.Totals.P95Ms < 940 {
		t.Errorf("totals %+v", got.Totals)
	}
}

// If the computation of a usage report takes too long, it is aborted with an error.
func TestUsageThatTakesTooLong(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	tx, err := b.raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(t.Context(), `LOCK TABLE runs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := b.s.Usage.Usage(ctx, b.org, usagedb.UsageFilter{Days: 1}, time.Now()); apierr.CodeFor(err) != apierr.Unavailable {
		t.Errorf("%v", err)
	}
}

// For removed runs, the usage by key and automation is recorded only per day. Reports by hour
// therefore begin at midnight, and the groups add up to the totals.
func TestUsageByKeysBeginsAtMidnight(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	now := time.Date(2026, 11, 21, 13, 20, 0, 0, time.UTC)
	day := now.Truncate(24 * time.Hour)
	for _, at := range []time.Time{day.Add(-14 * time.Hour), day.Add(-8 * time.Hour), day.Add(2 * time.Hour), now.Add(-time.Minute)} {
		b.ended(b.agent, at, "completed", time.Second)
	}
	b.exec(`UPDATE runs SET key_id = 'key_a', automation_id = 'nightly'`)
	b.exec(`DELETE FROM runs WHERE created_at < $1`, now.Add(-time.Hour))
	for days, want := range map[int][2]int{1: {14, 2}, 2: {38, 4}, 3: {3, 4}} {
		for what, f := range map[string]usagedb.UsageFilter{
			"by": {By: usagedb.UsageByKey}, "a key": {KeyID: "key_a", By: usagedb.UsageByAgent}, "an automation": {AutomationID: "nightly", By: usagedb.UsageByAutomation},
		} {
			f.Days = days
			got := b.usage(f, now)
			if len(got.Data) != want[0] || got.Totals.Runs != int64(want[1]) || len(got.Groups) != 1 || got.Groups[0].Runs != int64(want[1]) || !got.From.Equal(day.AddDate(0, 0, 1-days)) {
				t.Errorf("%s, %d days: %d intervals from %s, %d runs, groups %+v", what, days, len(got.Data), got.From, got.Totals.Runs, got.Groups)
			}
		}
	}
}
