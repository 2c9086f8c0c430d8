package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// streams starts a server that streams an answer. It also returns a function that reports how often
// the server has received each request body.
func streams(t *testing.T, answer string) (StreamSpec, func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	bodies := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("X-Key") != "secret" || r.URL.Path != "/chat" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		bodies[string(body)]++
		mu.Unlock()
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return StreamSpec{
		Address: strings.TrimPrefix(server.URL, "http://"), Path: "/chat", Headers: map[string]string{"x-key": "secret"},
		Body: `{"session":"` + KeyMark + `"}`, Field: "text", Answer: "one two", End: "data: [DONE]",
	}, func() map[string]int { return bodies }
}

const whole = "event: a\ndata: {\"id\":1}\n\n: ping\n\ndata: {\"text\":\"one\"}\n\ndata: {\"id\":1,\"text\":\" two\"}\n\ndata: [DONE]\n\n"

func TestReadStreams(t *testing.T) {
	t.Parallel()
	spec, bodies := streams(t, whole)
	got, err := ReadStreams(t.Context(), spec, StreamClients{Clients: 3, Each: 4})
	if err != nil || got.Answered != 12 || got.Latencies.TotalCount() != 9 {
		t.Fatalf("%+v: %v", got, err)
	}
	if len(bodies()) != 12 {
		t.Errorf("the requests are %v", bodies())
	}
}

func TestReadStreamsRejectsWrongAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a lost piece": strings.Replace(whole, " two", "", 1), "no answer": "", "a long event": whole + fmt.Sprintf("data: {%5000d,\"text\":\"x\"}\n\n", 1),
		"a piece twice": whole + whole, "no end": strings.Replace(whole, "[DONE]", "{}", 1),
	} {
		spec, _ := streams(t, answer)
		_, err := ReadStreams(t.Context(), spec, StreamClients{Clients: 1, Each: 1})
		if long := name == "a long event"; long != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	spec, _ := streams(t, whole)
	spec.Path = "/other"
	if _, err := ReadStreams(t.Context(), spec, StreamClients{Clients: 1, Each: 1}); err == nil || !strings.Contains(err.Error(), "status 400") {
		t.Errorf("error is %v", err)
	}
}
