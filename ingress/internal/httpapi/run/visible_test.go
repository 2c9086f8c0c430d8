package run

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
)

// Events and fields from later versions are hidden from visitors until the code lists them as
// visible.
func TestVisitorsSeeOnlyListedFields(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for kind, c := range map[string]struct{ data, want string }{
		"later.event":             {`{"text":"canary"}`, `{}`},
		domain.EventToolStarted:   {`{"later":"canary","toolCall":{"id":"c","name":"n","later":"canary","input":"canary"}}`, `{"toolCall":{"id":"c","name":"n","status":"","input":{},"output":null,"durationMs":0}}`},
		domain.EventToolCompleted: {`{"toolCall":"canary"}`, `{}`},
		domain.EventMessageDelta:  {`{"text":"a<b"}`, `{"text":"a<b"}`},
	} {
		original := []byte(c.data)
		if got := eventForVisitor(domain.Event{Type: kind, Data: original}); string(got.Data) != c.want || got.Type != kind || string(original) != c.data {
			t.Errorf("%s: %s", kind, got.Data)
		}
	}
	run, err := runForVisitor([]byte(`{"id":"run_1","later":"canary","toolCalls":[{"later":"canary"}],"settings":{"reasoningEffort":"canary"},"error":{"code":"c","message":"canary","later":"canary"}}`))
	if err != nil || bytes.Contains(run, []byte(canary)) {
		t.Errorf("%s, %v", run, err)
	}
	if run, err := runForVisitor([]byte(`{"toolCalls":"canary"}`)); err == nil || run != nil {
		t.Errorf("unreadable data is shown: %s", run)
	}
}

// TestVisitorsFieldsAreDecided fails if a run has a field that is not in the list of this test. If
// visitors must not see a new field, remove the field in runForVisitor before you add its name to
// the list.
func TestVisitorsFieldsAreDecided(t *testing.T) {
	t.Parallel()
	const decided = "id status agentId templateId sessionId trigger attachments message output citations toolCalls usage error omittedTurns " +
		"requiredAction citationsRemoved finishReason agentVersion previousRunId warnings appendSources settings attempts idempotencyKey createdAt startedAt finishedAt expiresAt"
	known := map[string]bool{}
	for name := range strings.FieldsSeq(decided) {
		known[name] = true
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[domain.Run]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && !known[name] {
			t.Errorf("may visitors of a widget see the field %s?", name)
		}
	}
}
