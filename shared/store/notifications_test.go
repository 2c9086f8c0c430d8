package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/executiondb"
	"parley/shared/store/notificationdb"
	"parley/shared/store/sessiondb"
)

// endpointFor creates an endpoint for the events, or for all events if the list is empty.
func (b *testEnv) endpointFor(events ...string) domain.NotificationEndpoint {
	b.Helper()
	if len(events) == 0 {
		events = domain.NotificationEvents
	}
	e, err := b.s.Notifications.CreateEndpoint(b.Context(), notificationdb.NewEndpoint{
		OrganizationID: b.org, ID: id.New(id.Endpoint), URL: "https://example.com/" + b.org, Description: "of " + b.org, Events: events,
		Enabled: true, SealedSecret: "sealed for " + b.org,
	}, notificationdb.MaxEndpoints)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// claims takes due notifications and renders them.
func (b *testEnv) claims(maximum int) []notificationdb.ClaimedNotification {
	b.Helper()
	claimed, err := b.s.Notifications.ClaimNotifications(b.Context(), maximum, 4, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	for i := range claimed {
		if err := b.s.Notifications.Render(b.Context(), &claimed[i]); err != nil {
			b.Fatal(err)
		}
	}
	return claimed
}

// recordAttempt records the result of an attempt; "" means delivered.
func (b *testEnv) recordAttempt(n notificationdb.ClaimedNotification, a notificationdb.Attempt) (disabled bool) {
	b.Helper()
	disabled, err := b.s.Notifications.RecordAttempt(b.Context(), n.LeasedNotification, a)
	if err != nil {
		b.Fatal(err)
	}
	return disabled
}

var (
	delivered = notificationdb.Attempt{Status: domain.NotificationDelivered, ResponseStatus: 204}
	postponed = notificationdb.Attempt{Status: domain.NotificationPending, ResponseStatus: 500, Error: "The endpoint responded with status 500.", Next: time.Hour}
)

func eventsFor(claimed []notificationdb.ClaimedNotification) string {
	names := make([]string, len(claimed))
	for i, n := range claimed {
		names[i] = n.Event
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// body parses a payload.
func (b *testEnv) body(n notificationdb.ClaimedNotification) (event string, data json.RawMessage) {
	b.Helper()
	var p struct {
		Type      string          `json:"type"`
		Timestamp domain.Time     `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(n.Payload(), &p); err != nil || p.Timestamp != n.CreatedAt || time.Since(p.Timestamp.Time).Abs() > time.Minute {
		b.Fatalf("payload %s: %v", n.Payload(), err)
	}
	return p.Type, p.Data
}

// endAs finishes a claimed run with the given status.
func (b *testEnv) endAs(c *executiondb.Claimed, status domain.RunStatus) {
	b.Helper()
	run := c.Run()
	run.End(status, &domain.RunError{Code: "x", Message: "m"}, domain.At(c.Now), c.RetentionSecs)
	outcome, err := executiondb.NewOutcome(c.Held(), run)
	b.must(err)
	_, err = b.s.Executions.Finish(b.Context(), []executiondb.Outcome{outcome})
	b.must(err)
}

func (b *testEnv) taken() *executiondb.Claimed {
	b.Helper()
	return b.mustClaim(b.accept(wideWindow, b.run("", ""))[0].Run.Run.ID)
}

// However a run ends, one notification is sent, with the run object that callers see. Events to
// which no endpoint has subscribed are not stored.
func TestEndsOfRunsAreNotified(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	c := b.taken()
	b.finish(c, "before there is an endpoint")
	all, failures := b.endpointFor(), b.endpointFor(domain.NotifyRunFailed)
	other, err := b.s.Agents.CreateAgent(t.Context(), b.org, domain.Agent{ID: id.New(id.Agent), Name: "b", AllowedCallers: []domain.CallerKind{domain.CallerSystem}})
	b.must(err)
	of := &other.ID
	_, err = b.s.Notifications.UpdateEndpoint(t.Context(), b.org, b.endpointFor().ID, notificationdb.EndpointChange{AgentID: &of})
	b.must(err)
	off := false
	_, err = b.s.Notifications.UpdateEndpoint(t.Context(), b.org, b.endpointFor().ID, notificationdb.EndpointChange{Enabled: &off})
	b.must(err)

	c = b.taken()
	b.finish(c, "an answer with <b> and \u2028")
	claimed := b.claims(100)
	if len(claimed) != 1 || claimed[0].EndpointID != all.ID || !id.Valid(id.Notification, claimed[0].ID) || claimed[0].Attempts != 1 ||
		claimed[0].URL != all.URL || fmt.Sprint(claimed[0].SealedSecrets) != "[sealed for "+b.org+"]" {
		t.Fatalf("an answer: %+v", claimed)
	}
	run, err := b.s.Runs.RunByID(t.Context(), b.org, "", c.RunID)
	b.must(err)
	if event, data := b.body(claimed[0]); event != domain.NotifyRunCompleted || string(data) != string(resultFor(run)) {
		t.Errorf("claimed %s %s, want %s", event, data, resultFor(run))
	}
	b.recordAttempt(claimed[0], delivered)

	b.endAs(b.taken(), domain.RunFailed)
	b.endAs(b.taken(), domain.RunCancelled)
	late := b.run("", "")
	late.Deadline = time.Millisecond
	b.accept(wideWindow, late)
	for ended := 0; ended == 0; {
		gone, err := b.s.Executions.EndOverdue(t.Context(), 10)
		b.must(err)
		ended = len(gone)
	}
	claimed = b.claims(100)
	if got := eventsFor(claimed); len(claimed) != 4 || strings.Count(got, domain.NotifyRunFailed) != 4 {
		t.Fatalf("claimed %s", got)
	}
	for _, endpoint := range []string{all.ID, failures.ID} {
		var statuses []string
		for _, n := range claimed {
			if n.EndpointID == endpoint {
				var shown domain.Run
				_, data := b.body(n)
				b.must(json.Unmarshal(data, &shown))
				statuses = append(statuses, string(shown.Status))
			}
		}
		if slices.Sort(statuses); fmt.Sprint(statuses) != "[failed timed_out]" {
			t.Errorf("claimed statuses %v", statuses)
		}
	}
	if more := b.claims(100); len(more) > 0 {
		t.Errorf("claimed again: %+v", more)
	}
}

// A notification about a waiting run describes the run as it was while it waited, even if the run
// has continued by the time the notification is sent.
func TestWaitingRunsAreNotified(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.endpointFor(domain.NotifyRunRequiresAction)
	b.waitsForClient("s") // needs no person
	held := b.parked(domain.ActionApproval)
	run := b.wantRun(held.RunID, domain.RunRequiresAction)
	want, err := run.Render()
	b.must(err)
	if _, err := b.decide(held, domain.DecisionDeny); err != nil {
		t.Fatal(err)
	}
	claimed := b.claims(10)
	if len(claimed) != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	var was, published domain.Run
	event, data := b.body(claimed[0])
	b.must(json.Unmarshal(want, &was))
	b.must(json.Unmarshal(data, &published))
	if event != domain.NotifyRunRequiresAction || published.ID != was.ID || published.Status != domain.RunRequiresAction || fmt.Sprint(*published.RequiredAction) != fmt.Sprint(*was.RequiredAction) {
		t.Errorf("claimed %s %s\nwant %s", event, data, want)
	}
	b.recordAttempt(claimed[0], notificationdb.Attempt{Status: domain.NotificationPending, Error: "x"})
	if again := b.claims(10); len(again) != 1 || string(again[0].Payload()) != string(claimed[0].Payload()) || again[0].ID != claimed[0].ID {
		t.Errorf("claimed again %+v", again)
	}
}

// If the run has ended by the time its notification is rendered, the notification contains the
// run's usage and tool calls, but not the result.
func TestWaitingRunsThatHaveEndedAreNotified(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.endpointFor(domain.NotifyRunRequiresAction)
	held := b.parked(domain.ActionApproval)
	if _, err := b.decide(held, domain.DecisionDeny); err != nil {
		t.Fatal(err)
	}
	c := b.mustClaim(held.RunID)
	run, answer := c.Run(), "done"
	run.Message, run.Output = &answer, &domain.Output{Message: answer}
	run.Usage = domain.Usage{InputTokens: 5, OutputTokens: 7, CostMicros: 9, Model: "m"}
	run.ToolCalls = []domain.ToolCall{{ID: "c", Name: "pay", Status: "failed", Input: json.RawMessage(`{"a":1}`), Output: json.RawMessage(`{}`)}}
	run.End(domain.RunCompleted, nil, domain.At(c.Now), c.RetentionSecs)
	outcome, err := executiondb.NewOutcome(c.Held(), run)
	b.must(err)
	_, err = b.s.Executions.Finish(t.Context(), []executiondb.Outcome{outcome})
	b.must(err)
	claimed := b.claims(10)
	if len(claimed) != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	var published domain.Run
	_, data := b.body(claimed[0])
	b.must(json.Unmarshal(data, &published))
	if published.ID != run.ID || published.Usage != run.Usage || len(published.ToolCalls) != 1 || string(published.ToolCalls[0].Input) != `{"a":1}` {
		t.Errorf("the notification contains less than the run has done: %s", data)
	}
	if published.Status != domain.RunRequiresAction || published.RequiredAction == nil || published.Message != nil || published.Output != nil || published.FinishedAt != nil || published.ExpiresAt != nil {
		t.Errorf("the notification contains the run's result: %s", data)
	}
}

func TestDocumentsAreNotified(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.endpointFor(domain.NotifyKnowledgeReady, domain.NotifyKnowledgeFailed)
	doc := b.document([]byte("a document")).ID
	b.process(doc)
	ready, err := b.s.Knowledge.DocumentByID(t.Context(), b.org, doc)
	b.must(err)
	claimed := b.claims(10)
	if got := eventsFor(claimed); got != domain.NotifyKnowledgeReady {
		t.Fatalf("claimed %s", got)
	}
	want, err := json.Marshal(ready)
	b.must(err)
	if _, data := b.body(claimed[0]); string(data) != string(want) {
		t.Errorf("claimed %s\nwant %s", data, want)
	}
	b.recordAttempt(claimed[0], delivered)
	b.fail(doc)
	if got := eventsFor(b.claims(10)); got != domain.NotifyKnowledgeFailed {
		t.Errorf("claimed %s", got)
	}
	b.deleteDocument(doc)
	if n := b.number(`SELECT count(*) FROM notifications`); n != 0 {
		t.Errorf("%d notifications exist about a deleted document", n)
	}
}

// An endpoint has only a few notifications in progress at the same time, and a failing endpoint has
// only one notification in progress. Other endpoints are not delayed.
func TestAnEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	slow := b.endpointFor(domain.NotifyRunFailed)
	for range 10 {
		b.endAs(b.taken(), domain.RunFailed)
	}
	first := b.claims(100)
	if len(first) != 4 || len(b.claims(100)) != 0 {
		t.Fatalf("%d notifications of one endpoint are under way", len(first))
	}
	quick := b.endpointFor(domain.NotifyRunFailed)
	b.endAs(b.taken(), domain.RunFailed)
	if got := b.claims(1); len(got) != 1 || got[0].EndpointID != quick.ID {
		t.Fatalf("the other endpoint's claim: %+v", got)
	}
	for _, n := range first {
		b.recordAttempt(n, postponed)
	}
	next := b.claims(100)
	if len(next) != 1 || next[0].EndpointID != slow.ID {
		t.Fatalf("a failing endpoint gets %d at a time", len(next))
	}
	b.recordAttempt(next[0], delivered)
	if n := len(b.claims(100)); n != 4 {
		t.Errorf("after a success, the endpoint gets %d notifications at a time", n)
	}
}

// No notification is claimed by two workers. If a worker dies, its notification is sent again with
// the same id.
func TestNotificationsHaveOneHolder(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for range 5 {
		b.endpointFor(domain.NotifyRunFailed)
	}
	for range 4 {
		b.endAs(b.taken(), domain.RunFailed)
	}
	found := make(chan []notificationdb.ClaimedNotification)
	for range 4 {
		go func() {
			claimed, err := b.s.Notifications.ClaimNotifications(t.Context(), 7, 4, time.Minute)
			if err != nil {
				t.Error(err)
			}
			found <- claimed
		}()
	}
	seen := map[string]int64{}
	for range 4 {
		for _, n := range <-found {
			if _, twice := seen[n.ID]; twice {
				t.Errorf("%s has two holders", n.ID)
			}
			seen[n.ID] = n.Fence
		}
	}
	if len(seen) != 20 {
		t.Fatalf("%d notifications were claimed", len(seen))
	}
	b.exec(`UPDATE notifications SET next_attempt_at = clock_timestamp(), lease_until = clock_timestamp() - interval '1 second'`)
	again := b.claims(100)
	if len(again) != 20 {
		t.Fatalf("%d were sent again", len(again))
	}
	zombie := again[0]
	zombie.Fence--
	b.recordAttempt(zombie, delivered)
	if n, err := b.s.Notifications.Notification(t.Context(), b.org, zombie.ID); err != nil || n.Status != domain.NotificationPending || n.Attempts != 2 {
		t.Errorf("after a zombie's: %+v, %v", n, err)
	}
}

// An endpoint is disabled if it responds that it wants no more notifications, or after it has
// failed for a day. When the endpoint is enabled again, its pending notifications are sent.
func TestEndpointsAreDisabled(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	e := b.endpointFor(domain.NotifyRunFailed)
	for range 3 {
		b.endAs(b.taken(), domain.RunFailed)
	}
	read := func() domain.NotificationEndpoint {
		t.Helper()
		e, err := b.s.Notifications.Endpoint(t.Context(), b.org, e.ID)
		b.must(err)
		return e
	}
	on := true
	claimed := b.claims(10)
	gone := postponed
	gone.Gone, gone.Error = true, "gone"
	if !b.recordAttempt(claimed[0], gone) || b.recordAttempt(claimed[1], gone) {
		t.Error("the endpoint was not disabled exactly once")
	}
	b.recordAttempt(claimed[2], postponed)
	if e := read(); e.Enabled || e.DisabledAt == nil || *e.DisabledReason != "gone" || e.Failures != 3 {
		t.Errorf("gone: %+v", e)
	}
	b.endAs(b.taken(), domain.RunFailed)
	b.exec(`UPDATE notifications SET next_attempt_at = clock_timestamp()`)
	if n := b.number(`SELECT count(*) FROM notifications`); n != 3 || len(b.claims(10)) != 0 {
		t.Errorf("a disabled endpoint has %d notifications", n)
	}
	ping, err := b.s.Notifications.TestEndpoint(t.Context(), b.org, e.ID)
	b.must(err)
	if claimed := b.claims(10); len(claimed) != 1 || claimed[0].ID != ping.ID {
		t.Errorf("a test's claim: %+v", claimed)
	} else if _, data := b.body(claimed[0]); string(data) != `{"endpointId":"`+e.ID+`"}` {
		t.Errorf("a ping says %s", data)
	}
	if e, err := b.s.Notifications.UpdateEndpoint(t.Context(), b.org, e.ID, notificationdb.EndpointChange{Enabled: &on}); err != nil || !e.Enabled || e.DisabledReason != nil || e.DisabledAt != nil || e.Failures != 0 {
		t.Errorf("enabled: %+v, %v", e, err)
	}
	claimed = b.claims(10)
	if len(claimed) != 3 {
		t.Fatalf("%d go on", len(claimed))
	}
	b.exec(`UPDATE notification_endpoints SET failures = 18, failing_since = clock_timestamp() - interval '25 hours'`)
	if b.recordAttempt(claimed[0], postponed) || !b.recordAttempt(claimed[1], postponed) {
		t.Error("the endpoint was not disabled at the 20th failure")
	}
	if e := read(); e.Enabled || e.Failures != 20 || !strings.HasSuffix(*e.DisabledReason, postponed.Error) {
		t.Errorf("failed for a day: %+v", e)
	}
	b.exec(`UPDATE notification_endpoints SET enabled = true, failures = 100, failing_since = clock_timestamp() - interval '23 hours'`)
	if b.recordAttempt(claimed[2], postponed); !read().Enabled {
		t.Error("disabled within a day")
	}
}

// No notification is sent about an erased run or document. If a run is removed after its retention
// period, its unsent notifications fail with that reason.
func TestRemovedResourcesAreNotNotified(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.endpointFor()
	erased := b.mustClaim(b.accept(wideWindow, b.run("", "s"))[0].Run.Run.ID)
	b.finish(erased, "secret")
	_, err := b.s.Sessions.EraseSession(t.Context(), sessiondb.SessionName{OrganizationID: b.org, TargetID: b.agent, SessionID: "s", Key: contract.Hash(b.org, b.agent, "s")})
	b.must(err)
	if n := b.number(`SELECT count(*) FROM notifications`); n != 0 {
		t.Errorf("%d notifications exist about erased subjects", n)
	}
	sent, waiting := b.taken(), b.taken()
	b.finish(sent, "sent")
	claimed := b.claims(1)
	b.recordAttempt(claimed[0], delivered)
	b.finish(waiting, "waiting")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 hour', sweep_after = clock_timestamp() - interval '1 hour'`)
	_, err = b.s.Sessions.DeleteExpired(t.Context(), 10)
	b.must(err)
	if n, err := b.s.Notifications.Notification(t.Context(), b.org, claimed[0].ID); err != nil || n.Payload != nil || n.Status != domain.NotificationDelivered {
		t.Errorf("notification about a removed run = %+v, %v", n, err)
	}
	if _, err := b.s.Notifications.ResendNotification(t.Context(), b.org, claimed[0].ID); apierr.CodeFor(err) != apierr.Erased {
		t.Errorf("sending the notification again = %v", err)
	}
	if n := b.number(`SELECT count(*) FROM notifications WHERE status = 'failed' AND error = '` + strings.ReplaceAll(notificationdb.RunExpiredError, "'", "''") + `'`); n != 1 {
		var all string
		b.must(b.raw.QueryRowContext(t.Context(), `SELECT string_agg(to_jsonb(x)::text, ' ') FROM notifications x`).Scan(&all))
		t.Errorf("%d notifications are listed as unsent: %s", n, all)
	}
	if n := b.number(`SELECT count(*) FROM notifications WHERE data IS NOT NULL OR source IS NOT NULL`); n != 0 || len(b.claims(10)) != 0 {
		t.Errorf("%d notifications have words of runs that were removed", n)
	}
}

// After a run's retention period, nothing about the run is sent or shown, even before the run is
// removed. The notification fails, but this does not count as a failure of the endpoint. If a
// notification is being sent when the period ends, the result of the attempt is stored.
func TestNothingIsNotifiedPastRetention(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	e := b.endpointFor(domain.NotifyRunCompleted)
	held, failing, waiting := b.taken(), b.taken(), b.taken()
	b.finish(held, "held")
	b.finish(failing, "failing")
	both := b.claims(2)
	inHand, postponedLate := both[0], both[1]
	b.finish(waiting, "waiting")
	b.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 hour', sweep_after = clock_timestamp() - interval '1 hour'`)
	claimed, err := b.s.Notifications.ClaimNotifications(t.Context(), 10, 4, time.Minute)
	b.must(err)
	if len(claimed) != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	if err := b.s.Notifications.Render(t.Context(), &claimed[0]); apierr.CodeFor(err) != apierr.Erased {
		t.Errorf("the notification was rendered: %v", err)
	}
	if n, err := b.s.Notifications.Notification(t.Context(), b.org, claimed[0].ID); err != nil || n.Payload != nil || n.Status != domain.NotificationPending {
		t.Errorf("the list shows %+v, %v", n, err)
	}
	b.recordAttempt(claimed[0], notificationdb.Attempt{Status: domain.NotificationFailed, Error: notificationdb.RunExpiredError, Unsent: true})
	if n := b.number(`SELECT failures FROM notification_endpoints WHERE id = '` + e.ID + `'`); n != 0 {
		t.Errorf("the endpoint has %d failures", n)
	}
	_, err = b.s.Sessions.DeleteExpired(t.Context(), 10)
	b.must(err)
	b.recordAttempt(inHand, delivered)
	n, err := b.s.Notifications.Notification(t.Context(), b.org, inHand.ID)
	if err != nil || n.Status != domain.NotificationDelivered || n.Payload != nil {
		t.Errorf("the claimed one is %+v, %v", n, err)
	}
	b.recordAttempt(postponedLate, notificationdb.Attempt{Status: domain.NotificationPending, Error: "no answer", Next: time.Second, Unsent: true})
	n, err = b.s.Notifications.Notification(t.Context(), b.org, postponedLate.ID)
	if err != nil || n.Status != domain.NotificationFailed || n.Error == nil || *n.Error != notificationdb.RunExpiredError {
		t.Errorf("what was to be sent again is %+v, %v", n, err)
	}
	if n := b.number(`SELECT count(*) FROM notifications WHERE data IS NOT NULL OR source IS NOT NULL`); n != 0 {
		t.Errorf("%d notifications have words of runs that were removed", n)
	}
}

// Disabled endpoints with pending notifications do not slow claims down. A test notification to a
// disabled endpoint is still claimed.
func TestDisabledEndpointsArePassedOver(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	enabled := b.endpointFor(domain.NotifyRunFailed)
	const many = 300
	b.exec(fmt.Sprintf(`WITH off AS (
		  INSERT INTO notification_endpoints (id, org_id, url, description, events, enabled, secret)
		  SELECT 'ntf_' || n %% 2 * 7 || n, org_id, url, '', events, false, secret FROM notification_endpoints, generate_series(1, %d) n RETURNING id, org_id)
		INSERT INTO notifications (id, org_id, endpoint_id, event, subject_id, n, data) SELECT new_type_id('evt'), org_id, id, 'run.failed', id, 0, '{}' FROM off`, many))
	b.endAs(b.taken(), domain.RunFailed)
	b.exec(`ANALYZE notifications, notification_endpoints`)
	tx, err := b.raw.BeginTx(t.Context(), nil)
	b.must(err)
	_, err = tx.ExecContext(t.Context(), `SET LOCAL enable_seqscan = off`)
	b.must(err)
	var claimed string
	b.must(tx.QueryRowContext(t.Context(), `SELECT string_agg(endpoint_id, ' ') FROM claim_notifications(100, '1 minute', 4)`).Scan(&claimed))
	var looks int
	b.must(tx.QueryRowContext(t.Context(), `SELECT idx_scan + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'notifications'`).Scan(&looks))
	b.must(tx.Rollback())
	if claimed != enabled.ID || looks > many/4 {
		t.Errorf("claimed for %q in %d looks", claimed, looks)
	}
	ping, err := b.s.Notifications.TestEndpoint(t.Context(), b.org, b.text(`SELECT max(id) FROM notification_endpoints WHERE NOT enabled`))
	b.must(err)
	if !slices.ContainsFunc(b.claims(10), func(c notificationdb.ClaimedNotification) bool { return c.ID == ping.ID }) {
		t.Error("a disabled endpoint is not tested")
	}
}

func TestListsOfNotifications(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	e := b.endpointFor(domain.NotifyRunFailed)
	for range 3 {
		b.endAs(b.taken(), domain.RunFailed)
	}
	claimed := b.claims(10)
	b.recordAttempt(claimed[0], delivered)
	b.recordAttempt(claimed[1], notificationdb.Attempt{Status: domain.NotificationFailed, Error: "x"})
	list := func(f notificationdb.NotificationFilter, after string, limit int) []domain.Notification {
		t.Helper()
		out, err := b.s.Notifications.Notifications(t.Context(), b.org, f, after, limit)
		b.must(err)
		return out
	}
	all := list(notificationdb.NotificationFilter{}, "", 10)
	if len(all) != 3 || all[0].ID < all[1].ID || len(list(notificationdb.NotificationFilter{}, all[1].ID, 10)) != 1 || all[0].Payload != nil {
		t.Errorf("listed %+v", all)
	}
	for status, want := range map[domain.NotificationStatus]string{
		domain.NotificationDelivered: claimed[0].ID, domain.NotificationFailed: claimed[1].ID, domain.NotificationPending: claimed[2].ID,
	} {
		if got := list(notificationdb.NotificationFilter{EndpointID: e.ID, Status: status}, "", 10); len(got) != 1 || got[0].ID != want {
			t.Errorf("%s: %+v", status, got)
		}
	}
	b.recordAttempt(claimed[2], postponed) // a failing endpoint has at most one notification in progress
	again, err := b.s.Notifications.ResendNotification(t.Context(), b.org, claimed[1].ID)
	if err != nil || again.Status != domain.NotificationPending || again.Attempts != 0 || again.Payload == nil {
		t.Errorf("sent again: %+v, %v", again, err)
	}
	if got := b.claims(10); len(got) != 1 || got[0].ID != claimed[1].ID || got[0].Attempts != 1 {
		t.Errorf("claimed again: %+v", got)
	}
	b.must(b.s.Notifications.DeleteEndpoint(t.Context(), b.org, e.ID))
	if got := list(notificationdb.NotificationFilter{}, "", 10); len(got) != 0 {
		t.Errorf("of a deleted endpoint: %+v", got)
	}
	if _, err := b.s.Notifications.Endpoint(t.Context(), b.org, e.ID); apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("reading a deleted endpoint = %v", err)
	}
	if err := b.s.Notifications.DeleteEndpoint(t.Context(), b.org, e.ID); apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("deleting the endpoint again = %v", err)
	}
	old := b.endpointFor(domain.NotifyRunFailed)
	b.endAs(b.taken(), domain.RunFailed)
	b.exec(`UPDATE notifications SET created_at = created_at - interval '31 days' WHERE endpoint_id = $1`, old.ID)
	b.exec(`UPDATE notification_endpoints SET deleted_at = deleted_at - interval '2 minutes'`)
	for _, want := range []int{2, 1, 0} { // three belong to a deleted endpoint, one is too old; a call removes at most two of each kind
		if n, err := b.s.Notifications.PruneNotifications(t.Context(), 2); err != nil || n != want {
			t.Errorf("pruned %d, %v; want %d", n, err, want)
		}
	}
	if n := b.number(`SELECT (SELECT count(*) FROM notifications) * 10 + (SELECT count(*) FROM notification_endpoints)`); n != 1 {
		t.Errorf("left are %d", n)
	}
}

func TestEndpointsAreKept(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	ctx := t.Context()
	e := b.endpointFor(domain.NotifyRunFailed)
	url, text, sealed := "https://example.com/b", "text", "newer"
	none := (*string)(nil)
	changed, err := b.s.Notifications.UpdateEndpoint(ctx, b.org, e.ID, notificationdb.EndpointChange{
		URL: &url, Description: &text, Events: []string{domain.NotifyRunCompleted}, AgentID: &none, SealedSecret: &sealed, KeepPrevious: time.Hour,
	})
	if err != nil || changed.URL != url || changed.Description != text || fmt.Sprint(changed.Events) != "[run.completed]" || changed.AgentID != nil ||
		changed.PreviousUntil == nil || changed.Secret != "***" || !changed.Enabled {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	b.finish(b.taken(), "x")
	if got := b.claims(10); len(got) != 1 || fmt.Sprint(got[0].SealedSecrets) != "[newer sealed for "+b.org+"]" || got[0].URL != url {
		t.Errorf("signed by %+v", got)
	}
	foreign := id.New(id.Agent)
	of := &foreign
	if _, err := b.s.Notifications.UpdateEndpoint(ctx, b.org, e.ID, notificationdb.EndpointChange{AgentID: &of}); apierr.CodeFor(err) != apierr.InvalidRequest {
		t.Errorf("of an agent that is none: %v", err)
	}
	if _, err := b.s.Notifications.UpdateEndpoint(ctx, b.org, id.New(id.Endpoint), notificationdb.EndpointChange{URL: &url}); apierr.CodeFor(err) != apierr.NotFound {
		t.Errorf("changing one that is none: %v", err)
	}
	for range notificationdb.MaxEndpoints - 1 {
		b.endpointFor()
	}
	_, err = b.s.Notifications.CreateEndpoint(ctx, notificationdb.NewEndpoint{OrganizationID: b.org, ID: id.New(id.Endpoint), Events: []string{"x"}}, notificationdb.MaxEndpoints)
	if apierr.CodeFor(err) != apierr.Conflict {
		t.Errorf("one too many: %v", err)
	}
	if list, err := b.s.Notifications.Endpoints(ctx, b.org, e.ID, 100); err != nil || len(list) != 0 {
		t.Errorf("after the oldest: %+v, %v", list, err)
	}
	if list, err := b.s.Notifications.Endpoints(ctx, b.org, "", 100); err != nil || len(list) != notificationdb.MaxEndpoints {
		t.Errorf("all: %+v, %v", list, err)
	}
}

func TestPayloadsAreBounded(t *testing.T) {
	t.Parallel()
	run := domain.Run{ID: id.New(id.Run), ToolCalls: []domain.ToolCall{{
		ID: "c", Name: "n", Input: json.RawMessage(`{}`), Output: json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`),
	}}}
	whole, err := run.Render()
	if err != nil {
		t.Fatal(err)
	}
	at := domain.At(time.Now())
	got := notificationdb.NotificationPayload(domain.NotifyRunCompleted, at, whole)
	if len(got) > 2000 || !strings.Contains(string(got), run.ID) || !strings.Contains(string(got), `"output":null`) || !json.Valid(got) {
		t.Errorf("a long run: %d bytes, %.200s", len(got), got)
	}
}
