package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/offline"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

var errLost = errors.New("fence lost")

// memory is a journal in memory that stores steps as JSON. Record can be made to fail after a given
// number of steps.
type memory struct {
	steps   []string
	left    int // number of records until Record fails; negative: no limit
	loadErr error
}

func newMemory() *memory { return &memory{left: -1} }

func (m *memory) Load(context.Context) ([]agentloop.Step, error) {
	var steps []agentloop.Step
	for _, raw := range m.steps {
		var s agentloop.Step
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, m.loadErr
}

func (m *memory) Record(_ context.Context, s agentloop.Step) error {
	if m.left == 0 {
		return errLost
	}
	m.left--
	b, err := json.Marshal(s)
	m.steps = append(m.steps, string(b))
	return err
}

// fake is a tool that counts its calls and executes them with the function do.
type fake struct {
	name string
	spec tool.Spec // describes the tool's side effect, and whether its calls run alone
	mu   sync.Mutex
	n    int
	do   func(ctx context.Context, c tool.Call) (tool.Result, error)
}

func (f *fake) Spec() tool.Spec {
	spec := f.spec
	spec.Name, spec.Description, spec.Schema = f.name, "a tool", json.RawMessage(`{"type":"object"}`)
	return spec
}

func (f *fake) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	f.mu.Lock()
	f.n++
	f.mu.Unlock()
	return f.do(ctx, c)
}

func registry(t *testing.T, tools ...tool.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.NewRegistry(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newLoop() *agentloop.Loop {
	return agentloop.New(agentloop.Config{Now: func() time.Time { return time.Unix(0, 0) }, Jitter: func() float64 { return 0 }})
}

// eventLog collects events as short lines. Consecutive pieces of text in a step become one line.
type eventLog struct {
	lines []string
	last  agentloop.Event
}

func (h *eventLog) add(e agentloop.Event) {
	if e.Type == agentloop.EventDelta && h.last.Type == e.Type && h.last.Step == e.Step {
		e.Text = h.last.Text + e.Text
		h.lines = h.lines[:len(h.lines)-1]
	}
	h.last = e
	line := fmt.Sprintf("%d %s", e.Step, e.Type)
	switch {
	case e.Tool != nil:
		line += " " + e.Tool.Name + " " + e.Tool.Status
	case e.Citation != nil:
		line += fmt.Sprintf(" %d", e.Citation.ID)
	default:
		line += " " + fmt.Sprintf("%q", e.Text)
	}
	if e.Replayed {
		line += " replayed"
	}
	h.lines = append(h.lines, line)
}

// byStep returns the lines sorted by their steps. The events of concurrent calls arrive in any
// order.
func (h *eventLog) byStep() []string {
	sorted := slices.Clone(h.lines)
	slices.SortStableFunc(sorted, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	return sorted
}

func codeFor(t *testing.T, err error) agentloop.Error {
	t.Helper()
	var e *agentloop.Error
	if !errors.As(err, &e) {
		t.Fatalf("not classified: %v", err)
	}
	return *e
}

func TestEchoRun(t *testing.T) {
	t.Parallel()
	var h eventLog
	out, err := newLoop().Run(t.Context(), agentloop.Input{
		System: "be brief", Message: "hi there", Data: json.RawMessage(`{"a":1}`), Model: offline.Echo{},
	}, newMemory(), h.add)
	if err != nil {
		t.Fatal(err)
	}
	want := agentloop.Output{
		Text: "echo: hi there", Turns: 1, StopReason: llm.StopEnd,
		Usage: domain.Usage{InputTokens: 2, OutputTokens: 3, Model: "offline/echo"},
		Turn: agentloop.Turn{Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "hi there", Data: json.RawMessage(`{"a":1}`)}, {Role: llm.RoleAssistant, Text: "echo: hi there"},
		}},
	}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("got  %+v\nwant %+v", out, want)
	}
	if got := strings.Join(h.lines, "; "); got != `1 message.delta "echo: hi there"` {
		t.Errorf("events: %s", got)
	}
	if !out.Turn.Whole() {
		t.Error("the turn is not whole")
	}
}

// searching returns a model that searches twice and then answers with citations, and the tools that
// execute the searches.
func searching(t *testing.T) (*scripted.Model, *tool.Registry) {
	t.Helper()
	page := 2
	search := &fake{name: "webSearch", do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Output: c.Arguments, Sources: []domain.Citation{
			{Type: "web", Title: "Tower", URL: "https://tower.example", CitedText: "330 m"},
			{Type: "web", Title: "Tower", URL: "https://tower.example", CitedText: "330 m"},
			{Type: "web", Title: "Other", URL: fmt.Sprintf("https://%d.example", len(c.Arguments)), CitedText: "Others are lower."},
		}}, nil
	}}
	broken := &fake{name: "knowledge", do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Sources: []domain.Citation{{Type: "document", Page: &page}}}, errors.New("dial tcp 10.0.0.1: secret")
	}}
	model := scripted.New("scripted",
		scripted.Call{
			Deltas: []string{"Let me ", "look."}, Usage: llm.Usage{InputTokens: 10, OutputTokens: 4},
			ToolCalls: []llm.ToolCall{
				{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{"query":"tower"}`)},
				{ID: "a", Name: "knowledge", Arguments: json.RawMessage(`{}`)},
				{Name: "webSearch", Malformed: `{"query":`},
				{ID: "b", Name: "nothing", Arguments: json.RawMessage(`{}`)},
			},
		},
		scripted.Call{
			Usage:     llm.Usage{InputTokens: 20, OutputTokens: 5},
			ToolCalls: []llm.ToolCall{{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{"query":"once more"}`)}},
		},
		scripted.Call{Deltas: []string{"Größe: ", "330 m [1][9], more [3, 2] and [1]."}, Usage: llm.Usage{InputTokens: 30, OutputTokens: 6}},
	)
	return model, registry(t, search, broken)
}

func TestToolRun(t *testing.T) {
	t.Parallel()
	model, tools := searching(t)
	var h eventLog
	out, err := newLoop().Run(t.Context(), agentloop.Input{System: "S", Message: "How high?", Model: model, Tools: tools}, newMemory(), h.add)
	if err != nil {
		t.Fatal(err)
	}
	if out.Text != "Let me look.\n\nGröße: 330 m [1], more [3][2] and [1]." || out.Turns != 3 || out.CitationsRemoved != 1 {
		t.Errorf("got %q in %d turns, %d citations removed", out.Text, out.Turns, out.CitationsRemoved)
	}
	if out.Usage != (domain.Usage{InputTokens: 60, OutputTokens: 15, Model: "scripted"}) {
		t.Errorf("usage %+v", out.Usage)
	}
	var cited []string
	for _, c := range out.Citations {
		cited = append(cited, fmt.Sprintf("%d %s", c.ID, string([]rune(out.Text)[c.StartIndex:c.EndIndex])))
	}
	if got := strings.Join(cited, "; "); got != "1 Größe: 330 m; 3 more; 2 more; 1 and" {
		t.Errorf("citations: %s", got)
	}
	var calls []string
	for _, c := range out.ToolCalls {
		calls = append(calls, fmt.Sprintf("%s %s %s %s %s %d", c.ID, c.Name, c.Status, c.Input, c.Output, c.DurationMS))
	}
	want := []string{
		`a webSearch completed {"query":"tower"} {"query":"tower"} 0`,
		`call_1_2 knowledge failed {} {"error":"The tool failed."} 0`,
		`call_1_3 webSearch failed {"malformed":"{\"query\":"} {"error":"The arguments are not a single JSON object. Write them again."} 0`,
		`b nothing failed {} {"error":"Unknown tool."} 0`,
		`call_6_1 webSearch completed {"query":"once more"} {"query":"once more"} 0`,
	}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("calls:\n%s", strings.Join(calls, "\n"))
	}
	deltas := ""
	for _, l := range h.lines {
		if _, text, ok := strings.Cut(l, "message.delta "); ok {
			var piece string
			if _, err := fmt.Sscanf(text, "%q", &piece); err != nil {
				t.Fatal(err)
			}
			deltas += piece
		}
	}
	if deltas != out.Text {
		t.Errorf("deltas %q", deltas)
	}
	if got := strings.Join(h.lines[1:7], "; "); got != "2 tool.started webSearch running; 3 tool.started knowledge running; "+
		"4 tool.started webSearch running; 5 tool.started nothing running; 2 tool.completed webSearch completed; 3 tool.completed knowledge failed" {
		t.Errorf("events: %s", got)
	}
	if last := h.lines[len(h.lines)-1]; last != "8 citation.added 1" {
		t.Errorf("last event: %s", last)
	}
	if !out.Turn.Whole() || len(out.Turn.Messages) != 9 {
		t.Errorf("turn of %d messages, whole %v", len(out.Turn.Messages), out.Turn.Whole())
	}
}

func TestWhatTheModelIsTold(t *testing.T) {
	t.Parallel()
	model, tools := searching(t)
	in := agentloop.Input{
		System: "S", Message: "How high?", Data: json.RawMessage(`{"k":"v"}`), Model: model, Tools: tools, OmittedTurns: 3,
		History: []agentloop.Turn{agentloop.PlainTurn("old", "answer")},
	}
	if _, err := newLoop().Run(t.Context(), in, newMemory(), nil); err != nil {
		t.Fatal(err)
	}
	requests := model.Requests()
	first := requests[0]
	if !strings.HasPrefix(first.System, "S\n\n") || !strings.Contains(first.System, "untrusted") || !strings.Contains(first.System, "[1]") ||
		!strings.HasSuffix(first.System, "were omitted: 3.") {
		t.Errorf("system %q", first.System)
	}
	if len(first.Messages) != 3 || first.Messages[0].Text != "old" || string(first.Messages[2].Data) != `{"k":"v"}` || first.SessionStart {
		t.Errorf("messages %+v", first.Messages)
	}
	if len(first.Tools) != 2 || first.Tools[0].Name != "knowledge" {
		t.Errorf("tools %+v", first.Tools)
	}
	last := requests[2].Messages
	results := ""
	for _, m := range last {
		if m.Result != nil {
			results += fmt.Sprintf("%s:%d ", m.Result.CallID, len(m.Result.Sources))
		}
	}
	if results != "a:2 call_1_2:0 call_1_3:0 b:0 call_6_1:2 " {
		t.Errorf("results %q", results)
	}
}

func TestSourceNumbersGoOnThroughTheSession(t *testing.T) {
	t.Parallel()
	history := agentloop.Turn{Messages: []llm.Message{
		{Role: llm.RoleUser, Text: "q"},
		{Role: llm.RoleAssistant, ToolCalls: []llm.ToolCall{{ID: "a", Name: "webSearch"}}},
		{Role: llm.RoleTool, Result: &llm.ToolResult{CallID: "a", Sources: []domain.Citation{{ID: 6}, {ID: 7}}}},
		{Role: llm.RoleAssistant, Text: "old [7]"},
	}}
	model, tools := searching(t)
	in := agentloop.Input{Message: "m", Model: model, Tools: tools, History: []agentloop.Turn{history}}
	out, err := newLoop().Run(t.Context(), in, newMemory(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The scripted answer cites 1, 2, 3 and 9, but the sources have the numbers 8, 9 and 10.
	if len(out.Citations) != 1 || out.Citations[0].ID != 9 {
		t.Errorf("got %+v", out.Citations)
	}
	if out.ToolCalls[0].ID == "a" {
		t.Error("a call took an id that the session has already")
	}
}

func BenchmarkEchoRun(b *testing.B) {
	loop, journal := agentloop.New(agentloop.Config{}), newMemory()
	events := func(agentloop.Event) {}
	b.ReportAllocs()
	for b.Loop() {
		in := agentloop.Input{System: "You are brief.", Message: "a message of a few words", Model: offline.Echo{}}
		if _, err := loop.Run(b.Context(), in, journal, events); err != nil {
			b.Fatal(err)
		}
	}
}
