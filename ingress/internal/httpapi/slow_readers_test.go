package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
)

// slowReader asks for a run and reads nothing of the answer but its header.
func slowReader(t *testing.T, address string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	must(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// Dozens of slow readers of several organizations hold no more than the bound. A victim of another organization gets its answers, whole.
func TestSlowReadersHoldUpNobody(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const size = 16 << 20 // more than the buffers of a connection take
	a.api.large = httpx.LargeAnswers{PerOrganization: 40 << 20, AtOnce: 80 << 20}
	server := httptest.NewServer(a.serving())
	t.Cleanup(server.Close)
	runOf := func(h *house) string {
		runID := a.newChat(h, a.newAgent(h), a.fresh(), h.owner.auth, h.header)
		a.end(runID, func(r *domain.Run) {
			answer := "done"
			r.Message, r.Output = &answer, &domain.Output{Message: answer}
			r.ToolCalls = []domain.ToolCall{{ID: "c", Name: "x", Status: "completed", Output: []byte(`"` + strings.Repeat("x", size) + `"`)}}
		})
		return server.URL + "/api/runs?id=" + runID
	}
	victim := a.newHouse("victim")
	wanted := runOf(victim)
	refused := 0
	for _, word := range []string{"red", "green", "black"} {
		h := a.newHouse(word)
		address := runOf(h)
		for range 8 {
			res := slowReader(t, address, h.owner.auth, h.header) //nolint:bodyclose // it is closed when the test ends
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
	if held := a.api.large.Bytes(); held > 80<<20 || held == 0 {
		t.Errorf("slow readers hold %d bytes", held)
	}

	for end := time.Now().Add(waitMost); ; {
		res := slowReader(t, wanted, victim.owner.auth, victim.header) //nolint:bodyclose // the same
		n, err := io.Copy(io.Discard, res.Body)
		if res.StatusCode == http.StatusOK {
			if err != nil || n < size {
				t.Errorf("the victim got %d bytes: %v", n, err)
			}
			break
		}
		if res.StatusCode != http.StatusServiceUnavailable || time.Now().After(end) { // while nobody counts as slow yet
			t.Fatalf("the victim got %d", res.StatusCode)
		}
	}
	small := slowReader(t, server.URL+"/api/runs", victim.owner.auth, victim.header) //nolint:bodyclose // the same
	if small.StatusCode != http.StatusOK {
		t.Errorf("a list gets %d beside them", small.StatusCode)
	}
}
