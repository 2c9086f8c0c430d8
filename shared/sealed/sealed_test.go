package sealed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/shared/domain"
	"parley/shared/sealed"
	"parley/shared/sealed/sealedtest"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/hookdb"
	"parley/shared/store/sealdb"
	"parley/shared/testkit"
)

// counted returns the result of Count as text, for example "old tool 1, hook 1".
func counted(t *testing.T, s *store.Store, setting string) string {
	t.Helper()
	keys, err := sealed.Count(t.Context(), s.Seals, sealedtest.Box(t, setting), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, key := range keys {
		line := string(key.State)
		for _, kind := range sealdb.Kinds {
			if n := key.Values[kind]; n > 0 {
				line += fmt.Sprintf(" %s:%d", kind, n)
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

// reseal reseals all values, and returns the outcome and the values that could not be opened.
func reseal(ctx context.Context, t *testing.T, s sealed.ResealStore, setting string) (sealed.Outcome, []string, error) {
	t.Helper()
	var unopened []string
	outcome, err := sealed.Reseal(ctx, s, sealedtest.Box(t, setting),
		func(v sealdb.Value) { unopened = append(unopened, string(v.Kind)) }, func(sealed.Outcome) {})
	return outcome, unopened, err
}

func mustReseal(t *testing.T, s sealed.ResealStore, setting string) sealed.Outcome {
	t.Helper()
	outcome, _, err := reseal(t.Context(), t, s, setting)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

const (
	eachKind = "tool:1 tool_version:2 widget:1 hook:1 notification:1 delivery:1 content:2"
	all      = 9
)

// Every kind of value is counted under its key and resealed. Afterwards, no value needs the old
// key.
func TestReseal(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	s := sealedtest.Open(t, dsn, sealedtest.KeyB)
	if got := counted(t, s, sealedtest.KeyA); got != "current "+eachKind {
		t.Errorf("with the key: %s", got)
	}
	if got := counted(t, s, sealedtest.KeyB); got != "current, missing "+eachKind {
		t.Errorf("without it: %s", got)
	}
	if got := len(sealedOrg.Unopened(t, sealedtest.KeyB)); got != len(sealdb.Kinds) {
		t.Errorf("without the key %d kinds are not opened", got)
	}
	both := sealedtest.KeyB + "," + sealedtest.KeyA
	if got := counted(t, s, both); got != "current, old "+eachKind {
		t.Errorf("with both: %s", got)
	}
	before, err := s.Agents.Agent(t.Context(), sealedOrg.Organization, sealedOrg.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustReseal(t, s.Seals, both); got != (sealed.Outcome{Resealed: all}) {
		t.Errorf("resealed %+v", got)
	}
	if got := mustReseal(t, s.Seals, both); got != (sealed.Outcome{}) {
		t.Errorf("the second time %+v", got)
	}
	if got := counted(t, s, both); got != "current "+eachKind+", old" {
		t.Errorf("resealed: %s", got)
	}
	if failed := sealedOrg.Unopened(t, sealedtest.KeyB); len(failed) > 0 {
		t.Errorf("without the old key: %v", failed)
	}
	after, err := s.Agents.Agent(t.Context(), sealedOrg.Organization, sealedOrg.Agent)
	if err != nil || after.Version != before.Version || after.UpdatedAt != before.UpdatedAt || after.SystemPrompt != before.SystemPrompt {
		t.Errorf("the agent became %+v, %v", after, err)
	}
}

// Values that no key can open are reported once and stay unchanged. All other values are resealed.
func TestResealSkipsUnopenedValues(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	lost := sealedtest.New(t, dsn, strings.Repeat("0c", 32), "lost@example.com")
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	s, both := sealedtest.Open(t, dsn, sealedtest.KeyB), sealedtest.KeyB+","+sealedtest.KeyA
	// A value that was copied from another location cannot be opened either, although the box has
	// its key.
	mustExec(t, dsn, `UPDATE hooks h SET secret = o.secret FROM hooks o WHERE h.id = $1 AND o.id = $2`, lost.HookID, sealedOrg.HookID)
	outcome, unopened, err := reseal(t.Context(), t, s.Seals, both)
	if err != nil || outcome != (sealed.Outcome{Resealed: all, Unopened: all}) || len(unopened) != all {
		t.Errorf("resealed %+v, %v, %v", outcome, unopened, err)
	}
	for _, kind := range sealdb.Kinds {
		if !slices.Contains(unopened, string(kind)) {
			t.Errorf("no %s is named among %v", kind, unopened)
		}
	}
	if failed := sealedOrg.Unopened(t, sealedtest.KeyB); len(failed) > 0 {
		t.Errorf("without the old key: %v", failed)
	}
	if got, want := counted(t, s, both), "current "+eachKind+", old hook:1, missing "+strings.ReplaceAll(eachKind, "hook:1 ", ""); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
	if failed := lost.Unopened(t, strings.Repeat("0c", 32)); len(failed) != 1 || failed[sealdb.KindHook] == nil {
		t.Errorf("with the lost key: %v", failed)
	}
}

// During a rotation, a row has two secrets, which may have been sealed with two keys. A secret that
// is no longer valid is dropped.
func TestResealPairs(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	s, both := sealedtest.Open(t, dsn, sealedtest.KeyB), sealedtest.KeyB+","+sealedtest.KeyA
	lost, b := sealedtest.Box(t, strings.Repeat("0c", 32)), sealedtest.Box(t, sealedtest.KeyB)
	mustExec(t, dsn, `UPDATE hooks SET previous_secret = secret, secret = $2, previous_until = now() + interval '1 hour' WHERE id = $1`,
		sealedOrg.HookID, b.Seal("fresh", secrets.Hook(sealedOrg.Organization, sealedOrg.HookID)))
	mustExec(t, dsn, `UPDATE notification_endpoints SET previous_secret = $2, previous_until = now() - interval '1 hour' WHERE id = $1`,
		sealedOrg.EndpointID, lost.Seal("old", "anywhere"))
	if got := mustReseal(t, s.Seals, both); got.Unopened > 0 {
		t.Errorf("resealed %+v", got)
	}
	hook, err := s.Hooks.ReceivingHook(t.Context(), sealedOrg.HookID)
	if err != nil || len(hook.SealedSecrets) != 2 {
		t.Fatalf("%+v, %v", hook, err)
	}
	for n, want := range []string{"fresh", sealedtest.Hook} {
		if got, err := b.Open(hook.SealedSecrets[n], secrets.Hook(sealedOrg.Organization, sealedOrg.HookID)); err != nil || got != want {
			t.Errorf("secret %d: %q, %v", n, got, err)
		}
	}
	if got := counted(t, s, sealedtest.KeyB); got != "current "+eachKind {
		t.Errorf("counted %s", got)
	}
}

// The secrets of a deleted agent are dropped, whatever key sealed them, because they are no longer
// used.
func TestResealDropsDeletedSecrets(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	lost := sealedtest.New(t, dsn, strings.Repeat("0c", 32), "lost@example.com")
	s, both := sealedtest.Open(t, dsn, sealedtest.KeyB), sealedtest.KeyB+","+sealedtest.KeyA
	if err := s.Agents.DeleteAgent(t.Context(), lost.Organization, lost.Agent); err != nil {
		t.Fatal(err)
	}
	if got := mustReseal(t, s.Seals, both); got != (sealed.Outcome{Resealed: 1, Unopened: all - 2}) {
		t.Errorf("resealed %+v", got)
	}
	if got, want := counted(t, s, both), "current, old, missing "+strings.NewReplacer("tool:1 ", "", "widget:1 ", "").Replace(eachKind); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

func mustExec(t *testing.T, dsn, statement string, args ...any) {
	t.Helper()
	if _, err := testkit.SQL(t, dsn).ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// stopped is a store that cancels a context after a given number of batches.
type stopped struct {
	*sealdb.Store

	batches int
	stop    context.CancelFunc
}

func (s *stopped) Reseal(ctx context.Context, org string, values []sealdb.Value, by sealdb.Resealer) ([]sealdb.Resealed, error) {
	if s.batches--; s.batches < 0 {
		s.stop()
	}
	return s.Store.Reseal(ctx, org, values, by)
}

// An interrupted run is continued by the next run, wherever it was interrupted.
func TestResealIsResumed(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	sealedOrg.Deliver(t, sealedtest.KeyA, 40)
	s, both := sealedtest.Open(t, dsn, sealedtest.KeyB), sealedtest.KeyB+","+sealedtest.KeyA
	total, stops := 0, 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		outcome, _, err := reseal(ctx, t, &stopped{s.Seals, 2, stop}, both)
		stop()
		if total += outcome.Resealed; err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceling statement") {
			t.Fatal(err)
		}
		stops++
	}
	if total != all+40 || stops < 3 {
		t.Errorf("%d values were resealed in %d parts", total, stops+1)
	}
	if failed := sealedOrg.Unopened(t, sealedtest.KeyB); len(failed) > 0 {
		t.Errorf("without the old key: %v", failed)
	}
}

// Concurrent changes to agents and hooks are not lost: each changed resource is complete, and
// contains the secrets that its change wrote.
func TestResealLosesNoEdit(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	const rounds = 15
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	org := sealedOrg.Organization
	s, both := sealedtest.Open(t, dsn, sealedtest.KeyA), sealedtest.KeyB+","+sealedtest.KeyA
	old, ctx := sealedtest.Box(t, sealedtest.KeyA), t.Context()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // simulates a process that still seals with the old key
		defer close(done)
		for n := range rounds {
			_, err := s.Agents.UpdateAgent(ctx, org, sealedOrg.Agent, 0, func(a *domain.Agent) error {
				a.Description = fmt.Sprint(n)
				a.Tools.MCP.Servers[0].Headers["X-Round"] = old.Seal(fmt.Sprint(n), secrets.AgentHeaders(org, sealedOrg.Agent))
				a.Widget.IdentitySecret = old.Seal(fmt.Sprint(n), secrets.WidgetIdentity(org, sealedOrg.Agent))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			fresh := old.Seal(fmt.Sprint(n), secrets.Hook(org, sealedOrg.HookID))
			if _, err := s.Hooks.UpdateHook(ctx, org, sealedOrg.HookID, hookdb.HookChange{SealedSecret: &fresh}); err != nil {
				t.Error(err)
			}
		}
	})
	resealRun := sealedtest.Open(t, dsn, both)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if _, unopened, err := reseal(ctx, t, resealRun.Seals, both); err != nil || len(unopened) > 0 {
			t.Errorf("resealing: %v, %v", unopened, err)
		}
	}
	wg.Wait()
	mustReseal(t, resealRun.Seals, both)
	agent, err := s.Agents.Agent(ctx, org, sealedOrg.Agent)
	if err != nil || agent.Version != 2+rounds || agent.Description != fmt.Sprint(rounds-1) {
		t.Fatalf("the agent is %+v, %v", agent, err)
	}
	b, want := sealedtest.Box(t, sealedtest.KeyB), fmt.Sprint(rounds-1)
	hook, err := s.Hooks.ReceivingHook(ctx, sealedOrg.HookID)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ sealed, location string }{
		"header": {agent.Tools.MCP.Servers[0].Headers["X-Round"], secrets.AgentHeaders(org, sealedOrg.Agent)},
		"widget": {agent.Widget.IdentitySecret, secrets.WidgetIdentity(org, sealedOrg.Agent)},
		"hook":   {hook.SealedSecrets[0], secrets.Hook(org, sealedOrg.HookID)},
	} {
		if got, err := b.Open(c.sealed, c.location); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for version := range agent.Version {
		config, err := s.Executions.Config(ctx, org, sealedOrg.Agent, version+1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Open(config.Tools.HTTPRequest.Endpoints[0].SigningSecret, secrets.AgentHeaders(org, sealedOrg.Agent))
		if err != nil || got != sealedtest.Signing {
			t.Errorf("version %d: %q, %v", version+1, got, err)
		}
	}
	if got := counted(t, s, both); !strings.HasSuffix(got, ", old") {
		t.Errorf("counted %s", got)
	}
}

// A row that another transaction has locked for a long time does not delay the other rows.
func TestResealPassesLockedRows(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	sealedOrg := sealedtest.New(t, dsn, sealedtest.KeyA, "ada@example.com")
	s, both := sealedtest.Open(t, dsn+"&lock_timeout=50", sealedtest.KeyB), sealedtest.KeyB+","+sealedtest.KeyA
	tx, err := testkit.SQL(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `SELECT FROM hooks WHERE id = $1 FOR UPDATE`, sealedOrg.HookID); err != nil {
		t.Fatal(err)
	}
	if got := mustReseal(t, s.Seals, both); got != (sealed.Outcome{Resealed: all - 1, Busy: 1}) {
		t.Errorf("beside a lock %+v", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := mustReseal(t, s.Seals, both); got != (sealed.Outcome{Resealed: 1}) {
		t.Errorf("after it %+v", got)
	}
}
