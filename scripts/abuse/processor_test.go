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

// sampled is the time between two looks at the processes of the service.
const sampled = 100 * time.Millisecond

// process is a process of this machine at one look.
type process struct {
	id     processID
	parent int
	own    time.Duration // processor time
	below  time.Duration // of the ended processes below it that their parents waited for
}

// processID tells two processes with one number apart.
type processID struct {
	pid     int
	started string
}

// processes are those of this machine.
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
			continue // it has ended
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		fields := strings.Fields(string(raw[at+1:]))
		if err != nil || len(fields) < 20 {
			continue
		}
		number := func(n int) int {
			value, _ := strconv.Atoi(fields[n]) // the kernel writes numbers
			return value
		}
		found[pid] = process{
			id: processID{pid, fields[19]}, parent: number(1),
			own: time.Duration(number(11)+number(12)) * tick, below: time.Duration(number(13)+number(14)) * tick,
		}
	}
	return found
}

// meter adds up the processor time of a process and of all below it, from its first look on.
//
// The kernel adds the time of an ended process to its parent's if the parent waits for it, which nobody does for a killed reader of
// documents. A meter that looks often sees long ones, but not short ones. It takes the larger of both sums.
type meter struct {
	root   int
	first  time.Duration               // the kernel's sum at the first look
	last   time.Duration               // the kernel's sum at the last look
	seen   map[processID]process       // those of the tree, ended ones included
	before map[processID]time.Duration // their time at the first look
}

// look notes the time of the processes there are.
func (m *meter) look() {
	all := processes()
	begins := m.seen == nil
	if begins {
		m.seen, m.before = map[processID]process{}, map[processID]time.Duration{}
	}
	m.last = 0
	for pid, p := range all {
		_, ours := m.seen[p.id] // it may have lost its parent
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

// metered is the processor time that a process and all below it use while f runs.
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
	test, all, began := processes()[os.Getpid()].own, machine(), time.Now()
	var found latencies
	service := metered(pid, func() { found = f() })
	c.machine += machine() - all
	c.service += service
	c.test += processes()[os.Getpid()].own - test
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
