package stream

import (
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/rundb"
)

func TestLogsCombineRowAndChunks(t *testing.T) {
	t.Parallel()
	at := domain.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	delta := func(text string) string { return `message.delta {"text":"` + text + `"}` + "\n" }
	const answered = `{"id":"run_1","message":"a\u003cb"}`
	for name, tc := range map[string]struct {
		log  executiondb.EventLog
		want string
	}{
		"queued":  {executiondb.EventLog{Run: stored(domain.RunQueued, nil, "")}, "0.1 run.created"},
		"running": {executiondb.EventLog{Run: stored(domain.RunRunning, &at, "")}, "0.1 run.created, 1.1 run.started"},
		"published": {
			executiondb.EventLog{Run: stored(domain.RunRunning, &at, ""), Fence: 1, Chunks: []executiondb.Chunk{{FirstN: 2, LastN: 3, Events: delta("a") + delta("b")}, {FirstN: 4, LastN: 4, Events: delta("c")}}},
			"0.1 run.created, 1.1 run.started, 1.2 message.delta, 1.3 message.delta, 1.4 message.delta",
		},
		"published by two attempts": {
			executiondb.EventLog{Run: stored(domain.RunRunning, &at, ""), Fence: 3, Chunks: []executiondb.Chunk{{FirstN: 1, LastN: 2, Events: `run.restarted {"afterStep":0}` + "\n" + delta("a")}}},
			"0.1 run.created, 1.1 run.started, 3.1 run.restarted, 3.2 message.delta",
		},
		"answered in one piece": {
			executiondb.EventLog{Run: stored(domain.RunCompleted, &at, answered), EndFence: 1, EndN: 3},
			"0.1 run.created, 1.1 run.started, 1.2 message.delta, 1.3 run.completed",
		},
		"answered with nothing": {
			executiondb.EventLog{Run: stored(domain.RunCompleted, &at, `{"message":""}`), EndFence: 1, EndN: 2},
			"0.1 run.created, 1.1 run.started, 1.2 run.completed",
		},
		"failed after events without a checkpoint": {
			executiondb.EventLog{Run: stored(domain.RunFailed, &at, `{"message":null}`), EndFence: 1, EndN: 3},
			"0.1 run.created, 1.1 run.started, 1.3 run.failed",
		},
		"cancelled before its start": {
			executiondb.EventLog{Run: stored(domain.RunCancelled, nil, `{"message":null}`), EndFence: 1, EndN: 1},
			"0.1 run.created, 1.1 run.cancelled",
		},
		"timed out in the middle": {
			executiondb.EventLog{Run: stored(domain.RunTimedOut, &at, `{"message":null}`), Fence: 1, Chunks: []executiondb.Chunk{{FirstN: 2, LastN: 2, Events: delta("a")}}, EndFence: 2, EndN: 1},
			"0.1 run.created, 1.1 run.started, 1.2 message.delta, 2.1 run.timed_out",
		},
	} {
		events, err := eventsFor(&tc.log)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		said := make([]string, len(events))
		for i, e := range events {
			said[i] = e.ID.String() + " " + e.Type
		}
		if got := strings.Join(said, ", "); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
	broken := executiondb.EventLog{Run: stored(domain.RunRunning, &at, ""), Fence: 1, Chunks: []executiondb.Chunk{{FirstN: 2, LastN: 2, Events: "x"}}}
	if _, err := eventsFor(&broken); err == nil {
		t.Error("a broken chunk was read")
	}
}

// The first event of an attempt has the same bytes whether it is received from the bus or derived
// from the result of the run.
func TestFramesOfLiveAndDerivedEventsAreTheSame(t *testing.T) {
	t.Parallel()
	const text = "a<b> & \"c\" \u2028 ☾\n"
	data, err := domain.DeltaData(text)
	if err != nil {
		t.Fatal(err)
	}
	run := domain.Run{ID: "run_1", Message: new(text)}
	result, err := run.Render()
	if err != nil {
		t.Fatal(err)
	}
	derived, err := wholeAnswer(result)
	if err != nil || len(derived) != 1 {
		t.Fatalf("%v, %v", derived, err)
	}
	live := domain.Event{ID: domain.EventID{Fence: 1, N: 2}, Type: "message.delta", Data: data}
	want := "id: 1.2\nevent: message.delta\ndata: {\"runId\":\"run_1\",\"text\":\"a\\u003cb\\u003e \\u0026 \\\"c\\\" \\u2028 ☾\\n\"}\n\n"
	for _, e := range []domain.Event{live, derived[0]} {
		if got := string(AppendFrame(nil, "run_1", e)); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if got := string(AppendFrame(nil, "run_1", domain.Event{ID: live.ID, Type: "x", Data: []byte("{}")})); got != "id: 1.2\nevent: x\ndata: {\"runId\":\"run_1\"}\n\n" {
		t.Errorf("an event without data became %q", got)
	}
}

func stored(status domain.RunStatus, startedAt *domain.Time, result string) rundb.StoredRun {
	run := rundb.StoredRun{Run: domain.Run{ID: "run_1", Status: status, StartedAt: startedAt}}
	if result != "" {
		run.SetResult([]byte(result))
	}
	return run
}
