package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/store"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

// automationRun accepts a run of an automation and returns the run's id.
func (b *testEnv) automationRun(automation, trigger, session string) string {
	b.Helper()
	r := b.run("", session)
	r.AutomationID, r.TriggerType = automation, trigger
	return b.accept(wideWindow, r)[0].Run.Run.ID
}

func (b *testEnv) automations(after string, limit int) []domain.Automation {
	b.Helper()
	out, err := b.s.Runs.Automations(b.Context(), b.org, after, limit)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func automationNames(of []domain.Automation) string {
	var out []string
	for _, a := range of {
		out = append(out, a.ID)
	}
	return strings.Join(out, " ")
}

func TestAutomationsByName(t *testing.T) {
	t.Parallel()
	s, raw := openRaw(t)
	b, other := newEnvOn(t, s, raw, "ada@example.com"), newEnvOn(t, s, raw, "bob@example.com")
	if got := b.automations("", 10); len(got) != 0 {
		t.Errorf("an empty organization has %+v", got)
	}
	b.finish(b.mustClaim(b.automationRun("nightly", "schedule", "")), "first")
	b.finish(b.mustClaim(b.automationRun("nightly", "schedule", "")), "second")
	newest := b.automationRun("nightly", "webhook", "")
	done := b.mustClaim(b.automationRun("Hourly", "schedule", ""))
	b.finish(done, "answer")
	b.automationRun("ärgerlich", "schedule", "")
	b.automationRun("erased", "schedule", "s")
	expired := b.automationRun("expired", "schedule", "")
	b.finish(b.mustClaim(expired), "answer")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() WHERE id = $1`, expired)
	b.accept(wideWindow, b.run("", "")) // this run has no automation
	other.automationRun("another's", "schedule", "")
	name := sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")}
	if _, err := b.s.Sessions.EraseSession(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	all := b.automations("", 10)
	if got := automationNames(all); got != "Hourly expired nightly ärgerlich" {
		t.Fatalf("automations %s", got)
	}
	if a := all[1]; a.LastRun.ID != expired || a.LastRun.Kept {
		t.Errorf("%+v", a)
	}
	if a := all[2]; a.AgentID != b.agent || a.TriggerType != "webhook" || a.LastRun.ID != newest || a.LastRun.Status != domain.RunQueued ||
		a.LastRun.FinishedAt != nil || !a.LastRun.Kept || time.Since(a.LastRun.CreatedAt.Time) > time.Minute {
		t.Errorf("%+v", a)
	}
	if a := all[0]; a.LastRun.ID != done.RunID || a.LastRun.Status != domain.RunCompleted || a.LastRun.FinishedAt == nil {
		t.Errorf("%+v", a)
	}
	for _, page := range []struct {
		after string
		limit int
		want  string
	}{{"", 1, "Hourly"}, {"Hourly", 1, "expired"}, {"Hourly", 9, "expired nightly ärgerlich"}, {"f", 9, "nightly ärgerlich"}, {"ärgerlich", 9, ""}} {
		if got := automationNames(b.automations(page.after, page.limit)); got != page.want {
			t.Errorf("%d after %q: %s", page.limit, page.after, got)
		}
	}
	if runs, err := s.Runs.ListRuns(t.Context(), b.org, rundb.RunFilter{AutomationID: "nightly"}, 9); err != nil || len(runs) != 3 || runs[0].ID != newest {
		t.Errorf("runs of one: %+v, %v", runs, err)
	}
	if runs, err := other.s.Runs.ListRuns(t.Context(), other.org, rundb.RunFilter{AutomationID: "nightly"}, 9); err != nil || len(runs) != 0 {
		t.Errorf("another's runs: %+v, %v", runs, err)
	}
}

// Reading a page of automations, or the newest runs of one automation, reads few rows, regardless
// of the number of runs.
func TestAutomationsAreFoundByTheirIndex(t *testing.T) {
	t.Parallel()
	r := newStoredEnv(t)
	const runs = 20_000
	r.raw(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, automation_id,
		input, retention, created_at, status, result) SELECT 'run_' || lpad(n::text, 26, '0'), $1, $2, 1, n, 1, 's', 'system', 'system', 'schedule',
		CASE WHEN n = 7 THEN 'once' WHEN n % 100 = 0 THEN 'rare' || n % 1000 WHEN n % 2 = 0 THEN 'often' END, '{}', 0, now(), 'completed', '{"id":"r"}'
		FROM generate_series(1, $3::int) n`, r.org, r.agent, runs)
	for _, stats := range []string{"none", "up to date"} {
		for name, x := range map[string]struct {
			maximum int
			f       func(s *store.Store) (string, error)
			want    string
		}{
			"Automations": {300, func(s *store.Store) (string, error) {
				all, err := s.Runs.Automations(t.Context(), r.org, "", 100)
				return fmt.Sprint(len(all), all[0].ID, all[0].LastRun.ID), err
			}, fmt.Sprintf("12often"+"run_%026d", runs-2)},
			"ListRuns": {120, func(s *store.Store) (string, error) {
				list, err := s.Runs.ListRuns(t.Context(), r.org, rundb.RunFilter{AutomationID: "rare0"}, 20)
				return fmt.Sprint(len(list), list[0].ID), err
			}, fmt.Sprintf("20run_%026d", runs)},
			"ListRuns of one": {30, func(s *store.Store) (string, error) {
				list, err := s.Runs.ListRuns(t.Context(), r.org, rundb.RunFilter{AutomationID: "once"}, 20)
				return fmt.Sprint(len(list), list[0].ID), err
			}, fmt.Sprintf("1run_%026d", 7)},
		} {
			var got string
			n := r.touched(func(s *store.Store) {
				var err error
				got, err = x.f(s)
				r.must(nil, err)
			})
			if n > x.maximum || n == 0 || got != x.want {
				t.Errorf("%s, statistics %s: %d pages were touched, want at most %d; %s, want %s", name, stats, n, x.maximum, got, x.want)
			} else {
				t.Logf("%s, statistics %s: %d pages", name, stats, n)
			}
		}
		r.raw(`ANALYZE`)
	}
}
