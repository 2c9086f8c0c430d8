package openaiapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
)

const clientCallID = "call_01h455vb4pex5vsknk084sn02q_1"

// calledTurn returns the messages of a turn with calls of two functions.
func calledTurn() []Said {
	call := func(id string) Said {
		return Said{Field: "call " + id, Role: RoleAssistant, Calls: []domain.ClientCall{{ToolCallID: id, Name: "f", Input: json.RawMessage("{}")}}}
	}
	result := func(id string) Said { return Said{Field: "result " + id, Role: RoleTool, Result: newResult(id, id)} }
	return []Said{{Role: RoleUser, Text: "q"}, call("a"), call("b"), result("b"), result("a")}
}

func round(text string, ids ...string) domain.CallRound {
	r := domain.CallRound{Text: text}
	for _, id := range ids {
		r.Calls = append(r.Calls, domain.ClientCall{ToolCallID: id, Name: "f", Input: json.RawMessage("{}")})
		r.Results = append(r.Results, domain.ClientResult{ToolCallID: id, Output: quote(id)})
	}
	return r
}

// Calls and their results belong to the same exchange as their question. The last exchange has no
// answer if the model must still answer.
func TestConverseWithCalls(t *testing.T) {
	t.Parallel()
	turn := calledTurn()
	answer, question := Said{Role: RoleAssistant, Text: "A"}, Said{Role: RoleUser, Text: "next"}
	for name, tt := range map[string]struct {
		said  []Said
		want  Conversation
		wrong noted
	}{
		"results last": {turn, Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{round("", "a", "b")}}}}, nil},
		"an answer and a question": {
			slices.Concat(turn, []Said{answer, question}),
			Conversation{Message: "next", History: []domain.Exchange{{Message: "q", Rounds: []domain.CallRound{round("", "a", "b")}, Answer: "A"}}},
			nil,
		},
		"a question instead of an answer": {
			slices.Concat(turn, []Said{question}),
			Conversation{Message: "next", History: []domain.Exchange{{Message: "q", Rounds: []domain.CallRound{round("", "a", "b")}}}},
			nil,
		},
		"a second round": {
			slices.Concat(turn, []Said{answer}, []Said{{Field: "call c", Role: RoleAssistant, Calls: round("", "c").Calls}, {Field: "result c", Result: newResult("c", "c")}}),
			Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{round("", "a", "b"), round("A", "c")}}}},
			nil,
		},
		"text between calls and results": {
			slices.Concat(turn[:3], []Said{{Role: RoleAssistant, Text: "Let me look."}, {Role: RoleAssistant, Text: "One moment."}}, turn[3:]),
			Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{round("Let me look.\n\nOne moment.", "a", "b")}}}},
			nil,
		},
		"text after calls without results": {append(slices.Clone(turn[:2]), answer), Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{{Text: "A", Calls: round("", "a").Calls, Results: []domain.ClientResult{{ToolCallID: "a"}}}}}}}, noted{"call a invalid_value"}},
		"a missing result":                 {turn[:4], Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{{Calls: round("", "a", "b").Calls, Results: []domain.ClientResult{{ToolCallID: "a"}, round("", "b").Results[0]}}}}}}, noted{"call a invalid_value"}},
		"a missing result, then a message": {append(slices.Clone(turn[:2]), question), Conversation{Message: "next", History: []domain.Exchange{{Message: "q", Rounds: []domain.CallRound{{Calls: round("", "a").Calls, Results: []domain.ClientResult{{ToolCallID: "a"}}}}}}}, noted{"call a invalid_value"}},
		"a result without its call":        {append(slices.Clone(turn[:1]), turn[3]), Conversation{Message: "q"}, noted{"result b invalid_value"}},
		"a result twice":                   {append(slices.Clone(turn), turn[4]), Conversation{Message: "q", History: []domain.Exchange{{Rounds: []domain.CallRound{round("", "a", "b")}}}}, noted{"result a invalid_value"}},
		"calls without a question":         {append(slices.Clone(turn[1:2]), question), Conversation{Message: "next"}, noted{"call a invalid_value"}},
		"results of another response": {
			[]Said{{Role: RoleTool, Field: "x", Result: newResult("x", "x"), Outside: true}, question},
			Conversation{Message: "next", Results: []Result{{domain.ClientResult{ToolCallID: "x", Output: quote("x")}, "x"}}},
			nil,
		},
		"results of another response and a file": {
			[]Said{{Role: RoleTool, Field: "x", Result: newResult("x", "x"), Outside: true}, {Role: RoleUser, Files: true}},
			Conversation{Message: AttachedText, Results: []Result{{domain.ClientResult{ToolCallID: "x", Output: quote("x")}, "x"}}},
			nil,
		},
		"only results of another response": {
			[]Said{{Role: RoleTool, Field: "x", Result: newResult("x", "x"), Outside: true}},
			Conversation{Results: []Result{{domain.ClientResult{ToolCallID: "x", Output: quote("x")}, "x"}}},
			nil,
		},
	} {
		var found noted
		got := Converse(tt.said, "list", found.wrong)
		if !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(found, tt.wrong) {
			t.Errorf("%s: got %+v, wrong %v", name, got, found)
		}
	}
}

// The calls of the client's functions at the end of a run are streamed once, although several
// attempts may report them. The final response contains the calls again.
func TestCallsOfTheClient(t *testing.T) {
	t.Parallel()
	call := domain.ToolCall{ID: clientCallID, Name: "weather", Status: domain.CallPending, Input: json.RawMessage(`{"city":"Bern"}`), Client: true}
	own := domain.ToolCall{ID: "o", Name: "crm_find", Status: "completed", Input: json.RawMessage(`{}`), Output: json.RawMessage(`1`)}
	run := endedRun("", own, call)
	run.FinishReason = new(domain.FinishToolCalls)

	whole, err := json.Marshal(NewCompletion(&run, View{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"content":null`, `"finish_reason":"tool_calls"`,
		`"tool_calls":[{"id":"` + clientCallID + `","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]`,
	} {
		if !strings.Contains(string(whole), part) {
			t.Errorf("the completion %s lacks %s", whole, part)
		}
	}

	log := []domain.Event{logCreated(t), logStarted(), logTool(t, domain.EventToolStarted, call), logRestarted(), logTool(t, domain.EventToolStarted, call), logEnded(t, run)}
	stream := NewCompletionStream(streamedRun, false, View{})
	var out []byte
	for _, e := range log {
		if out, _, err = stream.Append(out, e); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(string(out), `"tool_calls":[{"index":0,"id":"`+clientCallID+`"`); n != 1 || !strings.Contains(string(out), `"finish_reason":"tool_calls"`) {
		t.Errorf("the chunks have %d calls: %s", n, out)
	}

	response := NewResponse(&run, ResponseEcho{ClientTools: &domain.ClientTools{Choice: "weather", Tools: []domain.ClientTool{{Name: "weather", InputSchema: json.RawMessage(`{}`)}}}})
	shown, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	item := `{"id":"fc_01h455vb4pex5vsknk084sn02q_1","type":"function_call","status":"completed","call_id":"` + clientCallID + `","name":"weather","arguments":"{\"city\":\"Bern\"}"}`
	for _, part := range []string{item + `]`, `"status":"completed"`, `"tool_choice":{"name":"weather","type":"function"}`} {
		if !strings.Contains(string(shown), part) {
			t.Errorf("the response %s lacks %s", shown, part)
		}
	}
	events, ended := encodedResponse(t, log...)
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.kind)
	}
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done",
	}
	if !ended || !slices.Equal(kinds[:6], want) || slices.Contains(kinds, "response.content_part.added") || kinds[len(kinds)-1] != "response.completed" {
		t.Errorf("events %v", kinds)
	}
}

// Text that the model wrote before it called the client's functions comes before these calls, and
// after the calls of the agent's own tools.
func TestTextBeforeCallsOfTheClient(t *testing.T) {
	t.Parallel()
	call := domain.ToolCall{ID: clientCallID, Name: "weather", Status: domain.CallPending, Input: json.RawMessage(`{}`), Client: true}
	own := domain.ToolCall{ID: "o", Name: "crm_find", Status: "completed", Input: json.RawMessage(`{}`), Output: json.RawMessage(`1`)}
	run := endedRun("Let me look.", own, call)
	run.FinishReason = new(domain.FinishToolCalls)
	var kinds []string
	for _, item := range NewResponse(&run, ResponseEcho{}).Output {
		kinds = append(kinds, item.head().Type)
	}
	if !slices.Equal(kinds, []string{typeMCP, typeMessage, typeCall}) {
		t.Errorf("the items are %v", kinds)
	}
}

// A response repeats the field strict of its request's functions. The default is true.
func TestStrictIsRepeated(t *testing.T) {
	t.Parallel()
	var tools []FunctionTool
	list := `[{"type":"function","name":"a"},{"type":"function","name":"b","strict":null},{"type":"function","name":"c","strict":true},` +
		`{"type":"function","name":"d","strict":false}]`
	if err := json.Unmarshal([]byte(list), &tools); err != nil {
		t.Fatal(err)
	}
	request, wrongs := asked(ResponseBody{Model: "m", Input: input("q"), Tools: &tools})
	run := endedRun("done")
	shown := map[string]bool{}
	for _, tool := range NewResponse(&run, request.Echo).Tools {
		shown[tool.Name] = tool.Strict
	}
	if want := map[string]bool{"a": true, "b": true, "c": true, "d": false}; len(wrongs) > 0 || !reflect.DeepEqual(shown, want) {
		t.Errorf("got %v, want %v; wrong: %v", shown, want, wrongs)
	}
}

func TestReadTools(t *testing.T) {
	t.Parallel()
	one := &[]FunctionTool{{Type: "function", Function: &FunctionSpec{Name: new("f")}}}
	for choice, want := range map[string]string{
		`"auto"`: "auto", `"none"`: "none", `"required"`: "required", `null`: "", `{"type":"function","function":{"name":"f"}}`: "f",
		`{"type":"function","function":{"name":"g"}}`: "tool_choice invalid_value", `"any"`: "tool_choice invalid_value", `7`: "tool_choice invalid_value",
		`{"type":"allowed_tools"}`: "tool_choice.type unsupported_parameter",
	} {
		var found noted
		got := readTools(one, new(json.RawMessage(choice)), CompletionFunction, found.wrong)
		if !got.Return || len(found) == 0 && got.Choice != want || len(found) > 0 && found[0] != want {
			t.Errorf("%s: %q, %v", choice, got.Choice, found)
		}
	}
	var found noted
	readTools(&[]FunctionTool{{Type: "web_search"}, {Type: "function"}}, nil, "", found.wrong)
	if !slices.Equal(found, noted{"tools[0].type unsupported_parameter", "tools[1].name required"}) {
		t.Error(found)
	}
}
