package clients

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	parley "parley/sdk/go"
)

// goSDK returns a client for a base URL, with the environment's key.
func (s *testEnv) goSDK(t *testing.T, url string) *parley.Client {
	t.Helper()
	client, err := parley.New(parley.Options{BaseURL: url, Key: s.parley.APIKey})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// must returns a function that takes the results of a call. The function returns the call's value,
// or fails the test if the call returned an error.
func must[T any](t *testing.T) func(value T, err error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// lists reports whether a paginated list contains an entry with the ID want.
func lists[T any](t *testing.T, pages parley.Pages[T], id func(T) string, want string) {
	t.Helper()
	for entry, err := range pages.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if id(entry) == want {
			return
		}
	}
	t.Errorf("the list does not contain %s", want)
}

// TestGoSurface calls every method of the Go SDK against the service.
func TestGoSurface(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	door := s.faults(t).Pass()
	client := s.goSDK(t, door.URL)
	agent := must[*parley.Agent](t)(client.Agents.Create(t.Context(), parley.NewAgent{
		Name: new(t.Name()), SystemPrompt: new("Answer."), AllowedCallers: []string{"user", "system"},
		Tools: &parley.ToolsChange{CodeExecution: &parley.CodeExecutionChange{Enabled: new(true)}},
	}))
	goAgents(t, client, agent)
	goTalks(t, client, agent.ID)
	goRuns(t, client, agent.ID)
	goDecisions(t, client, s.asks(t))
	goKnowledge(t, client)
	goHooks(t, client, agent.ID)
	goNotifications(t, client, agent.ID, s.ledger.url)
	goOrganization(t, client, agent.ID)
	goStructured(t, client)
	if err := client.Agents.Delete(t.Context(), agent.ID); err != nil {
		t.Error(err)
	}
	checkRequested(t, door.Requests())
	if !t.Failed() {
		proves(t, "`parley/sdk/go`", works,
			"answers", "streams", "history", "stop", "citations", "approvals", "errors", "structured", "tools", "images")
	}
}

// TestGoFaults drops the response to a message and interrupts a stream ten times. The message's run
// has one effect, and no text of the stream is lost.
func TestGoFaults(t *testing.T) {
	t.Parallel()
	s := withTestEnv(t)
	books, dropping := s.books(t, nil), s.faults(t).DropFirst()
	run := must[*parley.Run](t)(s.goSDK(t, dropping.URL).Chat.Send(t.Context(), parley.ChatParams{AgentID: books, Message: booksFor("GO-drop")}))
	if requests, effects := s.ledger.of("GO-drop"); run.Status != parley.RunStatusCompleted || requests != 1 || effects != 1 || dropping.Faults() != 1 {
		t.Errorf("%+v: %d requests, %d effects, %d faults", run, requests, effects, dropping.Faults())
	}

	const cuts, seed = 10, 20261128
	cutting, message := s.faults(t).CutStreams(cuts, 400, seed), "slowly "+strings.Repeat("Grüße 👋 ", 60)+"end"
	stub := s.agent(t, map[string]any{"model": "openai/stub"})
	stream, text := s.goSDK(t, cutting.URL).Chat.Stream(parley.ChatParams{AgentID: stub, Message: message}), ""
	for piece, err := range stream.Text(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		text += piece
	}
	if text != "echo: "+message || cutting.Faults() != cuts {
		t.Errorf("%q after %d cuts, seed %d", text, cutting.Faults(), seed)
	}
	if !t.Failed() {
		proves(t, "`parley/sdk/go`", works, "retries", "resume")
	}
}

// goAgents calls the methods for agents and templates.
func goAgents(t *testing.T, client *parley.Client, agent *parley.Agent) {
	t.Helper()
	ctx := t.Context()
	changed := must[*parley.Agent](t)(client.Agents.Update(ctx, agent.ID, parley.AgentChange{Description: new("changed"), Version: &agent.Version}))
	if read := must[*parley.Agent](t)(client.Agents.Get(ctx, agent.ID)); read.Description != "changed" || read.Version != changed.Version {
		t.Errorf("%+v", read)
	}
	lists(t, client.Agents.List(parley.AgentQuery{Q: t.Name()}), func(a parley.Agent) string { return a.ID }, agent.ID)
	lists(t, client.Templates.List(parley.Paging{Limit: 2}), func(a parley.Template) string { return a.ID }, "tpl_support")
	must[*parley.Template](t)(client.Templates.Get(ctx, "tpl_support"))
	checked := must[*parley.AgentCheck](t)(client.Agents.Check(ctx, agent.ID))
	if last := must[*parley.Agent](t)(client.Agents.Get(ctx, agent.ID)).LastCheck; len(checked.Checks) == 0 || !reflect.DeepEqual(last, checked) {
		t.Errorf("%+v, stored %+v", checked, last)
	}
	preview := must[*parley.PromptPreview](t)(client.Agents.Preview(ctx, agent.ID, parley.PromptPreviewRequest{
		SystemPrompt: new("You help {{input.customer}}."), Input: map[string]any{"customer": "Ada"},
	}))
	if preview.SystemPrompt != "You help Ada." {
		t.Errorf("%+v", preview)
	}
	imported := must[*parley.ImportedEndpoints](t)(client.Agents.ImportEndpoints(ctx, agent.ID, parley.OpenAPIImport{Document: map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "Tickets", "version": "1"}, "servers": []any{map[string]any{"url": "https://tickets.example.com/v1"}},
		"paths": map[string]any{"/tickets": map[string]any{"get": map[string]any{
			"operationId": "listTickets", "summary": "Lists tickets", "responses": map[string]any{"200": map[string]any{"description": "The tickets"}},
		}}},
	}}))
	if !slices.Equal(imported.Imported, []string{"listTickets"}) {
		t.Errorf("%+v", imported)
	}
}

// goTalks calls the methods for messages with attached files, and continues the session of the
// messages.
func goTalks(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx, session := t.Context(), "go-talks-"+agentID
	note := must[*parley.UploadedFile](t)(client.Files.Upload(ctx, "note.txt", "", []byte("The canteen opens at noon."), ""))
	seen := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{
		AgentID: agentID, SessionID: session, Message: "Which image and file are attached?",
		Attachments: []parley.NewAttachment{{FileID: &note.ID}, {Data: new(picture(t)), MediaType: new("image/png"), Name: new("dot.png")}},
	}))
	if answer := must[string](t)(seen.Completed()); !strings.Contains(answer, "image/png") || !strings.Contains(answer, "note.txt") || len(seen.Attachments) != 2 {
		t.Errorf("%+v", seen)
	}
	must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{AgentID: agentID, SessionID: session, Message: "My code word is heron."}))
	for id, knows := range map[string]bool{session: true, "": false} {
		run := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{AgentID: agentID, SessionID: id, Message: "What is my code word?"}))
		if answer := must[string](t)(run.Completed()); strings.Contains(answer, "heron") != knows {
			t.Errorf("session %q: %q", id, answer)
		}
	}
}

// goTools uploads a file and executes a tool that the client provides.
func goTools(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx := t.Context()
	if file := must[*parley.UploadedFile](t)(client.Files.Upload(ctx, "notes.md", "", []byte("# Notes"), "")); file.MimeType != "text/markdown" {
		t.Errorf("%+v", file)
	}
	asks := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{
		AgentID: agentID, SessionID: "go-tools-" + agentID, Message: "Call weather with city: Bern",
		Tools: []parley.ClientTool{{Name: "weather", InputSchema: map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
		}}},
	}))
	var results []parley.ToolResult
	for _, call := range asks.RequiredAction.Calls {
		results = append(results, parley.ToolResult{ToolCallID: call.ToolCallID, Output: map[string]any{"degrees": 7}})
	}
	must[*parley.Run](t)(client.Runs.SubmitToolResults(ctx, asks.ID, results))
	if run := must[*parley.Run](t)(client.Runs.Wait(ctx, asks.ID)); run.Message == nil || !strings.Contains(*run.Message, "7") {
		t.Errorf("%+v", run)
	}
}

// goRuns calls the methods for chats, files, runs, sessions and automations.
func goRuns(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx, session := t.Context(), "go-"+agentID
	run := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{
		AgentID: agentID, SessionID: session, Message: "Run this:\n```python\nopen('made.txt', 'w').write('made')\n```",
	}))
	must[string](t)(run.Completed())
	var output parley.CodeOutput
	decode(t, encoded(t, run.ToolCalls[0].Output), &output)
	if file := must[*parley.File](t)(client.Files.Download(ctx, output.Files[0].ID)); string(file.Content) != "made" || file.Name != "made.txt" {
		t.Errorf("%+v", file)
	}
	goTools(t, client, agentID)
	if _, err := client.Sources.Get(ctx, "src_"+strings.Repeat("0", 64)); err == nil {
		t.Error("a source was invented")
	}
	if spans := must[*parley.Timeline](t)(client.Runs.Timeline(ctx, run.ID)).Spans; len(spans) < 2 {
		t.Errorf("%+v", spans)
	}

	var text strings.Builder
	stream := client.Chat.Stream(parley.ChatParams{AgentID: agentID, SessionID: session, Message: "What is 12 * 12?"})
	for piece, err := range stream.Text(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(piece)
	}
	streamed := must[*parley.Run](t)(stream.Run(ctx))
	if answer := must[string](t)(streamed.Completed()); answer != text.String() || !strings.Contains(answer, "144") {
		t.Errorf("%q, streamed %q", answer, text.String())
	}
	if again := must[*parley.Run](t)(client.Runs.Stream(streamed.ID, "").Run(ctx)); again.ID != streamed.ID {
		t.Errorf("%+v", again)
	}
	must[*parley.Run](t)(client.Runs.Get(ctx, run.ID))
	must[*parley.Run](t)(client.Runs.Wait(ctx, run.ID))
	lists(t, client.Runs.List(parley.RunQuery{SessionID: session, Status: parley.RunStatusCompleted}), func(r parley.RunSummary) string { return r.ID }, run.ID)

	id := parley.SessionID{ID: session, AgentID: agentID}
	if got := must[*parley.SessionWithMessages](t)(client.Sessions.Get(ctx, id, parley.Paging{})); len(got.Messages) != 4 {
		t.Errorf("%+v", got)
	}
	lists(t, client.Sessions.List(parley.SessionQuery{}), func(s parley.Session) string { return s.ID }, session)
	if err := client.Sessions.Delete(ctx, id); err != nil {
		t.Error(err)
	}

	triggered := must[*parley.Run](t)(client.Automations.Run(ctx, parley.AutomationParams{Target: agentID, Message: "hello", AutomationID: session}))
	must[string](t)(triggered.Completed())
	must[*parley.Automation](t)(client.Automations.Get(ctx, session))
	lists(t, client.Automations.List(parley.Paging{}), func(a parley.Automation) string { return a.ID }, session)
}

// goDecisions approves and denies calls of runs that wait for a person's decision, and cancels such
// runs.
func goDecisions(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx := t.Context()
	for _, decision := range []parley.RunDecision{parley.Approve, parley.Deny} {
		run := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{AgentID: agentID, Message: booksFor("GO-" + string(decision))}))
		if run.RequiredAction == nil {
			t.Fatalf("%+v", run)
		}
		must[*parley.Run](t)(client.Runs.Act(ctx, run.ID, decision, *run.RequiredAction.ToolCallID))
		if run = must[*parley.Run](t)(client.Runs.Wait(ctx, run.ID)); run.Status != parley.RunStatusCompleted {
			t.Errorf("%+v", run)
		}
	}
	run := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{AgentID: agentID, Message: booksFor("GO-cancel")}))
	if run = must[*parley.Run](t)(client.Runs.Cancel(ctx, run.ID)); run.Status != parley.RunStatusCancelled {
		t.Errorf("%+v", run)
	}
}

// goKnowledge calls the methods for documents.
func goKnowledge(t *testing.T, client *parley.Client) {
	t.Helper()
	ctx, name, text := t.Context(), t.Name()+".md", "# "+t.Name()+"\n\nTickets are counted."
	document := must[*parley.Document](t)(client.Knowledge.Upload(ctx, name, strings.NewReader(text), map[string]string{"team": "go"}))
	id := document.ID
	must[*parley.Document](t)(client.Knowledge.Wait(ctx, id))
	if added := must[*parley.Document](t)(client.Knowledge.Add(ctx, parley.NewDocument{Name: &name, Content: &text})); added.ID != id {
		t.Errorf("the same text yields the document %s, want %s", added.ID, id)
	}
	if file := must[*parley.File](t)(client.Knowledge.Download(ctx, id)); string(file.Content) != text {
		t.Errorf("%+v", file)
	}
	if _, err := client.Knowledge.Page(ctx, id, 1); err == nil || !strings.Contains(err.Error(), "has no pages") {
		t.Errorf("the page of a text: %v", err)
	}
	must[*parley.DocumentPassages](t)(client.Knowledge.Passages(ctx, id, 0))
	lists(t, client.Knowledge.List(parley.DocumentQuery{Q: name}), func(d parley.Document) string { return d.ID }, id)
	found := must[*parley.FoundList](t)(client.Knowledge.Search(ctx, parley.SearchQuery{
		Query: "what is counted", DocumentIDs: []string{id}, Metadata: map[string]string{"team": "go"},
	}))
	if len(found.Data) == 0 {
		t.Error("found nothing")
	}
	asking := must[*parley.Agent](t)(client.Agents.Create(ctx, parley.NewAgent{
		Name: new("asks"), SystemPrompt: new("Answer."),
		Tools: &parley.ToolsChange{Knowledge: &parley.ToolsChangeKnowledge{Enabled: new(true), DocumentIDs: []string{id}}},
	}))
	run := must[*parley.Run](t)(client.Chat.Send(ctx, parley.ChatParams{AgentID: asking.ID, Message: "What is counted?"}))
	if len(run.Citations) == 0 || *run.Citations[0].DocumentID != id {
		t.Errorf("%+v", run)
	}
	must[*parley.Document](t)(client.Knowledge.Update(ctx, id, parley.DocumentChange{MimeType: new("text/markdown")}))
	must[*parley.Document](t)(client.Knowledge.Replace(ctx, id, name, strings.NewReader(text+" Twice.")))
	must[*parley.Document](t)(client.Knowledge.Wait(ctx, id))
	must[*parley.Document](t)(client.Knowledge.Retry(ctx, id))
	must[*parley.Document](t)(client.Knowledge.Wait(ctx, id))
	if err := client.Knowledge.Delete(ctx, id); err != nil {
		t.Error(err)
	}
}

// goHooks calls the methods for hooks and their deliveries.
func goHooks(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx := t.Context()
	hook := must[*parley.Hook](t)(client.Hooks.Create(ctx, parley.NewHook{
		Name: t.Name(), AgentID: agentID, Source: parley.HookSourceGithub, MessageTemplate: "An issue was {{action}}.",
	}))
	must[*parley.Hook](t)(client.Hooks.Get(ctx, hook.ID))
	lists(t, client.Hooks.List(parley.Paging{}), func(h parley.Hook) string { return h.ID }, hook.ID)
	must[*parley.Hook](t)(client.Hooks.Update(ctx, hook.ID, parley.HookChange{Name: new("other")}))
	must[*parley.Hook](t)(client.Hooks.RotateSecret(ctx, hook.ID, parley.HookRotation{KeepSeconds: new(int64(60))}))
	test := parley.HookTest{Event: new("issues"), Payload: map[string]any{"action": "opened"}}
	taken := must[*parley.TakenDelivery](t)(client.Hooks.Test(ctx, hook.ID, test))
	must[*parley.DeliveryWithBody](t)(client.Hooks.GetDelivery(ctx, hook.ID, taken.DeliveryID))
	again := must[*parley.TakenDelivery](t)(client.Hooks.Redeliver(ctx, hook.ID, taken.DeliveryID))
	lists(t, client.Hooks.ListDeliveries(parley.DeliveryQuery{HookID: hook.ID}), func(d parley.Delivery) string { return d.ID }, again.DeliveryID)
	if err := client.Hooks.Delete(ctx, hook.ID); err != nil {
		t.Error(err)
	}
}

// goNotifications calls the methods for notification endpoints.
func goNotifications(t *testing.T, client *parley.Client, agentID, url string) {
	t.Helper()
	ctx := t.Context()
	endpoint := must[*parley.NotificationEndpoint](t)(client.Notifications.Create(ctx, parley.NewNotificationEndpoint{
		URL: url, Events: []parley.NotificationEvent{parley.NotificationEventRunFailed}, AgentID: &agentID,
	}))
	must[*parley.NotificationEndpoint](t)(client.Notifications.Get(ctx, endpoint.ID))
	lists(t, client.Notifications.List(parley.Paging{}), func(e parley.NotificationEndpoint) string { return e.ID }, endpoint.ID)
	must[*parley.NotificationEndpoint](t)(client.Notifications.Update(ctx, endpoint.ID, parley.NotificationEndpointChange{Description: new("x")}))
	must[*parley.NotificationEndpoint](t)(client.Notifications.RotateSecret(ctx, endpoint.ID))
	message := must[*parley.NotificationMessage](t)(client.Notifications.Test(ctx, endpoint.ID))
	must[*parley.NotificationMessage](t)(client.Notifications.GetMessage(ctx, message.ID))
	messages := client.Notifications.ListMessages(parley.NotificationQuery{EndpointID: endpoint.ID})
	lists(t, messages, func(m parley.NotificationMessage) string { return m.ID }, message.ID)
	must[*parley.NotificationMessage](t)(client.Notifications.Resend(ctx, message.ID))
	if err := client.Notifications.Delete(ctx, endpoint.ID); err != nil {
		t.Error(err)
	}
}

// goOrganization calls the methods for keys, budgets, usage and limits.
func goOrganization(t *testing.T, client *parley.Client, agentID string) {
	t.Helper()
	ctx := t.Context()
	made := must[*parley.KeyWithSecret](t)(client.Keys.Create(ctx, parley.NewKey{Name: t.Name(), Scope: parley.KeyScopeOrganization}))
	must[*parley.Key](t)(client.Keys.Get(ctx, made.ID))
	rotated := must[*parley.KeyWithSecret](t)(client.Keys.Rotate(ctx, made.ID, parley.KeyRotation{OverlapSeconds: new(int64(0))}))
	lists(t, client.Keys.List(parley.Paging{Limit: 100}), func(k parley.Key) string { return k.ID }, rotated.ID)
	if err := client.Keys.Delete(ctx, rotated.ID); err != nil {
		t.Error(err)
	}

	budget := must[*parley.Budget](t)(client.Budgets.Create(ctx, parley.NewBudget{
		Scope: parley.BudgetScopeAgent, SubjectID: &agentID, Metric: parley.BudgetMetricTokens, Period: parley.BudgetPeriodMonth, Limit: 1_000_000_000,
	}))
	must[*parley.Budget](t)(client.Budgets.Get(ctx, budget.ID))
	lists(t, client.Budgets.List(parley.Paging{}), func(b parley.Budget) string { return b.ID }, budget.ID)
	if budget = must[*parley.Budget](t)(client.Budgets.Update(ctx, budget.ID, 2_000_000_000)); budget.Limit != 2_000_000_000 {
		t.Errorf("%+v", budget)
	}
	if err := client.Budgets.Delete(ctx, budget.ID); err != nil {
		t.Error(err)
	}

	must[*parley.UsageReport](t)(client.Usage.Get(ctx, parley.UsageQuery{Days: 2, AgentID: agentID, By: "key"}))
	if limits := must[*parley.Limits](t)(client.Usage.Limits(ctx)); len(limits.Rates) == 0 {
		t.Errorf("%+v", limits)
	}
}
