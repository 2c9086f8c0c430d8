package openaiapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/shared/domain"
)

// TestIncompleteAnswersSaySo checks that an answer that ended early is marked as such, with and
// without a stream.
func TestIncompleteAnswersSaySo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason                        *domain.FinishReason
		finish, status, details, last string
		completedAt                   string
		itemStatus                    string
	}{
		{nil, "stop", "completed", "null", "response.completed", "1767323049", "completed"}, // a run that an earlier release has stored
		{new(domain.FinishStop), "stop", "completed", "null", "response.completed", "1767323049", "completed"},
		{new(domain.FinishLength), "length", "incomplete", `{"reason":"max_output_tokens"}`, "response.incomplete", "null", "incomplete"},
		{new(domain.FinishContentFilter), "content_filter", "incomplete", `{"reason":"content_filter"}`, "response.incomplete", "null", "incomplete"},
	} {
		run := endedRun("Tea is")
		run.FinishReason = c.reason

		if got := NewCompletion(&run, View{}).Choices[0].FinishReason; got != c.finish {
			t.Errorf("%s: finish_reason %s", c.finish, got)
		}
		var chunks []byte
		completion := NewCompletionStream(streamedRun, false, View{})
		for _, e := range []domain.Event{logCreated(t), logStarted(), logDelta(t, 1, "Tea is"), logEnded(t, run)} {
			var err error
			if chunks, _, err = completion.Append(chunks, e); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(chunks); strings.Count(got, `"finish_reason":"`) != 1 || !strings.Contains(got, `"finish_reason":"`+c.finish+`"`) {
			t.Errorf("%s: chunks %s", c.finish, got)
		}

		body, err := json.Marshal(NewResponse(&run, ResponseEcho{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"completed_at":` + c.completedAt, `"status":"` + c.status + `","background"`, `"incomplete_details":` + c.details,
			`"type":"message","status":"` + c.itemStatus + `"`,
		} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %s in %s", c.finish, want, body)
			}
		}

		events, ended := encodedResponse(t, logCreated(t), logStarted(), logDelta(t, 1, "Tea is"), logEnded(t, run))
		last := events[len(events)-1]
		if response, _ := last.data["response"].(map[string]any); !ended || last.kind != c.last || fmt.Sprint(response["status"]) != c.status {
			t.Errorf("%s: the stream ends with %+v", c.finish, last)
		}
	}
}
