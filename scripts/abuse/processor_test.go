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

// tick is the unit of CPU time in Linux's /proc.
const tick = 10 * time.Millisecond

// sampled is the interval at which the meter samples the service's processes.
const sampled = 100 * time.Millisecond

// process contains the CPU times of one process in a sample.
type process struct {
	id     processID
	parent int
	own    time.Duration // CPU time of the process itself
	below  time.Duration // CPU time of ended descendants that their parents have waited for
}

// processID identifies a process. It includes the start time, because the system reuses PIDs.
type processID struct {
	pid     int
	started string
}

// processes returns all processes of the machine.
func processes() map[int]process {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}

	found := map[int]process{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		at := bytes.LastIndexByte(raw, ')')
		if err != nil || at < 0 {
			continue // the process has ended
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		fields := strings.Fields(string(raw[at+1:]))
		if err != nil || len(fields) < 20 {
			continue
		}
		number := func(n int) int {
			value, _ := strconv.Atoi(fields[n]) // an error is impossible, because the kernel writes numbers
			return value
		}
		found[pid] = process{
			id: processID{pid, fields[19]}, parent: number(1),
			own: time.Duration(number(11)+number(12)) * tick, below: time.Duration(number(13)+number(14)) * tick,
		}
	}
	return found
}

// meter sums the CPU time of a process and its descendants since its first sample.
//
// The kernel adds the CPU time of an ended process to the parent's only if the parent waits for the
// process. No process waits for a document reader that was killed. Frequent samples include the
// time of long-running processes, but miss short ones. The meter therefore uses the larger of the
// kernel's sum and the samples' sum.
type meter struct {
	root   int
	first  time.Duration               // CPU time in the first sample according to the kernel
	last   time.Duration               // CPU time in the last sample according to the kernel
	seen   map[processID]process       // the process and its descendants in all samples, including those that have ended
	before map[processID]time.Duration // CPU time of each process at the first sample
}

// look takes a sample of the CPU times of the running processes.
func (m *meter) look() {
	all := processes()
	begins := m.seen == nil
	if begins {
		m.seen, m.before = map[processID]process{}, map[processID]time.Duration{}
	}

	m.last = 0
	for pid, p := range all {
		_, ours := m.seen[p.id] // a descendant still belongs to the service after its parent has ended
		for up := pid; !ours && up > 1; up = all[up].parent {
			ours = up == m.root
		}
		if !ours {
			continue
		}
		m.seen[p.id] = p
		m.last += p.own + p.below
		if begins {
			m.before[p.id] = p.own
		}
	}

	if begins {
		m.first = m.last
	}
}

func (m *meter) spent() time.Duration {
	var total time.Duration
	for id, p := range m.seen {
		total += p.own - m.before[id]
	}
	return max(total, m.last-m.first)
}

// metered returns the CPU time that a process and its descendants use while f runs.
func metered(pid int, f func()) time.Duration {
	m := &meter{root: pid}
	m.look()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for every := time.NewTicker(sampled); ; {
			select {
			case <-every.C:
				m.look()
			case <-over:
				every.Stop()
				return
			}
		}
	}()

	f()
	close(over)
	<-ended
	m.look()
	return m.spent()
}

// machine returns the CPU time that all programs on the machine have used. It includes the time
// that other virtual machines on the same host have taken.
func machine() (busy time.Duration) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}

	first, _, _ := strings.Cut(string(raw), "\n")
	for n, field := range strings.Fields(first) {
		if n < 1 || n > 8 || n == 4 || n == 5 { // skip the name, idle time, I/O wait, and guest time, which is part of user time
			continue
		}
		ticks, _ := strconv.Atoi(field) // an error is impossible, because the kernel writes numbers
		busy += time.Duration(ticks) * tick
	}
	return busy
}

// cores contains the CPU times of the service, the test and the whole machine in a period.
type cores struct{ service, test, machine, of time.Duration }

func (c *cores) measure(pid int, f func() latencies) latencies {
	test, all, began := processes()[os.Getpid()].own, machine(), time.Now()
	var found latencies
	service := metered(pid, func() { found = f() })
	c.machine += machine() - all
	c.service += service
	c.test += processes()[os.Getpid()].own - test
	c.of += time.Since(began)
	return found
}

// others returns the average number of cores that other programs used.
func (c *cores) others() float64 {
	return max(c.machine-c.service-c.test, 0).Seconds() / max(c.of, tick).Seconds()
}

func (c *cores) String() string {
	share := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds()/c.of.Seconds(), 'f', 2, 64) }
	return fmt.Sprintf("cores used: service %s, test %s, others %.2f", share(c.service), share(c.test), c.others())
}
