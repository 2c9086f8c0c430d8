package httpapi

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/stream"
	"parley/shared/domain"
	"parley/shared/store/executiondb"
)

// formatLog is the log of a run with a tool call. The input and the output of the call contain the
// word secretword, which visitors must not see.
const formatLog = `message.delta {"text":"Let me \n\ndata: [DONE]"}` + "\n" +
	`tool.started {"toolCall":{"id":"call_1","name":"webSearch","status":"running","input":{"query":"secretword"},"output":null,"durationMs":0}}` + "\n" +
	`tool.completed {"toolCall":{"id":"call_1","name":"webSearch","status":"completed","input":{"query":"secretword"},"output":{"found":"secretword"},"durationMs":4}}` + "\n" +
	`message.delta {"text":" done [1]"}` + "\n" +
	`citation.added {"citation":{"id":1,"type":"web","title":"A page","url":"https://example.com/","citedText":"x","startIndex":0,"endIndex":3,"documentId":null,"page":null,"sourceId":null}}` + "\n"

const formatAnswer = "Let me \n\ndata: [DONE] done [1]"

// newFormatEnv returns an environment in which each run has the log formatLog.
func newFormatEnv(t *testing.T) (a *runEnv, h *testOrg, agentID string) {
	t.Helper()
	a = newWaitingRunEnv(t, unlimited)
	h = a.newTestOrg("home")
	a.startWorker(func(runID, message string) {
		if message == "fail" {
			a.endAfter(runID, "message.delta {\"text\":\"a\"}\n", func(run *domain.Run) {
				run.Status, run.Error = domain.RunFailed, &domain.RunError{Code: "model_error", Message: "secretword is away"}
			})
			return
		}
		a.endAfter(runID, formatLog, func(run *domain.Run) {
			answers(formatAnswer)(run)
			run.Usage.Model = "secretword/model"
			run.ToolCalls = []domain.ToolCall{{ID: "call_1", Name: "webSearch", Status: "completed", Input: json.RawMessage(`{"query":"secretword"}`)}}
		})
	})
	return a, h, a.newAgent(h)
}

// chunkTypes returns the types of the events in a stream and the text of the answer.
func chunkTypes(t *testing.T, stream []byte) (types, text string) {
	t.Helper()
	var all []string
	for line := range strings.SplitSeq(string(stream), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var chunk struct {
			Type  string `json:"type"`
			Delta string `json:"delta"`
		}
		if data == "[DONE]" {
			chunk.Type = data
		} else {
			must(t, json.Unmarshal([]byte(data), &chunk))
		}
		if chunk.Type == "text-delta" || chunk.Type == "TEXT_MESSAGE_CONTENT" {
			text += chunk.Delta
		}
		all = append(all, chunk.Type)
	}
	return strings.Join(all, " "), text
}

var wantTypes = map[string]string{
	"ai-sdk": "start start-step data-run text-start text-delta text-end tool-input-available tool-output-available text-start text-delta " +
		"source-url data-citation text-end finish-step finish [DONE]",
	"ag-ui": "RUN_STARTED CUSTOM TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT " +
		"TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT CUSTOM TEXT_MESSAGE_END RUN_FINISHED",
}

const (
	sdkBody  = `{"id":"s1","messages":[{"id":"a","role":"assistant","parts":[{"type":"step-start"}]},{"id":"m","role":"user","parts":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}],"trigger":"submit-message","extra":{"x":[1]}}`
	aguiBody = `{"threadId":"s1","runId":"r7","messages":[{"id":"m","role":"user","content":"Hello"}],"tools":[],"context":[],"state":{"a":1},"forwardedProps":{}}`
)

func TestChatsInTheFormatsOfUserInterfaces(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	chat := "/api/agents?action=chat&id=" + agentID
	for name, tc := range map[string]struct {
		format, query, body string
		headers             []string
	}{
		"ours, by query":      {"ai-sdk", "&format=ai-sdk", `{"sessionId":"s1","message":"Hello"}`, nil},
		"ours, by Accept":     {"ag-ui", "", `{"sessionId":"s1","message":"Hello"}`, []string{"Accept: application/json, text/event-stream;profile=ag-ui"}},
		"by both":             {"ag-ui", "&format=ag-ui", `{"sessionId":"s1","message":"Hello","stream":true}`, []string{`Accept: text/event-stream; profile="ag-ui"`}},
		"the AI SDK's":        {"ai-sdk", "&format=ai-sdk", sdkBody, nil},
		"AG-UI's":             {"ag-ui", "&format=ag-ui", aguiBody, []string{"Accept: text/event-stream"}},
		"AG-UI's with parts":  {"ag-ui", "&format=ag-ui", strings.Replace(aguiBody, `"Hello"`, `[{"type":"text","text":"Hello"}]`, 1), nil},
		"a long conversation": {"ai-sdk", "&format=ai-sdk", strings.Replace(sdkBody, `"step-start"`, `"`+strings.Repeat("x", httpx.MaxBody)+`"`, 1), nil},
	} {
		got := a.from("POST", chat+tc.query, tc.body, append(tc.headers, h.key)...).want(t, name, 200, "")
		types, text := chunkTypes(t, got.body)
		if types != wantTypes[tc.format] || text != formatAnswer {
			t.Errorf("%s: the response is %s and %q", name, types, text)
		}
		if header := got.header.Get("X-Vercel-Ai-Ui-Message-Stream"); (header == "v1") != (tc.format == "ai-sdk") {
			t.Errorf("%s: the header of the AI SDK is %q", name, header)
		}
		runID := strings.TrimPrefix(got.header.Get("Location"), "/api/runs?id=")
		run := a.ok("GET", "/api/runs?id="+runID+"&timeline=1", "", h.key)
		if run.text(t, "input.message") != "Hello" || a.ok("GET", "/api/runs?id="+runID, "", h.key).text(t, "sessionId") != "s1" {
			t.Errorf("%s: the run is %s", name, run.body)
		}
		if tc.body == aguiBody && !strings.Contains(string(got.body), `"threadId":"s1","runId":"r7"`) {
			t.Errorf("%s: the client's names are not in %s", name, got.body)
		}
	}
	failed := a.from("POST", chat+"&format=ai-sdk", `{"sessionId":"s2","message":"fail"}`, h.key)
	if types, _ := chunkTypes(t, failed.body); types != "start start-step data-run text-start text-delta text-end error [DONE]" {
		t.Errorf("a failed run sent %s", types)
	}
}

func TestRunsAreReadAndResumedInFormats(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	key := "Idempotency-Key: k1"
	chat := "/api/agents?action=chat&id=" + agentID
	for format, types := range wantTypes {
		first := a.from("POST", chat+"&format="+format, `{"sessionId":"s1","message":"Hello"}`, h.key, key).want(t, format, 200, "")
		runID := strings.TrimPrefix(first.header.Get("Location"), "/api/runs?id=")
		read := "/api/runs?id=" + runID + "&format=" + format
		for _, again := range []answer{
			a.from("POST", chat+"&format="+format, `{"sessionId":"s1","message":"Hello"}`, h.key, key),
			a.from("GET", read, "", h.memberKey, h.header), a.from("GET", read+"&stream=1", "", h.key),
			a.from("GET", "/api/runs?id="+runID, "", h.key, "Accept: text/event-stream;profile="+format),
		} {
			if again.status == 404 {
				continue // this caller must not read the run
			}
			if got, _ := chunkTypes(t, again.body); got != types || string(again.body) != string(first.body) {
				t.Errorf("%s: read again, the stream is %d %s", format, again.status, again.body)
			}
		}
		ids := regexp.MustCompile(`(?m)^id: (.*)\ndata: .*\n\n`).FindAllSubmatchIndex(first.body, -1)
		if len(ids) < 7 {
			t.Fatalf("%s: %d places to resume at", format, len(ids))
		}
		for _, at := range ids {
			end, last := at[1], string(first.body[at[2]:at[3]])
			got := a.from("GET", read, "", h.key, "Last-Event-ID: "+last)
			if end == len(first.body) || strings.HasPrefix(string(first.body[end:]), "data: [DONE]") {
				got.want(t, "behind the end", 204, "")
			} else if got.status != 200 || string(got.body) != string(first.body[end:]) {
				t.Errorf("%s behind %s: %d\n%s\nwant\n%s", format, last, got.status, got.body, first.body[end:])
			}
		}
	}
	a.from("GET", "/api/runs?format=ai-sdk&id=run_00000000000000000000000000", "", h.key).want(t, "no run", 404, "not_found")
}

// logCounter counts how often the log of a run is opened.
type logCounter struct {
	stream.Logs

	n atomic.Int64
}

func (l *logCounter) EventLogBytes(ctx context.Context, req executiondb.EventLogRequest) (int, error) {
	l.n.Add(1)
	return l.Logs.EventLogBytes(ctx, req)
}

// A stream that is resumed in another protocol's format opens the run's log only once.
func TestAFormattedStreamOpensTheLogOnce(t *testing.T) {
	t.Parallel()
	a, h, agentID := newFormatEnv(t)
	logs := &logCounter{Logs: a.store.Executions}
	hub := stream.New(logs, a.bus.NewWatch(), zerolog.Nop())
	var ran sync.WaitGroup
	ran.Go(func() { _ = hub.Run(t.Context()) })
	t.Cleanup(ran.Wait)
	chat := a.from("POST", "/api/agents?action=chat&format=ai-sdk&id="+agentID, `{"sessionId":"s1","message":"Hello"}`, h.key).want(t, "chat", 200, "")
	a.rebuild(func(to *Deps) { to.Streams = hub })
	read := "/api/runs?format=ai-sdk&id=" + strings.TrimPrefix(chat.header.Get("Location"), "/api/runs?id=")
	for last, status := range map[string]int{"1.3": 200, "1.99": 204} {
		before := logs.n.Load()
		a.from("GET", read, "", h.key, "Last-Event-ID: "+last).want(t, "behind "+last, status, "")
		if n := logs.n.Load() - before; n != 1 {
			t.Errorf("after %s: the log is opened %d times", last, n)
		}
	}
}

func TestFormatParameters(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("home")
	agentID := a.newAgent(h)
	runID := a.newChat(h, agentID, "s", h.key)
	chat, read := "/api/agents?action=chat&id="+agentID, "/api/runs?id="+runID
	const ours = `{"sessionId":"s1","message":"Hello"}`
	cut := func(body, old, by string) string {
		if !strings.Contains(body, old) {
			t.Fatalf("no %s in %s", old, body)
		}
		return strings.Replace(body, old, by, 1)
	}
	for name, tc := range map[string]struct{ method, target, body, accept, problems string }{
		"unknown":            {"POST", chat + "&format=xml", ours, "", "invalid_request format:invalid_value"},
		"unknown profile":    {"POST", chat, ours, "text/event-stream;profile=xml", "invalid_request Accept:invalid_value"},
		"twice":              {"POST", chat + "&format=ai-sdk&format=ai-sdk", ours, "", "invalid_request format:duplicate"},
		"two":                {"POST", chat + "&format=ai-sdk", ours, "text/event-stream;profile=ag-ui", "invalid_request format:conflict"},
		"no stream":          {"POST", chat + "&format=ai-sdk", cut(ours, "}", `,"stream":false}`), "", "invalid_request stream:conflict"},
		"several faults":     {"POST", chat + "&format=xml", `{"sessionId":"","message":""}`, "", "invalid_request sessionId:too_short message:too_short format:invalid_value"},
		"reading unknown":    {"GET", read + "&format=xml", "", "", "invalid_request format:invalid_value"},
		"reading and wait":   {"GET", read + "&format=ag-ui&wait=1", "", "", "invalid_request wait:invalid_value"},
		"reading a timeline": {"GET", read + "&format=ag-ui&timeline=1", "", "", "invalid_request timeline:invalid_value"},
		"reading, no stream": {"GET", read + "&format=ag-ui&stream=0", "", "", "invalid_request stream:invalid_value"},
		"ours is strict":     {"POST", chat + "&format=ag-ui", cut(ours, "}", `,"x":1}`), "", "invalid_request x:unknown_field"},
		"without a format":   {"POST", chat, sdkBody, "", "invalid_request id:unknown_field messages:unknown_field trigger:unknown_field extra:unknown_field sessionId:required message:required"},
		"no messages":        {"POST", chat + "&format=ai-sdk", `{"id":"s","messages":[]}`, "", "invalid_request messages:invalid_value"},
		"no session":         {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, ""), "", "invalid_request id:too_short"},
		"no thread":          {"POST", chat + "&format=ag-ui", cut(aguiBody, `"threadId":"s1",`, ""), "", "invalid_request threadId:too_short"},
		"answer last":        {"POST", chat + "&format=ag-ui", cut(aguiBody, `"user"`, `"assistant"`), "", "invalid_request messages:invalid_value"},
		"no text":            {"POST", chat + "&format=ag-ui", cut(aguiBody, `"Hello"`, `""`), "", "invalid_request messages[0].content:too_short"},
		"no content":         {"POST", chat + "&format=ag-ui", cut(aguiBody, `"content"`, `"contents"`), "", "invalid_request messages[0].content:required"},
		"no parts":           {"POST", chat + "&format=ai-sdk", cut(aguiBody, `"threadId"`, `"id"`), "", "invalid_request messages[0].parts:required"},
		"a picture":          {"POST", chat + "&format=ai-sdk", cut(sdkBody, `{"type":"text","text":"lo"}`, `{"type":"file","url":"x"}`), "", "invalid_request messages[1].parts[1].url:invalid_value"},
		"a wrong part":       {"POST", chat + "&format=ai-sdk", cut(sdkBody, `{"type":"text","text":"lo"}`, `{"type":"text","text":5}`), "", "invalid_request messages[1].parts[1].text:invalid_type"},
		"a wrong message":    {"POST", chat + "&format=ag-ui", cut(aguiBody, `"Hello"`, `5`), "", "invalid_request messages[0].content:invalid_type"},
		"client's tools":     {"POST", chat + "&format=ag-ui", cut(aguiBody, `"tools":[]`, `"tools":[{"name":"x"}]`), "", "invalid_request tools:invalid_value"},
		"its tools, AI SDK":  {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","tools":[{"name":"x"}],`), "", "invalid_request tools:invalid_value"},
		"context and resume": {"POST", chat + "&format=ag-ui", cut(aguiBody, `"context":[]`, `"context":[{}],"resume":[{}]`), "", "invalid_request context:invalid_value resume:invalid_value"},
		"a name twice":       {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","id":"s2",`), "", "invalid_request id:duplicate"},
		"a setting":          {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","temperature":99,"topP":-1,"stop":[""],`), "", "invalid_request temperature:invalid_value topP:invalid_value stop[0]:too_short"},
		"a setting's type":   {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","seed":"x",`), "", "invalid_request seed:invalid_type"},
		"a setting, AG-UI":   {"POST", chat + "&format=ag-ui", cut(aguiBody, `"tools":[]`, `"tools":[],"maxOutputTokens":0`), "", "invalid_request maxOutputTokens:invalid_value"},
		"a schema":           {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","output":{"schema":{"type":"strin"}},`), "", "invalid_request output.schema:invalid_value"},
		"no schema, AG-UI":   {"POST", chat + "&format=ag-ui", cut(aguiBody, `"tools":[]`, `"tools":[],"output":{}`), "", "invalid_request output.schema:required"},
		"attachments":        {"POST", chat + "&format=ai-sdk", cut(sdkBody, `"id":"s1",`, `"id":"s1","attachments":[{"fileId":"file_1"}],`), "", "invalid_request attachments:invalid_value"},
		"attachments, AG-UI": {"POST", chat + "&format=ag-ui", cut(aguiBody, `"tools":[]`, `"tools":[],"attachments":[{"fileId":"file_1"}]`), "", "invalid_request attachments:invalid_value"},
		"no JSON":            {"POST", chat + "&format=ai-sdk", `{"messages":[`, "", "invalid_request body:invalid_json"},
	} {
		headers := []string{h.key}
		if tc.accept != "" {
			headers = append(headers, "Accept: "+tc.accept)
		}
		a.from(tc.method, tc.target, tc.body, headers...).want(t, name, 400, tc.problems)
	}
	a.from("POST", chat+"&format=ai-sdk", cut(ours, "Hello", strings.Repeat("x", httpx.MaxMessageBody)), h.key).want(t, "ours, too large", 413, "payload_too_large")
	a.from("POST", chat+"&format=ai-sdk", cut(sdkBody, "Hel", strings.Repeat("x", httpx.MaxMessageBody)), h.key).want(t, "too large", 413, "payload_too_large")
}

// Only callers with an account may send many earlier messages. Visitors may not, because anyone can
// visit the demo or a page with a widget.
func TestVisitorsSendShortConversations(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	agentID := a.newWidgetAgent(a.newTestOrg("home"), widgetPage)
	for target, headers := range map[string][]string{
		"id=" + agentID: a.guest(agentID, "").headers, "template=tpl_support": {"X-Tenant-Id: " + domain.DemoTenant},
	} {
		for format, body := range map[string]string{"ai-sdk": sdkBody, "ag-ui": aguiBody} {
			sized := func(size int) string {
				return strings.TrimSuffix(body, "}") + strings.Repeat(" ", size-len(body)) + "}"
			}
			chat := "/api/agents?action=chat&format=" + format + "&" + target
			got := a.from("POST", chat, sized(httpx.MaxBody+1), headers...).want(t, target+" "+format, 413, "payload_too_large")
			if !strings.Contains(got.text(t, "detail"), " 262144 ") {
				t.Errorf("%s %s: %s", target, format, got.body)
			}
			if got := a.from("POST", chat, sized(httpx.MaxBody), headers...); got.status != 200 {
				t.Errorf("%s %s with the maximum size: %d %s", target, format, got.status, got.body)
			}
		}
	}
}

// Every format hides the data that widget visitors may not see.
func TestFormatsHideDataFromVisitors(t *testing.T) {
	t.Parallel()
	a, h, _ := newFormatEnv(t)
	agentID := a.newWidgetAgent(h, widgetPage)
	visitor := a.guest(agentID, "")
	for format, body := range map[string]string{"ai-sdk": sdkBody, "ag-ui": aguiBody} {
		for message, types := range map[string]string{"Hello": wantTypes[format], "fail": ""} {
			body := strings.Replace(strings.Replace(body, `"Hello"`, `"`+message+`"`, 1), `"Hel"},{"type":"text","text":"lo"`, `"`+message+`"`, 1)
			got := a.from("POST", "/api/agents?action=chat&format="+format+"&id="+agentID, body, slices.Concat(visitor.headers)...).want(t, format, 200, "")
			received, _ := chunkTypes(t, got.body)
			if strings.Contains(string(got.body), "secretword") || types != "" && received != types {
				t.Errorf("%s, %s: a visitor received %s\n%s", format, message, received, got.body)
			}
			if message == "fail" && !strings.Contains(string(got.body), "The agent could not answer.") {
				t.Errorf("%s: a failure is %s", format, got.body)
			}
		}
	}
}
