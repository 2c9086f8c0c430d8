package store_test

import (
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/queuedb"
)

// late returns a run that has finished with an answer before its acceptance.
func (b *testEnv) late(r queuedb.NewRun, answer string) executiondb.LateRun {
	b.Helper()
	version, err := b.s.Executions.AgentVersion(b.Context(), r.OrganizationID, r.AgentID)
	b.must(err)
	clock, err := b.s.Executions.Clock(b.Context())
	b.must(err)
	var key *string
	if r.IdempotencyKey != "" {
		key = &r.IdempotencyKey
	}
	claim := executiondb.Claimed{
		RunID: r.ID, OrganizationID: r.OrganizationID, AgentID: &r.AgentID, ConfigVersion: version, Seq: 1, SessionID: r.SessionID,
		TriggerType: r.TriggerType, IdempotencyKey: key, RawInput: r.Input, CallerKind: r.CallerKind,
		RetentionSecs: int64(r.Retention / time.Second), Fence: 1, Attempts: 1, CreatedAt: clock.Now, StartedAt: clock.Now, Now: clock.Now,
	}
	return executiondb.LateRun{
		LateRun: domain.LateRun{
			ID: r.ID, OrganizationID: r.OrganizationID, AgentID: r.AgentID, CallerKind: string(r.CallerKind), Principal: r.Principal,
			SessionID: r.SessionID, SessionHash: r.SessionKey, TriggerType: r.TriggerType, IdempotencyKey: r.IdempotencyKey,
			KeyHash: r.KeyHash, Input: r.Input, Retention: int64(r.Retention / time.Second),
		},
		ConfigVersion: version, Outcome: b.ending(&claim, answer),
	}
}

// insertLate stores a finished run, and reports whether it was stored.
func (b *testEnv) insertLate(l executiondb.LateRun) bool {
	b.Helper()
	stored, err := b.s.Executions.InsertFinished(b.Context(), []executiondb.LateRun{l})
	b.must(err)
	return stored[l.ID]
}

// The row of a run that was stored with its result differs from that of an ordinary run only in ids
// and times.
func TestALateRunHasTheRowOfAnOrdinaryOne(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ordinary, late := b.run("ordinary", ""), b.run("late", "")
	b.accept(wideWindow, ordinary)
	b.finish(b.mustClaim(ordinary.ID), "answer")
	if !b.insertLate(b.late(late, "answer")) {
		t.Fatal("not stored")
	}

	const shape = `SELECT jsonb_object_agg(key, CASE WHEN value = 'null' THEN value WHEN key IN ('id', 'session_ref', 'session_id',
		'result', 'idempotency_key', 'idempotency_hash', 'sweep_after', 'created_at', 'started_at', 'finished_at', 'expires_at') THEN '"set"' ELSE value END)::text
		FROM runs r, jsonb_each(to_jsonb(r)) WHERE r.id = $1`
	if one, other := b.text(shape, ordinary.ID), b.text(shape, late.ID); one != other {
		t.Errorf("the row of the late run is\n%s, of the ordinary one\n%s", other, one)
	}
	const session = `SELECT count(*)::text FROM runs r JOIN sessions s ON s.ref = r.session_ref AND s.session_id = r.session_id AND s.last_seq = 1
		AND s.org_id = r.org_id AND s.target_id = r.agent_id AND s.principal = r.principal WHERE r.id = $1`
	if n := b.text(session, late.ID); n != "1" {
		t.Errorf("sessions of the late run: %s", n)
	}
}

// A run is stored with its result only if nothing else has to be decided at its acceptance.
func TestALateRunIsNotStored(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *testEnv, l *executiondb.LateRun){
		"another run has its key": func(b *testEnv, l *executiondb.LateRun) {
			other := b.run("k", "")
			b.accept(wideWindow, other)
			l.IdempotencyKey, l.KeyHash = other.IdempotencyKey, other.KeyHash
		},
		"it was accepted": func(b *testEnv, l *executiondb.LateRun) {
			same := b.run("", "")
			same.ID = l.ID
			b.accept(wideWindow, same)
		},
		"its agent has changed": func(b *testEnv, _ *executiondb.LateRun) {
			_, err := b.s.Agents.UpdateAgent(b.Context(), b.org, b.agent, 0, func(a *domain.Agent) error { a.SystemPrompt = "q"; return nil })
			b.must(err)
		},
		"its agent is deleted":         func(b *testEnv, _ *executiondb.LateRun) { b.must(b.s.Agents.DeleteAgent(b.Context(), b.org, b.agent)) },
		"its agent refuses the caller": func(_ *testEnv, l *executiondb.LateRun) { l.CallerKind = string(domain.CallerUser) },
		"its organization has a budget": func(b *testEnv, _ *executiondb.LateRun) {
			b.budget(domain.BudgetOrganization, "", domain.BudgetTokens, 1000)
		},
		"its organization is notified": func(b *testEnv, _ *executiondb.LateRun) {
			b.endpointFor("run.completed")
		},
		"it began long ago": func(_ *testEnv, l *executiondb.LateRun) {
			l.Outcome.Run.CreatedAt = domain.At(time.Now().Add(-time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t)
			l := b.late(b.run("", ""), "answer")
			spoil(b, &l)
			before := b.text(`SELECT count(*)::text FROM runs`)
			if b.insertLate(l) || b.text(`SELECT count(*)::text FROM runs`) != before {
				t.Error("it was stored")
			}
		})
	}
}

// A run that was stored with its result is found by its ordinary acceptance, with and without a key.
func TestAnAcceptanceFindsItsLateRun(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	keyed, keyless := b.run("k", ""), b.run("", "")
	for _, r := range []queuedb.NewRun{keyed, keyless} {
		if !b.insertLate(b.late(r, "answer")) {
			t.Fatal("not stored")
		}
	}
	neighbour := b.run("", "")
	if a := b.accept(wideWindow, keyed)[0]; !a.Existing || a.Run.Run.ID != keyed.ID || !a.Run.Ended() {
		t.Errorf("with a key: %+v", a)
	}
	out := b.accept(wideWindow, keyless, neighbour)
	if a := out[0]; a.Err != nil || a.Run.Run.ID != keyless.ID || a.Job != nil {
		t.Errorf("without a key: %+v", a)
	}
	if a := out[1]; a.Err != nil || a.Existing || a.Run.Run.ID != neighbour.ID {
		t.Errorf("another run of the batch: %+v", a)
	}
	if n := b.text(`SELECT count(*)::text FROM runs`); n != "3" {
		t.Errorf("%s runs, want 3", n)
	}
}
