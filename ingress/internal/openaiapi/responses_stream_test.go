package openaiapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
)

const streamedRun = "run_01h455vb4pex5vsknk084sn02q"

// logged returns an event as it is stored in the log of a run.
func logged(tb testing.TB, fence int64, kind string, says any) domain.Event {
	tb.Helper()
	data, err := json.Marshal(says)
	if err != nil {
		tb.Fatal(err)
	}
	return domain.Event{ID: domain.EventID{Fence: fence, N: 1}, Type: kind, Data: data}
}

func logCreated(tb testing.TB) domain.Event {
	tb.Helper()
	return domain.Event{ID: domain.CreatedID, Type: domain.EventRunCreated, Data: []byte(
		`{"agentId":"ag_1","templateId":null,"sessionId":"s","trigger":{"type":"chat","automationId":null},"createdAt":"2026-01-02T03:04:05.006Z"}`)}
}

func logStarted() domain.Event {
	return domain.Event{ID: domain.StartedID, Type: domain.EventRunStarted, Data: []byte(`{"startedAt":"2026-01-02T03:04:05.006Z"}`)}
}

func logDelta(tb testing.TB, fence int64, text string) domain.Event {
	tb.Helper()
	return logged(tb, fence, domain.EventMessageDelta, map[string]string{"text": text})
}

func logTool(tb testing.TB, kind string, call domain.ToolCall) domain.Event {
	tb.Helper()
	return logged(tb, 1, kind, map[string]any{"toolCall": call})
}

func logRestarted() domain.Event {
	return domain.Event{ID: domain.EventID{Fence: 2, N: 1}, Type: domain.EventRunRestarted, Data: domain.RestartedData(0)}
}

func logEnded(tb testing.TB, run domain.Run) domain.Event {
	tb.Helper()
	result, err := run.Render()
	if err != nil {
		tb.Fatal(err)
	}
	return domain.EndedEvent(domain.EventID{Fence: 2, N: 9}, run.Status, result)
}

func endedRun(message string, calls ...domain.ToolCall) domain.Run {
	agent := "ag_1"
	return domain.Run{
		ID: streamedRun, Status: domain.RunCompleted, AgentID: &agent, SessionID: "s", Message: &message, ToolCalls: calls,
		Usage: domain.Usage{InputTokens: 7, OutputTokens: 5}, CreatedAt: at("2026-01-02T03:04:05.006Z"), FinishedAt: new(at("2026-01-02T03:04:09Z")),
	}
}

// sse is one server-sent event as a client parses it.
type sse struct {
	kind string
	data map[string]any
}

// encodedResponse encodes a log as the stream of a response. It returns the parsed events and
// whether the stream has ended.
func encodedResponse(tb testing.TB, events ...domain.Event) (out []sse, ended bool) {
	tb.Helper()
	return encodedFor(tb, ResponseEcho{}, events...)
}

// encodedFor works like encodedResponse, for a request with the given fields that the response
// repeats.
func encodedFor(tb testing.TB, echo ResponseEcho, events ...domain.Event) (out []sse, ended bool) {
	tb.Helper()
	s := NewResponseStream(streamedRun, echo)
	var text []byte
	for _, e := range events {
		var err error
		if text, ended, err = s.Append(text, e); err != nil {
			tb.Fatal(err)
		}
	}
	for i, frame := range strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		kind, data, ok := strings.Cut(frame, "\ndata: ")
		kind, named := strings.CutPrefix(kind, "event: ")
		read := sse{kind: kind}
		if err := json.Unmarshal([]byte(data), &read.data); err != nil || !ok || !named {
			tb.Fatalf("frame %q: %v", frame, err)
		}
		if read.data["type"] != kind || read.data["sequence_number"] != float64(i) {
			tb.Errorf("event %d is %s: %s", i, kind, data)
		}
		out = append(out, read)
	}
	return out, ended
}

func kinds(events []sse) string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = strings.TrimPrefix(e.kind, "response.")
	}
	return strings.Join(all, " ")
}

// fold assembles the text and the output items of a response from its events, in the same way as
// the official clients.
func fold(tb testing.TB, events []sse) (text string, items []any) {
	tb.Helper()
	for _, e := range events {
		at, _ := e.data["output_index"].(float64)
		switch e.kind {
		case "response.output_item.added":
			if int(at) != len(items) {
				tb.Errorf("an item was added at %v after %d items", at, len(items))
			}
			items = append(items, e.data["item"])
		case "response.output_item.done":
			items[int(at)] = e.data["item"]
		case "response.output_text.delta":
			piece, _ := e.data["delta"].(string)
			text += piece
		}
	}
	return text, items
}

func TestAStreamedAnswerUsesTheProtocolsEvents(t *testing.T) {
	t.Parallel()
	search := domain.ToolCall{ID: "c1", Name: "webSearch", Status: "running", Input: json.RawMessage(`{"query":"tea"}`)}
	found := search
	found.Status, found.Output = "completed", json.RawMessage(`{"query":"tea","results":[{"url":"https://tea.example/"}]}`)
	program := domain.ToolCall{ID: "c2", Name: "codeExecution", Status: "running", Input: json.RawMessage(`{"code":"1/0"}`)}
	broken := program
	broken.Status, broken.Output = "failed", json.RawMessage(`{"error":"no"}`)
	booked := domain.ToolCall{ID: "c3", Name: "book", Status: "completed", Input: json.RawMessage(`{"n":1}`), Output: json.RawMessage(`{"status":200}`)}
	run := endedRun("Tea is hot.", found, broken, booked)
	web := domain.Citation{ID: 1, Type: "web", Title: "Tea", URL: "https://tea.example/", EndIndex: 11}
	doc := "doc_1"
	paper := domain.Citation{ID: 2, Type: "document", Title: "tea.pdf", EndIndex: 3, DocumentID: &doc}
	run.Citations = []domain.Citation{web, paper}

	got, ended := encodedResponse(
		t, logCreated(t), logStarted(), logTool(t, "tool.started", search), logTool(t, "tool.started", program),
		logTool(t, "tool.completed", found), logTool(t, "tool.completed", broken), logDelta(t, 1, "Tea is"),
		logTool(t, "tool.completed", booked), logged(t, 1, domain.EventCitationAdded, map[string]any{"citation": web}), logEnded(t, run))
	want := "created in_progress " +
		"output_item.added web_search_call.in_progress web_search_call.searching " +
		"output_item.added code_interpreter_call.in_progress code_interpreter_call_code.delta code_interpreter_call_code.done " +
		"code_interpreter_call.interpreting " +
		"web_search_call.completed output_item.done " +
		"code_interpreter_call.completed output_item.done " + // events of the program that failed
		"output_item.added content_part.added output_text.delta " +
		"output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done mcp_call.completed output_item.done " +
		"output_text.annotation.added output_text.delta output_text.annotation.added " +
		"output_text.done content_part.done output_item.done completed"
	if kinds(got) != want || !ended {
		t.Errorf("ended %v\ngot  %s\nwant %s", ended, kinds(got), want)
	}
	text, items := fold(t, got)
	last, _ := got[len(got)-1].data["response"].(map[string]any)
	output, _ := last["output"].([]any)
	if text != "Tea is hot." || fmt.Sprint(items) != fmt.Sprint(output) || len(output) != 4 {
		t.Errorf("%q\nitems  %v\noutput %v", text, items, output)
	}
	whole, err := json.Marshal(NewResponse(&run, ResponseEcho{}))
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(whole, &read); err != nil {
		t.Fatal(err)
	}
	output[2], output[3] = output[3], output[2] // a response that is read later contains the message after all calls
	if fmt.Sprint(read) != fmt.Sprint(last) {
		t.Errorf("streamed %v\nread     %v", last, read)
	}
}

func TestAnAnswerInOnePieceIsStreamedToo(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"a text": "Hello.", "nothing": ""} {
		got, ended := encodedResponse(t, logCreated(t), logEnded(t, endedRun(answer)))
		text, items := fold(t, got)
		if text != answer || len(items) != 1 || !ended || !strings.HasSuffix(kinds(got), "output_text.done content_part.done output_item.done completed") {
			t.Errorf("%s: %q, %v, %s", name, text, items, kinds(got))
		}
	}
}

func TestAnAttemptWithTheSameTextAddsNothing(t *testing.T) {
	t.Parallel()
	call := domain.ToolCall{ID: "c1", Name: "knowledge", Status: "running", Input: json.RawMessage(`{"query":"tea"}`)}
	done := call
	done.Status, done.Output = "completed", json.RawMessage(`{"results":[]}`)
	lost := domain.ToolCall{ID: "c9", Name: "knowledge", Status: "running", Input: json.RawMessage(`{"query":"coffee"}`)}
	cited := domain.Citation{ID: 1, Type: "web", URL: "https://tea.example/", EndIndex: 3}
	run := endedRun("Tea is hot.", done)
	run.Citations = []domain.Citation{cited}
	citation := logged(t, 1, domain.EventCitationAdded, map[string]any{"citation": cited})
	got, ended := encodedResponse(
		t, logCreated(t), logStarted(), logTool(t, "tool.started", call), logTool(t, "tool.completed", done), logDelta(t, 1, "Tea "), citation,
		logTool(t, "tool.started", lost), logRestarted(), logStarted(), logTool(t, "tool.started", call), logTool(t, "tool.completed", done),
		logDelta(t, 2, "Te"), logDelta(t, 2, "a is"), citation, logDelta(t, 2, " hot."), logEnded(t, run))
	text, items := fold(t, got)
	if text != "Tea is hot." || len(items) != 3 || !ended || strings.Count(kinds(got), "annotation.added") != 1 ||
		strings.Count(kinds(got), "in_progress") != 3 { // one in_progress event for the run and one for each of two calls
		t.Errorf("%q, %d items: %s", text, len(items), kinds(got))
	}
	last, _ := got[len(got)-1].data["response"].(map[string]any)
	if output := fmt.Sprint(last["output"]); !strings.Contains(output, "status:incomplete") {
		t.Errorf("the call of the void attempt is %s", output)
	}
}

func TestAnAttemptWithDifferentTextEndsTheStream(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]domain.Event{
		"in its text":   {logDelta(t, 1, "Tea"), logRestarted(), logDelta(t, 2, "Coffee")},
		"in the answer": {logDelta(t, 1, "Tea"), logRestarted(), logEnded(t, endedRun("Coffee"))},
	} {
		got, ended := encodedResponse(t, slices.Concat([]domain.Event{logCreated(t), logStarted()}, events, []domain.Event{logDelta(t, 2, "more")})...)
		last := got[len(got)-1]
		said, _ := last.data["error"].(map[string]any)
		if last.kind != "error" || !ended || last.data["code"] != "stream_restarted" || said["code"] != "stream_restarted" ||
			!strings.Contains(fmt.Sprint(said["message"]), streamedRun) {
			t.Errorf("%s: ended %v, %s: %v", name, ended, kinds(got), last.data)
		}
	}
}

func TestRunsWithoutAnAnswerEndTheirStreams(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status domain.RunStatus
		cause  *domain.RunError
		want   string
	}{
		{domain.RunFailed, &domain.RunError{Code: "model_failed", Message: "No."}, "response.failed: failed, model_failed: No."},
		{domain.RunFailed, nil, "response.failed: failed, failed: The run failed."},
		{domain.RunTimedOut, nil, "response.failed: failed, timed_out: The run exceeded its time limit."},
		{domain.RunCancelled, nil, "response.failed: cancelled, cancelled: The run was cancelled."},
	} {
		run := endedRun("")
		run.Status, run.Message, run.Error = tc.status, nil, tc.cause
		got, ended := encodedResponse(t, logCreated(t), logStarted(), logDelta(t, 1, "Tea"), logEnded(t, run))
		failed, last := got[len(got)-2], got[len(got)-1]
		response, _ := failed.data["response"].(map[string]any)
		cause, _ := response["error"].(map[string]any)
		if said := fmt.Sprintf("%s: %v, %v: %v", failed.kind, response["status"], cause["code"], cause["message"]); said != tc.want || !ended {
			t.Errorf("%s: %s, ended %v", tc.status, said, ended)
		}
		if raised, _ := last.data["error"].(map[string]any); last.kind != "error" || last.data["code"] != cause["code"] || raised["code"] != cause["code"] {
			t.Errorf("%s: the stream ends with %s %v", tc.status, last.kind, last.data)
		}
	}
}

func TestARunThatWaitsForAPersonEndsItsStream(t *testing.T) {
	t.Parallel()
	waits := logged(t, 1, domain.EventRequiresAction, map[string]any{
		"requiredAction": domain.RequiredAction{Kind: domain.ActionApproval, ToolCallID: "c1", Name: "book"},
	})
	got, ended := encodedResponse(t, logCreated(t), logStarted(), waits)
	last := got[len(got)-1]
	if last.kind != "error" || !ended || last.data["code"] != "requires_action" || !strings.Contains(fmt.Sprint(last.data["message"]), "book") {
		t.Errorf("ended %v: %s %v", ended, last.kind, last.data)
	}
}

func TestInvalidLogsAreRefused(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]domain.Event{
		"without a beginning": {logStarted()},
		"broken at its start": {{Type: domain.EventRunCreated, Data: []byte(`[]`)}},
		"broken in the text":  {logCreated(t), {Type: domain.EventMessageDelta, Data: []byte(`{"text":1}`)}},
		"broken in a call":    {logCreated(t), {Type: domain.EventToolStarted, Data: []byte(`{"toolCall":1}`)}},
		"broken in a source":  {logCreated(t), {Type: domain.EventCitationAdded, Data: []byte(`{"citation":1}`)}},
		"without an action":   {logCreated(t), {Type: domain.EventRequiresAction, Data: []byte(`{}`)}},
		"broken in an action": {logCreated(t), {Type: domain.EventRequiresAction, Data: []byte(`{"requiredAction":1}`)}},
		"broken at its end":   {logCreated(t), {Type: domain.EventRunCompleted, Data: []byte(`{"run":1}`)}},
	} {
		s := NewResponseStream(streamedRun, ResponseEcho{})
		var err error
		for _, e := range events {
			_, _, err = s.Append(nil, e)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
