//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// variable is the environment variable that assigns actions to points.
const variable = "PARLEY_FAILPOINTS"

// armed is the action at a point.
type armed struct {
	action string
	path   string        // for hold
	pause  time.Duration // for delay and kill

	mu   sync.Mutex
	left int // number of further passes until the action is taken; the action is taken only once
}

// table has the actions by point. The variable is parsed once. If its value is invalid, the process
// exits; otherwise a test could pass without its fault.
var table = sync.OnceValue(func() map[Point]*armed {
	points, err := parse(os.Getenv(variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, "failpoint:", err)
		os.Exit(1)
	}
	return points
})

// Here takes the action assigned to the point.
func Here(p Point) {
	a := table()[p]
	if a == nil || !a.due() {
		return
	}

	fmt.Fprintf(os.Stderr, "failpoint: %s: %s\n", p, a.action)
	switch a.action {
	case "kill":
		time.Sleep(a.pause)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(a.pause) // wait for the signal to freeze the process; this thread may still run for a moment
	case "hold":
		for _, err := os.Stat(a.path); err != nil; _, err = os.Stat(a.path) {
			time.Sleep(10 * time.Millisecond)
		}
	case "delay":
		time.Sleep(a.pause)
	}
}

// due counts a pass, and reports whether the action is due.
func (a *armed) due() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left--
	return a.left == 0
}

// parse reads point=action[:argument][@times], separated by commas.
func parse(text string) (map[Point]*armed, error) {
	points := map[Point]*armed{}
	for entry := range strings.SplitSeq(text, ",") {
		if entry == "" {
			continue
		}
		name, what, found := strings.Cut(entry, "=")
		if !found {
			return nil, fmt.Errorf("%s: %q is not point=action", variable, entry)
		}
		a, err := parseAction(what)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", variable, entry, err)
		}
		points[Point(name)] = a
	}

	return points, nil
}

// parseAction parses action[:argument][@times]. It returns an error if the action does not exist or
// its argument is missing or invalid.
func parseAction(what string) (*armed, error) {
	a := &armed{left: 1}
	what, times, counted := strings.Cut(what, "@")
	var argument string
	a.action, argument, _ = strings.Cut(what, ":")
	var err error
	switch {
	case a.action == "hold" && argument != "":
		a.path = argument
	case a.action == "stop" && argument == "":
		a.pause = 100 * time.Millisecond
	case a.action == "kill" && argument == "":
	case a.action == "kill", a.action == "delay":
		a.pause, err = time.ParseDuration(argument)
	default:
		err = fmt.Errorf("unknown action %s", what)
	}

	if err == nil && counted {
		a.left, err = strconv.Atoi(times)
	}

	return a, err
}
