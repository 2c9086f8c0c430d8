package load

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheScheduleIsAPoissonProcess(t *testing.T) {
	t.Parallel()
	const n, rate = 100_000, 500
	gaps := func(seed uint64) []float64 {
		times := newSchedule(Arrivals{Rate: rate, Seed: seed})
		out, last := make([]float64, n), time.Duration(0)
		for i := range out {
			at := times.next()
			out[i], last = (at - last).Seconds(), at
		}
		return out
	}
	one := gaps(1)
	if !slices.Equal(one, gaps(1)) || slices.Equal(one, gaps(2)) {
		t.Error("a seed does not give the same moments again, or another one does")
	}
	var sum, squares float64
	for _, gap := range one {
		sum, squares = sum+gap, squares+gap*gap
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*rate-1) > 0.02 || math.Abs(deviation/mean-1) > 0.02 || slices.Min(one) < 0 {
		t.Errorf("gaps are %v s, deviation %v: want %v of both", mean, deviation, 1.0/rate)
	}
}

// due is how many requests a spec has due.
func due(s Spec) (n int64) {
	times := newSchedule(s.Arrivals)
	for times.next() < s.WarmUp+s.Duration {
		n++
	}
	return n
}

func arriving(s Spec, rate float64) Spec {
	s.Clients, s.Duration, s.Arrivals = 1, 250*time.Millisecond, Arrivals{Rate: rate, Seed: 1, InFlight: 500}
	return s
}

// One request at a time is answered, more slowly than they arrive: those behind it wait, and their latency says so.
func TestArrivalsDoNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	const each = 5 * time.Millisecond
	var one sync.Mutex
	r, s := serve(t, func(w http.ResponseWriter, n int) {
		one.Lock()
		defer one.Unlock()
		<-time.After(each)
		completed(w, n)
	})
	s = arriving(s, 400)
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	n := due(s)
	if result.Offered != n || result.Answered != n || result.Latencies.Count() != n || int64(len(r.keys)) != n || result.Late.Count() != n {
		t.Errorf("%d are due, %d were offered with %d keys, %d answered, %d measured", n, result.Offered, len(r.keys), result.Answered, result.Latencies.Count())
	}
	most := time.Duration(n)*each - s.Duration // the last one is due before the end, and answered when all have been
	if result.Latencies.Max() < most || result.Latencies.Quantile(0.5) < 2*each || result.InFlight < int(most/each) {
		t.Errorf("p50 %s, the longest %s of at least %s, %d in flight", result.Latencies.Quantile(0.5), result.Latencies.Max(), most, result.InFlight)
	}
	if result.Elapsed < time.Duration(n)*each || result.PerSecond() > float64(time.Second/each) {
		t.Errorf("%.0f answered a second, in %s", result.PerSecond(), result.Elapsed)
	}
}

func TestLatencyCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	const late = 3 * time.Second
	now := time.Now()
	a := &arrivals{spec: s, start: now.Add(-late), end: now, free: make(chan *connection, 1)}
	defer a.shut()
	for _, at := range []time.Time{now.Add(-late), now.Add(-late - time.Nanosecond)} { // the second one in the warm-up
		if err := a.request(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.conns) != 1 {
		t.Fatalf("%d connections for one request after the other", len(a.conns))
	}
	c := a.conns[0]
	if c.answered != 2 || c.latencies.Count() != 1 || c.latencies.Max() < late {
		t.Errorf("%d answered, %d measured, the longest took %s", c.answered, c.latencies.Count(), c.latencies.Max())
	}
}

func TestTheWarmUpOfArrivalsIsNotMeasured(t *testing.T) {
	t.Parallel()
	_, s := serve(t, completed)
	s = arriving(s, 400)
	all := due(s)
	s.WarmUp, s.Duration = s.Duration/2, s.Duration/2
	result, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if n := result.Latencies.Count(); result.Answered != all || n != result.Offered || n == 0 || n >= all {
		t.Errorf("%d answered of %d, %d measured, %d offered", result.Answered, all, n, result.Offered)
	}
}

func TestAServiceThatDoesNotKeepUpIsAnError(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	_, s := serve(t, func(w http.ResponseWriter, n int) {
		<-release
		completed(w, n)
	})
	t.Cleanup(func() { close(release) }) // before the server is closed
	s = arriving(s, 1000)
	s.Duration, s.Arrivals.InFlight = 10*time.Second, 3
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "does not keep up: 3 requests") {
		t.Errorf("error is %v", err)
	}
}

func TestWrongAnswersToArrivalsAreNamed(t *testing.T) {
	t.Parallel()
	_, s := serve(t, func(w http.ResponseWriter, n int) {
		if n == 2 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		completed(w, n)
	})
	result, err := Run(t.Context(), arriving(s, 400))
	if err != nil {
		t.Fatal(err)
	}
	if result.Failed["status 202"] != 1 || result.Failures() == nil || result.Latencies.Count() != result.Offered-1 {
		t.Errorf("%d measured of %d, failed: %v", result.Latencies.Count(), result.Offered, result.Failed)
	}
}

func TestWhatBreaksEndsArrivals(t *testing.T) {
	t.Parallel()
	_, s := serve(t, func(w http.ResponseWriter, n int) {
		if n > 5 {
			panic(http.ErrAbortHandler)
		}
		completed(w, n)
	})
	s = arriving(s, 400)
	s.Duration = 10 * time.Second
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), "reading answer") {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	_, s = serve(t, func(w http.ResponseWriter, n int) {
		if n > 5 {
			cancel(reason)
		}
		completed(w, n)
	})
	s = arriving(s, 400)
	s.Duration = 10 * time.Second
	if _, err := Run(ctx, s); !errors.Is(err, reason) {
		t.Errorf("error is %v", err)
	}
}
