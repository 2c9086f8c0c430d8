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

// update makes the tests write the rows of docs/clients.md for the clients that they run.
var update = flag.Bool("update", false, "write the outcomes into docs/clients.md")

// matrixTable is a table of docs/clients.md: a row for each client, and a column for each feature.
type matrixTable struct {
	begin    string   // the comment before the table
	head     string   // with a title for each feature
	features []string // in the order of the columns, by the names that tests use; each is in one table
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

// isFeature reports whether a table has a column for a feature.
func isFeature(name string) bool {
	return slices.ContainsFunc(matrixTables, func(table matrixTable) bool { return slices.Contains(table.features, name) })
}

// Outcomes of a feature, as the table writes them.
const (
	works      = "works"
	refused    = "refused"     // with an error that names the reason
	notOffered = "not offered" // by the client or by its protocol
	notTested  = "not tested"
)

// clientMatrix collects the outcomes of a test process.
type clientMatrix struct {
	mu     sync.Mutex
	page   map[string]map[string]string // by client and feature, as docs/clients.md has them
	root   string                       // the repository
	proven map[string]map[string]string // by client and feature, as the tests have found them
}

var theMatrix clientMatrix

// proves records that a client has an outcome for features. It fails the test if docs/clients.md says something else.
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

// provesAll records what a client's script has written by features.mjs or features.py.
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

// read reads the tables of the page.
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

// end writes the page with -update. If all tests ran, it returns an error for each outcome of the page that no test has shown. On a
// machine that lacks Node or Python, it leaves out the clients without any outcome.
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

// unproven returns an error for each outcome of the page that no test has shown. With skips, it leaves out the clients without any
// outcome, because their tests were skipped.
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

// write writes the page. Clients without outcomes keep their rows.
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

// rows returns the rows of a table: the clients with an outcome for one of its features, by name.
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

// TestMatrix checks the form of the tables: each client has an outcome for each feature of its table.
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

// TestUnprovenOutcomes checks that each outcome of the page needs a test, and also those of a client that has none.
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
