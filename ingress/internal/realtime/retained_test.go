package realtime

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"parley/shared/domain"
)

// playResponse simulates a whole response, from the client's request to the end of the response.
func (r *testEnv) playResponse(said string, ended domain.Event) {
	r.tb.Helper()
	r.c.Client(r.now, []byte(`{"type":"response.create","response":{"instructions":"x","metadata":{"k":"`+strings.Repeat("v", 500)+`"}}}`))
	if r.c.now == nil {
		r.tb.Fatal("no response was begun")
	}
	name := r.c.now.id
	r.c.Begun(r.now, name, "run_1")
	r.c.Run(r.now, name, ended)
	if !r.c.session.text {
		r.do(fmt.Sprintf("speech %s 0 %d 20", name, len(said)))
		r.do(fmt.Sprintf("segment %s 0 %d", name, len(said)))
		r.do("said " + name)
		r.lines = nil
	}
	if r.c.now != nil {
		r.tb.Fatal("the response is still open")
	}
}

// completedEvent returns the last event of a completed run.
func completedEvent(tb testing.TB, run domain.Run) domain.Event {
	tb.Helper()
	run.ID, run.Status = "run_1", domain.RunCompleted
	result, err := run.Render()
	must(tb, err)
	return domain.EndedEvent(domain.EventID{Fence: 1, N: 9}, run.Status, result)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The conversation keeps the text of an answer, but not the tool calls of the answer's run.
//
//nolint:paralleltest // measures the heap of the whole process
func TestToolCallsAreNotKept(t *testing.T) {
	for _, session := range []string{`{"output_modalities":["text"]}`, ""} {
		r := newTestEnv(t, session)
		said := "ok"
		ended := completedEvent(t, domain.Run{Message: &said, ToolCalls: []domain.ToolCall{
			{ID: "c", Name: "codeExecution", Output: json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)},
		}})
		before := heap()
		for range 200 {
			r.playResponse(said, ended)
		}
		r.seen = nil
		if grown := heap() - before; grown > 512<<10 {
			t.Errorf("session %q: %d KiB are kept of 200 answers", session, grown>>10)
		}
		if len(r.c.items) != 200 {
			t.Errorf("%d items", len(r.c.items))
		}
	}
}

// The texts of spoken answers are kept, so that the client can correct how much was played. These
// texts and their citations count against the limit on texts.
func TestSpokenTextsAreBounded(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("word ", 6_000)
	r := newTestEnv(t, "")
	ended := completedEvent(t, domain.Run{Message: &said})
	for range 30 {
		r.playResponse(said, ended)
	}
	if n, limit := len(r.c.items), maxTexts/(2*len(said))+1; n > limit || n < limit-1 {
		t.Errorf("%d answers are kept, want %d", n, limit)
	}
	r = newTestEnv(t, `{"output_modalities":["text"]}`)
	said = "[1]"
	cited := completedEvent(t, domain.Run{Message: &said, Citations: []domain.Citation{
		{ID: 1, Type: "web", Title: strings.Repeat("t", 8_000), URL: "https://example.com/" + strings.Repeat("u", 8_000), EndIndex: 3},
	}})
	for range 80 {
		r.playResponse(said, cited)
	}
	if n := len(r.c.items); n > maxTexts/16_000+1 || n < 60 {
		t.Errorf("%d answers with citations are kept", n)
	}
}
