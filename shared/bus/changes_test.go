package bus_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"parley/shared/bus"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// listenForChanges runs a watch for the organizations until the test ends, and returns the watch
// and the channel of received changes.
func listenForChanges(t *testing.T, b *bus.Bus, orgs ...string) (*bus.ChangeWatch, chan bus.Change) {
	t.Helper()
	watch, heard := b.NewChangeWatch(), make(chan bus.Change, 1<<12)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		watch.Run(ctx, func(c bus.Change) { heard <- c })
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	for _, org := range orgs {
		if err := watch.Follow(org); err != nil {
			t.Fatal(err)
		}
	}
	if err := watch.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return watch, heard
}

// awaitChange waits for a given change. It fails the test if a change of another organization
// arrives first.
func awaitChange(t *testing.T, heard chan bus.Change, want bus.Change) {
	t.Helper()
	for after := time.After(20 * time.Second); ; {
		select {
		case got := <-heard:
			if got == want {
				return
			}
			if got.OrganizationID != "" && want.OrganizationID != "" && got.OrganizationID != want.OrganizationID {
				t.Fatalf("received %+v", got)
			}
		case <-after:
			t.Fatalf("%+v was not received", want)
		}
	}
}

func TestChangesAreReceivedOfWatchedOrganizationsOnly(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	worker, ingress := dial(t, server), dial(t, server)
	watch, heard := listenForChanges(t, ingress, "org_a")
	worker.Changed(domain.ChangedRuns, "org_b")
	worker.Changed(domain.ChangedRuns, "org_a")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
	worker.Changed(domain.ChangedDocuments, "org_a")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedDocuments})
	watch.Unfollow("org_a")
	watch.Unfollow("org_a")
	if err := watch.Follow("org_b"); err != nil {
		t.Fatal(err)
	}
	if err := watch.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	worker.Changed(domain.ChangedDocuments, "org_b")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_b", Kind: domain.ChangedDocuments})
}

// A process that is stopping publishes its remaining changes first.
func TestTheLastChangeOfAnEndingProcessIsReceived(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	_, heard := listenForChanges(t, dial(t, server), "org_a")
	worker := dial(t, server)
	worker.Changed(domain.ChangedRuns, "org_a")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
	worker.Changed(domain.ChangedRuns, "org_a")
	worker.Close()
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
}

func TestChangesForAllAreReportedAfterAnOutage(t *testing.T) {
	t.Parallel()
	server := testkit.NATSProcess(t, t.TempDir())
	worker, ingress := dial(t, server.URL), dial(t, server.URL)
	_, heard := listenForChanges(t, ingress, "org_a")
	server.Kill9()
	worker.Changed(domain.ChangedDocuments, "org_a") // no watch receives this change
	server.Restart()
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a"}) // the watch reports missed changes of any kind
	for worker.Ping(t.Context()) != nil {                      // the publisher's connection may be restored after the watch's connection
		if t.Context().Err() != nil {
			t.Fatal("the worker does not come back")
		}
	}
	worker.Changed(domain.ChangedRuns, "org_a")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
}

// through starts a TCP proxy to a NATS server. It returns the proxy and the proxy's address.
func through(t *testing.T, server string) (*testkit.FaultProxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.Proxy(t, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String()
}

// After its connection was interrupted, a worker publishes changes for all organizations, because
// its messages may have been lost.
func TestChangesForAllArePublishedAfterAWorkersOutage(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	proxy, way := through(t, server)
	worker := dial(t, way)
	_, heard := listenForChanges(t, dial(t, server), "org_a")
	worker.Changed(domain.ChangedRuns, "org_a")
	awaitChange(t, heard, bus.Change{OrganizationID: "org_a", Kind: domain.ChangedRuns})
	proxy.CutRequests()
	worker.Changed(domain.ChangedDocuments, "org_a")
	if err := worker.Ping(t.Context()); err == nil { // the proxy has not passed on the change, and must not pass on the ping
		t.Fatal("a server behind a cut connection answered")
	}
	proxy.Reset()
	proxy.Restore()
	awaitChange(t, heard, bus.Change{Kind: domain.ChangedDocuments})
}

// A watch whose callback is too slow reports that it may have missed changes.
func TestDroppedChangesAreReportedAsMissed(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	ingress := dial(t, server)
	watch := ingress.NewChangeWatch() // Run is not called
	if err := watch.Follow("org_a"); err != nil {
		t.Fatal(err)
	}
	if err := ingress.Ping(t.Context()); err != nil { // the server replies after it has added the subscription
		t.Fatal(err)
	}
	raw := testkit.NATSConn(t, server)
	for range 10_000 { // more messages than the watch's buffer holds
		if err := raw.Publish("changes.runs.org_a", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := ingress.Ping(t.Context()); err != nil { // the server replies after it has delivered all earlier messages
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heard, lost := 0, false
	watch.Run(ctx, func(c bus.Change) {
		if c == (bus.Change{OrganizationID: "org_a"}) {
			lost = true
			cancel()
			return
		}
		heard++
	})
	if !lost || heard == 0 || heard >= 10_000 {
		t.Errorf("%d messages were received, loss reported: %v", heard, lost)
	}
}
