package clients

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

const openAIGo = "`openai-go`"

// goClient returns OpenAI's Go client for a base URL.
func (s *testEnv) goClient(base string, more ...option.RequestOption) openai.Client {
	options := []option.RequestOption{option.WithAPIKey(s.parley.APIKey), option.WithBaseURL(base + "/v1/"), option.WithMaxRetries(2)}
	return openai.NewClient(append(options, more...)...)
}

func chatFor(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func responseFor(model, text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

// read reads a stream to its end and returns its events and error.
func read[T any](stream *ssestream.Stream[T]) (events []T, err error) {
	defer stream.Close()
	for stream.Next() {
		events = append(events, stream.Current())
	}
	return events, stream.Err()
}

// refusal returns the service's error response to a failed call.
func refusal(t *testing.T, err error) *openai.Error {
	t.Helper()
	refused, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	return refused
}

// TestOpenAIGoModels lists and reads models.
func TestOpenAIGoModels(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	echo := s.agent(t, map[string]any{"model": "offline/echo"})
	list := client.Models.ListAutoPaging(t.Context())
	var found bool
	for list.Next() {
		found = found || list.Current().ID == echo
	}

	if list.Err() != nil || !found {
		t.Errorf("models = %v, error %v", found, list.Err())
	}

	model, err := client.Models.Get(t.Context(), echo)
	if err != nil || model.ID != echo || model.OwnedBy != s.parley.OrganizationID || model.Created == 0 {
		t.Errorf("%+v, %v", model, err)
	}
}

// TestOpenAIGoChat requests completions, whole and streamed.
func TestOpenAIGoChat(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	echo := s.agent(t, map[string]any{"model": "offline/echo"})
	whole, err := client.Chat.Completions.New(t.Context(), chatFor(echo, "Hello."))
	if err != nil {
		t.Fatal(err)
	}
	if c := whole.Choices[0]; c.Message.Content != "echo: Hello." || c.FinishReason != "stop" || whole.Model != echo || whole.Usage.TotalTokens == 0 {
		t.Errorf("%s", whole.RawJSON())
	}
	if names := whole.JSON.ExtraFields["parley"].Raw(); !strings.Contains(names, `"runId":"run_`) {
		t.Errorf("headers without the run's ID: %s", names)
	}

	asked := chatFor(echo, "One two three.")
	asked.StreamOptions.IncludeUsage = openai.Bool(true)
	var all openai.ChatCompletionAccumulator
	chunks, err := read(client.Chat.Completions.NewStreaming(t.Context(), asked))
	for _, chunk := range chunks {
		if !all.AddChunk(chunk) {
			t.Errorf("unexpected chunk: %s", chunk.RawJSON())
		}
	}

	if err != nil || all.Choices[0].Message.Content != "echo: One two three." || all.Usage.TotalTokens == 0 {
		t.Errorf("%+v, %v", all.ChatCompletion, err)
	}
	if !t.Failed() {
		proves(t, openAIGo, works, "answers", "streams")
	}
}

// TestOpenAIGoResponses requests responses in four ways: whole, streamed, in the background, and as
// continuations of earlier responses.
func TestOpenAIGoResponses(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	echo := s.agent(t, map[string]any{"model": "offline/echo"})
	first, err := client.Responses.New(t.Context(), responseFor(echo, "Hello."))
	if err != nil {
		t.Fatal(err)
	}
	if first.OutputText() != "echo: Hello." || first.Status != responses.ResponseStatusCompleted || first.Usage.TotalTokens == 0 {
		t.Errorf("%s", first.RawJSON())
	}

	next := responseFor(echo, "Again.")
	next.PreviousResponseID = openai.String(first.ID)
	events, err := read(client.Responses.NewStreaming(t.Context(), next))
	if err != nil || len(events) < 8 {
		t.Fatalf("%d events, %v", len(events), err)
	}

	last := events[len(events)-1].AsResponseCompleted().Response
	if last.OutputText() != "echo: Again." || last.PreviousResponseID != first.ID || !slices.IsSortedFunc(events, bySequence) {
		t.Errorf("%s", last.RawJSON())
	}
	stored := must[*responses.Response](t)(client.Responses.New(t.Context(), responseFor(s.parley.AgentID, "My code word is heron.")))
	question := responseFor(s.parley.AgentID, "What is my code word?")
	question.PreviousResponseID = openai.String(stored.ID)
	if answer := must[*responses.Response](t)(client.Responses.New(t.Context(), question)).OutputText(); !strings.Contains(answer, "heron") {
		t.Errorf("the second answer is %q", answer)
	}
	if !t.Failed() {
		proves(t, openAIGo, works, "history")
	}

	behind := responseFor(echo, "Later.")
	behind.Background = openai.Bool(true)
	begun, err := client.Responses.New(t.Context(), behind)
	if err != nil || !begun.Background {
		t.Fatalf("%+v, %v", begun, err)
	}

	eventually(t, 2*time.Minute, "the response is complete", func() bool {
		now, err := client.Responses.Get(t.Context(), begun.ID, responses.ResponseGetParams{})
		return err == nil && now.Status == responses.ResponseStatusCompleted && now.OutputText() == "echo: Later."
	})
}

func bySequence(a, b responses.ResponseStreamEventUnion) int {
	return int(a.SequenceNumber - b.SequenceNumber)
}

// TestOpenAIGoItems reads the tool calls and citations of responses with the client's types.
func TestOpenAIGoItems(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	computed, err := client.Responses.New(t.Context(), responseFor(s.parley.AgentID, "What is 19 * 23? Compute it with Python."))
	if err != nil {
		t.Fatal(err)
	}

	code := computed.Output[0].AsCodeInterpreterCall()
	if code.Status != "completed" || !strings.Contains(code.Code, "19 * 23") || len(code.Outputs) != 1 || code.Outputs[0].AsLogs().Logs != "437\n" {
		t.Errorf("%s", computed.Output[0].RawJSON())
	}

	booked, err := client.Responses.New(t.Context(), responseFor(s.books(t, nil), booksFor("OPENAI-GO-1")))
	if err != nil {
		t.Fatal(err)
	}
	if call := booked.Output[0].AsMcpCall(); call.Status != "completed" || call.Name != "bookBill" || !strings.Contains(call.Output, "booked") {
		t.Errorf("%s", booked.Output[0].RawJSON())
	}

	agents := openAIAgents(t, s)
	events, err := read(client.Responses.NewStreaming(t.Context(), responseFor(agents["KNOWS_ID"], agents["QUESTION"])))
	if err != nil || len(events) == 0 {
		t.Fatalf("%d events, %v", len(events), err)
	}

	answered := events[len(events)-1].AsResponseCompleted().Response
	message := answered.Output[len(answered.Output)-1].AsMessage()
	if found := answered.Output[0].AsFileSearchCall(); found.Status != "completed" || len(found.Queries) != 1 {
		t.Errorf("%s", answered.Output[0].RawJSON())
	}

	cited := message.Content[0].AsOutputText().Annotations
	if len(cited) == 0 || cited[0].AsFileCitation().FileID != agents["DOCUMENT_ID"] {
		t.Errorf("%s", message.RawJSON())
	}
	if !t.Failed() {
		proves(t, openAIGo, works, "citations")
	}
}

// TestOpenAIGoErrors reads errors with the client's error type. The client does not retry requests
// that would fail again.
func TestOpenAIGoErrors(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	door := s.faults(t).Pass()
	client := s.goClient(door.URL)
	stub := s.agent(t, map[string]any{"model": "openai/stub"})
	_, unknown := client.Chat.Completions.New(t.Context(), chatFor("gpt-5", "Hello."))
	_, previous := client.Responses.New(t.Context(), responses.ResponseNewParams{
		Model: stub, PreviousResponseID: openai.String("resp_x"), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello.")},
	})

	_, langChainError := client.Chat.Completions.New(t.Context(), chatFor(stub, "fault 400: no"))
	stranger := s.goClient(door.URL, option.WithAPIKey("ak_none"))
	_, key := stranger.Responses.New(t.Context(), responseFor(stub, "Hello."))
	for _, tc := range []struct {
		err               error
		status            int
		kind, code, param string
	}{
		{unknown, http.StatusNotFound, "invalid_request_error", "model_not_found", "model"},
		{previous, http.StatusBadRequest, "invalid_request_error", "previous_response_not_found", "previous_response_id"},
		{langChainError, http.StatusBadRequest, "run_error", "", ""},
		{key, http.StatusUnauthorized, "authentication_error", "invalid_api_key", ""},
	} {
		got := refusal(t, tc.err)
		if got.StatusCode != tc.status || got.Type != tc.kind || got.Param != tc.param || tc.code != "" && got.Code != tc.code || got.Message == "" {
			t.Errorf("%d %s %s %s: %s", got.StatusCode, got.Type, got.Code, got.Param, got.Message)
		}
	}

	if _, err := read(client.Chat.Completions.NewStreaming(t.Context(), chatFor(stub, "fault 400: no"))); err == nil || !strings.Contains(err.Error(), "run_error") {
		t.Errorf("error at the end of a failed run's stream = %v", err)
	}

	_, failed := client.Responses.New(t.Context(), responseFor(stub, "fault 400: no"))
	if got := refusal(t, failed); got.Type != "run_error" || got.Code != refusal(t, langChainError).Code {
		t.Errorf("%+v", got)
	}
	if sent := door.Requests(); len(sent) != 6 {
		t.Errorf("requests = %d, want one for each of 6 calls: %+v", len(sent), sent)
	}
	if !t.Failed() {
		proves(t, openAIGo, works, "errors")
	}
}

// TestOpenAIGoRetries breaks the connection during a request. The client's retry gets the run that
// the first request started.
func TestOpenAIGoRetries(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	door := s.faults(t).DropFirst()
	client, books := s.goClient(door.URL), s.books(t, nil)
	keyed := func(name string) option.RequestOption { return option.WithHeader("Idempotency-Key", name) }
	chat, err := client.Chat.Completions.New(t.Context(), chatFor(books, booksFor("OPENAI-GO-2")), keyed("openai-go-2"))
	if err != nil || !strings.Contains(chat.Choices[0].Message.Content, "booked") {
		t.Errorf("%+v, %v", chat, err)
	}

	response, err := client.Responses.New(t.Context(), responseFor(books, booksFor("OPENAI-GO-3")), keyed("openai-go-3"))
	if err != nil || response.Status != responses.ResponseStatusCompleted {
		t.Errorf("%+v, %v", response, err)
	}

	checkDropped(t, s, door, map[string]int{"/v1/chat/completions": 1, "/v1/responses": 1}, "OPENAI-GO-2", "OPENAI-GO-3")
	if !t.Failed() {
		proves(t, openAIGo, works, "retries")
	}
}

// TestOpenAIGoLimits sends requests that use features that agents do not support. Each error
// contains the reason.
func TestOpenAIGoLimits(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	_, approval := client.Responses.New(t.Context(), responseFor(s.asks(t), booksFor("OPENAI-GO-4")))
	for _, tc := range []struct {
		err         error
		code, param string
	}{
		{approval, "requires_action", ""},
	} {
		if got := refusal(t, tc.err); got.StatusCode != http.StatusBadRequest || got.Code != tc.code || got.Param != tc.param || got.Message == "" {
			t.Errorf("%s: %+v", got.RawJSON(), tc)
		}
	}
	if !t.Failed() {
		proves(t, openAIGo, refused, "approvals")
		proves(t, openAIGo, notOffered, "resume") // the client sends the position in the body of a GET request
	}
}

// TestOpenAIGoTools lets an agent call a function of the client, and sends the function's result
// back.
func TestOpenAIGoTools(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client, agent := s.goClient(s.parley.BaseURL), s.agent(t, map[string]any{"model": "offline"})
	request := responseFor(agent, "Call weather with city: Bern")
	request.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
	}, false)}
	first := must[*responses.Response](t)(client.Responses.New(t.Context(), request))
	call := first.Output[len(first.Output)-1].AsFunctionCall()
	if call.Name != "weather" || call.Arguments != `{"city":"Bern"}` {
		t.Fatalf("the response is %s", first.RawJSON())
	}

	request.PreviousResponseID = openai.String(first.ID)
	output := responses.ResponseInputItemParamOfFunctionCallOutput(`{"degrees":7}`)
	output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	request.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{output}}
	last := must[*responses.Response](t)(client.Responses.New(t.Context(), request))
	if !strings.Contains(last.OutputText(), `"degrees":7`) {
		t.Fatalf("the response is %s", last.RawJSON())
	}
	proves(t, openAIGo, works, "tools")
}

// TestOpenAIGoImages sends an image in a message.
func TestOpenAIGoImages(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	request := openai.ChatCompletionNewParams{
		Model: s.agent(t, map[string]any{"model": "offline"}),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart("Which image is attached?"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + picture(t)}),
		})},
	}
	got := must[*openai.ChatCompletion](t)(client.Chat.Completions.New(t.Context(), request))
	if !strings.Contains(got.Choices[0].Message.Content, "image/png") {
		t.Fatalf("%s", got.RawJSON())
	}
	proves(t, openAIGo, works, "images")
}

// TestOpenAIGoStructured requests answers that match a schema. The request fails if the model's
// answer does not match.
func TestOpenAIGoStructured(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client, message := s.goClient(s.parley.BaseURL), "a lamp of 7 watts"
	schema := map[string]any{
		"type": "object", "properties": map[string]any{"watts": map[string]any{"type": "integer"}}, "required": []string{"watts"},
		"additionalProperties": false,
	}
	lamps, echo := s.agent(t, map[string]any{"model": "offline"}), s.agent(t, map[string]any{"model": "offline/echo"})
	chat, response := chatFor(lamps, message), responseFor(lamps, message)
	chat.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "lamp", Schema: schema, Strict: openai.Bool(true)},
	}
	response.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("lamp", schema)
	const want = `{"watts":7}`
	if got := must[*openai.ChatCompletion](t)(client.Chat.Completions.New(t.Context(), chat)); got.Choices[0].Message.Content != want {
		t.Errorf("%s", got.RawJSON())
	}
	if got := must[*responses.Response](t)(client.Responses.New(t.Context(), response)); got.OutputText() != want || got.Text.Format.Name != "lamp" {
		t.Errorf("%s", got.RawJSON())
	}

	chat.Model, response.Model = echo, echo
	_, ofChat := client.Chat.Completions.New(t.Context(), chat)
	_, ofResponse := client.Responses.New(t.Context(), response)
	for _, err := range []error{ofChat, ofResponse} {
		if got := refusal(t, err); got.StatusCode != http.StatusBadRequest || got.Code != "output_invalid" {
			t.Errorf("%s", got.RawJSON())
		}
	}
	if !t.Failed() {
		proves(t, openAIGo, works, "structured")
	}
}

// TestOpenAIGoStop closes a stream, which cancels the stream's run.
func TestOpenAIGoStop(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	client := s.goClient(s.parley.BaseURL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stub := s.agent(t, map[string]any{"model": "openai/stub"})
	stream := client.Responses.NewStreaming(ctx, responseFor(stub, "slowly "+longMessage))
	for stream.Next() {
		if stream.Current().Type == "response.output_text.delta" {
			break
		}
	}
	cancel()
	_ = stream.Close() // an error does not matter, because the stream was cancelled

	var runs struct{ Data []struct{ Status string } }
	eventually(t, 20*time.Second, "the run is cancelled", func() bool {
		s.call(t, http.MethodGet, "/api/runs?agentId="+stub, nil, &runs)
		return len(runs.Data) == 1 && runs.Data[0].Status == "cancelled"
	})
	proves(t, openAIGo, works, "stop")
}
