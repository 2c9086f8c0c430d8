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

// startPause is what lies between a failed start and the next.
const startPause = 200 * time.Millisecond

// life is a part from one start to its end.
type life struct {
	pid   int
	done  <-chan struct{}
	ready func() bool
	why   func() string // how it ended
	end   func()        // ends it for good
}

func (l *life) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Part is a process of the cluster, or one of its servers, that is started again whenever it has ended. Its methods may be used from any
// goroutine.
type Part struct {
	// Name is as in "agent 2", Kind as in "agent".
	Name, Kind string
	// URL is where an ingress is asked, through Front; empty of other parts.
	URL string
	// Front, DB and Bus are the links of a process: that of an ingress' clients, and those to the two servers. Of servers they are nil.
	Front, DB, Bus *testkit.FaultProxy

	launch func(ctx context.Context, extra Extra) (*life, error) // returns once it is started
	log    string                                                // file of what it has written

	mu        sync.Mutex
	now       *life // nil while it is down
	extra     Extra
	struck    bool
	frozen    bool
	excused   bool   // it may end by itself
	meanwhile func() // while it is down after a strike
	starts    int
	failed    int // starts that failed, and ends before it was ready
	lastFail  string
	ended     []string // ends of a ready part that no strike explains
}

// Extra is what a part's next starts have beside the cluster's settings.
type Extra struct {
	Path string   // of another program; empty: the usual one
	Env  []string // as in "KEY=value"
}

// keep starts the part, and again whenever it has ended, until ctx ends.
func (p *Part) keep(ctx context.Context) {
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
		p.serving(l)
		select {
		case <-l.done:
			p.gone(ctx, l)
		case <-ctx.Done():
			l.end()
		}
	}
}

func (p *Part) failedToStart(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
	p.lastFail = why
}

func (p *Part) serving(l *life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.struck, p.frozen, p.excused, p.meanwhile = l, false, false, false, nil
	p.starts++
}

// gone notes that the part is down, and does what is to be done before it is started again.
func (p *Part) gone(ctx context.Context, l *life) {
	p.mu.Lock()
	struck, meanwhile, excused := p.struck, p.meanwhile, p.excused
	p.now = nil
	p.mu.Unlock()
	switch {
	case struck && meanwhile != nil:
		meanwhile()
	case struck:
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

// Kill9 ends the part as a crash would, and returns when it is gone; meanwhile, if not nil, is called before it is started again. False:
// it was down or frozen, and nothing was done.
func (p *Part) Kill9(meanwhile func()) bool {
	p.mu.Lock()
	l := p.now
	if l == nil || p.frozen || p.struck || l.over() || syscall.Kill(l.pid, syscall.SIGKILL) != nil {
		p.mu.Unlock()
		return false
	}
	p.struck, p.meanwhile = true, meanwhile
	p.mu.Unlock()
	<-l.done
	return true
}

// Term ends the part in order; it is started again. False: it was down or frozen, and nothing was done.
func (p *Part) Term() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || p.frozen || p.struck || p.now.over() {
		return false
	}
	signal := syscall.SIGTERM
	if p.Kind == Postgres {
		signal = syscall.SIGINT // a fast shutdown: it does not wait for its clients to leave
	}
	p.struck = syscall.Kill(p.now.pid, signal) == nil
	return p.struck
}

// Excuse says that the part may end by itself from now on, until it is started again: its disk is full.
func (p *Part) Excuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excused = p.now != nil
}

// Stop freezes the part until Cont; false when it is down or frozen already.
func (p *Part) Stop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || p.frozen || p.struck || p.now.over() || syscall.Kill(p.now.pid, syscall.SIGSTOP) != nil {
		return false
	}
	p.frozen = true
	return true
}

// Cont lets a frozen part go on.
func (p *Part) Cont() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && p.frozen && !p.now.over() {
		_ = syscall.Kill(p.now.pid, syscall.SIGCONT) // it can only have ended
	}
	p.frozen = false
}

// Next sets what the part's next starts have beside the cluster's settings.
func (p *Part) Next(extra Extra) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = extra
}

// Ready tells whether the part is up and has said that it is ready.
func (p *Part) Ready() bool {
	p.mu.Lock()
	l, frozen := p.now, p.frozen
	p.mu.Unlock()
	return l != nil && !frozen && !l.over() && l.ready()
}

// PID is the part's process id; 0 while it is down.
func (p *Part) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return 0
	}
	return p.now.pid
}

// Told is how a part fared.
type Told struct {
	Starts       int
	FailedStarts int      // ends before it was ready that no strike explains: its servers were down
	LastFailure  string   // why the last of them failed
	Ended        []string // ends of a ready part that no strike explains
}

// Told gives how the part has fared until now.
func (p *Part) Told() Told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Told{Starts: p.starts, FailedStarts: p.failed, LastFailure: p.lastFail, Ended: append([]string(nil), p.ended...)}
}
