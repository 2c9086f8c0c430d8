package store_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lib/pq"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// hookEnv is an organization with a hook, and helpers that send deliveries to the hook.
type hookEnv struct {
	*testEnv
	key  string
	hook domain.Hook
}

func newMailbox(t *testing.T) *hookEnv {
	t.Helper()
	return mailboxOn(newTestEnv(t))
}

func mailboxOn(b *testEnv) *hookEnv {
	b.Helper()
	key, _ := newKey(b.T, b.s, domain.KeyScopeOrganization, b.org, "")
	m := &hookEnv{testEnv: b, key: key.ID}
	hook, err := b.s.Hooks.CreateHook(b.Context(), m.newHook())
	if err != nil {
		b.Fatalf("creating hook: %v", err)
	}
	m.hook = hook
	return m
}

func (m *hookEnv) newHook() hookdb.NewHook {
	return hookdb.NewHook{
		Hook: domain.Hook{
			ID: id.New(id.Hook), Name: "pushes", AgentID: m.agent, KeyID: m.key, Source: domain.HookGitHub,
			MessageTemplate: "{{ref}}", Enabled: true,
		},
		OrganizationID: m.org, SealedSecret: "sealed",
	}
}

// delivery returns a delivery that starts a separate run.
func (m *hookEnv) delivery(deliveryID string) queuedb.NewDelivery {
	run := m.run(deliveryID, "")
	run.KeyHash = contract.Hash(m.org, string(contract.EndpointAutomation), "hook:"+m.hook.ID, deliveryID)
	run.TriggerType, run.KeyID = "webhook", m.key
	run.Input = fmt.Appendf(nil, `{"message":"hi","data":{"webhook":{"deliveryId":%q},"payload":{"n":1e400,"text":"x"}}}`, deliveryID)
	return queuedb.NewDelivery{
		HookID: m.hook.ID, OrganizationID: m.org, ID: deliveryID, Event: "push", ContentType: "application/json",
		Status: domain.DeliveryAccepted, Bytes: 2, Body: []byte(`{}`), Run: &run,
	}
}

// collected returns a delivery that is coalesced with the deliveries that have the same key and
// arrive within the window.
func (m *hookEnv) collected(deliveryID, key string, window, maxWait time.Duration) queuedb.NewDelivery {
	d := m.delivery(deliveryID)
	d.Collect = &queuedb.Collect{KeyHash: contract.Hash(key), Window: window, MaxWait: maxWait}
	return d
}

func (m *hookEnv) deliver(rows ...queuedb.NewDelivery) []queuedb.AcceptedDelivery {
	m.Helper()
	out, err := m.s.Queue.AcceptDeliveries(m.Context(), rows)
	if err != nil {
		m.Fatalf("delivering: %v", err)
	}
	for i, a := range out {
		if a.Err != nil {
			m.Fatalf("delivery %s: %v", rows[i].ID, a.Err)
		}
	}
	return out
}

// runOf returns the id of a delivery's run, or "" if it has none.
func runOf(a queuedb.AcceptedDelivery) string { return pg.Deref(a.Delivery.RunID) }

func (m *hookEnv) count(query string, args ...any) (n int) {
	m.Helper()
	if err := m.raw.QueryRowContext(m.Context(), query, args...).Scan(&n); err != nil {
		m.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestHooksAreKeptAndChanged(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	want := m.newHook()
	want.ID, want.Secret, want.Filter = m.hook.ID, "***", []domain.HookFilter{}
	want.CreatedAt, want.UpdatedAt = m.hook.CreatedAt, m.hook.UpdatedAt
	if !reflect.DeepEqual(m.hook, want.Hook) {
		t.Errorf("created %+v, want %+v", m.hook, want.Hook)
	}
	name, header, off := "renamed", "X-Id", false
	filter := []domain.HookFilter{{Path: "n", Op: "eq", Value: json.RawMessage(`1e400`)}}
	coalesce := &domain.HookCoalesce{Key: "{{ref}}", WindowSeconds: 5, MaxWaitSeconds: 60}
	changed, err := m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{
		Name: &name, Filter: &filter, Coalesce: &coalesce, DeliveryIDHeader: &header, Enabled: &off,
	})
	if err != nil {
		t.Fatal(err)
	}
	if changed.Name != name || !reflect.DeepEqual(changed.Filter, filter) || !reflect.DeepEqual(changed.Coalesce, coalesce) ||
		changed.DeliveryIDHeader != header || changed.Enabled || changed.MessageTemplate != m.hook.MessageTemplate {
		t.Errorf("changed %+v", changed)
	}
	coalesce = nil
	if changed, err = m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{Coalesce: &coalesce}); err != nil || changed.Coalesce != nil || len(changed.Filter) != 1 {
		t.Errorf("coalescing was not taken away, or more: %+v, %v", changed, err)
	}
	second, err := m.s.Hooks.CreateHook(ctx, m.newHook())
	if err != nil {
		t.Fatal(err)
	}
	if list, err := m.s.Hooks.Hooks(ctx, m.org, "", 1); err != nil || len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("first page %+v, %v", list, err)
	}
	if list, err := m.s.Hooks.Hooks(ctx, m.org, second.ID, 1); err != nil || len(list) != 1 || list[0].ID != m.hook.ID {
		t.Errorf("second page %+v, %v", list, err)
	}
	if err := m.s.Hooks.DeleteHook(ctx, m.org, second.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, m.s.Hooks.DeleteHook(ctx, m.org, second.ID), apierr.NotFound)
	_, err = m.s.Hooks.Hook(ctx, m.org, second.ID)
	wantCode(t, err, apierr.NotFound)
	_, err = m.s.Hooks.UpdateHook(ctx, m.org, second.ID, hookdb.HookChange{Name: &name})
	wantCode(t, err, apierr.NotFound)
	_, err = m.s.Hooks.ReceivingHook(ctx, second.ID)
	wantCode(t, err, apierr.NotFound)
}

func TestHooksAreOfAnAgentAndAKeyOfTheirOrganization(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	other, _ := signUp(t, m.s, "bob@example.com")
	theirs, _ := newKey(t, m.s, domain.KeyScopeOrganization, other.Organization.ID, "")
	own, _ := newKey(t, m.s, domain.KeyScopeUser, "", other.User.ID)
	ended, _ := newKey(t, m.s, domain.KeyScopeOrganization, m.org, "")
	m.exec(`UPDATE api_keys SET expires_at = now() WHERE id = $1`, ended.ID)
	for _, key := range []string{theirs.ID, own.ID, ended.ID, id.New(id.Key)} {
		h := m.newHook()
		h.KeyID = key
		_, err := m.s.Hooks.CreateHook(ctx, h)
		wantCode(t, err, apierr.InvalidRequest)
		_, err = m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{KeyID: &key})
		wantCode(t, err, apierr.InvalidRequest)
	}
	h := m.newHook()
	h.AgentID = id.New(id.Agent)
	_, err := m.s.Hooks.CreateHook(ctx, h)
	wantCode(t, err, apierr.InvalidRequest)
	_, err = m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{AgentID: &h.AgentID})
	wantCode(t, err, apierr.InvalidRequest)
}

func TestReceivingHooksHaveTheirSecretsAndALiveKey(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	receiving := func() hookdb.ReceivingHook {
		t.Helper()
		h, err := m.s.Hooks.ReceivingHook(ctx, m.hook.ID)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := receiving()
	if h.OrganizationID != m.org || fmt.Sprint(h.SealedSecrets) != "[sealed]" || h.KeyScope != domain.KeyScopeOrganization || !reflect.DeepEqual(h.Hook, m.hook) {
		t.Errorf("receiving %+v", h)
	}
	next := "next"
	shown, err := m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{SealedSecret: &next, KeepPrevious: time.Hour})
	if err != nil || shown.PreviousUntil == nil {
		t.Fatalf("%+v, %v", shown, err)
	}
	if h = receiving(); fmt.Sprint(h.SealedSecrets) != "[next sealed]" {
		t.Errorf("after a rotation: %v", h.SealedSecrets)
	}
	m.exec(`UPDATE hooks SET previous_until = clock_timestamp()`)
	if h = receiving(); fmt.Sprint(h.SealedSecrets) != "[next]" || h.PreviousUntil != nil {
		t.Errorf("after the previous one's time: %+v", h)
	}
	last := "last"
	if _, err := m.s.Hooks.UpdateHook(ctx, m.org, m.hook.ID, hookdb.HookChange{SealedSecret: &last}); err != nil {
		t.Fatal(err)
	}
	if h = receiving(); fmt.Sprint(h.SealedSecrets) != "[last]" {
		t.Errorf("after a rotation that keeps nothing: %v", h.SealedSecrets)
	}
	_, err = m.s.Hooks.ReceivingHook(ctx, id.New(id.Hook))
	wantCode(t, err, apierr.NotFound)
	m.exec(`UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1`, m.key)
	_, err = m.s.Hooks.ReceivingHook(ctx, m.hook.ID)
	wantCode(t, err, apierr.NotFound)
	m.exec(`UPDATE api_keys SET expires_at = NULL, revoked_at = clock_timestamp() WHERE id = $1`, m.key)
	_, err = m.s.Hooks.ReceivingHook(ctx, m.hook.ID)
	wantCode(t, err, apierr.NotFound)
	m.exec(`UPDATE api_keys SET revoked_at = NULL WHERE id = $1`, m.key)
	receiving()
	m.exec(`DELETE FROM organizations WHERE id = $1`, m.org)
	_, err = m.s.Hooks.ReceivingHook(ctx, m.hook.ID)
	wantCode(t, err, apierr.NotFound)
}

func TestHooksAreBounded(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	m.exec(`INSERT INTO hooks SELECT 'hook_' || n, h.org_id, h.name, h.agent_id, h.key_id, h.source, h.secret, '', NULL, '', '', h.message_template,
		h.filter, NULL, true FROM hooks h, generate_series(2, $1) n`, hookdb.MaxHooks)
	_, err := m.s.Hooks.CreateHook(ctx, m.newHook())
	wantCode(t, err, apierr.Conflict)
	if err := m.s.Hooks.DeleteHook(ctx, m.org, m.hook.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := m.s.Hooks.CreateHook(ctx, m.newHook()); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
	_, err = m.s.Hooks.CreateHook(ctx, m.newHook())
	wantCode(t, err, apierr.Conflict)
}

// When a key is rotated, the key's hooks continue with the new key, and hooks of other keys are
// unchanged.
func TestHooksOutliveTheRotationOfTheirKey(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	other := mailboxOn(m.testEnv)
	k := secrets.NewAPIKey()
	who := accountdb.Actor{OrganizationID: m.org, Role: domain.RoleAdmin}
	next, err := m.s.Organizations.RotateKey(ctx, who, m.key, accountdb.NewKey{ID: k.ID, SecretHash: k.Hash, LastFour: k.LastFour}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := m.s.Hooks.ReceivingHook(ctx, m.hook.ID); err != nil || h.KeyID != next.ID {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err := m.s.Hooks.ReceivingHook(ctx, other.hook.ID); err != nil || h.KeyID != other.key {
		t.Errorf("of another key: %+v, %v", h, err)
	}
}

func TestRunsByHooksAreCounted(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	count := func(maximum, want int) {
		t.Helper()
		if n, err := m.s.Queue.HookRuns(t.Context(), m.org, maximum); err != nil || n != want {
			t.Errorf("%d runs up to %d, want %d, %v", n, maximum, want, err)
		}
	}
	var rows []queuedb.NewDelivery
	for n := range 5 {
		rows = append(rows, m.delivery(fmt.Sprint(n)))
		rows[n].Run.Hold = time.Hour
	}
	m.deliver(rows...)
	count(3, 3)
	count(10, 5)
	m.exec(`UPDATE runs SET trigger_type = 'api' WHERE id = ANY ($1)`, pq.Array([]string{rows[0].Run.ID, rows[1].Run.ID, rows[2].Run.ID}))
	count(3, 2)
	m.exec(`UPDATE open_runs SET dispatched = true WHERE run_id = $1`, rows[4].Run.ID)
	count(3, 1)
}
