package openaiapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/shared/domain"
)

func at(text string) domain.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return domain.At(t)
}

func rendered(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestARunIsAResponse(t *testing.T) {
	t.Parallel()
	run := endedRun("Tea.")
	got := rendered(t, NewResponse(&run, ResponseEcho{Background: true, Instructions: "Be kind.", Metadata: map[string]string{"a": "b"}, PreviousResponseID: "resp_x"}))
	const want = `{"id":"resp_01h455vb4pex5vsknk084sn02q","object":"response","created_at":1767323045,"completed_at":1767323049,` +
		`"status":"completed","background":true,"error":null,"incomplete_details":null,"instructions":"Be kind.","max_output_tokens":null,` +
		`"metadata":{"a":"b"},"model":"ag_1","output":[{"id":"msg_01h455vb4pex5vsknk084sn02q","type":"message","status":"completed",` +
		`"role":"assistant","content":[{"type":"output_text","text":"Tea.","annotations":[],"logprobs":[]}]}],"parallel_tool_calls":true,` +
		`"previous_response_id":"resp_x","reasoning":{"effort":null,"summary":null},"store":true,"temperature":null,` +
		`"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled",` +
		`"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,` +
		`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12},` +
		`"parley":{"runId":"run_01h455vb4pex5vsknk084sn02q","sessionId":"s"}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnfinishedRunsAreUnfinishedResponses(t *testing.T) {
	t.Parallel()
	template := "tpl_support"
	for status, want := range map[domain.RunStatus]string{
		domain.RunQueued: "queued", domain.RunRunning: "in_progress", domain.RunRequiresAction: "in_progress",
	} {
		run := domain.Run{ID: streamedRun, Status: status, TemplateID: &template, CreatedAt: at("2026-01-02T03:04:05Z")}
		got := rendered(t, NewResponse(&run, ResponseEcho{}))
		for _, part := range []string{
			`"status":"` + want + `"`, `"output":[]`, `"usage":null`, `"error":null`, `"completed_at":null`,
			`"model":"tpl_support"`, `"metadata":{}`, `"instructions":null`, `"previous_response_id":null`,
		} {
			if !strings.Contains(got, part) {
				t.Errorf("%s has no %s: %s", status, part, got)
			}
		}
	}
}

func TestResponsesAreNamedAfterTheirRuns(t *testing.T) {
	t.Parallel()
	if run, ok := RunOfResponse(ResponseID(streamedRun)); !ok || run != streamedRun {
		t.Errorf("%s, %v", run, ok)
	}
	for _, other := range []string{"", "resp_", "resp_x", streamedRun, "resp_" + strings.Repeat("z", 26), "resp_01h455vb4pex5vsknk084sn02q ", "msg_01h455vb4pex5vsknk084sn02q"} {
		if run, ok := RunOfResponse(other); ok {
			t.Errorf("%q was accepted as the response of %s", other, run)
		}
	}
}

func TestCallsAreItemsOfTheProtocol(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		call domain.ToolCall
		want string
	}{
		"a search of the web": {
			domain.ToolCall{ID: "1", Name: "webSearch", Status: "completed", Input: json.RawMessage(`{"query":"tea"}`), Output: json.RawMessage(`{"results":[{"url":"https://a.example/"}]}`)},
			`{"id":"ws_1_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"tea","sources":[{"type":"url","url":"https://a.example/"}]}}`,
		},
		"a search that failed": {
			domain.ToolCall{ID: "1", Name: "webSearch", Status: "failed", Input: json.RawMessage(`[]`), Output: json.RawMessage(`{"error":"no"}`)},
			`{"id":"ws_1_1","type":"web_search_call","status":"failed","action":{"type":"search","query":""}}`,
		},
		"a program": {
			domain.ToolCall{ID: "2", Name: "codeExecution", Status: "completed", Input: json.RawMessage(`{"code":"print(1)\n2"}`), Output: json.RawMessage(`{"stdout":"1\n","stderr":"","value":"2"}`)},
			`{"id":"ci_1_2","type":"code_interpreter_call","status":"completed","code":"print(1)\n2","container_id":"s","outputs":[{"type":"logs","logs":"1\n"},{"type":"logs","logs":"2"}]}`,
		},
		"a program that runs": {
			domain.ToolCall{ID: "2", Name: "codeExecution", Status: "running", Input: json.RawMessage(`{"code":"1"}`)},
			`{"id":"ci_1_2","type":"code_interpreter_call","status":"in_progress","code":"1","container_id":"s","outputs":null}`,
		},
		"a program that failed": {
			domain.ToolCall{ID: "2", Name: "codeExecution", Status: "failed", Input: json.RawMessage(`{"code":7}`), Output: json.RawMessage(`{"error":"Division by zero"}`)},
			`{"id":"ci_1_2","type":"code_interpreter_call","status":"completed","code":"","container_id":"s","outputs":[{"type":"logs","logs":"Division by zero"}]}`,
		},
		"a search of documents": {
			domain.ToolCall{ID: "3", Name: "knowledge", Status: "completed", Input: json.RawMessage(`{"query":"tea"}`), Output: json.RawMessage(`{"results":[]}`)},
			`{"id":"fs_1_3","type":"file_search_call","status":"completed","queries":["tea"],"results":null}`,
		},
		"an endpoint": {
			domain.ToolCall{ID: "4", Name: "book", Status: "completed", Input: json.RawMessage(`{"n":1}`), Output: json.RawMessage(`{"status":200}`)},
			`{"id":"mcp_1_4","type":"mcp_call","status":"completed","server_label":"parley","name":"book","arguments":"{\"n\":1}","output":"{\"status\":200}","error":null,"approval_request_id":null}`,
		},
		"an endpoint that failed": {
			domain.ToolCall{ID: "4", Name: "book", Status: "failed", Input: json.RawMessage(`null`), Output: json.RawMessage(`{"error":"closed"}`)},
			`{"id":"mcp_1_4","type":"mcp_call","status":"failed","server_label":"parley","name":"book","arguments":"","output":null,"error":"closed","approval_request_id":null}`,
		},
		"an endpoint that failed in its own words": {
			domain.ToolCall{ID: "4", Name: "book", Status: "failed", Input: json.RawMessage(`{}`), Output: json.RawMessage(`{"why":"closed"}`)},
			`{"id":"mcp_1_4","type":"mcp_call","status":"failed","server_label":"parley","name":"book","arguments":"{}","output":null,"error":"{\"why\":\"closed\"}","approval_request_id":null}`,
		},
	} {
		if got := rendered(t, newToolItem(tc.call, "run_1", "s")); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
}

func TestCitationsAreAnnotations(t *testing.T) {
	t.Parallel()
	doc, text := "doc_1", "src_1"
	for want, c := range map[string]domain.Citation{
		`{"type":"url_citation","start_index":0,"end_index":9,"url":"https://a.example/","title":"A"}`: {Type: "web", Title: "A", URL: "https://a.example/", EndIndex: 9},
		`{"type":"file_citation","file_id":"doc_1","filename":"a.pdf","index":9}`:                      {Type: "document", Title: "a.pdf", URL: "/x", EndIndex: 9, DocumentID: &doc},
		`{"type":"file_citation","file_id":"src_1","filename":"note.txt","index":9}`:                   {Type: "document", Title: "note.txt", EndIndex: 9, SourceID: &text},
		`{"type":"url_citation","start_index":0,"end_index":9,"url":"https://b.example/","title":"B"}`: {Type: "web", Title: "B", URL: "https://b.example/", EndIndex: 9, SourceID: &text},
	} {
		if got := rendered(t, Annotations([]domain.Citation{c, {Type: "document", Title: "neither"}})); got != "["+want+"]" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A document that was attached to a message has no address. Annotations that cite it must
// nevertheless be valid, both in whole answers and in streams.
func TestCitationsOfAttachedDocuments(t *testing.T) {
	t.Parallel()
	run := sourcedRun()
	run.ToolCalls = nil
	run.Citations = []domain.Citation{
		{ID: 1, Type: "document", Title: "neither", EndIndex: 3},
		{ID: 2, Type: "document", Title: "note.txt", StartIndex: 1, EndIndex: 6, SourceID: new("src_1"), Page: new(2)},
	}
	view := View{AppendSources: new(true), BaseURL: "https://p.example"}
	const asFile = `[{"type":"file_citation","file_id":"src_1","filename":"note.txt","index":6}]`
	const asURL = `[{"type":"url_citation","url_citation":{"start_index":1,"end_index":6,"title":"note.txt","url":"https://p.example/api/sources?id=src_1"},` +
		`"file_citation":{"file_id":"src_1","filename":"note.txt","start_index":1,"end_index":6}}]`
	if got := view.answer(&run).appendix; !strings.HasSuffix(got, "\n- [2] note.txt, page 2") {
		t.Errorf("list of sources %q", got)
	}
	if got := rendered(t, NewCompletion(&run, view)); !strings.Contains(got, `"annotations":`+asURL) {
		t.Errorf("completion %s", got)
	}
	if got := rendered(t, NewResponse(&run, ResponseEcho{View: view})); !strings.Contains(got, `"annotations":`+asFile) {
		t.Errorf("response %s", got)
	}

	log := []domain.Event{logCreated(t), logStarted(), logDelta(t, 1, "Ä grew")}
	for _, c := range run.Citations {
		log = append(log, logged(t, 1, domain.EventCitationAdded, map[string]any{"citation": c}))
	}
	log = append(log, logEnded(t, run))
	events, _ := encodedFor(t, ResponseEcho{View: view}, log...)
	var added []any
	for _, e := range events {
		if e.kind == "response.output_text.annotation.added" {
			added = append(added, e.data["annotation_index"], e.data["annotation"])
		}
	}
	want := []any{0.0, map[string]any{"type": "file_citation", "file_id": "src_1", "filename": "note.txt", "index": 6.0}}
	if !reflect.DeepEqual(added, want) {
		t.Errorf("annotations of the stream %v, want %v", added, want)
	}
	stream := NewCompletionStream(streamedRun, false, view)
	var out []byte
	for _, e := range log {
		var err error
		if out, _, err = stream.Append(out, e); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(out), `"annotations":`+asURL) {
		t.Errorf("chunks %s", out)
	}
}
