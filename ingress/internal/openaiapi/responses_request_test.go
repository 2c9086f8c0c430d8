package openaiapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/shared/domain"
)

// asked parses a request. It also returns the validation errors in the form "field code".
func asked(body ResponseBody) (ask ResponseAsk, wrongs []string) {
	ask = ParseResponse(&body, func(field, code, message string, args ...any) {
		wrongs = append(wrongs, field+" "+code)
		if strings.Contains(fmt.Sprintf(message, args...), "%!") {
			wrongs = append(wrongs, "message "+message)
		}
	})
	return ask, wrongs
}

func input(text string) *ResponseInput { return &ResponseInput{Text: text} }

func itemsFor(items ...InputItem) *ResponseInput { return &ResponseInput{Items: items} }

func says(role, text string) InputItem {
	return InputItem{Role: &role, Content: &Content{Text: text}}
}

func ofType(kind string) InputItem { return InputItem{Type: &kind} }

func raw(text string) *json.RawMessage { return new(json.RawMessage(text)) }

func TestValidRequestsForResponses(t *testing.T) {
	t.Parallel()
	message := "message"
	echoed := InputItem{Type: &message, Role: new("assistant"), Content: &Content{Parts: []Part{{Type: "output_text", Text: new("Hi.")}}}}
	for name, tc := range map[string]struct {
		body ResponseBody
		want ResponseAsk
	}{
		"a text": {
			ResponseBody{Model: "ag_1", Input: input("Tea?")},
			ResponseAsk{Model: "ag_1", Conversation: Conversation{Message: "Tea?"}},
		},
		"with instructions of both kinds": {
			ResponseBody{Model: "ag_1", Instructions: new("Be kind."), Input: itemsFor(says("developer", "Be brief."), says("user", "Tea?"))},
			ResponseAsk{
				Model: "ag_1", Conversation: Conversation{Message: "Tea?", Instructions: "Be kind.\n\nBe brief."},
				Echo: ResponseEcho{Instructions: "Be kind."},
			},
		},
		"a whole conversation": {
			ResponseBody{Model: "ag_1", Stream: new(true), Input: itemsFor(
				says("user", "Hello."), ofType("reasoning"), ofType("web_search_call"), ofType("mcp_call"), echoed, says("user", "Tea?"))},
			ResponseAsk{
				Model: "ag_1", Stream: true,
				Conversation: Conversation{Message: "Tea?", History: []domain.Exchange{{Message: "Hello.", Answer: "Hi."}}},
			},
		},
		"in a conversation": {
			ResponseBody{Conversation: &ConversationName{Name: "c"}, Metadata: &map[string]string{"session_id": "m"}, Input: itemsFor(
				says("user", "Hello."), echoed, says("user", "Tea?"))},
			ResponseAsk{
				SessionID: "c", Conversation: Conversation{Message: "Tea?", History: []domain.Exchange{{Message: "Hello.", Answer: "Hi."}}},
				Echo: ResponseEcho{Metadata: map[string]string{"session_id": "m"}},
			},
		},
		"with a conversation object": {
			ResponseBody{Conversation: &ConversationName{Object: struct {
				ID string `json:"id" required:"true"`
			}{"c"}}, Input: input("Tea?")},
			ResponseAsk{SessionID: "c", Conversation: Conversation{Message: "Tea?"}},
		},
		"after a response": {
			ResponseBody{Previous: new(ResponseID(streamedRun)), Background: new(true), Input: input("Tea?")},
			ResponseAsk{
				Previous: streamedRun, Conversation: Conversation{Message: "Tea?"},
				Echo: ResponseEcho{Background: true, PreviousResponseID: ResponseID(streamedRun)},
			},
		},
		"in the session that the metadata name": {
			ResponseBody{Metadata: &map[string]string{"session_id": "m"}, Input: input("Tea?")},
			ResponseAsk{
				SessionID: "m", WholeHistory: true, Conversation: Conversation{Message: "Tea?"},
				Echo: ResponseEcho{Metadata: map[string]string{"session_id": "m"}},
			},
		},
		"with options without effect": {
			ResponseBody{
				Tools: &[]FunctionTool{}, ToolChoice: raw(`"auto"`), TopLogprobs: new(int64(0)), Input: input("Tea?"),
				Text: &TextOptions{Format: &TextFormat{Type: "text"}},
			},
			ResponseAsk{Conversation: Conversation{Message: "Tea?"}},
		},
	} {
		got, wrongs := asked(tc.body)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tc.want) || len(wrongs) > 0 {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, wrongs, got, tc.want)
		}
	}
}

func TestInvalidRequestsForResponses(t *testing.T) {
	t.Parallel()
	image := InputItem{Role: new("user"), Content: &Content{Parts: []Part{{Type: "input_audio"}, {Type: "input_text"}}}}
	for name, tc := range map[string]struct {
		body ResponseBody
		want []string
	}{
		"nothing said":                  {ResponseBody{}, []string{"input invalid_value"}},
		"an empty text":                 {ResponseBody{Input: input("")}, []string{"input invalid_value"}},
		"no items":                      {ResponseBody{Input: &ResponseInput{Items: []InputItem{}}}, []string{"input invalid_value"}},
		"an answer at the end":          {ResponseBody{Input: itemsFor(says("user", "a"), says("assistant", "b"))}, []string{"input invalid_value"}},
		"in the background, not stored": {ResponseBody{Input: input("a"), Background: new(true), Store: new(false)}, []string{"store invalid_value"}},
		"items of another kind": {
			ResponseBody{Input: itemsFor(
				ofType("function_call"), ofType("function_call_output"), ofType("item_reference"), InputItem{}, ofType("message"), says("tool", "x"),
				image, says("user", "a"))},
			[]string{
				"input[0].call_id required", "input[1].call_id required", "input[2].id item_not_found",
				"input[3].type unsupported_parameter", "input[4].role required", "input[5].role invalid_value",
				"input[6].content[0].type unsupported_parameter", "input[6].content[1].text required",
			},
		},
		"unsupported options": {
			ResponseBody{
				Input: input("a"), Tools: &[]FunctionTool{{Type: "web_search"}}, ToolChoice: raw(`"required"`), Prompt: raw(`{"id":"p"}`),
				TopLogprobs: new(int64(3)), Text: &TextOptions{Format: &TextFormat{Type: "json_schema"}},
			},
			[]string{"top_logprobs unsupported_parameter", "prompt unsupported_parameter", "tools[0].type unsupported_parameter", "text.format.schema required"},
		},
		"a choice among no tools": {ResponseBody{Input: input("a"), ToolChoice: raw(`"required"`)}, []string{"tool_choice invalid_value"}},
		"a session without name":  {ResponseBody{Input: input("a"), Conversation: &ConversationName{}}, []string{"conversation too_short"}},
		"too long a name": {
			ResponseBody{Input: input("a"), Conversation: &ConversationName{Name: strings.Repeat("u", 129)}}, []string{"conversation too_long"},
		},
		"no such response": {
			ResponseBody{Input: input("a"), Previous: new("resp_1")}, []string{"previous_response_id previous_response_not_found"},
		},
		"several errors": {
			ResponseBody{Metadata: &map[string]string{"session_id": ""}, Prompt: raw(`1`)},
			[]string{"metadata.session_id too_short", "prompt unsupported_parameter", "input invalid_value"},
		},
	} {
		if _, wrongs := asked(tc.body); !slices.Equal(wrongs, tc.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, wrongs, tc.want)
		}
	}
}

// An input item may refer to an item of an earlier response by id. Parsing the request returns the
// run that contains the earlier item. The text of that item is read later.
func TestReferencesToItems(t *testing.T) {
	t.Parallel()
	suffix := strings.TrimPrefix(streamedRun, "run_")
	refer := func(itemID string) InputItem { return InputItem{Type: new("item_reference"), ID: &itemID} }
	ask := func(items ...InputItem) (ResponseAsk, []string) {
		return asked(ResponseBody{Input: itemsFor(items...)})
	}
	got, wrongs := ask(says("developer", "Be brief."), says("user", "one"), refer("ci_"+suffix+"_call_1"), refer("msg_"+suffix), says("user", "two"),
		InputItem{ID: new("msg_" + suffix)}, says("user", "three"))
	want := []Reference{{"input[2].id", streamedRun}, {"input[3].id", streamedRun}, {"input[5].id", streamedRun}}
	if len(wrongs) > 0 || !slices.Equal(got.References, want) {
		t.Errorf("%v, references %v", wrongs, got.References)
	}
	answers := 0
	got.Resolve(func(runID string) (string, bool) {
		answers++
		return fmt.Sprintf("%s %d", runID, answers), answers == 2
	})
	resolved := Conversation{Message: "three", Instructions: "Be brief.", History: []domain.Exchange{{Message: "two", Answer: streamedRun + " 2"}}}
	if !reflect.DeepEqual(got.Conversation, resolved) {
		t.Errorf("resolved %+v", got.Conversation)
	}
	for _, itemID := range []string{"", "msg_1", "msg_" + suffix + "_1", "ci_" + suffix, "ci_" + suffix + "_", "rs_" + suffix, "ws_1_call", suffix} {
		if _, wrongs := ask(refer(itemID), says("user", "m")); !slices.Equal(wrongs, []string{"input[0].id item_not_found"}) {
			t.Errorf("%q: %v", itemID, wrongs)
		}
	}
}
