package browser

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley/shared/testkit"
)

// journey is a task that a user does in the dashboard. A test performs it with clicks and keys,
// from the page on which the task begins until the result is shown.
type journey struct {
	task   string
	clicks int           // the maximum number of clicks
	limit  time.Duration // maximum duration of the journey; 0: unlimited
}

// journeys are the main tasks of the dashboard's users, each with its limits. The table in
// docs/performance.md describes them in the same words.
var journeys = []journey{
	{task: "open the login link, ask the demo agent, get the answer", clicks: 2, limit: 10 * time.Second},
	{task: "sign up, create an agent from a template, get an answer with its source", clicks: 10},
	{task: "upload a PDF, ask about it, open the cited page", clicks: 6},
	{task: "create a key, run the agent with a scheduler's command, see the run", clicks: 9},
	{task: "create a webhook, send deliveries to it, open the run of a delivery", clicks: 13},
	{task: "put an agent on a website, allow attachments, chat there", clicks: 14},
	{task: "see that a run waits, approve its action", clicks: 4},
	{task: "find a run by a word of its question, open a part of its timeline", clicks: 3},
	{task: "set a budget with the keyboard, use it up", clicks: 0},
	{task: "invite a colleague, who joins and finds the agent", clicks: 7},
	{task: "ask an agent by voice, hear the answer", clicks: 1},
	{task: "send a request from the API reference, find a guide by words", clicks: 5},
}

// record is a performed journey.
type record struct {
	number int // the journey's position in journeys, from 1
	took   time.Duration
	clicks int
}

// performed contains the journeys that the tests have completed so far.
var performed struct {
	mu      sync.Mutex
	records []record
}

// begin begins a journey on this page and the given other pages. The returned function ends the
// journey, and fails the test if it took too many clicks or too much time. Time spent in inspect
// does not count.
func (p *page) begin(number int, others ...*page) (end func()) {
	used := func() (clicks int, aside time.Duration) {
		for _, p := range append(others, p) {
			clicks += p.clicks
			aside += p.aside
		}
		return clicks, aside
	}
	began := time.Now()
	clicksBefore, asideBefore := used()
	return func() {
		p.t.Helper()
		clicks, aside := used()
		took := time.Since(began) - (aside - asideBefore)
		clicks -= clicksBefore
		j := journeys[number-1]
		p.t.Logf("%s: %.1f s, %d clicks", j.task, took.Seconds(), clicks)
		if clicks > j.clicks {
			p.t.Errorf("%s: %d clicks, want at most %d", j.task, clicks, j.clicks)
		}
		if limit := testkit.Within(j.limit); j.limit > 0 && took > limit {
			p.t.Errorf("%s: %s, want at most %s", j.task, took, limit)
		}

		performed.mu.Lock()
		defer performed.mu.Unlock()
		performed.records = append(performed.records, record{number, took, clicks})
	}
}

// lookAside starts a period that does not count towards the duration of journeys on this page. The
// returned function ends the period.
func (p *page) lookAside() (back func()) {
	began := time.Now()
	return func() { p.aside += time.Since(began) }
}

// writeJourneys writes a table with the time and the clicks of each performed journey. It writes
// nothing if there are none.
func writeJourneys(to io.Writer) error {
	performed.mu.Lock()
	defer performed.mu.Unlock()
	if len(performed.records) == 0 {
		return nil
	}

	slices.SortStableFunc(performed.records, func(a, b record) int { return cmp.Compare(a.number, b.number) })
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\njourney\ttime\tclicks\n")
	for _, r := range performed.records {
		_, _ = fmt.Fprintf(table, "%d %s\t%.1f s\t%d\n", r.number, journeys[r.number-1].task, r.took.Seconds(), r.clicks)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the journeys: %w", err)
	}
	return nil
}

var (
	beginning  = regexp.MustCompile(`\.begin\((\d+)`)
	journeyRow = regexp.MustCompile(`(?m)^\| (.+?) \| \d+\.\d s \| (\d+) \|$`)
)

// TestJourneys checks that a test performs each journey, and that docs/performance.md lists each
// with its time and its maximum number of clicks.
func TestJourneys(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string]int{}
	for _, file := range files {
		for _, call := range beginning.FindAllStringSubmatch(readFile(t, file), -1) {
			begun[call[1]]++
		}
	}

	_, section, _ := strings.Cut(readFile(t, filepath.Join(testkit.Root(t), "docs", "performance.md")), "\n## Journeys in the dashboard\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := journeyRow.FindAllStringSubmatch(section, -1)
	if len(rows) != len(journeys) {
		t.Fatalf("docs/performance.md lists %d journeys, want %d", len(rows), len(journeys))
	}
	for i, j := range journeys {
		task, _, _ := strings.Cut(rows[i][1], ";") // a note may follow
		if clicks := strconv.Itoa(j.clicks); task != j.task || rows[i][2] != clicks {
			t.Errorf("row %d of docs/performance.md = %q with %s clicks, want %q with %s", i+1, task, rows[i][2], j.task, clicks)
		}
		if n := begun[strconv.Itoa(i+1)]; n != 1 {
			t.Errorf("%d tests perform the journey %q, want 1", n, j.task)
		}
	}
}

// readFile returns the content of a file.
func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
