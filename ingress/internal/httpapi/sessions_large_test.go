package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/ingress/internal/httpapi/run"
	"parley/shared/domain"
)

// A page of a session's messages has at most 1 MiB or a single turn. All pages together contain
// each message exactly once. A turn of more than 8 MiB is truncated and marked as truncated.
func TestPagesOfLargeMessagesAreBounded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	const turns, huge, maxTurn = 8, 5, 8 << 20
	var runs []string
	for range turns {
		runs = append(runs, a.newChat(h, agentID, "s", h.owner.auth, h.header))
	}
	for i, runID := range runs {
		size := 1200 << 10
		switch {
		case i == huge:
			size = 9 << 20
		case i%2 == 0:
			size = 300 << 10
		}
		a.finish(fmt.Sprintf("%d %s", i, strings.Repeat("x", size)), runID)
	}

	seen, cursor, pages := map[string]int{}, "", 0
	for more := true; more; pages++ {
		page := a.ok("GET", "/api/sessions?limit=100&id=s&agentId="+agentID+cursor, "", h.owner.auth, h.header)
		var shown struct {
			Messages []struct {
				RunID, Role, Content string
				ContentCut           bool
			}
			HasMore    bool
			NextCursor *string
		}
		must(t, json.Unmarshal(page.body, &shown)) //nolint:musttag // field names are matched case-insensitively
		if len(page.body) > maxPage && len(shown.Messages) > 2 || len(page.body) > maxTurn {
			t.Errorf("page %d has %d messages and %d bytes", pages, len(shown.Messages), len(page.body))
		}
		for _, m := range shown.Messages {
			seen[m.RunID+m.Role]++
			if cut := m.Role == "assistant" && m.RunID == runs[huge]; m.ContentCut != cut || cut && len(m.Content) != run.MaxContent {
				t.Errorf("%s of run %s is cut: %v, %d bytes", m.Role, m.RunID, m.ContentCut, len(m.Content))
			}
		}
		if more = shown.HasMore; more {
			cursor = "&cursor=" + url.QueryEscape(*shown.NextCursor)
		}
	}
	if len(seen) != 2*turns || pages < 3 {
		t.Errorf("%d pages hold %d messages", pages, len(seen))
	}
	for message, n := range seen {
		if n != 1 {
			t.Errorf("message %s is shown %d times", message, n)
		}
	}
}

// A timeline with large steps has the same content as if the steps were small.
func TestTimelinesOfLargeSteps(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	var descriptions []string
	for _, bytes := range []int{10, 100_000} {
		runID := a.newChat(h, agentID, a.fresh(), h.owner.auth, h.header)
		held := a.claimAccepted(runID)
		much := strings.Repeat("x", bytes)
		steps := [][]byte{
			[]byte(`{"seq":1,"kind":"model_turn","turn":{"model":"m","text":"` + much + `","toolCalls":[{"id":"a","name":"look"},{"id":"b","name":"pay"}],
				"usage":{"inputTokens":3,"outputTokens":4},"costMicros":5}}`),
			[]byte(`{"seq":2,"kind":"tool_call","tool":{"call":{"id":"a","name":"look","status":"completed","input":{},"output":"` + much + `","durationMs":1}}}`),
			[]byte(`{"seq":3,"kind":"tool_call","tool":{"call":{"id":"b","name":"pay","status":"failed","input":"` + much + `","output":{"error":"refused"},"durationMs":1}}}`),
		}
		for i, step := range steps {
			if kept, err := a.store.Executions.Journal(t.Context(), held, i+1, step); err != nil || !kept {
				t.Fatalf("step %d: %v, %v", i+1, kept, err)
			}
		}
		var timeline domain.Timeline
		must(t, json.Unmarshal(a.ok("GET", "/api/runs?timeline=1&id="+runID, "", h.owner.auth, h.header).body, &timeline))
		var lines []string
		for _, span := range timeline.Spans {
			line := fmt.Sprintf("%s %s %s %s %q %.10s %v", span.Kind, span.Name, span.Status, span.Model, span.Message, span.Text, span.ToolCallIDs)
			if span.TextCut != (span.Text != "" && bytes > domain.MaxSpanText) || len(span.Text) > domain.MaxSpanText {
				t.Errorf("%d bytes of text: %d, cut: %v", bytes, len(span.Text), span.TextCut)
			}
			if span.InputTokens != nil {
				line += fmt.Sprint(*span.InputTokens, *span.OutputTokens, *span.CostMicros)
			}
			lines = append(lines, line)
		}
		slices.Sort(lines) // the order depends on times that are nearly equal
		descriptions = append(descriptions, strings.Join(lines, "; "))
	}
	if descriptions[0] != descriptions[1] || !strings.Contains(descriptions[0], "refused") || !strings.Contains(descriptions[0], "xxxxxxxxxx [a b]") {
		t.Errorf("of small steps: %s\nof large ones: %s", descriptions[0], descriptions[1])
	}
}
