package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/shared/testkit"
)

// load is a set of callers. Until end is called, each caller posts one trigger after the other, and
// waits for each response.
type load struct {
	post    func(ctx context.Context, caller, n int) api.Answer
	stop    context.CancelFunc
	callers sync.WaitGroup

	mu    sync.Mutex
	calls []posted
}

// posted is one trigger that a load has posted, and its response.
type posted struct {
	caller, n int
	began     time.Time
	took      time.Duration
	answer    api.Answer
}

// start starts the given number of callers, which are numbered from 0.
func (l *load) start(t *testing.T, callers int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for caller := range callers {
		l.callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				began := time.Now()
				got := l.post(context.WithoutCancel(ctx), caller, n)
				l.mu.Lock()
				l.calls = append(l.calls, posted{caller, n, began, time.Since(began), got})
				l.mu.Unlock()
			}
		})
	}
}

// await waits until the given number of further responses have arrived.
func (l *load) await(t *testing.T, more int) {
	t.Helper()
	had := l.count()
	eventually(t, 2*api.Timeout, strconv.Itoa(more)+" more responses", func() bool { return l.count() >= had+more })
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// end waits for the outstanding responses, and returns all posted triggers in the order of their
// responses.
func (l *load) end() []posted {
	l.stop()
	l.callers.Wait()
	return l.calls
}

// runFor returns the ID of the run that a response contains, or "". It does not fail the test, so
// goroutines can call it.
func runFor(a api.Answer) string {
	var r api.Run
	if json.Unmarshal(a.Body, &r) != nil {
		return ""
	}
	return r.ID
}

// percentile returns the percentile p (0 to 1) of durations by the nearest-rank method.
func percentile(of []time.Duration, p float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// tookFor returns the durations of calls.
func tookFor(calls []posted) (took []time.Duration) {
	for _, c := range calls {
		took = append(took, c.took)
	}
	return took
}

// bound returns the limit for a measured value. The limit is the argument promised. If the
// machine's load average is above two for each core, measurements are unreliable, and the limit is
// the argument busy.
func bound(t *testing.T, promised, busy float64) float64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}

	waiting, err := strconv.ParseFloat(strings.Fields(string(raw))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	if waiting <= float64(2*runtime.NumCPU()) {
		return promised
	}

	t.Logf("NOT TESTED with the promised bound: bound = %.1f instead of %.1f, because the machine's load is %.0f", busy, promised, waiting)
	return busy
}

// filled returns the resident memory of a process without mapped files, in bytes.
func filled(t *testing.T, p *testkit.Process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("the status of process %d contains no RssAnon: %s", p.PID(), status)
	}

	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
