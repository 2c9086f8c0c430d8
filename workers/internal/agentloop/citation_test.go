package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/llm/scripted"
	"parley/workers/internal/tool"
)

const (
	english = "The tower is 330 metres tall, about the same height as an 81-storey building. Many people visit it. 🗼"
	chinese = "埃菲尔铁塔是位于法国巴黎战神广场的铁制镂空塔。铁塔高三百三十米，是巴黎最高的建筑物。"
)

// citingModel is a model that searches, then cites sources in a text and searches again, and then
// answers. Its output depends only on the prompt.
type citingModel struct{ cut int }

func (citingModel) Info() llm.Info { return llm.Info{Name: "citing", ContextTokens: 10_000} }

func (m citingModel) Stream(_ context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	results := 0
	for _, msg := range req.Messages {
		if msg.Result != nil {
			results++
		}
	}
	res := llm.Response{Model: "citing", StopReason: llm.StopToolCalls, Thinking: json.RawMessage(`{"n":1}`)}
	switch results {
	case 0:
		res.Text = "I will look 🔎 [7]."
		res.ToolCalls = []llm.ToolCall{{ID: "a", Name: "webSearch", Arguments: json.RawMessage(`{"query":"tower"}`)}}
	case 1:
		res.Text = `👩‍🚀 It is tall [1 "330 metres tall"], I think [2 "invented"].`
		res.ToolCalls = []llm.ToolCall{{ID: "b", Name: "webSearch", Arguments: json.RawMessage(`{"query":"塔"}`)}}
	default:
		res.Text = "👩‍🚀 Hello! The tower is 330 m tall 🗼 [1 \"330 metres tall\"]. 铁塔高三百三十米[2 “铁塔高三百三十米”]。 It was painted by aliens " +
			"[1 \"painted by aliens\"]. It stands on Mars [99]. Many people visit it [1]."
		res.StopReason = llm.StopEnd
	}
	for text := res.Text; text != ""; {
		n := min(m.cut, len(text))
		emit(llm.Delta{Text: text[:n]})
		text = text[n:]
	}
	return res, nil
}

func searchTool() *fake {
	id := "src_1"
	return &fake{name: "webSearch", do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		source := domain.Citation{Type: "web", Title: "The tower", URL: "https://tower.example/en", CitedText: english, SourceID: &id}
		if strings.Contains(string(c.Arguments), "塔") {
			source.Title, source.URL, source.CitedText = "铁塔", "https://tower.example/zh", chinese
		}
		return tool.Result{Output: json.RawMessage(`{}`), Sources: []domain.Citation{source}}, nil
	}}
}

// TestCitations checks which citations of a model are kept. The model emits its text in pieces of
// various sizes, and the worker is lost after each possible number of steps.
func TestCitations(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 2, 3, 5, 1000} {
		for lost := -1; lost < 5; lost++ {
			t.Run(fmt.Sprintf("%d bytes at a time, lost after %d", cut, lost), func(t *testing.T) {
				t.Parallel()
				journal := &memory{left: lost}
				var deltas strings.Builder
				var reported []domain.Citation
				run := func() (agentloop.Output, error) {
					deltas.Reset()
					reported = nil
					in := agentloop.Input{Message: "How tall?", Model: citingModel{cut}, Tools: registry(t, searchTool())}
					return newLoop().Run(t.Context(), in, journal, func(e agentloop.Event) {
						deltas.WriteString(e.Text)
						if e.Citation != nil {
							reported = append(reported, *e.Citation)
						}
					})
				}
				out, err := run()
				if errors.Is(err, errLost) {
					journal.left = -1
					out, err = run()
				}
				if err != nil {
					t.Fatal(err)
				}
				want := "I will look 🔎.\n\n👩‍🚀 It is tall [1], I think.\n\n👩‍🚀 Hello! The tower is 330 m tall 🗼 [1]. 铁塔高三百三十米[2]。 It was painted by aliens." +
					" It stands on Mars. Many people visit it [1]."
				if out.Text != want || deltas.String() != want || out.CitationsRemoved != 4 || !reflect.DeepEqual(reported, out.Citations) {
					t.Errorf("got  %q\ntold %q, %d removed", out.Text, deltas.String(), out.CitationsRemoved)
				}
				var cited []string
				read := english + chinese
				for _, c := range out.Citations {
					cited = append(cited, fmt.Sprintf("%d %s: %s", c.ID, string([]rune(out.Text)[c.StartIndex:c.EndIndex]), c.CitedText))
					if c.SourceID == nil || c.URL == "" || c.Title == "" || !strings.Contains(read, c.CitedText) {
						t.Errorf("citation %+v", c)
					}
				}
				wantCited := []string{
					"1 👩‍🚀 It is tall: 330 metres tall", "1 The tower is 330 m tall 🗼: 330 metres tall", "2 铁塔高三百三十米: 铁塔高三百三十米",
					"1 Many people visit it: Many people visit it.",
				}
				if !reflect.DeepEqual(cited, wantCited) {
					t.Errorf("cited %q", cited)
				}
				for _, m := range out.Turn.Messages {
					if strings.Contains(m.Text, "\"330") || (m.Role == llm.RoleAssistant) != (m.Thinking != nil) {
						t.Errorf("message %+v", m)
					}
				}
			})
		}
	}
}

// TestWithoutToolsBracketsAreText checks that brackets are plain text if the run has no tools and
// therefore no sources.
func TestWithoutToolsBracketsAreText(t *testing.T) {
	t.Parallel()
	var h eventLog
	model := scripted.New("scripted", scripted.Call{Deltas: []string{"Sorted: [1,", " 2, 3]"}})
	out, err := newLoop().Run(t.Context(), agentloop.Input{Message: "sort", Model: model}, newMemory(), h.add)
	if err != nil || out.Text != "Sorted: [1, 2, 3]" || out.CitationsRemoved != 0 || out.Citations != nil {
		t.Errorf("got %+v, %v", out, err)
	}
}

// TestEarlierMarkersCountAsTaken checks that source numbers in earlier answers are not reused for
// other sources, although only the texts of these answers are available. Numbers in code are not
// markers.
func TestEarlierMarkersCountAsTaken(t *testing.T) {
	t.Parallel()
	model := scripted.New("scripted", asking("webSearch"), scripted.Call{Deltas: []string{"As I said [5], it is tall [6]."}})
	in := agentloop.Input{
		Message: "m", Model: model, Tools: registry(t, searchTool()),
		History: []agentloop.Turn{
			agentloop.PlainTurn("q [77]", "It is tall [2, 5], `x[40]` and [1234567] and [999999]."), agentloop.PlainTurn("q", "Yes [3]."),
		},
	}
	out, err := newLoop().Run(t.Context(), in, newMemory(), nil)
	if err != nil || out.Text != "As I said, it is tall [6]." || len(out.Citations) != 1 || out.Citations[0].ID != 6 || out.CitationsRemoved != 1 {
		t.Errorf("got %+v, %v", out, err)
	}
}

// TestHeldTextIsNotShown runs a model call that fails while the filter still holds back all of its
// text. No text was emitted, so the call is retried.
func TestHeldTextIsNotShown(t *testing.T) {
	t.Parallel()
	model := scripted.New("scripted", asking("webSearch"),
		scripted.Call{Deltas: []string{" [1 \"330"}, Err: modelError(llm.KindTruncated, 0)}, scripted.Call{Deltas: []string{"Tall [1 \"330 metres\"]."}})
	var h eventLog
	out, err := newLoop().Run(t.Context(), agentloop.Input{Message: "m", Model: model, Tools: registry(t, searchTool())}, newMemory(), h.add)
	if err != nil || out.Text != "Tall [1]." || h.lines[len(h.lines)-2] != `3 message.delta "Tall [1]."` {
		t.Errorf("got %+v, %v: %q", out, err, h.lines)
	}
}
