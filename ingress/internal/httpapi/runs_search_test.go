package httpapi

import (
	"encoding/csv"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"parley/shared/domain"
)

// ids returns the ids of a list's entries.
func (a answer) ids(tb testing.TB) []string {
	tb.Helper()
	var list struct{ Data []struct{ ID string } }
	must(tb, json.Unmarshal(a.body, &list)) //nolint:musttag // field names are matched case-insensitively
	out := make([]string, len(list.Data))
	for i, entry := range list.Data {
		out[i] = entry.ID
	}
	return out
}

// A search finds finished runs by words of their questions and answers. It finds the caller's own
// runs and, for admins, the organization's runs.
func TestRunsAreSearched(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	red, blue := a.newTestOrg("red"), a.newTestOrg("blue")
	agentID, other := a.newAgent(red), a.newAgent(blue)
	lamp := a.newChat(red, agentID, "s", red.owner.auth, red.header)
	a.finish("The lamp has a warranty.", lamp)
	mine := a.newChat(red, agentID, "s", red.member.auth, red.header)
	a.finish("Another lamp", mine)
	a.finish("lamp", a.newChat(blue, other, "s", blue.owner.auth, blue.header))
	a.newChat(red, agentID, "open", red.owner.auth, red.header)
	_, err := a.store.Runs.IndexRuns(t.Context(), 100)
	must(t, err)

	for query, want := range map[string]string{
		"q=lamps":        mine + " " + lamp,
		"q=RED+warranty": lamp,
		"q=blue":         "",
		"q=lamp&triggerType=chat&agentId=" + agentID: mine + " " + lamp,
		"q=lamp&triggerType=api":                     "",
		"q=lamp&from=2100-01-01T00:00:00Z":           "",
		"triggerType=api":                            "",
		"to=2020-01-01T00:00:00%2B01:00":             "",
	} {
		if got := strings.Join(a.ok("GET", "/api/runs?"+query, "", red.owner.auth, red.header).ids(t), " "); got != want {
			t.Errorf("%s finds %q, want %q", query, got, want)
		}
	}
	if got := a.ok("GET", "/api/runs?q=lamp", "", red.member.auth, red.header).ids(t); len(got) != 1 || got[0] != mine {
		t.Errorf("a member finds %v, want %s", got, mine)
	}
	page := a.ok("GET", "/api/runs?q=lamp&limit=1", "", red.owner.auth, red.header)
	next := a.ok("GET", "/api/runs?q=lamp&limit=1&cursor="+url.QueryEscape(page.text(t, "nextCursor")), "", red.owner.auth, red.header)
	if page.text(t, "data.0.id") != mine || next.text(t, "data.0.id") != lamp || next.json(t, "hasMore") != false {
		t.Errorf("pages of one run are %s and %s", page.body, next.body)
	}
	if question := page.text(t, "data.0.input.message"); question != "red message" {
		t.Errorf("the question is %q", question)
	}

	for query, field := range map[string]string{
		"q=":                            "q",
		"q=" + strings.Repeat("w", 201): "q",
		"triggerType=A":                 "triggerType",
		"from=yesterday":                "from",
		"to=1969-01-01T00:00:00Z":       "to",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "to",
		"export=xml":         "export",
		"export=csv&limit=5": "limit",
	} {
		got := a.from("GET", "/api/runs?"+query, "", red.owner.auth, red.header)
		if got.status != 400 || got.text(t, "errors.0.field") != field {
			t.Errorf("%s: %d %s, want 400 for %s", query, got.status, got.body, field)
		}
	}
}

// An export contains all runs that match a filter. The texts of the runs are longer than in a list.
// No cell of an export is a formula that spreadsheets execute.
func TestRunsAreExported(t *testing.T) {
	t.Parallel()
	a := newRunEnv(t)
	h := a.newTestOrg("red")
	agentID := a.newAgent(h)
	answers := []string{`=HYPERLINK("https://evil.example/")`, "\t@SUM(1)", strings.Repeat("é", 10_001), "a \"quoted\",\nanswer", "-2", " +1", "plain"}
	for range 30 {
		answers = append(answers, "more")
	}
	for _, text := range answers {
		a.finish(text, a.newChat(h, agentID, "s", h.owner.auth, h.header))
	}

	file := a.ok("GET", "/api/runs?export=csv&agentId="+agentID, "", h.owner.auth, h.header)
	if got := file.header.Get("Content-Disposition"); got != `attachment; filename="runs.csv"` {
		t.Errorf("Content-Disposition: %s", got)
	}
	rows, err := csv.NewReader(strings.NewReader(string(file.body))).ReadAll()
	must(t, err)
	if len(rows) != len(answers)+1 {
		t.Fatalf("%d rows for %d runs", len(rows)-1, len(answers))
	}
	for i, row := range rows[1:] {
		text := answers[len(answers)-1-i]
		want := text
		if len(text) > 10_000 {
			want = strings.Repeat("é", 10_000)
		} else if strings.ContainsAny(text[:1], "=\t- ") {
			want = "'" + text
		}
		if row[12] != want || row[11] != "red message" || row[1] != "completed" || row[len(row)-1] != "CHF" {
			t.Errorf("row %d is %.200q, want the answer %.200q", i, row, want)
		}
	}

	lines := strings.Split(strings.TrimSuffix(string(a.ok("GET", "/api/runs?export=jsonl", "", h.owner.auth, h.header).body), "\n"), "\n")
	for i, line := range lines {
		var run domain.RunSummary
		must(t, json.Unmarshal([]byte(line), &run))
		if text := answers[len(answers)-1-i]; *run.Message != text && !run.MessageCut {
			t.Errorf("line %d: %.200s", i, line)
		}
	}
	if len(lines) != len(answers) {
		t.Errorf("%d lines for %d runs", len(lines), len(answers))
	}
	if got := a.ok("GET", "/api/runs?export=csv&status=failed", "", h.owner.auth, h.header); strings.Count(string(got.body), "\n") != 1 {
		t.Errorf("an empty export is %s", got.body)
	}
	if got := string(a.ok("GET", "/api/runs?export=csv", "", h.member.auth, h.header).body); strings.Contains(got, "plain") {
		t.Error("a member exports another member's run")
	}
}
