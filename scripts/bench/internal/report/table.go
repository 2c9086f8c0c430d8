package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// WriteJSON writes the report to a file, whose directory is made when missing.
func (r *Report) WriteJSON(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// quiet is the share of other processes up to which nothing is said: the kernel's own work is among it.
const quiet = 0.1

// section is what was measured of one thing, besides run-automation.
type section struct {
	measured bool
	write    func(*strings.Builder)
	goals    func() []Goal
}

// sections are in the order of the tables and of the goals.
func (r *Report) sections() []section {
	return []section{
		{r.Waiting != nil, r.Waiting.write, r.Waiting.goals},
		{r.FanOut != nil, r.FanOut.write, r.FanOut.goals},
		{r.Code != nil, r.Code.write, r.Code.goals},
		{r.Documents != nil, r.Documents.write, r.Documents.goals},
		{r.Retrieval != nil, r.Retrieval.write, r.Retrieval.goals},
		{r.Voice != nil, r.Voice.write, r.Voice.goals},
		{len(r.Hooks) > 0, r.writeHooks, r.hookGoals},
		{len(r.Replay) > 0, r.writeReplay, r.replayGoals},
		{r.Steady != nil, r.Steady.write, r.Steady.goals},
		{r.Scale != nil, r.Scale.write, r.Scale.goals},
		{r.Growth != nil, r.Growth.write, r.Growth.goals},
		{r.Soak != nil, r.Soak.write, r.Soak.goals},
	}
}

// WriteTables writes the report for people.
func (r *Report) WriteTables(w io.Writer) error {
	var b strings.Builder
	r.Setup.write(&b)
	if len(r.Levels) > 0 {
		r.writeLevels(&b)
	}
	for _, part := range r.sections() {
		if part.measured {
			b.WriteString("\n")
			part.write(&b)
		}
	}
	if len(r.Goals) > 0 {
		b.WriteString("\nGoals\n\n")
		r.goals().write(&b)
	}
	if len(r.Statements) > 0 {
		b.WriteString("\nParley's statements, over all numbers of clients\n\n")
		r.statements().write(&b)
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("writing tables: %w", err)
	}
	return nil
}

// writeLevels writes what was measured of run-automation.
func (r *Report) writeLevels(b *strings.Builder) {
	b.WriteString("\n")
	r.Setup.writeAutomation(b)
	if others := r.others(); others > quiet {
		fmt.Fprintf(b, "Other processes took up to %.0f %% of the machine in a round: measure again when it is quiet\n", 100*others)
	}
	b.WriteString("\n")
	r.figures().write(b)
	b.WriteString("\n(syncs: how often PostgreSQL put its log on disk, for whatever reason)\n")
	writeCPU(b, r.Levels, "a run")
	writeBytes(b, r.Levels, "a run")
}

// writeBytes writes what was allocated, of processes that tell.
func writeBytes(b *strings.Builder, levels []Level, each string) {
	if told := allocated(levels); len(told) > 1 {
		fmt.Fprintf(b, "\nAllocated %s on the heaps of Parley's processes, bytes\n\n", each)
		told.write(b)
	}
}

func writeCPU(b *strings.Builder, levels []Level, each string) {
	if used := cpu(levels); len(used) > 1 {
		fmt.Fprintf(b, "\nCPU time %s, µs (all processes of PostgreSQL together; client is the bench's own)\n\n", each)
		used.write(b)
	}
}

func (s Setup) write(b *strings.Builder) {
	fmt.Fprintf(b, "%d cores, %s, %s\n", s.Cores, s.System, s.Go)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(s.PostgreSQL)) {
		if name != "server_version" {
			settings = append(settings, name+"="+s.PostgreSQL[name])
		}
	}
	fmt.Fprintf(b, "PostgreSQL %s (%s), nats-server %s; 8 KiB are on disk after %.3f ms\n",
		s.PostgreSQL["server_version"], strings.Join(settings, ", "), s.NATS, s.SyncMillis)
}

func (s Setup) writeAutomation(b *strings.Builder) {
	b.WriteString("run-automation, offline/echo agent, each request with its own key\n")
	fmt.Fprintf(b, "medians of %d rounds of %g s after %g s of warm-up, the sides in turn\n", s.Rounds, s.Seconds, s.WarmUp)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(s.Overrides)) {
		settings = append(settings, name+"="+s.Overrides[name])
	}
	if len(settings) > 0 {
		fmt.Fprintf(b, "Parley's settings are the defaults but for %s\n", strings.Join(settings, ", "))
	}
}

// grid is a table of texts; its first row is the header.
type grid [][]string

// write pads the columns, the first to the right as the others.
func (g grid) write(b *strings.Builder) {
	var widths []int
	for _, row := range g {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range g {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(strings.Repeat(" ", 2+widths[i]-utf8.RuneCountInString(cell)))
			line.WriteString(cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func (r *Report) figures() grid {
	out := grid{{"clients", "side", "runs/s", "min-max", "p50 ms", "p99 ms", "max ms", "commits/run", "syncs/run"}}
	for _, level := range r.Levels {
		for _, side := range level.sides() {
			m := side.figures.Median
			out = append(out, []string{
				fmt.Sprint(level.Clients), side.name, fmt.Sprintf("%.0f", m.RunsPerSecond), spread(side.figures.Rounds),
				fmt.Sprintf("%.2f", m.P50), fmt.Sprintf("%.2f", m.P99), fmt.Sprintf("%.1f", m.Max), fmt.Sprintf("%.3f", m.CommitsPerRun),
				fmt.Sprintf("%.3f", m.WALSyncsPerRun),
			})
		}
		if level.Ratios != nil {
			out = append(out, []string{
				fmt.Sprint(level.Clients), "ratio", fmt.Sprintf("%.2f", level.Ratios.Throughput), "",
				fmt.Sprintf("%.2f", level.Ratios.P50), fmt.Sprintf("%.2f", level.Ratios.P99), "", "", "",
			})
		}
	}
	return out
}

func spread(rounds []Round) string {
	least, most := rounds[0].RunsPerSecond, rounds[0].RunsPerSecond
	for _, r := range rounds {
		least, most = min(least, r.RunsPerSecond), max(most, r.RunsPerSecond)
	}
	return fmt.Sprintf("%.0f-%.0f", least, most)
}

// columns of the CPU table: what plays the same part on both sides stands in one column.
var columns = []struct {
	title string
	names []string
}{
	{"ingress", []string{"ingress", "floor-ingress", "floor-hooks", "floor-replay"}},
	{"worker", []string{"worker", "floor-worker"}},
	{"nats", []string{"nats-server"}},
	{"postgres", []string{"postgres"}},
	{"client", []string{"client"}},
}

func cpuTitles() (out []string) {
	for _, c := range columns {
		out = append(out, c.title)
	}
	return append(out, "together")
}

// cpuCells are what the processes have taken, by column, and together.
func cpuCells(cpu map[string]float64) (out []string) {
	var sum float64
	for _, c := range columns {
		var used float64
		for _, name := range c.names {
			used += cpu[name]
		}
		out = append(out, fmt.Sprintf("%.0f", used))
		sum += used
	}
	return append(out, fmt.Sprintf("%.0f", sum))
}

func cpu(levels []Level) grid {
	out := grid{append([]string{"clients", "side"}, cpuTitles()...)}
	for _, level := range levels {
		for _, side := range level.sides() {
			if side.figures.Median.CPU == nil {
				continue
			}
			out = append(out, append([]string{fmt.Sprint(level.Clients), side.name}, cpuCells(side.figures.Median.CPU)...))
		}
	}
	return out
}

func allocated(levels []Level) grid {
	out := grid{{"clients", "side", "ingress", "worker", "together"}}
	for _, level := range levels {
		if level.Parley == nil || level.Parley.Median.Bytes == nil {
			continue
		}
		ingress, worker := level.Parley.Median.Bytes["ingress"], level.Parley.Median.Bytes["worker"]
		out = append(out, []string{
			fmt.Sprint(level.Clients), Parley, fmt.Sprintf("%.0f", ingress), fmt.Sprintf("%.0f", worker), fmt.Sprintf("%.0f", ingress+worker),
		})
	}
	return out
}

func (r *Report) goals() grid {
	out := grid{{"clients", "measure", "measured", "goal", "met"}}
	for _, g := range r.Goals {
		met := "no"
		if g.Met {
			met = "yes"
		}
		out = append(out, []string{fmt.Sprint(g.Clients), g.Measure, fmt.Sprintf("%.3g", g.Value), g.String(), met})
	}
	return out
}

const queryLength = 90

func (r *Report) statements() grid {
	out := grid{{"µs/run", "calls/run", "ms/call", "rows/call", "WAL bytes/run", "database", "statement"}}
	for _, st := range r.Statements {
		query := []rune(strings.TrimSpace(st.Query))
		if len(query) > queryLength {
			query = append(query[:queryLength-1], '…')
		}
		// To the left: the others are figures.
		text := string(query) + strings.Repeat(" ", queryLength-len(query))
		out = append(out, []string{
			fmt.Sprintf("%.1f", st.MicrosPerRun), fmt.Sprintf("%.3f", st.CallsPerRun), fmt.Sprintf("%.3f", st.MeanMillis),
			fmt.Sprintf("%.1f", st.RowsPerCall), fmt.Sprintf("%.0f", st.WALPerRun), st.Database, text,
		})
	}
	return out
}
