package workers_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"parley/shared/config"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/testkit/openaistub"
)

// logFor returns a run's stored event log, and the events of the run's last attempt.
func (r *testEnv) logFor(runID string) (log *executiondb.EventLog, events []domain.Event) {
	r.Helper()
	logs, err := r.store.Executions.EventLogs(r.Context(), []executiondb.EventLogRequest{{RunID: runID, OrganizationID: r.org}})
	if err != nil || logs[0] == nil {
		r.Fatalf("reading log: %v", err)
	}
	for _, c := range logs[0].Chunks {
		received, err := domain.EventChunk{Fence: logs[0].Fence, First: c.FirstN, Lines: []byte(c.Events)}.Events()
		if err != nil {
			r.Fatal(err)
		}
		if len(received) != c.LastN-c.FirstN+1 || len(events) > 0 && !received[0].ID.Follows(events[len(events)-1].ID) {
			r.Errorf("chunk %d-%d has %d events", c.FirstN, c.LastN, len(received))
		}
		events = append(events, received...)
	}
	return logs[0], events
}

// said returns the concatenated text of the events, and their types. In the types, consecutive
// pieces of text count as one event.
func said(t *testing.T, events []domain.Event) (text, types string) {
	t.Helper()
	for _, e := range events {
		var piece struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(e.Data, &piece); err != nil {
			t.Fatal(err)
		}
		if text += piece.Text; e.Type != domain.EventMessageDelta || !strings.HasSuffix(types, e.Type+" ") {
			types += e.Type + " "
		}
	}
	return text, strings.TrimSpace(types)
}

func TestTheEventsOfARunAreItsAnswer(t *testing.T) {
	t.Parallel()
	stub := openaistub.New()
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	agent, offline := r.agent("openai/test"), r.agent("offline")
	long := strings.Repeat("word <&> \u2028 ☾ \\ \" ", 500)
	for name, tc := range map[string]struct {
		agent, message string
		attempts       int
		types          string
	}{
		"streamed":                 {agent, "one two three", 1, "message.delta"},
		"offline":                  {offline, "what is 2+2?", 1, "message.delta"},
		"long":                     {agent, long, 1, "message.delta"},
		"a tool that is not there": {agent, "tool webSearch: news", 1, "tool.started tool.completed message.delta"},
		"retried before a word":    {agent, "fault 500*1: again and again", 1, "message.delta"},
		"retried in the middle":    {agent, "fault cut*1: here we go again", 2, "run.restarted message.delta"},
		"put back before it began": {agent, "fault 503=2*1: patience", 2, "run.restarted message.delta"},
	} {
		run := r.result(r.start(tc.agent, "s "+name, tc.message))
		if run.Status != domain.RunCompleted || run.Attempts != tc.attempts {
			t.Fatalf("%s: run is %s after %d attempts: %+v", name, run.Status, run.Attempts, run.Error)
		}
		log, events := r.logFor(run.ID)

		// If all pieces of an answer arrive at once, the answer is the only event, and no event log
		// is stored.
		if tc.types == domain.EventMessageDelta && len(events) == 0 && log.EndN == 3 {
			continue
		}
		text, types := said(t, events)
		if text != *run.Message || types != tc.types {
			t.Errorf("%s: events %s say\n%.300q, the answer is\n%.300q", name, types, text, *run.Message)
		}
		if first, last := events[0].ID, events[len(events)-1].ID; log.Fence != int64(2*run.Attempts-1) || first.N > 2 ||
			last.N != first.N+len(events)-1 || log.EndFence != log.Fence || log.EndN != last.N+1 {
			t.Errorf("%s: events from %s to %s, the end is %d.%d", name, first, last, log.EndFence, log.EndN)
		}
	}
}

func TestATimedOutRunKeepsItsPartialOutput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(openaistub.New())
	t.Cleanup(server.Close)
	r := newTestEnv(t, config.Workers{OpenAIBaseURL: server.URL + "/v1", OpenAIAPIKey: "k"})
	r.deadline = 6 * time.Second // time within which the first words must arrive
	run := r.result(r.start(r.agent("openai/test"), "s", "fault stall: one two three four"))
	log, events := r.logFor(run.ID)
	if text, _ := said(t, events); run.Status != domain.RunTimedOut || text != "echo: one two" {
		t.Errorf("run %s answered %q", run.Status, text)
	}
	if byWorker := log.EndFence == 1 && log.EndN == len(events)+2; !byWorker && (log.EndFence != 2 || log.EndN != 1) {
		t.Errorf("the log of %d events ends at %d.%d", len(events), log.EndFence, log.EndN)
	}
}

func TestAnEchoStoresNoEvents(t *testing.T) {
	t.Parallel()
	r := newTestEnv(t, config.Workers{})
	run := r.result(r.start(r.agent("offline/echo"), "s", "hello"))
	if log, events := r.logFor(run.ID); len(events) > 0 || log.Fence != 0 || log.EndFence != 1 || log.EndN != 3 {
		t.Errorf("log %+v", log)
	}
}
