package abuse

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc on Linux.
const tick = 10 * time.Millisecond

// spent is the processor time of a process and, if asked for, of all below it, ended ones included.
func spent(pid int, below bool) time.Duration {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	own, children := map[int]time.Duration{}, map[int][]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		at := bytes.LastIndexByte(raw, ')')
		if err != nil || at < 0 {
			continue // it has ended
		}
		process, err := strconv.Atoi(strings.Split(file, "/")[2])
		fields := strings.Fields(string(raw[at+1:]))
		if err != nil || len(fields) < 15 {
			continue
		}
		number := func(n int) int {
			value, _ := strconv.Atoi(fields[n]) // the kernel writes numbers
			return value
		}
		children[number(1)] = append(children[number(1)], process)
		own[process] = time.Duration(number(11)+number(12)) * tick
		if below {
			own[process] += time.Duration(number(13)+number(14)) * tick
		}
	}
	return sum(pid, own, children, below)
}

func sum(pid int, own map[int]time.Duration, children map[int][]int, below bool) time.Duration {
	total := own[pid]
	if below {
		for _, child := range children[pid] {
			total += sum(child, own, children, below)
		}
	}
	return total
}

// cores is the processor time that service and test have used of some time.
type cores struct{ service, test, of time.Duration }

func (c *cores) measure(pid int, f func() latencies) latencies {
	service, test, began := spent(pid, true), spent(os.Getpid(), false), time.Now()
	found := f()
	c.service += spent(pid, true) - service
	c.test += spent(os.Getpid(), false) - test
	c.of += time.Since(began)
	return found
}

func (c *cores) String() string {
	share := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()/c.of.Seconds(), 'f', 2, 64) }
	return share(c.service) + " cores of the service, " + share(c.test) + " of the test"
}
