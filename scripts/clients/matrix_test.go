package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/shared/testkit"
)

// update is the flag -update. If it is set, the tests write their outcomes to the rows of their
// clients in docs/clients.md.
var update = flag.Bool("update", false, "write the outcomes into docs/clients.md")

// matrixTable is a table in docs/clients.md. It has a row for each client and a column for each
// feature.
type matrixTable struct {
	begin    string   // the HTML comment before the table
	head     string   // the table's head, with a title for each feature
	features []string // the names that tests use, in the order of the columns; no feature is in two tables
}

var matrixTables = []matrixTable{
	{
		begin: "<!-- The tests of scripts/clients write this table. -->\n",
		head: "| client | answers | streams | history | stop | safe retries | resume | citations | approvals | errors | own tools | images | structured output |\n" +
			"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
		features: []string{
			"answers", "streams", "history", "stop", "retries", "resume", "citations", "approvals", "errors", "tools", "images", "structured",
		},
	},
	{
		begin:    "<!-- The tests of scripts/clients write this table of webhooks. -->\n",
		head:     "| library | deliveries | repeated deliveries | wrong signatures |\n|---|---|---|---|\n",
		features: []string{"deliveries", "repeats", "signatures"},
	},
}

// isFeature reports whether one of the tables has a column for the feature.
func isFeature(name string) bool {
	return slices.ContainsFunc(matrixTables, func(table matrixTable) bool { return slices.Contains(table.features, name) })
}

// The outcomes that a client can have for a feature, as the tables show them.
const (
	works      = "works"
	refused    = "refused"     // the service returns an error with the reason
	notOffered = "not offered" // the client or its protocol lacks the feature
	notTested  = "not tested"
)

// clientMatrix collects the outcomes that the tests of this process have found.
type clientMatrix struct {
	mu     sync.Mutex
	page   map[string]map[string]string // the outcomes in docs/clients.md, by client and feature
	root   string                       // the repository
	proven map[string]map[string]string // the outcomes that tests have found, by client and feature
}

var theMatrix clientMatrix

// proves records that a client has the given outcome for each of the named features. It fails the
// test if docs/clients.md has another outcome.
func proves(t *testing.T, client, outcome string, names ...string) {
	t.Helper()
	m := &theMatrix
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil {
		if err := m.read(testkit.Root(t)); err != nil {
			t.Fatal(err)
		}
	}
	if m.proven[client] == nil {
		m.proven[client] = map[string]string{}
	}

	for _, name := range names {
		if !isFeature(name) {
			t.Errorf("%s: no column of docs/clients.md is for %q", client, name)
		}
		m.proven[client][name] = outcome
		if is := m.page[client][name]; is != outcome && !*update {
			t.Errorf("docs/clients.md says %q about %q of %s, but the test says %q; run go test ./scripts/clients -run '^%s$' -update",
				is, name, client, outcome, t.Name())
		}
	}
}

// provesAll records the outcomes that a client's script has written to a file with the functions of
// features.mjs or features.py.
func provesAll(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var proven struct {
			Client   string   `json:"client"`
			Outcome  string   `json:"outcome"`
			Features []string `json:"features"`
		}
		if err := json.Unmarshal(line, &proven); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		proves(t, proven.Client, proven.Outcome, proven.Features...)
	}
}

const (
	matrixPage = "docs/clients.md"
	matrixEnd  = "<!-- End of the table. -->\n"
)

// read reads the tables of docs/clients.md.
func (m *clientMatrix) read(root string) error {
	m.root, m.page, m.proven = root, map[string]map[string]string{}, map[string]map[string]string{}
	raw, err := os.ReadFile(filepath.Join(root, matrixPage))
	if err != nil {
		return fmt.Errorf("reading the tables: %w", err)
	}
	for _, table := range matrixTables {
		if err := m.readTable(string(raw), table); err != nil {
			return err
		}
	}
	return nil
}

// readTable adds the outcomes of a table in the page's text to m.page. It returns an error if the
// table is missing or malformed.
func (m *clientMatrix) readTable(page string, table matrixTable) error {
	_, rest, begun := strings.Cut(page, table.begin)
	rows, _, ended := strings.Cut(rest, matrixEnd)
	if !begun || !ended || !strings.HasPrefix(rows, table.head) {
		return fmt.Errorf("%s has no table with the head\n%s", matrixPage, table.head)
	}

	for line := range strings.Lines(strings.TrimPrefix(rows, table.head)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != len(table.features)+1 {
			return fmt.Errorf("%s: a row has %d cells, want %d: %s", matrixPage, len(cells), len(table.features)+1, line)
		}
		client := strings.TrimSpace(cells[0])
		if m.page[client] == nil {
			m.page[client] = map[string]string{}
		}
		for i, feature := range table.features {
			m.page[client][feature] = strings.TrimSpace(cells[i+1])
		}
	}
	return nil
}

// end writes docs/clients.md if the flag -update is set. If all tests ran, it returns an error for
// each outcome in docs/clients.md that no test has shown. On a machine without Node or Python, it
// ignores clients for which no test has recorded an outcome.
func (m *clientMatrix) end(all bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil {
		return nil
	}
	if *update {
		return m.write(m.root)
	}

	if !all {
		return nil
	}
	_, noNode := findNode()
	_, noPython := findPython()
	return m.unproven(noNode != nil || noPython != nil)
}

// unproven returns an error for each outcome in docs/clients.md that no test has shown. If skips is
// true, it ignores clients for which no test has recorded an outcome, because their tests were
// skipped.
func (m *clientMatrix) unproven(skips bool) error {
	var wrong []error
	for client, row := range m.page {
		if skips && m.proven[client] == nil {
			continue
		}
		for feature, is := range row {
			if m.proven[client][feature] == "" && is != notTested {
				wrong = append(wrong, fmt.Errorf("docs/clients.md says %q about %q of %s, but no test shows it", is, feature, client))
			}
		}
	}
	return errors.Join(wrong...)
}

// write updates the tables of docs/clients.md. Clients for which no test has recorded an outcome
// keep their rows.
func (m *clientMatrix) write(root string) error {
	for client, row := range m.proven {
		if m.page[client] == nil {
			m.page[client] = map[string]string{}
		}
		maps.Copy(m.page[client], row)
	}

	path := filepath.Join(root, matrixPage)
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	page := string(raw)
	for _, table := range matrixTables {
		before, rest, _ := strings.Cut(page, table.begin)
		_, after, _ := strings.Cut(rest, matrixEnd)
		page = before + table.begin + table.head + m.rows(table) + matrixEnd + after
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// rows returns the rows of a table, sorted by client. There is a row for each client with an
// outcome for at least one of the table's features.
func (m *clientMatrix) rows(table matrixTable) string {
	var rows strings.Builder
	for _, client := range slices.Sorted(maps.Keys(m.page)) {
		row := m.page[client]
		if !slices.ContainsFunc(table.features, func(feature string) bool { return row[feature] != "" }) {
			continue
		}
		cells := []string{client}
		for _, feature := range table.features {
			cells = append(cells, cmp.Or(row[feature], notTested))
		}
		rows.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return rows.String()
}

// TestMatrix checks that each client in docs/clients.md has an outcome for each feature of its
// table.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var m clientMatrix
	if err := m.read(testkit.Root(t)); err != nil {
		t.Fatal(err)
	}
	if len(m.page) < 18 {
		t.Errorf("%d clients", len(m.page))
	}
	for client, row := range m.page {
		for feature, outcome := range row {
			if !slices.Contains([]string{works, refused, notOffered, notTested}, outcome) && !*update {
				t.Errorf("%s: %s is %q", client, feature, outcome)
			}
		}
	}
}

// TestUnprovenOutcomes checks that unproven reports each outcome that no test has shown. It also
// reports the outcomes of clients without any test, unless tests were skipped.
func TestUnprovenOutcomes(t *testing.T) {
	t.Parallel()
	m := clientMatrix{
		page: map[string]map[string]string{
			"proven": {"answers": works, "stop": works, "images": notTested}, "gone": {"answers": works}, "none": {"answers": notTested},
		},
		proven: map[string]map[string]string{"proven": {"answers": works}},
	}
	for skips, want := range map[bool][]string{true: {`"stop" of proven`}, false: {`"stop" of proven`, `"answers" of gone`}} {
		got := fmt.Sprint(m.unproven(skips))
		for _, one := range want {
			if !strings.Contains(got, one) {
				t.Errorf("skips %v: %s, want %s", skips, got, one)
			}
		}
		if n := strings.Count(got, "no test shows it"); n != len(want) {
			t.Errorf("skips %v: %d errors: %s", skips, n, got)
		}
	}
}
