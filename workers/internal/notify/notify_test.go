package notify

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/outbound"
	"parley/shared/sealed"
	"parley/shared/secrets"
	"parley/shared/store"
	"parley/shared/store/accountdb"
	"parley/shared/store/executiondb"
	"parley/shared/store/notificationdb"
	"parley/shared/store/queuedb"
	"parley/shared/testkit"
)

// received is a request that the server of the endpoints has received.
type received struct {
	path   string
	header http.Header
	body   []byte
}

// testEnv contains an organization, and an HTTP server for the organization's endpoints.
type testEnv struct {
	*testing.T
	store  *store.Store
	db     *sql.DB // connection as a superuser
	box    *secrets.Box
	org    string
	agent  string
	server *httptest.Server
	got    chan received
	answer atomic.Pointer[http.HandlerFunc] // the server's response; nil means status 204
	allow  []string
	log    bytes.Buffer // log entries about secrets that no key can decrypt; read only after the notifier has stopped
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	dsn := testkit.Postgres(t)
	st, err := store.Open(dsn, 8)
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	account, err := st.Accounts.SignUp(t.Context(), accountdb.NewUser{Email: "a@example.com"}, accountdb.NewLogin{TokenHash: []byte("x"), ExpiresAt: time.Now().Add(time.Hour)})
	must(t, err)
	org := account.Organization.ID
	agent, err := st.Agents.CreateAgent(t.Context(), org, domain.Agent{ID: id.New(id.Agent), Name: "a", AllowedCallers: []domain.CallerKind{domain.CallerSystem}})
	must(t, err)
	box, err := secrets.NewBox(strings.Repeat("ab", 32))
	must(t, err)
	r := &testEnv{T: t, store: st, db: testkit.SQL(t, dsn), box: box, org: org, agent: agent.ID, got: make(chan received, 1000)}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the client has closed the connection
		}
		r.got <- received{req.URL.Path, req.Header, body}
		if answer := r.answer.Load(); answer != nil {
			(*answer)(w, req)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.server.Close)
	r.allow = []string{r.server.Listener.Addr().String()}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answers sets the response of the HTTP server to all further requests.
func (r *testEnv) answers(f http.HandlerFunc) { r.answer.Store(&f) }

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

func (r *testEnv) sealed(endpointID, secret string) string {
	return r.box.Seal(secret, secrets.NotificationEndpoint(r.org, endpointID))
}

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newer  = "whsec_T25seSBhIHNhbXBsZSBvZiBhIHNlY3JldCAhISE="
)

func (r *testEnv) endpoint(path string) string {
	r.Helper()
	made := id.New(id.Endpoint)
	_, err := r.store.Notifications.CreateEndpoint(r.Context(), notificationdb.NewEndpoint{
		OrganizationID: r.org, ID: made, URL: r.server.URL + path, Events: []string{domain.NotifyRunFailed}, Enabled: true, SealedSecret: r.sealed(made, secret),
	}, notificationdb.MaxEndpoints)
	must(r.T, err)
	return made
}

// fail creates a run, finishes it as failed and returns its id.
func (r *testEnv) fail() (runID string) {
	r.Helper()
	run := queuedb.NewRun{
		ID: id.New(id.Run), OrganizationID: r.org, AgentID: r.agent, CallerKind: domain.CallerSystem, Principal: "system",
		TriggerType: "api", Input: []byte(`{"message":"hi"}`), Lane: domain.LaneAutomation, Retention: time.Hour, Deadline: time.Minute,
	}
	run.SessionID, run.SessionKey, run.Dedupe = run.ID, contract.Hash(run.ID), run.ID
	if out, err := r.store.Queue.Accept(r.Context(), []queuedb.NewRun{run}); err != nil || out[0].Err != nil {
		r.Fatalf("accepting: %+v, %v", out, err)
	}
	claims, err := r.store.Executions.Claim(r.Context(), []string{run.ID})
	must(r.T, err)
	shown := claims[0].Run.Run()
	shown.End(domain.RunFailed, &domain.RunError{Code: "x", Message: "m"}, domain.At(time.Now()), 3600)
	outcome, err := executiondb.NewOutcome(claims[0].Run.Held(), shown)
	must(r.T, err)
	_, err = r.store.Executions.Finish(r.Context(), []executiondb.Outcome{outcome})
	must(r.T, err)
	return run.ID
}

// changeLog receives the published changes.
type changeLog chan string

func (h changeLog) Changed(kind domain.ChangeKind, org string) {
	select {
	case h <- string(kind) + " " + org:
	default:
	}
}

// notifier starts a notifier that runs until the test ends or stop is called.
func (r *testEnv) notifier(st Store) (changed changeLog, stop func()) {
	r.Helper()
	outside, err := outbound.New(outbound.Config{Allow: r.allow})
	must(r.T, err)
	changed = make(changeLog, 100)
	registry := prometheus.NewRegistry()
	watch, err := sealed.NewWatch(r.box, registry, zerolog.New(&r.log))
	must(r.T, err)
	n, err := New(st, changed, outside, watch, registry, zerolog.Nop())
	must(r.T, err)
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = n.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	r.Cleanup(stop)
	return changed, stop
}

func (r *testEnv) next() received {
	r.Helper()
	select {
	case got := <-r.got:
		return got
	case <-time.After(20 * time.Second):
		r.Fatal("nothing was sent")
		return received{}
	}
}

// until waits until a notification satisfies the condition, and returns it.
func (r *testEnv) until(notificationID string, want func(domain.Notification) bool) domain.Notification {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		n, err := r.store.Notifications.Notification(r.Context(), r.org, notificationID)
		must(r.T, err)
		if want(n) {
			return n
		}
		if time.Now().After(deadline) {
			r.Fatalf("the notification stays %+v", n)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.Context().Done():
		}
	}
}

func (r *testEnv) exec(query string) {
	r.Helper()
	_, err := r.db.ExecContext(r.Context(), query)
	must(r.T, err)
}

// due makes all pending notifications due now.
func (r *testEnv) due() {
	r.Helper()
	r.exec(`UPDATE notifications SET next_attempt_at = clock_timestamp(), lease_until = NULL WHERE status = 'pending'`)
}

func (r *testEnv) holds(got received, secret string) bool {
	r.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	must(r.T, err)
	return webhook.Verify(got.body, got.header) == nil
}

func TestNotificationsAreSignedAndDelivered(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	endpointID := r.endpoint("/a?b=c")
	changed, _ := r.notifier(r.store.Notifications)
	runID := r.fail()
	got := r.next()
	var payload struct {
		Type string     `json:"type"`
		Data domain.Run `json:"data"`
	}
	must(t, json.Unmarshal(got.body, &payload))
	if payload.Type != domain.NotifyRunFailed || payload.Data.ID != runID || got.path != "/a" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("sent %s %v %s", got.path, got.header, got.body)
	}
	if !r.holds(got, secret) || r.holds(got, newer) || !id.Valid(id.Notification, got.header.Get("Webhook-Id")) {
		t.Errorf("signed %v", got.header)
	}
	n := r.until(got.header.Get("Webhook-Id"), func(n domain.Notification) bool { return n.Status == domain.NotificationDelivered })
	if *n.ResponseCode != http.StatusNoContent || n.Attempts != 1 || n.Error != nil || n.DeliveredAt == nil || n.NextAttemptAt != nil || string(n.Payload) != string(got.body) {
		t.Errorf("delivered %+v", n)
	}
	if reported := <-changed; reported != "notifications "+r.org {
		t.Errorf("changes %s", reported)
	}
	if e, err := r.store.Notifications.Endpoint(t.Context(), r.org, endpointID); err != nil || e.LastSuccessAt == nil || e.Failures != 0 {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	// While both secrets of an endpoint are valid, notifications have a signature for each of them.
	// Later notifications have only the signature for the newer secret.
	sealed := r.sealed(endpointID, newer)
	_, err := r.store.Notifications.UpdateEndpoint(t.Context(), r.org, endpointID, notificationdb.EndpointChange{SealedSecret: &sealed, KeepPrevious: time.Hour})
	must(t, err)
	r.fail()
	if got := r.next(); !r.holds(got, secret) || !r.holds(got, newer) {
		t.Errorf("signed %v", got.header)
	}
	r.exec(`UPDATE notification_endpoints SET previous_until = clock_timestamp()`)
	r.fail()
	if got := r.next(); r.holds(got, secret) || !r.holds(got, newer) {
		t.Errorf("signed %v", got.header)
	}
}

// A failed notification is retried with the same id and payload, but not before the delay that the
// endpoint demands with Retry-After has passed. The number of retries is limited.
func TestFailuresAreRepeated(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	endpointID := r.endpoint("/")
	r.answers(status(http.StatusInternalServerError))
	r.notifier(r.store.Notifications)
	r.fail()
	first := r.next()
	notificationID := first.header.Get("Webhook-Id")
	waits := func(attempts int, least, limit time.Duration, says string) {
		t.Helper()
		n := r.until(notificationID, func(n domain.Notification) bool { return n.Attempts == attempts && n.Error != nil && *n.Error == says })
		if wait := time.Until(n.NextAttemptAt.Time); n.Status != domain.NotificationPending || wait < least-20*time.Second || wait > limit {
			t.Errorf("attempt %d: %+v, again in %s", attempts, n, wait)
		}
	}
	again := func(answer http.HandlerFunc) {
		t.Helper()
		r.answers(answer)
		r.due()
		if got := r.next(); got.header.Get("Webhook-Id") != notificationID || string(got.body) != string(first.body) || !r.holds(got, secret) {
			t.Errorf("sent again as %v %s", got.header, got.body)
		}
	}
	waits(1, 4*time.Second, 6*time.Second, "The endpoint responded with status 500.")
	again(status(http.StatusTooManyRequests, "Retry-After", "7200"))
	waits(2, 2*time.Hour, 2*time.Hour+time.Minute, "The endpoint responded with status 429.")
	again(status(http.StatusFound, "Location", r.server.URL+"/elsewhere"))
	waits(3, 108*time.Second, 132*time.Second, "The endpoint responded with status 302: redirects are not followed.")
	again(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	waits(4, 9*time.Minute, 11*time.Minute, "The connection was lost.")
	if e, err := r.store.Notifications.Endpoint(t.Context(), r.org, endpointID); err != nil || e.Failures != 4 || !e.Enabled {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	r.exec(`UPDATE notifications SET attempts = 9`)
	again(status(http.StatusBadGateway))
	n := r.until(notificationID, func(n domain.Notification) bool { return n.Status == domain.NotificationFailed })
	if n.Attempts != 10 || n.NextAttemptAt != nil || *n.ResponseCode != http.StatusBadGateway {
		t.Errorf("failed as %+v", n)
	}
	_, err := r.store.Notifications.ResendNotification(t.Context(), r.org, notificationID)
	must(t, err)
	again(status(http.StatusOK))
	r.until(notificationID, func(n domain.Notification) bool { return n.Status == domain.NotificationDelivered })
	if e, err := r.store.Notifications.Endpoint(t.Context(), r.org, endpointID); err != nil || e.Failures != 0 {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	if len(r.got) > 0 {
		t.Errorf("sent more: %+v", <-r.got)
	}
}

func TestAnEndpointThatIsGoneIsDisabledAtOnce(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	endpointID := r.endpoint("/")
	r.answers(status(http.StatusGone))
	r.notifier(r.store.Notifications)
	r.fail()
	notificationID := r.next().header.Get("Webhook-Id")
	r.until(notificationID, func(n domain.Notification) bool { return n.Error != nil })
	if e, err := r.store.Notifications.Endpoint(t.Context(), r.org, endpointID); err != nil || e.Enabled || e.DisabledReason == nil || !strings.Contains(*e.DisabledReason, "410") {
		t.Errorf("endpoint %+v, %v", e, err)
	}
	// A ping is sent even to a disabled endpoint, but only once. When the endpoint is enabled
	// again, its pending notifications are sent.
	r.answers(status(http.StatusInternalServerError))
	ping, err := r.store.Notifications.TestEndpoint(t.Context(), r.org, endpointID)
	must(t, err)
	if got := r.next(); got.header.Get("Webhook-Id") != ping.ID {
		t.Errorf("sent %v", got.header)
	}
	r.until(ping.ID, func(n domain.Notification) bool { return n.Status == domain.NotificationFailed })
	r.answers(status(http.StatusOK))
	on := true
	_, err = r.store.Notifications.UpdateEndpoint(t.Context(), r.org, endpointID, notificationdb.EndpointChange{Enabled: &on})
	must(t, err)
	r.due()
	if got := r.next(); got.header.Get("Webhook-Id") != notificationID {
		t.Errorf("sent %v", got.header)
	}
}

// dyingStore is a store that returns an error when the result of an attempt is recorded, as if the
// worker had died.
type dyingStore struct {
	*notificationdb.Store
	died chan struct{}
}

func (d *dyingStore) RecordAttempt(context.Context, notificationdb.LeasedNotification, notificationdb.Attempt) (bool, error) {
	close(d.died)
	return false, errors.New("killed")
}

// If a worker dies after it has sent a notification and before it has recorded the result, another
// worker sends the notification again with the same id.
func TestAWorkerThatDiesHasSentOnceMore(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.endpoint("/")
	one := &dyingStore{r.store.Notifications, make(chan struct{})}
	_, stop := r.notifier(one)
	r.fail()
	first := r.next()
	<-one.died
	stop()
	notificationID := first.header.Get("Webhook-Id")
	if n, err := r.store.Notifications.Notification(t.Context(), r.org, notificationID); err != nil || n.Status != domain.NotificationPending || time.Until(n.NextAttemptAt.Time) > lease {
		t.Errorf("after the crash: %+v, %v", n, err)
	}
	r.notifier(r.store.Notifications)
	r.due()
	if got := r.next(); got.header.Get("Webhook-Id") != notificationID || string(got.body) != string(first.body) {
		t.Errorf("sent %v %s, first %v %s", got.header, got.body, first.header, first.body)
	}
	r.until(notificationID, func(n domain.Notification) bool { return n.Status == domain.NotificationDelivered && n.Attempts == 2 })
}

// A notification is not sent if its subject no longer exists. If a run was erased at the end of its
// retention, the notification's error states this, and the endpoint does not count as failing. If a
// document was deleted, the notification is deleted, too.
func TestNotificationsOfErasedSubjectsAreNotSent(t *testing.T) {
	t.Parallel()
	for event, left := range map[string]string{domain.NotifyRunFailed: "failed", "other": ""} {
		r := newTestEnv(t)
		r.endpoint("/")
		r.fail()
		r.exec(`UPDATE runs SET expires_at = clock_timestamp() - interval '1 hour'`)
		r.exec(`UPDATE notifications SET data = NULL, source = NULL, event = '` + event + `'`)
		changed, stop := r.notifier(r.store.Notifications)
		<-changed
		stop()
		var status, cause string
		var failures int
		must(t, r.db.QueryRowContext(t.Context(), `SELECT coalesce(max(n.status), ''), coalesce(max(n.error), ''), max(e.failures)
			FROM notification_endpoints e LEFT JOIN notifications n ON n.endpoint_id = e.id`).Scan(&status, &cause, &failures))
		if status != left || left != "" && cause != notificationdb.RunExpiredError || failures != 0 || len(r.got) > 0 {
			t.Errorf("%s: %q is left, for %q, with %d failures, and %d were sent", event, status, cause, failures, len(r.got))
		}
	}
}

// overtaken is a store in which another worker claims each notification before it is rendered.
type overtaken struct {
	*notificationdb.Store
	take func()
}

func (o *overtaken) Render(ctx context.Context, n *notificationdb.ClaimedNotification) error {
	o.take()
	return o.Store.Render(ctx, n)
}

func TestWhatAnotherWorkerHasInHandIsNotSent(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.endpoint("/")
	r.fail()
	r.exec(`UPDATE notifications SET event = 'run.requires_action', data = NULL, source = '{}'`)
	taken := make(chan struct{})
	_, stop := r.notifier(&overtaken{r.store.Notifications, func() {
		r.exec(`UPDATE notifications SET fence = fence + 1`)
		close(taken)
	}})
	<-taken
	stop()
	var left int
	must(t, r.db.QueryRowContext(t.Context(), `SELECT count(*) FROM notifications WHERE status = 'pending'`).Scan(&left))
	if left != 1 || len(r.got) > 0 {
		t.Errorf("%d are left to the other one, and %d were sent", left, len(r.got))
	}
}

// If an endpoint does not respond, only a few of its notifications are in flight. Other endpoints
// receive their notifications in the meantime.
func TestASlowEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.endpoint("/slow")
	r.endpoint("/quick")
	release := make(chan struct{})
	var slow atomic.Int64
	r.answers(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			slow.Add(1)
			select {
			case <-release:
			case <-req.Context().Done():
			}
		}
		w.WriteHeader(http.StatusOK)
	})
	r.notifier(r.store.Notifications)
	const runs = 12
	for range runs {
		r.fail()
	}
	for quick := 0; quick < runs; {
		if got := r.next(); got.path == "/quick" {
			quick++
		}
	}
	if n := slow.Load(); n > maxPerEndpoint {
		t.Errorf("%d notifications were under way to the slow endpoint", n)
	}
	close(release)
}

// The URL of an endpoint is checked again before each notification is sent to it.
func TestAddressesAreJudgedWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.endpoint("/")
	r.allow = nil
	r.notifier(r.store.Notifications)
	r.fail()
	var notificationID string
	must(t, r.db.QueryRowContext(t.Context(), `SELECT id FROM notifications`).Scan(&notificationID))
	n := r.until(notificationID, func(n domain.Notification) bool { return n.Error != nil })
	if *n.Error != "The URL must begin with https://." || n.ResponseCode != nil || len(r.got) > 0 {
		t.Errorf("refused as %+v: %s", n, *n.Error)
	}
}

func TestASecretThatCannotBeOpenedIsSaid(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t)
	r.endpoint("/")
	r.exec(`UPDATE notification_endpoints SET secret = 'v1.x.y'`)
	r.notifier(r.store.Notifications)
	r.fail()
	var notificationID string
	must(t, r.db.QueryRowContext(t.Context(), `SELECT id FROM notifications`).Scan(&notificationID))
	r.until(notificationID, func(n domain.Notification) bool {
		return n.Error != nil && strings.Contains(*n.Error, "rotate the secret")
	})
	if len(r.got) > 0 {
		t.Error("sent without a signature")
	}
}

func TestAttemptsAreSpread(t *testing.T) {
	t.Parallel()
	for attempt, delay := range delays {
		for range 50 {
			a := scheduleNext(&notificationdb.ClaimedNotification{Event: domain.NotifyRunFailed, Attempts: attempt + 1}, notificationdb.Attempt{}, 0)
			if a.Status != domain.NotificationPending || a.Next < delay*9/10 || a.Next > delay*11/10 {
				t.Errorf("attempt %d: %+v", attempt+1, a)
			}
		}
	}
	if a := scheduleNext(&notificationdb.ClaimedNotification{Attempts: len(delays) + 1}, notificationdb.Attempt{}, 0); a.Status != domain.NotificationFailed {
		t.Errorf("the last attempt: %+v", a)
	}
	if a := scheduleNext(&notificationdb.ClaimedNotification{Attempts: 1}, notificationdb.Attempt{}, 1000*time.Hour); a.Next != 24*time.Hour {
		t.Errorf("with a long Retry-After: %+v", a)
	}
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "90": 90 * time.Second, "-5": 0, "soon": 0, "Sun, 22 Nov 2026 10:02:00 GMT": 2 * time.Minute, "Sun, 22 Nov 2026 09:00:00 GMT": 0,
		"99999999999999999999": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q is %s, want %s", value, got, want)
		}
	}
}
