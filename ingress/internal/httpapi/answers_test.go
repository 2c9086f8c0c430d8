package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// entered counts an answer whose client has read so much by now.
func entered(t *testing.T, all *largeAnswers, of string, bytes, read int64) *largeAnswer {
	t.Helper()
	a, err := all.enter(of, bytes, http.NewResponseController(httptest.NewRecorder()))
	must(t, err)
	a.read(int(read))
	return a
}

func codeOfEnter(all *largeAnswers, of string, bytes int64) apierr.Code {
	a, err := all.enter(of, bytes, http.NewResponseController(httptest.NewRecorder()))
	if err == nil {
		a.leave()
		return ""
	}
	return apierr.CodeOf(err)
}

// An organization has its share, and a single answer always fits it.
func TestLargeAnswersOfAnOrganization(t *testing.T) {
	t.Parallel()
	all := &largeAnswers{perOrganization: 100, atOnce: 1000}
	first := entered(t, all, "red", 150, 0)
	if code := codeOfEnter(all, "red", 1); code != apierr.RateLimited {
		t.Errorf("beyond the share: %q", code)
	}
	if code := codeOfEnter(all, "blue", 100); code != "" {
		t.Errorf("another organization: %q", code)
	}
	first.leave()
	first.leave() // changes nothing
	if code := codeOfEnter(all, "red", 100); code != "" || all.held != 0 {
		t.Errorf("behind it: %q, %d held", code, all.held)
	}
}

// Where all room is taken, another organization's answer is cut if its client reads slowly. Clients that keep a good pace are never cut.
func TestSlowReadersMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &largeAnswers{perOrganization: 100, atOnce: 100}
		slow, slower := entered(t, all, "red", 40, goodPace), entered(t, all, "green", 40, 0)
		if code := codeOfEnter(all, "blue", 60); code != apierr.Overloaded {
			t.Errorf("before anybody was slow: %q", code)
		}
		<-time.After(slowFor)
		fast := entered(t, all, "black", 20, 10*goodPace)
		if code := codeOfEnter(all, "green", 40); code != "" || slower.cut || !slow.cut {
			t.Errorf("an organization's own answers are not cut for it: %q, %v, %v", code, slow.cut, slower.cut)
		}
		if code := codeOfEnter(all, "blue", 60); code != "" || !slower.cut {
			t.Errorf("a slow reader was not cut: %q", code)
		}
		if err := slower.write(io.Discard, []byte("x")); apierr.CodeOf(err) != apierr.Overloaded {
			t.Errorf("an answer that was cut goes on: %v", err)
		}
		if code := codeOfEnter(all, "blue", 90); code != apierr.Overloaded || fast.cut {
			t.Errorf("a client of good pace was cut: %q", code)
		}
	})
}

// An answer that is counted and not yet made has no slow reader, however long it takes.
func TestAnswersInTheMakingAreNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &largeAnswers{perOrganization: 100, atOnce: 100}
		made := entered(t, all, "red", 90, 0)
		made.resize(90, true)
		<-time.After(time.Minute)
		if code := codeOfEnter(all, "blue", 50); code != apierr.Overloaded || made.cut {
			t.Errorf("while it is made: %q, %v", code, made.cut)
		}
		made.resize(40, false)
		if code := codeOfEnter(all, "blue", 60); code != "" || made.cut || all.held != 40 {
			t.Errorf("once it is made: %q, %v, %d held", code, made.cut, all.held)
		}
		<-time.After(slowFor)
		if code := codeOfEnter(all, "blue", 90); code != "" || !made.cut {
			t.Errorf("once its reader is slow: %q, %v", code, made.cut)
		}
	})
}

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
	a.api.large = largeAnswers{perOrganization: 40 << 20, atOnce: 80 << 20}
	server := httptest.NewServer(a.handler)
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
	a.api.large.mu.Lock()
	held := a.api.large.held
	a.api.large.mu.Unlock()
	if held > 80<<20 || held == 0 {
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
