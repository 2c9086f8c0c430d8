package store_test

import (
	"reflect"
	"testing"

	"parley/shared/domain"
	"parley/shared/id"
)

func TestCallableAgents(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), t.Context()
	account, _ := signUp(t, s, "a@b.c")
	other, _ := signUp(t, s, "b@b.c")
	org := account.Organization.ID
	first := newAgent(t, s, org, "Ada")
	systemOnly, err := s.Agents.CreateAgent(ctx, org, domain.Agent{
		ID: id.New(id.Agent), Name: "Cron", SystemPrompt: "p", AllowedCallers: []domain.CallerKind{domain.CallerSystem},
	})
	if err != nil {
		t.Fatal(err)
	}
	deleted, second := newAgent(t, s, org, "gone"), newAgent(t, s, org, "Bob")
	if err := s.Agents.DeleteAgent(ctx, org, deleted.ID); err != nil {
		t.Fatal(err)
	}
	newAgent(t, s, other.Organization.ID, "foreign")
	for _, tt := range []struct {
		kind  domain.CallerKind
		limit int
		want  []string
	}{
		{domain.CallerUser, 10, []string{second.ID, first.ID}},
		{domain.CallerUser, 1, []string{second.ID}},
		{domain.CallerSystem, 10, []string{second.ID, systemOnly.ID, first.ID}},
		{domain.CallerDemo, 10, nil},
	} {
		agents, err := s.Agents.CallableAgents(ctx, org, tt.kind, tt.limit)
		var got []string
		for _, a := range agents {
			got = append(got, a.ID)
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s, %d: %v, %v; want %v", tt.kind, tt.limit, got, err, tt.want)
		}
		if len(agents) > 0 && (agents[0].Name != "Bob" || agents[0].CreatedAt != second.CreatedAt) {
			t.Errorf("%+v, want %+v", agents[0], second)
		}
	}
}

// A session's turn is stored with the history that was part of its request.
func TestATurnKeepsItsRequestsHistory(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	run := b.run("", "s")
	run.Input = []byte(`{"message":"m","history":[{"message":"q","answer":"a"}]}`)
	plain, last := b.run("", "s"), b.run("", "s")
	b.accept(wideWindow, run, plain, last)
	for _, runID := range []string{run.ID, plain.ID} {
		b.finishAndNext(b.mustClaim(runID), "answer", wideWindow)
	}
	c := b.mustClaim(last.ID)
	turns, err := b.s.Sessions.History(t.Context(), b.org, c.SessionRef, c.Seq, 10)
	if err != nil || len(turns) != 2 {
		t.Fatalf("history %+v, %v", turns, err)
	}
	for i, want := range [][]domain.Exchange{{{Message: "q", Answer: "a"}}, nil} {
		if got, err := turns[i].Brought(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("turn %d brought %+v, %v", i, got, err)
		}
	}
	turns[0].Earlier = []byte("{")
	if _, err := turns[0].Brought(); err == nil {
		t.Error("what cannot be read was taken for nothing")
	}
}
