package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/apierr"
	"parley/shared/bus"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/accountdb"
	"parley/shared/store/hookdb"
	"parley/shared/store/pg"
	"parley/shared/store/queuedb"
)

// hook creates a webhook of the test's organization.
func (d *testEnv) hook() string {
	d.Helper()
	k := secrets.NewAPIKey()
	key, err := d.store.Organizations.CreateKey(d.Context(), accountdb.Actor{OrganizationID: d.org, Role: domain.RoleAdmin}, accountdb.NewKey{
		ID: k.ID, Scope: domain.KeyScopeOrganization, Name: "k", SecretHash: k.Hash, LastFour: k.LastFour,
	})
	must(d.T, err)
	hook, err := d.store.Hooks.CreateHook(d.Context(), hookdb.NewHook{
		Hook:           domain.Hook{ID: id.New(id.Hook), Name: "h", AgentID: d.agent, KeyID: key.ID, Source: domain.HookGitHub, Enabled: true},
		OrganizationID: d.org,
	})
	must(d.T, err)
	return hook.ID
}

func (d *testEnv) delivery(hook, name string) queuedb.NewDelivery {
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: d.org, AgentID: d.agent, CallerKind: domain.CallerSystem, Principal: "system", TriggerType: "webhook",
		Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
		IdempotencyKey: name, KeyHash: contract.Hash(d.org, string(contract.EndpointAutomation), "hook:"+hook, name),
	}
	run.SessionID = run.ID
	run.SessionKey, run.Dedupe = contract.Hash(d.org, run.ID), contract.Dedupe(d.org, contract.EndpointAutomation, run.ID)
	return queuedb.NewDelivery{HookID: hook, OrganizationID: d.org, ID: name, Status: domain.DeliveryAccepted, Run: &run}
}

// jobMessages receives the job messages of n runs and returns the ids of these runs.
func (d *testEnv) jobMessages(n int) map[string]bool {
	d.Helper()
	out, lane := map[string]bool{}, d.bus.Lane(domain.LaneAutomation)
	for deadline := time.Now().Add(20 * time.Second); len(out) < n; {
		must(d.T, lane.Fetch(d.Context(), n, time.Second, func(bell *bus.JobMessage) { out[bell.RunID] = true }))
		if time.Now().After(deadline) {
			d.Fatalf("job messages only for %v", out)
		}
	}
	return out
}

func TestDeliveriesStartRunsAndPublishJobsAndChanges(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	hook := d.hook()
	heard := make(chan bus.Change, 64)
	watch := d.bus.NewChangeWatch()
	must(t, watch.Follow(d.org))
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { watch.Run(ctx, func(c bus.Change) { heard <- c }) })
	t.Cleanup(watching.Wait)
	t.Cleanup(cancel)

	const deliveries = 20
	var mu sync.Mutex
	runs := map[string]bool{}
	var all sync.WaitGroup
	for n := range deliveries * 2 { // each delivery is sent twice
		all.Go(func() {
			got, err := d.Deliver(t.Context(), d.delivery(hook, fmt.Sprint(n%deliveries)))
			if err != nil || got.Delivery.RunID == nil {
				t.Errorf("delivering: %+v, %v", got, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			runs[*got.Delivery.RunID] = true
		})
	}
	all.Wait()
	if len(runs) != deliveries {
		t.Errorf("%d runs, want %d", len(runs), deliveries)
	}
	select {
	case c := <-heard:
		if c != (bus.Change{OrganizationID: d.org, Kind: domain.ChangedRuns}) {
			t.Errorf("received the change %+v", c)
		}
	case <-time.After(20 * time.Second):
		t.Error("no change was published")
	}
	waiting, err := d.store.Queue.Backlog(t.Context(), 1000)
	if err != nil || waiting[d.org] != deliveries {
		t.Errorf("%v runs wait, %v", waiting, err)
	}
	if got := d.jobMessages(8); len(got) != 8 { // 8 is the dispatch limit
		t.Errorf("job messages for %v", got)
	}
	_, err = d.Deliver(t.Context(), d.delivery(id.New(id.Hook), "x"))
	if apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("to an unknown hook: %v", err)
	}
}

func TestAFullBacklogRefusesNewDeliveriesAndReplaysOldOnes(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	hook := d.hook()
	before, err := d.Deliver(t.Context(), d.delivery(hook, "seen"))
	must(t, err)
	full := New(d.cfg, d.store, d.bus, zerolog.Nop()) // this dispatcher does not run, so it never counts the backlog
	full.backlog.total.counted = full.backlog.maximum
	got, err := full.Deliver(t.Context(), d.delivery(hook, "seen"))
	if err != nil || !got.Existing || pg.Deref(got.Delivery.RunID) != pg.Deref(before.Delivery.RunID) {
		t.Errorf("seen before: %+v, %v", got, err)
	}
	if _, err = full.Deliver(t.Context(), d.delivery(hook, "new")); apierr.CodeFor(err) != apierr.Overloaded {
		t.Errorf("new: %v", err)
	}
	if late, ok := errors.AsType[*apierr.Error](err); !ok || late.RetryAfter == 0 {
		t.Errorf("the error has no retry time: %v", err)
	}
}

// The queued runs that an organization's webhooks start have a separate limit, so that the backlog
// has room for other runs.
func TestQueuedRunsOfWebhooksAreLimited(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	d.byHooks.maximum = 3
	hook := d.hook()
	for range 8 { // reaches the dispatch limit of 8 slots, so that later runs stay queued
		d.submit()
	}
	before := 0
	until := func(what string, refused bool) error {
		t.Helper()
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for deadline := time.Now().Add(20 * time.Second); ; before++ {
			_, err := d.Deliver(t.Context(), d.delivery(hook, fmt.Sprint(before)))
			if (err != nil) == refused {
				return err
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			<-ticker.C
		}
	}
	err := until("without end", true)
	late, ok := errors.AsType[*apierr.Error](err)
	if !ok || late.Code != apierr.Overloaded || late.RetryAfter == 0 || !strings.Contains(late.Detail, "webhook runs of this organization") {
		t.Errorf("over the limit: %v", err)
	}
	if got, err := d.Deliver(t.Context(), d.delivery(hook, "0")); err != nil || !got.Existing {
		t.Errorf("seen before: %+v, %v", got, err)
	}
	quiet := d.delivery(hook, "filtered")
	quiet.Status, quiet.Run = domain.DeliveryFiltered, nil
	if _, err := d.Deliver(t.Context(), quiet); err != nil {
		t.Errorf("without a run: %v", err)
	}
	d.submit()
	must(t, d.CancelQueued(t.Context(), d.org, d.agent))
	_ = until("after there is room again", false)
}
