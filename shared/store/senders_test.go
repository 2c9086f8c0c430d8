package store_test

import (
	"fmt"
	"slices"
	"testing"

	"parley/shared/store/hookdb"
)

// Only the most recently verified senders of a hook stay verified, and only for a limited time. A
// sender is verified only for its own organization.
func TestVerifiedSendersAreBounded(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	ctx := t.Context()
	senders := func() []string {
		t.Helper()
		got, err := m.s.Hooks.ReceivingHook(ctx, m.hook.ID)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(slices.Values(got.Senders))
	}
	verify := func(org, client string) {
		t.Helper()
		if err := m.s.Hooks.VerifySender(ctx, org, m.hook.ID, client); err != nil {
			t.Fatal(err)
		}
	}
	verify("org_other", "192.0.2.9")
	verify(m.org, "192.0.2.1")
	verify(m.org, "192.0.2.2")
	verify(m.org, "192.0.2.1")
	if got := senders(); fmt.Sprint(got) != "[192.0.2.1 192.0.2.2]" {
		t.Errorf("verified are %v", got)
	}
	m.exec(`INSERT INTO hook_senders (hook_id, client, org_id, verified_at)
		SELECT $1, 'client ' || n, $2, now() - interval '1 hour' FROM generate_series(1, 200) n`, m.hook.ID, m.org)
	verify(m.org, "192.0.2.3")
	if got := senders(); len(got) != hookdb.MaxSenders || !slices.Contains(got, "192.0.2.1") || !slices.Contains(got, "192.0.2.3") {
		t.Errorf("%d are verified: %v", len(got), got)
	}
	m.exec(`UPDATE hook_senders SET verified_at = now() - interval '31 days' WHERE client <> '192.0.2.3'`)
	if got := senders(); fmt.Sprint(got) != "[192.0.2.3]" {
		t.Errorf("a month later %v are verified", got)
	}
	if n, err := m.s.Sessions.PruneDeliveries(ctx, 1000); err != nil || n != hookdb.MaxSenders-1 {
		t.Errorf("the sweeper removed %d, %v", n, err)
	}
	if n := m.count(`SELECT count(*) FROM hook_senders`); n != 1 {
		t.Errorf("%d rows are left", n)
	}
}
