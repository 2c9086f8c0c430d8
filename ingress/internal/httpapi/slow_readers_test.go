package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/domain"
	"parley/shared/testkit"
)

// slowReader requests a run and reads only the headers of the response.
func slowReader(t *testing.T, address string, headers ...string) *http.Response {
	t.Helper()
	res, err := readHeader(t, address, headers...)
	must(t, err)
	return res
}

// readHeader works like slowReader, but may be called in any goroutine, because it returns errors.
func readHeader(t *testing.T, address string, headers ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = res.Body.Close() })
	}
	return res, err
}

// Dozens of slow readers in several organizations never exceed the limit on the memory of large
// responses. A reader in another organization gets complete responses.
func TestSlowReadersDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	const size = 8 << 20 // exceeds the buffers of a connection
	a.api.large = httpx.LargeAnswers{PerOrganization: 20 << 20, AtOnce: 40 << 20}
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	runFor := func(h *testOrg) string {
		runID := a.newChat(h, a.newAgent(h), a.fresh(), h.owner.auth, h.header)
		a.end(runID, func(r *domain.Run) {
			answer := "done"
			r.Message, r.Output = &answer, &domain.Output{Message: answer}
			r.ToolCalls = []domain.ToolCall{{ID: "c", Name: "x", Status: "completed", Output: []byte(`"` + strings.Repeat("x", size) + `"`)}}
		})
		return server.URL + "/api/runs?id=" + runID
	}
	victim := a.newTestOrg("victim")
	wanted := runFor(victim)
	refused := 0
	for _, word := range []string{"red", "green", "black"} {
		h := a.newTestOrg(word)
		address := runFor(h)
		for range 8 {
			res := slowReader(t, address, h.owner.auth, h.header) //nolint:bodyclose // closed when the test ends
			switch {
			case res.StatusCode == http.StatusOK:
			case res.Header.Get("Retry-After") == "":
				t.Errorf("%d without Retry-After", res.StatusCode)
			case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusServiceUnavailable:
				refused++
			default:
				t.Errorf("a slow reader got %d", res.StatusCode)
			}
		}
	}
	if refused == 0 {
		t.Error("no slow reader was refused")
	}
	if held := a.api.large.Bytes(); held > 40<<20 || held == 0 {
		t.Errorf("slow readers hold %d bytes", held)
	}

	for end := time.Now().Add(maxWait); ; {
		res := slowReader(t, wanted, victim.owner.auth, victim.header) //nolint:bodyclose // likewise
		n, err := io.Copy(io.Discard, res.Body)
		if res.StatusCode == http.StatusOK {
			if err != nil || n < size {
				t.Errorf("the victim got %d bytes: %v", n, err)
			}
			break
		}
		if res.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) { // the status may be 503 until a reader counts as slow
			t.Fatalf("the victim got %d", res.StatusCode)
		}
	}
	small := slowReader(t, server.URL+"/api/runs", victim.owner.auth, victim.header) //nolint:bodyclose // likewise
	if small.StatusCode != http.StatusOK {
		t.Errorf("a list request got %d during the flood", small.StatusCode)
	}
}

// allocated returns the number of bytes that the process allocates while f runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Large objects are read from the database only if there is capacity for the response. Rejected
// requests use no memory. The objects are a run, a response, a session's turn, a timeline, a
// source, and a page of agents, hooks or documents.
func TestLargeRunsAreCountedBeforeTheyAreRead(t *testing.T) { //nolint:paralleltest // measures the allocations of the whole process
	a := newRunEnv(t)
	const size, refusals, together = 8 << 20, 6, 12 // a run object contains its answer twice
	a.api.large = httpx.LargeAnswers{PerOrganization: 40 << 20, AtOnce: 80 << 20}
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	victim, h := a.newTestOrg("victim"), a.newTestOrg("red")
	agentID := a.newAgent(h)
	large, twice := strings.Repeat("x", size), strings.Repeat("y", 2*size)
	ended, open := a.newChat(h, agentID, "large", h.owner.auth, h.header), a.newChat(h, agentID, "open", h.owner.auth, h.header)
	a.finish(large, ended)
	_, err := a.store.Executions.Journal(t.Context(), a.claimAccepted(open), 1, []byte(
		`{"seq":1,"kind":"tool_call","tool":{"call":{"id":"a","name":"look","status":"completed","input":{},"output":"`+twice+`","durationMs":1}}}`))
	must(t, err)

	asked, read := a.newChat(h, agentID, "asked", h.owner.auth, h.header), a.newChat(h, agentID, "read", h.owner.auth, h.header)
	a.exec(`UPDATE runs SET input = json_build_object('message', $2::text) WHERE id = $1`, asked, large)
	sourceID := a.saveSource(read, h.word, large)
	a.exec(`UPDATE agents SET system_prompt = $2 WHERE id = $1`, a.newAgent(h), large)
	a.exec(`UPDATE documents SET notes = jsonb_build_array($2::text) WHERE id = $1`, a.document(h), large)
	a.exec(`UPDATE hooks SET message_template = $2 WHERE id = $1`, a.newHook(h, "hmac"), large)

	address := server.URL + "/api/runs?id=" + ended
	whole := func() {
		res := slowReader(t, address, h.owner.auth, h.header) //nolint:bodyclose // closed when the test ends
		n, err := io.Copy(io.Discard, res.Body)
		if must(t, err); n < 2*size {
			t.Errorf("a run of %d bytes comes as %d", 2*size, n)
		}
	}
	whole()
	one := allocated(whole)

	// If several clients read at the same time, as many requests succeed as there is memory for. No
	// request waits until another client has read its response.
	var readers sync.WaitGroup
	var mu sync.Mutex
	served := 0
	several := allocated(func() {
		for range together {
			readers.Go(func() {
				res, err := readHeader(t, address, h.owner.auth, h.header) //nolint:bodyclose // closed when the test ends
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				switch res.StatusCode {
				case http.StatusOK:
					served++
				case http.StatusTooManyRequests:
				default:
					t.Errorf("one of several readers got %d", res.StatusCode)
				}
			})
		}
		for range together {
			if res := slowReader(t, server.URL+"/api/runs", victim.owner.auth, victim.header); res.StatusCode != http.StatusOK { //nolint:bodyclose // likewise
				t.Errorf("the victim's list request got %d during the flood", res.StatusCode)
			}
		}
		readers.Wait()
	})
	if held := a.api.large.Bytes(); served != 2 || held > 40<<20 || several > 3*one {
		t.Errorf("%d of %d readers at once are served and hold %d bytes; they allocated %d bytes, and a single one %d", served, together, held, several, one)
	}

	for name, path := range map[string]string{
		"a run":                "/api/runs?id=" + ended,
		"an open run":          "/api/runs?id=" + open,
		"a response":           "/v1/responses/" + openaiapi.ResponseID(ended),
		"a turn of a session":  "/api/sessions?limit=1&id=large&agentId=" + agentID,
		"a session, all turns": "/api/sessions?id=large&agentId=" + agentID,
		"a timeline":           "/api/runs?timeline=1&id=" + asked,
		"a source":             "/api/sources?id=" + sourceID,
		"a page of agents":     "/api/agents",
		"a page of hooks":      "/api/hooks",
		"a page of documents":  "/api/knowledge",
	} {
		got := allocated(func() {
			for range refusals {
				res := slowReader(t, server.URL+path, h.owner.auth, h.header) //nolint:bodyclose // likewise
				if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %d, Retry-After %q", name, res.StatusCode, res.Header.Get("Retry-After"))
				}
			}
		})
		if got > size {
			t.Errorf("%s: %d refused readers allocated %d bytes", name, refusals, got)
		}
	}
	// On a busy machine, the database can take too long for a first request. A client repeats it then.
	cancel := func() answer { return a.from("POST", "/api/runs?action=cancel&id="+open, "", h.owner.auth, h.header) }
	got := cancel()
	for began := time.Now(); got.status == http.StatusServiceUnavailable && !testkit.Late(began, 10*time.Second); {
		got = cancel()
	}
	if got.status != http.StatusTooManyRequests || got.header.Get("Location") != "/api/runs?id="+open {
		t.Errorf("the answer to a cancellation: %d, Location %q", got.status, got.header.Get("Location"))
	}
}

// If the log of a run grows while slow readers read the log, these readers do not exceed their
// organization's limit. A reader in another organization gets its response.
func TestSlowReadersOfAGrowingLogAreBounded(t *testing.T) { //nolint:paralleltest // measures the memory of the whole process
	a := newWaitingRunEnv(t, unlimited)
	const size, readers, share = 12 << 20, 12, 20 << 20
	a.api.large = httpx.LargeAnswers{PerOrganization: share, AtOnce: 80 << 20}
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	h, victim := a.newTestOrg("red"), a.newTestOrg("victim")
	runID := a.newChat(h, a.newAgent(h), "s", h.owner.auth, h.header)
	a.claimAccepted(runID)
	chat := a.newChat(victim, a.newAgent(victim), "s", victim.owner.auth, victim.header)
	inUse := func() int64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	for range readers {
		slowReader(t, server.URL+"/api/runs?stream=1&id="+runID, h.owner.auth, h.header) //nolint:bodyclose // closed when the test ends
	}
	before := inUse()
	a.exec(`INSERT INTO run_events (run_id, org_id, fence, first_n, last_n, events)
		SELECT $1, $2, 1, n + 1, n + 1, 'message.delta {"text":"' || repeat('y', $3) || E'"}\n' FROM generate_series(1, 12) n`, runID, h.org, size/12)
	counted := int64(0)
	const poll = 8 * time.Second // readers without a notification poll the log after 5 seconds
	for began := time.Now(); time.Since(began) < poll || counted < size && !testkit.Late(began, poll); {
		<-time.After(200 * time.Millisecond)
		counted = max(counted, a.api.large.Bytes())
	}
	if counted < size || counted > share {
		t.Errorf("%d bytes are counted", counted)
	}
	// Tests that run at the same time also use memory, so take the smallest of several
	// measurements.
	held := inUse() - before
	for end := time.Now().Add(20 * time.Second); held > 2*share && time.Now().Before(end); {
		<-time.After(500 * time.Millisecond)
		held = min(held, inUse()-before)
	}
	if held > 2*share {
		t.Errorf("%d slow readers of %d bytes hold %d bytes of memory", readers, size, held)
	}
	res := slowReader(t, server.URL+"/api/runs?stream=1&id="+chat, victim.owner.auth, victim.header) //nolint:bodyclose // likewise
	if res.StatusCode != http.StatusOK {
		t.Errorf("the victim's stream got %d during the flood", res.StatusCode)
	}
}
