package faultproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"parley/scripts/internal/faultproxy"
)

// service is an HTTP server that echoes requests, streams events at /events, and counts calls.
type service struct {
	*httptest.Server

	asked atomic.Int64
}

const stream = "id: 1\ndata: {\"text\":\"one\"}\n\nid: 2\ndata: {\"text\":\"two\"}\n\nid: 3\ndata: {\"text\":\"three\"}\n\n"

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for frame := range strings.SplitAfterSeq(stream, "\n\n") {
				_, _ = io.WriteString(w, frame)
				w.(http.Flusher).Flush()
			}
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, "%s %s %s key=%s", r.Method, r.URL.RequestURI(), body, r.Header.Get("Idempotency-Key"))
	}))

	t.Cleanup(s.Close)
	return s
}

// answer is the outcome of a request. Its status is 0 if there was no response.
type answer struct {
	status int
	header http.Header
}

// ask sends a request. It returns the error that broke the connection before or during the
// response.
func ask(t *testing.T, method, url, key, body string) (got answer, text string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}

	// The client must not retry. If a persistent connection breaks, net/http repeats a request that
	// has an idempotency key. The client therefore uses each connection once.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, "", err
	}
	defer res.Body.Close()

	raw, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header}, string(raw), err
}

func TestPass(t *testing.T) {
	t.Parallel()
	door := faultproxy.Start(t, newService(t).URL).Pass()
	got, text, err := ask(t, http.MethodPost, door.URL+"/a%2Fb?x=1&y=%20", "k1", "hello")
	if err != nil || got.status != http.StatusAccepted || got.header.Get("X-Answer") != "yes" {
		t.Fatalf("%v: %+v", err, got)
	}
	if want := "POST /a%2Fb?x=1&y=%20 hello key=k1"; text != want {
		t.Errorf("response = %q, want %q", text, want)
	}
	if _, text, err := ask(t, http.MethodGet, door.URL+"/events", "", ""); err != nil || text != stream {
		t.Errorf("stream %q, %v", text, err)
	}

	sent := door.Sent(http.MethodPost, "/a%2Fb")
	if len(sent) != 1 || sent[0].IdempotencyKey != "k1" || sent[0].Fault != "" || door.Faults() != 0 {
		t.Errorf("recorded requests = %+v, with %d faults", door.Requests(), door.Faults())
	}
	if got, _, err := ask(t, http.MethodGet, strings.TrimSuffix(door.URL, "1")+"7/x", "", ""); err != nil || got.status != http.StatusNotFound {
		t.Errorf("request to an unknown door = %+v, %v", got, err)
	}
}

func TestDropFirst(t *testing.T) {
	t.Parallel()
	s := newService(t)
	door := faultproxy.Start(t, s.URL).DropFirst()
	for i, row := range []struct {
		method, path, key string
		lost              bool
	}{
		{http.MethodPost, "/runs", "a", true},
		{http.MethodPost, "/runs", "a", false},
		{http.MethodPost, "/runs", "b", true},
		{http.MethodPost, "/runs?x=1", "b", true},
		{http.MethodPost, "/events", "b", true},
		{http.MethodPost, "/runs", "b", false},
		{http.MethodPost, "/runs", "", true},
		{http.MethodPost, "/runs", "", false},
		{http.MethodGet, "/runs", "", false},
		{http.MethodDelete, "/runs", "c", false},
	} {
		got, _, err := ask(t, row.method, door.URL+row.path, row.key, "")
		if row.lost != (err != nil) || row.lost != (got.status == 0) {
			t.Errorf("%d: %+v: response = %v, error %v", i, row, got, err)
		}
		if got := int(s.asked.Load()); got != i+1 {
			t.Errorf("request %d: the service was called %d times", i, got)
		}
	}

	if door.Faults() != 5 || door.Requests()[0].Fault != "dropped" || door.Requests()[1].Fault != "" {
		t.Errorf("recorded %+v", door.Requests())
	}
}

// TestDropWhen breaks a request while the service handles it, and checks that the service notices.
func TestDropWhen(t *testing.T) {
	t.Parallel()
	var working atomic.Int64
	left := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if working.Add(1) == 1 {
			<-r.Context().Done()
			left <- struct{}{}
		}
	}))

	t.Cleanup(slow.Close)
	door := faultproxy.Start(t, slow.URL).DropWhen(func() bool { return working.Load() > 0 })
	if got, _, err := ask(t, http.MethodPost, door.URL+"/runs", "k", "x"); err == nil {
		t.Errorf("response to the first request = %+v, want none", got)
	}

	<-left
	if got, _, err := ask(t, http.MethodPost, door.URL+"/runs", "k", "x"); err != nil || got.status != http.StatusOK {
		t.Errorf("response to the second request = %+v, error %v", got, err)
	}
	if sent := door.Requests(); len(sent) != 2 || sent[0].Fault != "dropped" || sent[1].Fault != "" || door.Faults() != 1 {
		t.Errorf("recorded %+v", sent)
	}

	never := faultproxy.Start(t, slow.URL).DropWhen(func() bool { return false })
	if got, _, err := ask(t, http.MethodPost, never.URL+"/runs", "k", "x"); err != nil || got.status != http.StatusOK || never.Faults() != 0 {
		t.Errorf("response before ready = %+v, %v", got, err)
	}
}

func TestCutStreams(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, newService(t).URL)
	places := map[int]bool{}
	for seed := range uint64(20) {
		door := proxy.CutStreams(2, 20, seed)
		if _, _, err := ask(t, http.MethodPost, door.URL+"/runs", "k", ""); err != nil {
			t.Fatalf("seed %d: a response that is not a stream was cut: %v", seed, err)
		}
		for range 2 {
			_, text, err := ask(t, http.MethodGet, door.URL+"/events", "", "")
			if err == nil || !strings.HasPrefix(stream, text) || len(text) >= 40 || strings.HasSuffix(text, "\n\n") {
				t.Errorf("seed %d: %q, %v", seed, text, err)
			}
			places[len(text)] = true
		}
		if _, text, err := ask(t, http.MethodGet, door.URL+"/events", "", ""); err != nil || text != stream {
			t.Errorf("seed %d: third stream = %q, %v", seed, text, err)
		}
		if door.Faults() != 2 {
			t.Errorf("seed %d: %d faults", seed, door.Faults())
		}
	}

	if len(places) < 5 {
		t.Errorf("streams were cut at only a few positions: %v", places)
	}
}

// TestSpares checks that a cut applies to the next stream if a stream ends before the position of
// its cut.
func TestSpares(t *testing.T) {
	t.Parallel()
	door := faultproxy.Start(t, newService(t).URL).CutStreams(1, len(stream), 1)
	for range 2 {
		if _, text, err := ask(t, http.MethodGet, door.URL+"/events", "", ""); err != nil || text != stream {
			t.Errorf("%q, %v", text, err)
		}
	}
	if door.Faults() != 0 {
		t.Errorf("%d faults", door.Faults())
	}
}

// TestNeverAtFrames cuts a stream at each byte and checks that no cut is at the end of a frame.
func TestNeverAtFrames(t *testing.T) {
	t.Parallel()
	proxy := faultproxy.Start(t, newService(t).URL)
	for after := 1; after < len(stream)/2; after++ {
		_, text, err := ask(t, http.MethodGet, proxy.CutStreams(1, after, 7).URL+"/events", "", "")
		if err == nil || strings.HasSuffix(text, "\n\n") {
			t.Errorf("after %d: %q, %v", after, text, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	s := newService(t)
	door := faultproxy.Start(t, s.URL).Refuse(2, http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}, `{"retryable":true}`)
	for range 2 {
		got, text, err := ask(t, http.MethodPost, door.URL+"/runs", "k", "x")
		if err != nil || got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" || text != `{"retryable":true}` {
			t.Errorf("%+v %q %v", got, text, err)
		}
	}
	if got, _, err := ask(t, http.MethodPost, door.URL+"/runs", "k", "x"); err != nil || got.status != http.StatusAccepted || s.asked.Load() != 1 {
		t.Errorf("%+v %v, asked %d times", got, err, s.asked.Load())
	}
}

// TestStreams checks that the proxy passes on each event at once, and that the service notices when
// the client disconnects.
func TestStreams(t *testing.T) {
	t.Parallel()
	next, gone := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-next
		_, _ = io.WriteString(w, "data: 2\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))

	t.Cleanup(slow.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, faultproxy.Start(t, slow.URL).Pass().URL+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	answer, err := new(http.Transport).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}

	lines := bufio.NewReader(answer.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "data: 1\n" {
		t.Fatalf("%q, %v", line, err)
	}

	close(next)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "data: 2\n" {
		t.Fatalf("%q, %v", line, err)
	}

	_ = answer.Body.Close()
	<-gone
}
