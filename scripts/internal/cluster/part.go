package cluster

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"parley/shared/lifecycle"
	"parley/shared/testkit"
)

// startPause is the delay between a failed start and the next attempt.
const startPause = 200 * time.Millisecond

// instance is one process of a part, from its start to its end.
type instance struct {
	pid   int
	done  <-chan struct{}
	ready func() bool
	why   func() string // describes how the instance ended
	end   func()        // stops the instance permanently
}

// over reports whether the instance has ended.
func (l *instance) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Part is one of the cluster's processes or servers. It is restarted whenever it ends. Its methods
// may be called from any goroutine.
type Part struct {
	// Kind is the kind of the part, such as "agent". Name is the kind and a number, as in "agent
	// 2".
	Name, Kind string
	// URL is the base URL of an ingress through its proxy Front. Other parts have none.
	URL string
	// Front, DB and Bus are the process's fault proxies. Front proxies the clients of an ingress.
	// DB and Bus proxy the process's connections to PostgreSQL and NATS. Servers have no proxies.
	Front, DB, Bus *testkit.FaultProxy

	launch func(ctx context.Context, extra Extra) (*instance, error) // returns when the process has started
	log    string                                                    // path of the log file

	mu        sync.Mutex
	now       *instance // nil while the part is down
	extra     Extra
	killed    bool
	frozen    bool
	resumed   time.Time // when the part was last resumed after a freeze
	excused   bool      // whether the part may end without a kill
	meanwhile func()    // called while the part is down after a kill
	starts    int
	failed    int // number of failed starts, including starts after which the part ended before it was ready
	lastFail  string
	ended     []string // descriptions of unexpected ends after the part was ready
}

// Extra contains changes that apply to the next starts of a part.
type Extra struct {
	Path string   // path of another program; empty: the default program
	Env  []string // additional environment variables, as "KEY=value"
}

// keepRunning starts the part and restarts it whenever it ends, until ctx ends.
func (p *Part) keepRunning(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		extra := p.extra
		p.mu.Unlock()
		l, err := p.launch(ctx, extra)
		if err != nil {
			p.failedToStart(err.Error())
			_ = lifecycle.Sleep(ctx, startPause)
			continue
		}
		p.noteStart(l)
		select {
		case <-l.done:
			p.noteEnd(ctx, l)
		case <-ctx.Done():
			l.end()
		}
	}
}

// failedToStart counts a failed start.
func (p *Part) failedToStart(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
	p.lastFail = why
}

// noteStart records that the part is up. It resets the state of the previous instance.
func (p *Part) noteStart(l *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.killed, p.frozen, p.resumed, p.excused, p.meanwhile = l, false, false, time.Time{}, false, nil
	p.starts++
}

// noteEnd records that the part is down. If it was neither killed nor excused, noteEnd also records
// the reason. After a kill, it calls the function in the field meanwhile, unless that is nil,
// before the restart.
func (p *Part) noteEnd(ctx context.Context, l *instance) {
	p.mu.Lock()
	killed, meanwhile, excused := p.killed, p.meanwhile, p.excused
	p.now = nil
	p.mu.Unlock()
	switch {
	case killed && meanwhile != nil:
		meanwhile()
	case killed:
	case excused:
		_ = lifecycle.Sleep(ctx, startPause)
	case l.ready():
		p.mu.Lock()
		p.ended = append(p.ended, fmt.Sprintf("%s exited unexpectedly: %s", p.Name, l.why()))
		p.mu.Unlock()
		_ = lifecycle.Sleep(ctx, startPause)
	default:
		p.failedToStart(l.why())
		_ = lifecycle.Sleep(ctx, startPause)
	}
}

// Kill9 kills the part with SIGKILL and returns when the process is gone. Before the restart, the
// argument meanwhile is called unless it is nil. Kill9 returns false and does nothing if the part
// is down or frozen, or was resumed less than awakeTime ago.
func (p *Part) Kill9(meanwhile func()) bool {
	p.mu.Lock()
	l := p.now
	if !p.exposed() || syscall.Kill(l.pid, syscall.SIGKILL) != nil {
		p.mu.Unlock()
		return false
	}
	p.killed, p.meanwhile = true, meanwhile
	p.mu.Unlock()
	<-l.done
	return true
}

// Term terminates the part gracefully, after which the part is restarted. It returns false and does
// nothing if the part is down or frozen, or was resumed less than awakeTime ago.
func (p *Part) Term() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.exposed() {
		return false
	}
	signal := syscall.SIGTERM
	if p.Kind == Postgres {
		signal = syscall.SIGINT // fast shutdown, which does not wait for clients to disconnect
	}
	p.killed = syscall.Kill(p.now.pid, signal) == nil
	return p.killed
}

// Excuse allows the part to end once without a kill, for example because its disk is full. The
// permission ends at the next restart.
func (p *Part) Excuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excused = p.now != nil
}

// Stop freezes the part until Cont is called. It returns false if the part is down or frozen, or
// was resumed less than awakeTime ago.
func (p *Part) Stop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.exposed() || syscall.Kill(p.now.pid, syscall.SIGSTOP) != nil {
		return false
	}
	p.frozen = true
	return true
}

// Cont resumes a frozen part.
func (p *Part) Cont() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && p.frozen && !p.now.over() {
		_ = syscall.Kill(p.now.pid, syscall.SIGCONT) // an error means that the process has ended
	}
	p.frozen, p.resumed = false, time.Now()
}

// awakeTime is the time in which a resumed part is not killed, so that its stale attempts try to
// write.
const awakeTime = 4 * time.Second

// exposed reports whether a signal may hit the part. The caller must hold p.mu.
func (p *Part) exposed() bool {
	return p.now != nil && !p.frozen && !p.killed && !p.now.over() && time.Since(p.resumed) >= awakeTime
}

// Next sets the changes that apply to the next starts of the part.
func (p *Part) Next(extra Extra) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = extra
}

// Ready reports whether the part is up and has logged that it is ready.
func (p *Part) Ready() bool {
	p.mu.Lock()
	l, frozen := p.now, p.frozen
	p.mu.Unlock()
	return l != nil && !frozen && !l.over() && l.ready()
}

// PID returns the part's process ID, or 0 while it is down.
func (p *Part) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return 0
	}
	return p.now.pid
}

// History counts a part's starts and failures. A test fails if Ended is not empty.
type History struct {
	Starts       int
	FailedStarts int      // starts after which the part ended by itself before it was ready, usually because its servers were down
	LastFailure  string   // the reason for the last failed start
	Ended        []string // unexpected ends after the part was ready
}

// History returns the part's starts and failures up to now.
func (p *Part) History() History {
	p.mu.Lock()
	defer p.mu.Unlock()
	return History{Starts: p.starts, FailedStarts: p.failed, LastFailure: p.lastFail, Ended: append([]string(nil), p.ended...)}
}
