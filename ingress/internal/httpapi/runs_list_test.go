package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"parley/shared/domain"
)

const maxPage = 1 << 20

// fullRun returns a function that gives a run the result of a worker: a long answer, citations, and
// tool calls with a large input and output.
func fullRun(answer string, bytes int) func(*domain.Run) {
	much := json.RawMessage(`{"text":"` + strings.Repeat("x", bytes) + `"}`)
	return func(r *domain.Run) {
		r.Message, r.Output = &answer, &domain.Output{Message: answer}
		for n := range 3 {
			r.Citations = append(r.Citations, domain.Citation{ID: n + 1, Type: "web", Title: "t", URL: "https://a.example/", CitedText: "c"})
		}
		r.ToolCalls = []domain.ToolCall{{ID: "c", Name: "webSearch", Status: "completed", Input: much, Output: much, DurationMS: 12}}
		r.Usage = domain.Usage{InputTokens: 3, OutputTokens: 4, CostMicros: 5, Model: "m"}
		r.CitationsRemoved, r.OmittedTurns = 6, 7
	}
}

// A list shows the short forms of runs. For a large result, a summary is stored separately, and the
// list shows the same fields. Fields that exist in both forms of a run have equal values.
func TestListedRunsAreInShort(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	chat := func() string { return a.newChat(h, agentID, a.fresh(), h.owner.auth, h.header) }
	for name, tt := range map[string]struct {
		answer string
		bytes  int
		cut    bool
	}{
		"a small result":         {"yes", 10, false},
		"a message of 500":       {strings.Repeat("☾", 500), 10, false},
		"a message of 501":       {strings.Repeat("☾", 501), 10, true},
		"a large result":         {"no", 100_000, false},
		"a large result, cut":    {strings.Repeat("é<", 50_000), 100_000, true},
		"an empty message":       {"", 10, false},
		"an empty one, and much": {"", 100_000, false},
	} {
		runID := chat()
		a.end(runID, fullRun(tt.answer, tt.bytes))
		whole := a.ok("GET", "/api/runs?id="+runID, "", h.owner.auth, h.header)
		page := a.ok("GET", "/api/runs?limit=1", "", h.owner.auth, h.header)
		var list struct{ Data []map[string]any }
		var want map[string]any
		must(t, json.Unmarshal(page.body, &list)) //nolint:musttag // field names are matched case-insensitively
		must(t, json.Unmarshal(whole.body, &want))

		want["input"] = map[string]any{"message": "red message"}
		want["citations"] = 3.0
		want["toolCalls"] = []any{map[string]any{"name": "webSearch", "status": "completed", "durationMs": 12.0}}
		delete(want, "output")
		if tt.cut {
			want["message"], want["messageCut"] = string([]rune(tt.answer)[:500]), true
		}
		if !reflect.DeepEqual(list.Data, []map[string]any{want}) {
			t.Errorf("%s: listed as\n%.3000v\nwant\n%.3000v", name, list.Data, want)
		}
	}

	waiting := chat()
	a.park(waiting, strings.Repeat("w", 1500), domain.ActionApproval)
	action := "data.0.requiredAction."
	page := a.ok("GET", "/api/runs?status=requires_action", "", h.owner.auth, h.header)
	if page.json(t, action+"input") != nil || page.json(t, action+"inputCut") != true || page.text(t, action+"toolCallId") != "call_1" {
		t.Errorf("a large input is listed as %.3000s", page.body)
	}
}

// A list of runs is small even if the runs have large results. Erasing a run also erases its stored
// summary.
func TestListsOfLargeRunsAreSmall(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	var runs []string
	for range 4 {
		runs = append(runs, a.newChat(h, agentID, "large", h.owner.auth, h.header))
	}
	for _, runID := range runs {
		a.end(runID, fullRun(strings.Repeat("a", 1<<20), 1<<20))
	}
	if page := a.ok("GET", "/api/runs?limit=100", "", h.owner.auth, h.header); len(page.body) > 32<<10 || page.json(t, "hasMore") != false {
		t.Errorf("a list of runs with 4 MiB each has %d bytes", len(page.body))
	}
	a.ok("DELETE", "/api/sessions?id=large&agentId="+agentID, "", h.owner.auth, h.header)
	var kept int
	must(t, a.sql.QueryRowContext(t.Context(), `SELECT count(*) FROM runs WHERE summary IS NOT NULL OR result IS NOT NULL`).Scan(&kept))
	if kept != 0 {
		t.Errorf("%d erased runs have a summary", kept)
	}
}

// A page has at most 1 MiB. The next page begins after the last run of a page, so that all pages
// together contain each run exactly once.
func TestPagesOfRunsAreBounded(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	name := strings.Repeat("<", 160) // each character takes six bytes in JSON
	calls := make([]domain.ToolCall, 140)
	for i := range calls {
		calls[i] = domain.ToolCall{ID: fmt.Sprint(i), Name: name, Status: "failed"}
	}
	first := a.newChat(h, agentID, "s", h.owner.auth, h.header)
	a.end(first, func(r *domain.Run) {
		answer := "done"
		r.Message, r.Output, r.ToolCalls = &answer, &domain.Output{Message: answer}, calls
	})
	a.exec(`INSERT INTO runs (id, org_id, agent_id, config_version, session_ref, seq, session_id, principal, caller_kind, trigger_type, input, retention,
		created_at, status, result, answer, attempts, summary, finished_at)
		SELECT left(id, 20) || lpad(n::text, 10, '0'), org_id, agent_id, config_version, session_ref, seq + n, session_id, principal, caller_kind, trigger_type,
		input, retention, created_at, status, result, answer, attempts, summary, finished_at FROM runs, generate_series(1, 29) n WHERE id = $1`, first)

	seen, cursor, pages := map[string]int{}, "", 0
	for {
		page := a.ok("GET", "/api/runs?limit=100"+cursor, "", h.owner.auth, h.header)
		if len(page.body) > maxPage {
			t.Errorf("page %d has %d bytes", pages, len(page.body))
		}
		var list struct {
			Data []struct {
				ID           string
				ToolCalls    []any
				ToolCallsCut bool
			}
			HasMore    bool
			NextCursor *string
		}
		must(t, json.Unmarshal(page.body, &list)) //nolint:musttag // field names are matched case-insensitively
		for _, run := range list.Data {
			seen[run.ID]++
			if len(run.ToolCalls) != 128 || !run.ToolCallsCut {
				t.Fatalf("a run is listed with %d tool calls, cut: %v", len(run.ToolCalls), run.ToolCallsCut)
			}
		}
		pages++
		if !list.HasMore {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(*list.NextCursor)
	}
	if pages < 2 || len(seen) != 30 {
		t.Errorf("%d pages hold %d runs", pages, len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("run %s is listed %d times", id, n)
		}
	}
}
