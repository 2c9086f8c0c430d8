package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/shared/testkit"
)

// modelStops is the maximum time from the request to cancel a response to the end of its model
// call.
const modelStops = 2500 * time.Millisecond

// cancelledResponsesStopTheirModelCalls cancels responses while the model is silent, and after
// half of an answer. The model provider must see its connection closed long before the answer
// would be complete or a timeout would stop the call.
func cancelledResponsesStopTheirModelCalls(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	in := s.first
	owner := signUp(t, in.url)
	for name, tt := range map[string]struct {
		message string
		stream  bool // whether a client reads the response while another one cancels it
	}{
		"no answer yet":     {message: "sleep 60s: silent"},
		"half of an answer": {message: "fault stall: one two three four", stream: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := map[string]any{"model": owner.agent, "input": tt.message, "background": true}
			var id string
			var reader *stream
			if tt.stream {
				body["stream"] = true
				reader = openStream(t, http.MethodPost, in.url+"/v1/responses", map[string]string{"x-api-key": owner.key}, body)
				id = responseID(t, bytesFor(reader.until(t, "the model began to answer", ofKind("response.output_text.delta"))))
			} else {
				id = responseID(t, string(owner.send(t, http.MethodPost, in.url+"/v1/responses", body).Want(t, http.StatusOK).Body))
			}
			s.model.awaitCalls(t, tt.message, 1)
			if call := s.model.of(tt.message)[0]; !call.closed.IsZero() {
				t.Fatalf("the model call ended before the response was cancelled: %+v", call)
			}

			began := time.Now()
			cancelled := owner.send(t, http.MethodPost, in.url+"/v1/responses/"+id+"/cancel", map[string]any{}).Want(t, http.StatusOK)
			if took := time.Since(began); took > testkit.Within(modelStops) || !strings.Contains(string(cancelled.Body), `"status":"cancelled"`) {
				t.Errorf("cancelled after %s: %s", took, cancelled.Body)
			}
			eventually(t, 20*time.Second, "the model call is closed", func() bool { return !s.model.of(tt.message)[0].closed.IsZero() })
			if took := s.model.of(tt.message)[0].closed.Sub(began); took > testkit.Within(modelStops) {
				t.Errorf("the model call ended %s after the request to cancel, want at most %s", took, testkit.Within(modelStops))
			}
			if reader != nil {
				reader.until(t, "the stream ends", func(e event) bool { return strings.Contains(e.raw, `"status":"cancelled"`) })
			}
			again := owner.send(t, http.MethodPost, in.url+"/v1/responses/"+id+"/cancel", nil).Want(t, http.StatusOK)
			if !strings.Contains(string(again.Body), `"status":"cancelled"`) || s.model.count(tt.message) != 1 {
				t.Errorf("cancelled again: %s, %d model calls", again.Body, s.model.count(tt.message))
			}
		})
	}
}

// responseID returns the id of a response of /v1/responses in a body or a stream.
func responseID(t *testing.T, body string) string {
	t.Helper()
	_, id, found := strings.Cut(body, `"id":"resp_`)
	id, _, _ = strings.Cut(id, `"`)
	if !found || id == "" {
		t.Fatalf("no response: %s", body)
	}
	return "resp_" + id
}
