package prove

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/deploy/standalone/internal/console"
)

func TestTable(t *testing.T) {
	t.Parallel()
	r := Result{
		Verdict: judge(proved(1000)), OK: true, Seed: 7, Workers: 2, Requests: 1503, DurationMS: 41_530, Repeated: 12,
		Killed: map[string]int{kindWorker: 4, kindNATS: 2}, Kills: make([]KillRecord, 6), Retries: map[string]int{"503": 3, "connection lost": 500},
	}

	want := `
triggers     1000
answered     1000  in 1503 requests; retried after: 503 3×, connection lost 500×
runs         1000
effects      1000  12 bookings repeated a known key and were not counted
lost            0
doubled         0
kills           6  nats 2×, worker 4×
duration    41.5s  from the first trigger to the last answer
seed       7

Passed: every trigger was answered by one run with one effect, and a replay returned the same answer.
`
	if got := table(r); got != want {
		t.Errorf("printed:\n%s", got)
	}

	r.Verdict, r.OK, r.Kept = judge(Evidence{Answers: make([]Answer, 9)}), false, "/tmp/x"
	got := table(r)
	for _, part := range []string{"lost            9", "fault: trigger 0 has no effect\n", "fault: trigger 2 has no answer: the time limit was reached\nand 12 more\n", "kept in /tmp/x"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in:\n%s", part, got)
		}
	}

	if strings.Contains(got, "Passed") {
		t.Errorf("a failed trial is printed as passed:\n%s", got)
	}
}

// TestJSONIsOneObjectAndNothingElse checks that the only output with --json is the result. Without
// --json, each kill and the progress are printed, too.
func TestJSONIsOneObjectAndNothingElse(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	p := &Prove{Triggers: 3, Workers: 1, JSON: true}
	report := p.reporter(&console.Console{Out: &out})
	report.begin(p, 1, "/tmp/x")
	report.ready(1)
	report.killed(KillRecord{Part: "worker 1"})
	report.answered(2, "x")
	report.done()
	if err := report.result(Result{Verdict: judge(proved(3)), OK: true, Seed: 1}); err != nil {
		t.Fatal(err)
	}

	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got["ok"] != true || got["effects"] != 3.0 || got["lost"] != 0.0 || got["doubled"] != 0.0 || got["seed"] != 1.0 {
		t.Errorf("printed %s", out.String())
	}

	out.Reset()
	p.JSON = false
	report = p.reporter(&console.Console{Out: &out})
	report.progress = &progress // as on a terminal
	report.began = time.Now().Add(-1500 * time.Millisecond)
	report.begin(p, 1, "/tmp/x")
	report.answered(2, "x")
	report.killed(KillRecord{Part: "worker 1", Answered: 57, UnderWay: 192, Booking: 16, DownMS: 125})
	report.done()
	report.answered(3, "x")
	if want := "  1.5 s  kill -9 worker 1  after   57 answers, with 192 triggers in progress, 16 of them booking; down for 125 ms\n"; !strings.Contains(out.String(), want) {
		t.Errorf("printed %s", out.String())
	}
	if !strings.Contains(progress.String(), "(0/3)") { // the bar may skip updates, but it shows the initial state
		t.Errorf("progress bar = %q, want (0/3) in it", progress.String())
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	good := Prove{Triggers: 1, Workers: 1, Timeout: time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}

	for says, spoil := range map[string]func(p *Prove){
		"--triggers must be between 1 and 100000, not 0":      func(p *Prove) { p.Triggers = 0 },
		"--triggers must be between 1 and 100000, not 100001": func(p *Prove) { p.Triggers = maxTriggers + 1 },
		"--workers must be between 1 and 16, not 0":           func(p *Prove) { p.Workers = 0 },
		"--workers must be between 1 and 16, not 17":          func(p *Prove) { p.Workers = maxWorkers + 1 },
		"--timeout must be at least 1s, not 0s":               func(p *Prove) { p.Timeout = 0 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Validate(); err == nil || err.Error() != says {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}
