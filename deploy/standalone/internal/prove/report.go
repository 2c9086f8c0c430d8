package prove

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"parley/deploy/standalone/internal/console"
)

// Result is the object that --json prints. docs/prove.md describes its fields.
type Result struct {
	OK bool `json:"ok"`
	Verdict
	Seed       uint64         `json:"seed"`
	Workers    int            `json:"workers"`
	Killed     map[string]int `json:"killed"`   // number of kills, by kind of part
	Kills      []KillRecord   `json:"kills"`    // the kills in their order
	Requests   int            `json:"requests"` // number of trigger requests, including retries
	Retries    map[string]int `json:"retries"`  // number of retries, by reason
	Repeated   int            `json:"repeated"` // number of requests to the ledger with a known key, which had no effect
	DurationMS int64          `json:"durationMs"`
	Sabotage   string         `json:"sabotage,omitempty"`
	Kept       string         `json:"kept,omitempty"` // path of the data directory if the user keeps it
}

// reporter prints the progress of the proof and the result. It is safe for concurrent use. With
// --json it prints only the result.
type reporter struct {
	out   io.Writer
	json  bool
	began time.Time

	mu       sync.Mutex
	bar      *progressbar.ProgressBar // nil if Err is not a terminal
	progress io.Writer
}

// reporter returns a reporter for a console. It has a progress bar if Err is a terminal.
func (p *Prove) reporter(c *console.Console) *reporter {
	t := &reporter{out: c.Out, json: p.JSON, began: time.Now()}
	if c.Watched() && !p.JSON {
		t.progress = c.Err
	}
	return t
}

// begin prints the sizes of the trial and its seed, with which a user can repeat the kills. It also
// shows the progress bar.
func (t *reporter) begin(p *Prove, seed uint64, dir string) {
	t.sayf("%d triggers, %d workers, seed %d, in %s", p.Triggers, p.Workers, seed, dir)
	if t.progress == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar = progressbar.NewOptions(p.Triggers, progressbar.OptionSetWriter(t.progress), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(40), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(50*time.Millisecond))
}

// sayf prints a line with the time since the start. With --json it prints nothing.
func (t *reporter) sayf(format string, values ...any) {
	if t.json {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Clear() // the bar is not essential
	}
	_, _ = fmt.Fprintf(t.out, "%5.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, values...))
}

// ready prints that the service is ready.
func (t *reporter) ready(workers int) {
	t.sayf("PostgreSQL, NATS, an ingress and %d workers are ready", workers)
}

// killed prints which part was killed and how much work was in progress.
func (t *reporter) killed(s KillRecord) {
	t.sayf("kill -9 %-9s after %4d answers, with %3d triggers in progress, %2d of them booking; down for %d ms",
		s.Part, s.Answered, s.UnderWay, s.Booking, s.DownMS)
}

// answered updates the progress bar to n answers.
func (t *reporter) answered(n int, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar == nil || t.bar.IsFinished() {
		return
	}
	t.bar.Describe(what)
	_ = t.bar.Set(n) // the bar is not essential
}

// done removes the progress bar.
func (t *reporter) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Clear() // the bar is not essential
		t.bar = nil
	}
}

// result prints the result as JSON or as a table.
func (t *reporter) result(r Result) error {
	if t.json {
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding result: %w", err)
		}
		_, err = fmt.Fprintf(t.out, "%s\n", raw)
		return err
	}
	_, err := io.WriteString(t.out, table(r))
	return err
}

// table formats the result as a table, followed by the faults and the verdict.
func table(r Result) string {
	var b strings.Builder
	row := func(name string, n int, format string, values ...any) {
		line := fmt.Sprintf("%-10s %6d  %s", name, n, fmt.Sprintf(format, values...))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}

	b.WriteString("\n")
	row("triggers", r.Triggers, "")
	row("answered", r.Answered, "in %d requests%s", r.Requests, again(r.Retries))
	row("runs", r.Runs, "")
	row("effects", r.Effects, "%d bookings repeated a known key and were not counted", r.Repeated)
	row("lost", r.Lost, "")
	row("doubled", r.Doubled, "")
	row("kills", len(r.Kills), "%s", byName(r.Killed))
	fmt.Fprintf(&b, "%-10s %5.1fs  from the first trigger to the last answer\n", "duration", float64(r.DurationMS)/1000)
	fmt.Fprintf(&b, "%-10s %d\n\n", "seed", r.Seed)
	for _, fault := range r.Faults {
		fmt.Fprintf(&b, "fault: %s\n", fault)
	}

	if more := r.faults - len(r.Faults); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if r.OK {
		b.WriteString("Passed: every trigger was answered by one run with one effect, and a replay returned the same answer.\n")
	}
	if r.Kept != "" {
		fmt.Fprintf(&b, "Data and logs are kept in %s\n", r.Kept)
	}
	return b.String()
}

// again describes the retries by reason, as the end of a line. It returns "" if there were none.
func again(retries map[string]int) string {
	if len(retries) == 0 {
		return ""
	}
	return "; retried after: " + byName(retries)
}

// byName lists counts in the order of their names.
func byName(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d×", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
