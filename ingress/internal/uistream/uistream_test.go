package uistream_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/ingress/internal/uistream"
	"parley/shared/domain"
)

const (
	created  = `0.1 run.created {"agentId":"ag_1","sessionId":"s1"}`
	started  = `1.1 run.started {"startedAt":"2026-01-02T03:04:05.006Z"}`
	page     = `{"id":3,"type":"web","title":"A page","url":"https://example.com/a","citedText":"c","startIndex":0,"endIndex":2}`
	passage  = `{"id":4,"type":"document","title":"plan.PDF","citedText":"d","startIndex":3,"endIndex":5,"documentId":"doc_1","page":7}`
	search   = `{"toolCall":{"id":"call_1","name":"webSearch","status":"running","input":{"query":"q"},"output":null,"durationMs":0}}`
	searched = `{"toolCall":{"id":"call_1","name":"webSearch","status":"completed","input":{"query":"q"},"output":{"n":1},"durationMs":5}}`
	failing  = `{"toolCall":{"id":"call_1","name":"webSearch","status":"failed","input":{"query":"q"},"output":{"error":"no \"net\""},"durationMs":5}}`
)

func delta(id, text string) string { return id + ` message.delta {"text":` + quoted(text) + `}` }

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func completed(id, message string) string {
	return id + ` run.completed {"run":{"id":"run_abc","status":"completed","sessionId":"s1","message":` + quoted(message) +
		`,"citations":[],"toolCalls":[],"usage":{"inputTokens":2,"outputTokens":3,"costMicros":0,"model":"m"}}}`
}

// TestIncompleteAnswersSaySo checks the finish reasons of answers that ended early.
func TestIncompleteAnswersSaySo(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"stop": "stop", "length": "length", "content_filter": "content-filter"} {
		end := strings.Replace(completed("1.2", "It"), `"status":"completed"`, `"status":"completed","finishReason":"`+reason+`"`, 1)
		sdk := strings.Join(encode(t, uistream.Reader{Format: uistream.AISDK}, created, started, end), " ")
		agui := strings.Join(encode(t, uistream.Reader{Format: uistream.AGUI}, created, started, end), " ")
		if !strings.Contains(sdk, `"finishReason":"`+want+`"`) || !strings.Contains(agui, `"finishReason":"`+reason+`"`) {
			t.Errorf("%s: %s %s", reason, sdk, agui)
		}
	}
}

func ended(id, status, cause string) string {
	return id + ` run.` + status + ` {"run":{"id":"run_abc","status":"` + status + `","sessionId":"s1","message":null,"error":` + cause + `}}`
}

func event(t *testing.T, line string) domain.Event {
	t.Helper()
	at, rest, _ := strings.Cut(line, " ")
	kind, data, ok := strings.Cut(rest, " ")
	id, err := domain.ParseEventID(at)
	if err != nil || !ok {
		t.Fatalf("%q is not an event: %v", line, err)
	}
	return domain.Event{ID: id, Type: kind, Data: []byte(data)}
}

// encode encodes a log. It returns the lines of the stream that are not empty.
func encode(t *testing.T, as uistream.Reader, log ...string) []string {
	t.Helper()
	e := uistream.New("run_abc", as)
	var b []byte
	for _, line := range log {
		b = add(t, e, b, line)
	}
	return lines(string(b))
}

func add(t *testing.T, e *uistream.Encoder, b []byte, line string) []byte {
	t.Helper()
	out, _, err := e.Append(b, event(t, line))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func lines(stream string) []string {
	var out []string
	for line := range strings.SplitSeq(stream, "\n") {
		if line != "" {
			out = append(out, strings.TrimPrefix(line, "data: "))
		}
	}
	return out
}

func compare(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s: line %d\ngot  %s\nwant %s\nof\n%s", what, i+1, g, w, strings.Join(got, "\n"))
			return
		}
	}
}

// fullLog is a log that contains every kind of event.
var fullLog = []string{
	created, started, delta("1.2", "Let me "), delta("1.3", "look."), "1.4 tool.started " + search, "1.5 tool.completed " + searched,
	delta("1.6", "It is"), `1.7 citation.added {"citation":` + page + `}`, `1.8 citation.added {"citation":` + passage + `}`,
	"1.9 run.unheard_of {}", completed("1.10", "Let me look.It is"),
}

func TestAISDKStreamHasAllEvents(t *testing.T) {
	t.Parallel()
	compare(t, "ai-sdk", encode(t, uistream.Reader{Format: uistream.AISDK}, fullLog...),
		`{"type":"start","messageId":"msg_abc","messageMetadata":{"runId":"run_abc","sessionId":"s1"}}`,
		`{"type":"start-step"}`,
		`id: 0.1`,
		`{"type":"data-run","id":"run_abc","data":{"runId":"run_abc","sessionId":"s1"}}`,
		`{"type":"text-start","id":"text-1"}`,
		`id: 1.2`,
		`{"type":"text-delta","id":"text-1","delta":"Let me "}`,
		`id: 1.3`,
		`{"type":"text-delta","id":"text-1","delta":"look."}`,
		`{"type":"text-end","id":"text-1"}`,
		`id: 1.4`,
		`{"type":"tool-input-available","toolCallId":"call_1","toolName":"webSearch","input":{"query":"q"},"dynamic":true,"providerExecuted":true}`,
		`id: 1.5`,
		`{"type":"tool-output-available","toolCallId":"call_1","output":{"n":1},"dynamic":true,"providerExecuted":true}`,
		`{"type":"text-start","id":"text-2"}`,
		`id: 1.6`,
		`{"type":"text-delta","id":"text-2","delta":"It is"}`,
		`{"type":"source-url","sourceId":"3","url":"https://example.com/a","title":"A page"}`,
		`id: 1.7`,
		`{"type":"data-citation","data":{"id":3,"type":"web","title":"A page","url":"https://example.com/a","citedText":"c","startIndex":0,"endIndex":2,`+
			`"documentId":null,"page":null,"sourceId":null}}`,
		`{"type":"source-document","sourceId":"4","title":"plan.PDF","mediaType":"application/pdf"}`,
		`id: 1.8`,
		`{"type":"data-citation","data":{"id":4,"type":"document","title":"plan.PDF","url":"","citedText":"d","startIndex":3,"endIndex":5,`+
			`"documentId":"doc_1","page":7,"sourceId":null}}`,
		`{"type":"text-end","id":"text-2"}`,
		`{"type":"finish-step"}`,
		`{"type":"finish","messageMetadata":{"runId":"run_abc","sessionId":"s1","status":"completed","usage":{"inputTokens":2,"outputTokens":3,"costMicros":0,`+
			`"model":"m"}},"finishReason":"stop"}`,
		`id: 1.10`,
		`[DONE]`,
	)
}

func TestAGUIStreamHasAllEvents(t *testing.T) {
	t.Parallel()
	compare(t, "ag-ui", encode(t, uistream.Reader{Format: uistream.AGUI, ThreadID: "theirs", RunID: "r7"}, fullLog...),
		`{"type":"RUN_STARTED","threadId":"theirs","runId":"r7"}`,
		`id: 0.1`,
		`{"type":"CUSTOM","name":"run","value":{"runId":"run_abc","sessionId":"s1"}}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"msg_abc_1","role":"assistant"}`,
		`id: 1.2`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_abc_1","delta":"Let me "}`,
		`id: 1.3`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_abc_1","delta":"look."}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"msg_abc_1"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"call_1_abc","toolCallName":"webSearch"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"call_1_abc","delta":"{\"query\":\"q\"}"}`,
		`id: 1.4`,
		`{"type":"TOOL_CALL_END","toolCallId":"call_1_abc"}`,
		`id: 1.5`,
		`{"type":"TOOL_CALL_RESULT","messageId":"msg_call_1_abc","role":"tool","toolCallId":"call_1_abc","content":"{\"n\":1}"}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"msg_abc_2","role":"assistant"}`,
		`id: 1.6`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_abc_2","delta":"It is"}`,
		`id: 1.7`,
		`{"type":"CUSTOM","name":"citation","value":{"id":3,"type":"web","title":"A page","url":"https://example.com/a","citedText":"c","startIndex":0,`+
			`"endIndex":2,"documentId":null,"page":null,"sourceId":null}}`,
		`id: 1.8`,
		`{"type":"CUSTOM","name":"citation","value":{"id":4,"type":"document","title":"plan.PDF","url":"","citedText":"d","startIndex":3,"endIndex":5,`+
			`"documentId":"doc_1","page":7,"sourceId":null}}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"msg_abc_2"}`,
		`id: 1.10`,
		`{"type":"RUN_FINISHED","threadId":"theirs","runId":"r7","result":{"runId":"run_abc","sessionId":"s1","status":"completed","finishReason":null,`+
			`"message":"Let me look.It is","citations":[]},"outcome":{"type":"success"},"usage":[{"model":"m","inputTokens":2,"outputTokens":3,"totalTokens":5}]}`,
	)
}

// kinds returns the types of the events in a stream, and the texts that they contain.
func kinds(out []string) string {
	var said []string
	for _, line := range out {
		var c struct {
			Type       string `json:"type"`
			Delta      string `json:"delta"`
			Code       string `json:"code"`
			Reason     string `json:"reason"`
			ToolCallID string `json:"toolCallId"`
		}
		switch {
		case strings.HasPrefix(line, "id: "):
		case json.Unmarshal([]byte(line), &c) != nil:
			said = append(said, line)
		default:
			said = append(said, strings.TrimSpace(c.Type+" "+c.ToolCallID+c.Code+c.Delta+c.Reason))
		}
	}
	return strings.Join(said, "|")
}

func TestResultsAndFailuresAreSent(t *testing.T) {
	t.Parallel()
	begin := []string{created, started, delta("1.2", "a")}
	for name, tc := range map[string]struct {
		log       []string
		sdk, agui string
	}{
		"failed": {
			append(begin, ended("1.3", "failed", `{"code":"model_error","message":"no"}`)),
			"text-end|error|[DONE]", "TEXT_MESSAGE_END|RUN_ERROR model_error",
		},
		"timed out": {
			append(begin, ended("1.3", "timed_out", `{"code":"deadline","message":"late"}`)),
			"text-end|error|[DONE]", "TEXT_MESSAGE_END|RUN_ERROR deadline",
		},
		"failed without an error": {append(begin, ended("1.3", "failed", `null`)), "text-end|error|[DONE]", "TEXT_MESSAGE_END|RUN_ERROR failed"},
		"cancelled": {
			append(begin, ended("1.3", "cancelled", `null`)),
			"text-end|abort The run was cancelled.|[DONE]", "TEXT_MESSAGE_END|RUN_FINISHED",
		},
		"a call fails": {
			append(begin, "1.3 tool.started "+search, "1.4 tool.completed "+failing),
			"text-end|tool-input-available call_1|tool-output-error call_1",
			"TEXT_MESSAGE_END|TOOL_CALL_START call_1_abc|TOOL_CALL_ARGS call_1_abc{\"query\":\"q\"}|TOOL_CALL_END call_1_abc|TOOL_CALL_RESULT call_1_abc",
		},
		"a person is needed": {
			append(begin, `1.3 run.requires_action {"requiredAction":{"kind":"approval","toolCallId":"call_1","name":"x","input":{},"expiresAt":"2026-01-02T03:04:05.006Z"}}`),
			"text-end|data-required-action", "TEXT_MESSAGE_END|CUSTOM",
		},
		"the result has more text": {
			append(begin, completed("1.3", "ab")), "text-delta b|text-end|finish-step|finish|[DONE]",
			"TEXT_MESSAGE_CONTENT b|TEXT_MESSAGE_END|RUN_FINISHED",
		},
		"the result has another text": {
			append(begin, completed("1.3", "xb")), "text-end|error|[DONE]", "TEXT_MESSAGE_END|RUN_ERROR stream_restarted",
		},
	} {
		for format, want := range map[uistream.Format]string{
			uistream.AISDK: "start|start-step|data-run|text-start|text-delta a|" + tc.sdk,
			uistream.AGUI:  "RUN_STARTED|CUSTOM|TEXT_MESSAGE_START|TEXT_MESSAGE_CONTENT a|" + tc.agui,
		} {
			if got := kinds(encode(t, uistream.Reader{Format: format}, tc.log...)); got != want {
				t.Errorf("%s, %s:\ngot  %s\nwant %s", name, format, got, want)
			}
		}
	}
}

// Text that a reader has received cannot be retracted. A new attempt therefore sends only the text
// after that part. If its text differs from that part, the stream ends with an error.
func TestRestartedAttemptsSendNothingTwice(t *testing.T) {
	t.Parallel()
	other := strings.Replace(search, `"q"`, `"p"`, 1)
	first := []string{created, started, delta("1.2", "Let me look."), "1.3 tool.started " + search, `1.4 citation.added {"citation":` + page + `}`}
	begin := "start|start-step|data-run|text-start|text-delta Let me look.|text-end|tool-input-available call_1|source-url|data-citation|"
	for name, tc := range map[string]struct {
		log  []string
		want string
	}{
		"the same": {
			[]string{
				`3.1 run.restarted {"afterStep":1}`, delta("3.2", "Let me"), delta("3.3", " look."), "3.4 tool.started " + search,
				"3.5 tool.completed " + searched, `3.6 citation.added {"citation":` + page + `}`, completed("3.7", "Let me look."),
			}, "tool-output-available call_1|finish-step|finish|[DONE]",
		},
		"more":           {[]string{`3.1 run.restarted {"afterStep":1}`, delta("3.2", "Let me look. Yes.")}, "text-start|text-delta  Yes."},
		"something else": {[]string{`3.1 run.restarted {"afterStep":0}`, delta("3.2", "Let us"), delta("3.3", "!")}, "error|[DONE]"},
		"less":           {[]string{`3.1 run.restarted {"afterStep":0}`, delta("3.2", "Let me"), completed("3.3", "Let me")}, "error|[DONE]"},
		"another call": {
			[]string{`3.1 run.restarted {"afterStep":0}`, delta("3.2", "Let me look."), "3.3 tool.started " + other, "3.4 tool.completed " + searched},
			"tool-input-available call_1_2|tool-input-available call_1_3|tool-output-available call_1_3",
		},
		"nothing but its end": {[]string{ended("3.1", "timed_out", `{"code":"deadline","message":"late"}`)}, "error|[DONE]"},
	} {
		if got := kinds(encode(t, uistream.Reader{Format: uistream.AISDK}, append(slices.Clip(first), tc.log...)...)); got != begin+tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, begin+tc.want)
		}
	}
}

// A reader that resumes after any event receives the same bytes as a reader that stayed connected.
func TestReadersResumeAfterAnyEvent(t *testing.T) {
	t.Parallel()
	for _, format := range uistream.Formats {
		var all []byte
		e := uistream.New("run_abc", uistream.Reader{Format: format})
		ends := map[string]int{}
		for _, line := range fullLog {
			all = add(t, e, all, line)
			at, _, _ := strings.Cut(line, " ")
			ends[at] = len(all)
		}
		for at, end := range ends {
			last, err := domain.ParseEventID(at)
			if err != nil {
				t.Fatal(err)
			}
			again := uistream.New("run_abc", uistream.Reader{Format: format, Last: last})
			var rest []byte
			for _, line := range fullLog {
				rest = add(t, again, rest, line)
			}
			if string(rest) != string(all[end:]) {
				t.Errorf("%s after %s:\ngot  %s\nwant %s", format, at, rest, all[end:])
			}
		}
	}
}

// The log does not contain the events of abandoned attempts. A reader that has received such events
// cannot resume and gets an error.
func TestReadersOfVoidAttemptsCannotResume(t *testing.T) {
	t.Parallel()
	log := []string{created, started, `3.1 run.restarted {"afterStep":0}`, delta("3.2", "a"), delta("3.3", "b"), completed("3.4", "ab")}
	for last, want := range map[string]string{
		"0.0": "start|start-step|data-run|text-start|text-delta a|text-delta b|text-end|finish-step|finish|[DONE]",
		"0.1": "text-start|text-delta a|text-delta b|text-end|finish-step|finish|[DONE]",
		"1.1": "text-start|text-delta a|text-delta b|text-end|finish-step|finish|[DONE]",
		"1.4": "error|[DONE]",
		"3.1": "error|[DONE]",
		"3.2": "text-end|error|[DONE]",
		"3.4": "",
		"9.9": "",
	} {
		id, err := domain.ParseEventID(last)
		if err != nil {
			t.Fatal(err)
		}
		if got := kinds(encode(t, uistream.Reader{Format: uistream.AISDK, Last: id}, log...)); got != want {
			t.Errorf("after %s: got %s, want %s", last, got, want)
		}
	}
}

func TestATruncatedStreamEndsWithAnError(t *testing.T) {
	t.Parallel()
	for format, want := range map[uistream.Format]string{
		uistream.AISDK: "text-end|error|[DONE]", uistream.AGUI: "TEXT_MESSAGE_END|RUN_ERROR stream_cut",
	} {
		e := uistream.New("run_abc", uistream.Reader{Format: format})
		for _, line := range []string{created, started, delta("1.2", "a")} {
			add(t, e, nil, line)
		}
		if got := kinds(lines(string(e.Cut(nil)))); got != want || len(e.Cut(nil)) != 0 {
			t.Errorf("%s: %s", format, got)
		}
		if out, over, err := e.Append(nil, event(t, delta("1.3", "b"))); len(out) != 0 || !over || err != nil {
			t.Errorf("%s: after the end: %s, %v", format, out, err)
		}
	}
}

func TestAnEventThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	e := uistream.New("run_abc", uistream.Reader{Format: uistream.AISDK})
	if out, over, err := e.Append([]byte("x"), event(t, "1.2 message.delta x")); string(out) != "x" || over || err == nil {
		t.Errorf("%s, %v, %v", out, over, err)
	}
}

func TestOnlyOneFormatHasAHeader(t *testing.T) {
	t.Parallel()
	if name, value := uistream.AISDK.Header(); name != "X-Vercel-Ai-Ui-Message-Stream" || value != "v1" {
		t.Errorf("%s: %s", name, value)
	}
	if name, _ := uistream.AGUI.Header(); name != "" {
		t.Errorf("a header %s", name)
	}
}

// FuzzText checks that any text of an agent stays within the JSON of one line.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"a", "\n\ndata: [DONE]\n\n", "\r\nid: 9.9\r\n", "\u2028</script>", "\x00\x1b[2J", `"}],"`, "\ufeff", strings.Repeat("x", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || text == "" {
			return
		}
		for _, format := range uistream.Formats {
			e := uistream.New("run_abc", uistream.Reader{Format: format})
			b := add(t, e, add(t, e, nil, created), delta("1.2", text))
			eventData := ""
			for frame := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n\n"), "\n\n") {
				if id, rest, found := strings.Cut(frame, "\n"); found {
					if !strings.HasPrefix(id, "id: ") {
						t.Fatalf("a frame of %q", frame)
					}
					frame = rest
				}
				var c struct {
					Delta string `json:"delta"`
				}
				data, ok := strings.CutPrefix(frame, "data: ")
				if err := json.Unmarshal([]byte(data), &c); err != nil || !ok || strings.ContainsAny(frame, "\r\n") {
					t.Fatalf("%q is not a frame: %v", frame, err)
				}
				eventData += c.Delta
			}
			if eventData != text {
				t.Fatalf("%s: sent %q, want %q", format, eventData, text)
			}
		}
	})
}
