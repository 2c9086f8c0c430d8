// Package supervise keeps processes running for tests and proofs that kill them. A Part is restarted
// whenever it ends, like a container with a restart policy.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"parley/shared/lifecycle"
)

const (
	// startPause is the delay before the next start, after a failed start or after an instance that
	// was not killed has ended.
	startPause = 200 * time.Millisecond
	// awakeTime is the time in which a resumed part is not killed, so that its stale attempts try to
	// write.
	awakeTime = 4 * time.Second
	// readyPoll is the interval at which Await checks whether the part is ready.
	readyPoll = 10 * time.Millisecond
)

// Part is a process that is restarted whenever it ends. Its methods may be called from any
// goroutine. Its exported fields must not change after the call of Run.
type Part struct {
	// Name names the part in messages, such as "agent 2".
	Name string
	// Launch starts an instance. It may return before the instance is ready; see Instance.Ready.
	Launch func(ctx context.Context) (*Instance, error)
	// MaxFailures is the number of consecutive errors of Launch after which Run gives up; 0: no
	// limit.
	MaxFailures int
	// Permanent is an error of Launch after which Run gives up at once; nil: none.
	Permanent error

	mu        sync.Mutex
	now       *Instance // nil while the part is down
	killed    bool
	frozen    bool
	resumed   time.Time // when the part was last resumed after a freeze
	excused   bool      // whether the part may end without a kill
	meanwhile func()    // called while the part is down after a kill
	history   History
}

// History counts a part's starts and failures. A test fails if Ended is not empty.
type History struct {
	Starts       int
	FailedStarts int      // starts after which the part ended by itself before it was ready, usually because its servers were down
	LastFailure  string   // the reason for the last failed start
	Ended        []string // unexpected ends after the part was ready
}

// Run starts the part and restarts it whenever it ends, until ctx ends. It returns an error if
// Launch fails MaxFailures times in a row or with the error Permanent.
func (p *Part) Run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		l, err := p.Launch(ctx)
		if err != nil {
			p.noteFailure(err.Error())
			if failures++; ctx.Err() == nil && (failures == p.MaxFailures || p.Permanent != nil && errors.Is(err, p.Permanent)) {
				return fmt.Errorf("starting %s: %w", p.Name, err)
			}
			_ = lifecycle.Sleep(ctx, startPause)
			continue
		}

		failures = 0
		p.noteStart(l)
		select {
		case <-l.Done:
			p.noteEnd(ctx, l)
		case <-ctx.Done():
			l.End()
		}
	}
	return nil
}

// noteFailure counts a failed start.
func (p *Part) noteFailure(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.FailedStarts++
	p.history.LastFailure = why
}

// noteStart records that the part is up. It resets the state of the previous instance.
func (p *Part) noteStart(l *Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.killed, p.frozen, p.resumed, p.excused, p.meanwhile = l, false, false, time.Time{}, false, nil
	p.history.Starts++
}

// noteEnd records that the part is down, and returns when the part may restart. If the part was
// neither killed nor excused, noteEnd also records the reason. After a kill, it calls the function
// in the field meanwhile, unless that is nil.
func (p *Part) noteEnd(ctx context.Context, l *Instance) {
	p.mu.Lock()
	killed, meanwhile, excused := p.killed, p.meanwhile, p.excused
	p.now = nil
	p.mu.Unlock()
	switch {
	case killed && meanwhile != nil:
		meanwhile()
		return
	case killed:
		return
	case excused:
	case l.Ready():
		p.mu.Lock()
		p.history.Ended = append(p.history.Ended, fmt.Sprintf("%s exited unexpectedly: %s", p.Name, l.Why()))
		p.mu.Unlock()
	default:
		p.noteFailure(l.Why())
	}
	_ = lifecycle.Sleep(ctx, startPause)
}

// Kill9 kills the part with SIGKILL and returns when the process is gone. Before the restart, the
// argument meanwhile is called unless it is nil. Kill9 returns false and does nothing if the part
// is down or frozen, or was resumed less than awakeTime ago.
func (p *Part) Kill9(meanwhile func()) bool {
	p.mu.Lock()
	l := p.now
	if !p.exposed() || syscall.Kill(l.PID, syscall.SIGKILL) != nil {
		p.mu.Unlock()
		return false
	}
	p.killed, p.meanwhile = true, meanwhile
	p.mu.Unlock()
	<-l.Done
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
	p.killed = syscall.Kill(p.now.PID, p.now.Term) == nil
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
	if !p.exposed() || syscall.Kill(p.now.PID, syscall.SIGSTOP) != nil {
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
		_ = syscall.Kill(p.now.PID, syscall.SIGCONT) // an error means that the process has ended
	}
	p.frozen, p.resumed = false, time.Now()
}

// exposed reports whether a signal may hit the part. The caller must hold p.mu.
func (p *Part) exposed() bool {
	return p.now != nil && !p.frozen && !p.killed && !p.now.over() && time.Since(p.resumed) >= awakeTime
}

// Ready reports whether the part is up and ready.
func (p *Part) Ready() bool {
	p.mu.Lock()
	l, frozen := p.now, p.frozen
	p.mu.Unlock()
	return l != nil && !frozen && !l.over() && l.Ready()
}

// Await waits until the part is ready. The part may end at any time.
func (p *Part) Await(ctx context.Context) error {
	for !p.Ready() {
		if lifecycle.Sleep(ctx, readyPoll) != nil {
			return fmt.Errorf("waiting for %s: %w", p.Name, context.Cause(ctx))
		}
	}
	return nil
}

// PID returns the part's process ID, or 0 while it is down.
func (p *Part) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return 0
	}
	return p.now.PID
}

// History returns the part's starts and failures up to now.
func (p *Part) History() History {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.history
	h.Ended = append([]string(nil), h.Ended...)
	return h
}
