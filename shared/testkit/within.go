package testkit

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Within returns the time that a test should allow for something that takes the duration d on an
// idle machine. In a full run, Within returns d. In a short run, it returns three times d, because
// the tests of other packages use the same few cores. With the race detector, it returns five times
// d, because the detector makes code several times slower.
//
// If more threads want to run than the machine has cores, the result is multiplied by the number of
// threads for each core. Call Within after the measured time has passed, so that the machine's load
// during this time counts.
func Within(d time.Duration) time.Duration {
	d = Scaled(d)
	switch {
	case Race:
		return 5 * d
	case flag.Parsed() && testing.Short():
		return 3 * d
	default:
		return d
	}
}

// Scaled multiplies a duration by the number of threads that want to run for each core, if that is
// more than 1. Use it instead of Within for a bound that is only a little shorter than the time
// that a faulty program takes.
func Scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * load()) }

// maxLoad bounds the load that Within accepts. A container may see the load of a host with many
// more cores than the container has.
const maxLoad = 20

// load returns the number of threads that want to run for each core, but at least 1. It is 1 on
// systems without /proc/loadavg.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return loadFrom(string(content), runtime.NumCPU())
}

// loadFrom returns the load that the content of /proc/loadavg states: the average of the last
// minute or the current number of threads, whichever is higher.
func loadFrom(content string, cores int) float64 {
	fields := strings.Fields(content) // 0.42 2.75 6.35 1/423 12345
	if len(fields) < 4 {
		return 1
	}
	average, _ := strconv.ParseFloat(fields[0], 64) // 0 if there is no number
	now, _, _ := strings.Cut(fields[3], "/")
	current, _ := strconv.ParseFloat(now, 64)
	return min(max(average/float64(cores), current/float64(cores), 1), maxLoad)
}

// Late reports whether more time than Within(d) has passed. The argument began is the start of that
// time. Late reads the machine's load only if more time than d has passed, so a loop that waits for
// an event can call it each time.
func Late(began time.Time, d time.Duration) bool {
	took := time.Since(began)
	return took > d && took > Within(d)
}

// Eventually calls a function every two milliseconds until it returns true. It fails the test if
// that takes longer than limit, or longer than Within(limit) on a busy machine.
func Eventually(tb testing.TB, limit time.Duration, what string, is func() bool) {
	tb.Helper()
	Poll(tb, 2*time.Millisecond, limit, what, is)
}

// Poll is like Eventually, but the argument every is the interval between calls. Use it for
// functions that send requests.
func Poll(tb testing.TB, every, limit time.Duration, what string, is func() bool) {
	tb.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for began := time.Now(); !is(); <-tick.C {
		if Late(began, limit) {
			tb.Fatalf("not true after %s: %s", time.Since(began), what)
		}
	}
}
