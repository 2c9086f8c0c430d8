package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/testkit"
)

// service is a running Parley that the subtests of TestService share. They must neither kill its
// processes nor count the rows of other organizations.
type service struct {
	*cluster

	first, second *edge
	worker        *testkit.Process
	web           *web // the search engine of all agents, and its pages
}

// TestService runs the tests that kill no process and need no special settings, all on one cluster.
func TestService(t *testing.T) {
	t.Parallel()
	s := &service{web: newWeb(t)}
	s.cluster = newCluster(t, sandboxed, "RUN_DEADLINE=1h", // long enough for the run whose duration PARLEY_E2E_LONG sets
		"LIMIT_USER=50000", "LIMIT_SYSTEM=60000", "MODEL_PRICES=openai/*=1/2", "SEARXNG_URL="+s.web.url,
		"OUTBOUND_ALLOW="+strings.Join(siteHosts(), ","))
	s.first, s.second = s.ingress(t), s.ingress(t)
	s.worker = s.cluster.worker(t)
	for name, test := range map[string]func(*testing.T, *service){
		"client_leaves":                              clientLeaves,
		"one_run_per_key":                            oneRunPerKey,
		"runs_of_a_session_follow_in_order":          sessionOrder,
		"url_is_attached_to_a_chat":                  urlIsAttachedToAChat,
		"urls_are_attached_in_every_format":          urlsAreAttachedInEveryFormat,
		"canaries_stay_with_their_organization":      canariesStayWithTheirOrganization,
		"cancelled_responses_stop_their_model_calls": cancelledResponsesStopTheirModelCalls,
		"budgets_of_client_tools":                    budgetsOfClientTools,
		"code_and_plot":                              codeAndPlot,
		"approvals":                                  approvals,
		"injections":                                 injections,
		"answers_cite_their_page":                    answersCiteTheirPage,
		"providers_that_refuse":                      providersThatRefuse,
		"citations_hold":                             citationsHold,
		"offline_model_cites":                        offlineModelCites,
		"mcp_server_is_listed_and_called":            mcpServerIsListedAndCalled,
		"openapi_document_is_imported_and_called":    openAPIDocumentIsImportedAndCalled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// maxSites is the number of servers on the network that TestService's service may reach.
const maxSites = 32

// sites opens the addresses of the servers. They are opened before the service starts, because the
// addresses are a setting of the service.
var sites = sync.OnceValue(func() chan net.Listener {
	opened := make(chan net.Listener, maxSites)
	for range maxSites {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		opened <- l
	}
	return opened
})

// siteHosts returns all addresses, including those that site has returned.
var siteHosts = sync.OnceValue(func() (hosts []string) {
	for range maxSites {
		l := <-sites()
		hosts = append(hosts, l.Addr().String())
		sites() <- l
	}
	return hosts
})

// site starts a server that the service of TestService may reach. It stops when the test ends.
func site(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	siteHosts() // lists the addresses before the first one is used
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	select {
	case server.Listener = <-sites():
	default:
		t.Fatalf("more than %d servers: increase maxSites", maxSites)
	}
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// clientLeaves closes the connection of a request that waits for its run. The run must continue,
// and any ingress must return its result.
func clientLeaves(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	lasts := longRun(t)
	owner := signUp(t, s.first.url)
	message := lastingMessage(lasts, "nobody waited")
	ctx, leave := context.WithCancel(t.Context())
	began := time.Now()
	waiting := owner.start(ctx, trigger{message: message})
	s.model.awaitCalls(t, message, 1)
	leave()
	if got := awaitAnswer(t, waiting, 5*time.Second); !errors.Is(got.Err, context.Canceled) {
		t.Fatalf("response to a disconnected client = %d %s, want none", got.Status, got.Body)
	}

	id := s.text(t, "SELECT id FROM runs WHERE agent_id = $1", owner.agent)
	got := owner.at(s.second).result(t, id, 2*lasts+time.Minute)
	if took := time.Since(began); took < lasts {
		t.Fatalf("the run took %s, want at least %s", took, lasts)
	}

	r := got.Run(t)
	if r.Status != "completed" || r.Output == nil || r.Output.Message != echoed("nobody waited") {
		t.Fatalf("the run did not complete: %s", got.Body)
	}
}

// longRun returns how long the run of the subtest client_leaves takes.
func longRun(t *testing.T) time.Duration {
	t.Helper()
	lasts, source := 8*time.Second, "by default; PARLEY_E2E_LONG=10m for the long one"
	if set := os.Getenv("PARLEY_E2E_LONG"); set != "" {
		var err error
		if lasts, err = time.ParseDuration(set); err != nil {
			t.Fatalf("PARLEY_E2E_LONG: %v", err)
		}
		source = "by PARLEY_E2E_LONG"
	}
	fmt.Fprintf(os.Stderr, "e2e: the run whose client leaves takes %s (%s)\n", lasts, source)
	return lasts
}

// lastingMessage returns a message whose run takes at least the duration lasts. A model call may
// take only 30 s to its first word, so in longer runs the model returns errors, after which the
// service retries the call. The pause before a retry doubles from 1 s up to a minute. Each pause
// may be up to a quarter shorter.
func lastingMessage(lasts time.Duration, text string) string {
	const call, retryAfter = 20 * time.Second, 5 * time.Second
	if lasts <= call {
		return fmt.Sprintf("sleep %s: %s", lasts, text)
	}
	refusals, pause := 0, time.Second
	for sum := call; sum < lasts; pause = min(2*pause, time.Minute) {
		sum += call + max(retryAfter, pause*3/4)
		refusals++
	}
	return fmt.Sprintf("sleep %s: fault 503=%d*%d: %s", call, int(retryAfter.Seconds()), refusals, text)
}

// sessionOrder sends many triggers to one session. The service must execute them one by one and in
// order, and must not delay other sessions.
func sessionOrder(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	const runs = 20
	owner := signUp(t, s.first.url)
	var messages, ids []string
	for n := range runs {
		messages = append(messages, "sleep 150ms: in order "+strconv.Itoa(n))
		through := owner.at([]*edge{s.first, s.second}[n%2])
		ids = append(ids, through.enqueue(t, trigger{message: messages[n], session: "named"}))
	}

	const aside = "sleep 10ms: another session"
	owner.post(t.Context(), trigger{message: aside, session: "other"}).Completed(t, echoed("another session"), 1)
	for n, id := range ids {
		r := owner.result(t, id, 60*time.Second).Completed(t, echoed("in order "+strconv.Itoa(n)), 1)
		if r.SessionID != "named" {
			t.Fatalf("session of run %d = %q", n, r.SessionID)
		}
	}

	calls := s.model.of(messages...)
	if len(calls) != runs {
		t.Fatalf("%d model calls, want %d", len(calls), runs)
	}

	for n, call := range calls {
		if call.prompt != messages[n] {
			t.Fatalf("prompt of model call %d = %q, want %q", n, call.prompt, messages[n])
		}
		if n > 0 && call.began.Before(calls[n-1].ended) {
			t.Fatalf("%q began %s before %q ended", call.prompt, calls[n-1].ended.Sub(call.began), calls[n-1].prompt)
		}
	}

	if other := s.model.of(aside); !other[0].began.Before(calls[runs-1].began) {
		t.Fatal("the other session waited for all runs in this session")
	}
	if history := s.model.historyFor(messages[runs-1]); strings.Count(history, "in order") < runs {
		t.Fatalf("the session's last run did not get all earlier turns:\n%s", history)
	}
}
