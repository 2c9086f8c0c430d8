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

// Result is what --json prints.
type Result struct {
	OK bool `json:"ok"`
	Verdict
	Seed       uint64         `json:"seed"`
	Workers    int            `json:"workers"`
	Killed     map[string]int `json:"killed"`   // by kind
	Kills      []Struck       `json:"kills"`    // in their order
	Requests   int            `json:"requests"` // to start runs, those that were sent again included
	Retries    map[string]int `json:"retries"`  // why requests were sent again
	Repeated   int            `json:"repeated"` // bookings that came again with their key, and counted once
	DurationMS int64          `json:"durationMs"`
	Sabotage   string         `json:"sabotage,omitempty"`
	Kept       string         `json:"kept,omitempty"` // the directory, when it is kept
}

// teller prints what happens, for people, and at the end the result.
type teller struct {
	out   io.Writer
	json  bool
	began time.Time

	mu       sync.Mutex
	bar      *progressbar.ProgressBar // nil without a terminal
	progress io.Writer
}

// teller prints to a console, and moves a bar where somebody watches.
func (p *Prove) teller(c *console.Console) *teller {
	t := &teller{out: c.Out, json: p.JSON, began: time.Now()}
	if c.Watched() && !p.JSON {
		t.progress = c.Err
	}
	return t
}

// begin says what is going to be done, and how to have it done again.
func (t *teller) begin(p *Prove, seed uint64, dir string) {
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

// sayf prints a line with the time since the start.
func (t *teller) sayf(format string, values ...any) {
	if t.json {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Clear() // what cannot be shown is not missed
	}
	_, _ = fmt.Fprintf(t.out, "%5.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, values...))
}

func (t *teller) ready(workers int) {
	t.sayf("PostgreSQL, NATS, an ingress and %d workers are ready", workers)
}

// struck says what was killed, and what that hit.
func (t *teller) struck(s Struck) {
	t.sayf("kill -9 %-9s after %4d answers, with %3d triggers in progress, %2d of them booking; down for %d ms",
		s.Part, s.Answered, s.UnderWay, s.Booking, s.DownMS)
}

// answered moves the bar.
func (t *teller) answered(n int, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar == nil || t.bar.IsFinished() {
		return
	}
	t.bar.Describe(what)
	_ = t.bar.Set(n) // what cannot be shown is not missed
}

// done takes the bar away.
func (t *teller) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Clear() // as above
		t.bar = nil
	}
}

// result prints the verdict.
func (t *teller) result(r Result) error {
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

// table is the verdict for people.
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
	row("effects", r.Effects, "%d bookings were repeated with their key and counted once", r.Repeated)
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
		b.WriteString("Passed: every trigger was answered by one run with one effect, and a replay gave the same answer.\n")
	}
	if r.Kept != "" {
		fmt.Fprintf(&b, "Data and logs are kept in %s\n", r.Kept)
	}
	return b.String()
}

func again(retries map[string]int) string {
	if len(retries) == 0 {
		return ""
	}
	return "; retried after: " + byName(retries)
}

func byName(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d×", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
