package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// say executes a run with this message in a session, and returns the run's id. If the answer is
// empty, the run fails; otherwise it completes. The argument previous has the same meaning as in
// NewRun.
func (b *testEnv) say(message, answer string, previous *string, brought ...domain.Exchange) string {
	b.Helper()
	r := b.run("", "s")
	var err error
	if r.Input, err = json.Marshal(domain.Input{Message: message, History: brought}); err != nil {
		b.Fatal(err)
	}
	r.Previous = previous
	b.accept(wideWindow, r)
	c := b.mustClaim(r.ID)
	if answer != "" {
		b.finish(c, answer)
		return r.ID
	}
	run := c.Run()
	run.End(domain.RunFailed, &domain.RunError{Code: "model_failed", Message: "No."}, domain.At(c.Now), c.RetentionSecs)
	out, err := executiondb.NewOutcome(c.Held(), run)
	if err == nil {
		_, err = b.s.Executions.Finish(b.Context(), []executiondb.Outcome{out})
	}
	if err != nil {
		b.Fatal(err)
	}
	return r.ID
}

// historyAfter accepts the session's next run, reads its history, and cancels it. The result is
// text: "message>answer" for each turn, and in brackets the history that a request contained.
func (b *testEnv) historyAfter(previous *string) string {
	b.Helper()
	r := b.run("", "s")
	r.Previous = previous
	stored := b.accept(wideWindow, r)[0].Run.Run
	c := b.mustClaim(r.ID)
	accepted, claimed := deref(stored.PreviousRunID), deref(c.Run().PreviousRunID)
	if accepted != claimed || previous != nil && claimed != *previous {
		b.Errorf("the run continues %q, when it is claimed %q", accepted, claimed)
	}
	turns, err := b.s.Sessions.History(b.Context(), b.org, c.SessionRef, c.Seq, 200)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := b.s.Executions.Cancel(b.Context(), b.org, "", r.ID); err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, turn := range turns {
		brought, err := turn.Brought()
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range brought {
			out = append(out, "["+e.Message+">"+e.Answer+"]")
		}
		if turn.Answer != "" {
			out = append(out, turn.Message+">"+turn.Answer)
		}
	}
	return strings.Join(out, " ")
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// A run continues the run that its request names, and no other branch of the session. If the
// request names no run, it continues the session's last run.
func TestAHistoryIsThatOfItsBranch(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	none := new("")
	b.say("q1", "a1", nil)
	second := b.say("q2", "a2", nil)
	third := b.say("q3", "a3", &second)
	fork := b.say("q4", "a4", &second)
	failed := b.say("q5", "", &fork)
	for _, tt := range []struct {
		name     string
		previous *string
		want     string
	}{
		{"the last run", nil, "q1>a1 q2>a2 q4>a4"},
		{"another branch", &third, "q1>a1 q2>a2 q3>a3"},
		{"the last run, which was cancelled", nil, "q1>a1 q2>a2 q3>a3"},
		{"a failed run", &failed, "q1>a1 q2>a2 q4>a4"},
		{"a run that is not", new("run_00000000000000000000000000"), ""},
		{"none", none, ""},
	} {
		if got := b.historyAfter(tt.previous); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}

	// A run whose request contains its history continues no run. Later runs inherit this history
	// even if that run fails.
	b.say("q6", "", none, domain.Exchange{Message: "mine", Answer: "yours"})
	if got := b.historyAfter(nil); got != "[mine>yours]" {
		t.Errorf("after a failed run with a history: %s", got)
	}
	b.say("q7", "a7", nil)
	if got := b.historyAfter(nil); got != "[mine>yours] q7>a7" {
		t.Errorf("after a run that continues it: %s", got)
	}

	// A previous run is ignored if it belongs to another session.
	other := b.run("", "other")
	b.accept(wideWindow, other)
	b.finish(b.mustClaim(other.ID), "theirs")
	if got := b.historyAfter(&other.ID); got != "" {
		t.Errorf("after a run of another session: %s", got)
	}
}
