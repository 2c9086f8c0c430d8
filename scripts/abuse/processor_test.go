package abuse

import (
	"bytes"
	"fmt"
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

// machine is the processor time that all programs of the machine, and others on the same host, have used.
func machine() (busy time.Duration) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	for n, field := range strings.Fields(first) {
		if n < 1 || n > 8 || n == 4 || n == 5 { // its name, guests, which are users' already, idle, waiting for a disk
			continue
		}
		ticks, _ := strconv.Atoi(field) // the kernel writes numbers
		busy += time.Duration(ticks) * tick
	}
	return busy
}

// cores is the processor time that the service, the test and all programs of the machine have used of some time.
type cores struct{ service, test, machine, of time.Duration }

func (c *cores) measure(pid int, f func() latencies) latencies {
	service, test, all, began := spent(pid, true), spent(os.Getpid(), false), machine(), time.Now()
	found := f()
	c.machine += machine() - all
	c.service += spent(pid, true) - service
	c.test += spent(os.Getpid(), false) - test
	c.of += time.Since(began)
	return found
}

// others is how many cores were used by others.
func (c *cores) others() float64 {
	return max(c.machine-c.service-c.test, 0).Seconds() / max(c.of, tick).Seconds()
}

func (c *cores) String() string {
	share := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()/c.of.Seconds(), 'f', 2, 64) }
	return fmt.Sprintf("%s cores of the service, %s of the test, %.2f of others", share(c.service), share(c.test), c.others())
}
