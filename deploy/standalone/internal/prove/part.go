package prove

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/shared/lifecycle"
	"parley/shared/store/pgserver"
)

// instance is one process of a part, from its start to its end.
type instance interface {
	// Done is closed when the instance has ended.
	Done() <-chan struct{}
	// Kill ends the instance as a crash would, and waits until it has ended.
	Kill() error
	// End stops the instance as fast as is safe. The caller does not start another instance.
	End()
	// Why describes how the instance ended.
	Why() string
}

// part is a process of the service under test, or PostgreSQL. It is restarted whenever it ends,
// like a container with a restart policy. mu guards the field now and the fields after it.
type part struct {
	name, kind string
	launch     func(ctx context.Context) (instance, error) // starts an instance and returns when it is ready

	mu  sync.Mutex
	now instance // nil while the part is down
	// up is a channel that is closed while the part is up. noteEnd replaces it with an open
	// channel.
	up     chan struct{}
	killed bool
	down   time.Duration // delay before the next restart if the instance was killed
	ended  []string      // descriptions of instances that ended without a kill
}

const (
	// maxFailedStarts is the number of consecutive failed starts after which the proof fails.
	maxFailedStarts = 8
	// startPause is the delay after a failed start.
	startPause = 300 * time.Millisecond
)

// newPart returns a part that is down. keepRunning starts it.
func newPart(kind, name string, launch func(ctx context.Context) (instance, error)) *part {
	return &part{name: name, kind: kind, launch: launch, up: make(chan struct{})}
}

// keepRunning starts the part and restarts it whenever it ends, until ctx ends. It returns an error
// if the part cannot be started maxFailedStarts times in a row, or if PostgreSQL is not installed.
func (p *part) keepRunning(ctx context.Context) error {
	failed := 0
	for ctx.Err() == nil {
		l, err := p.launch(ctx)
		if err != nil {
			if failed++; ctx.Err() == nil && (failed >= maxFailedStarts || errors.Is(err, pgserver.ErrNotInstalled)) {
				return fmt.Errorf("starting %s: %w", p.name, err)
			}
			_ = lifecycle.Sleep(ctx, startPause)
			continue
		}
		failed = 0
		p.noteStart(l)
		select {
		case <-l.Done():
			_ = lifecycle.Sleep(ctx, p.noteEnd(l))
		case <-ctx.Done():
			l.End()
		}
	}
	return nil
}

// noteStart records that the part is up. It wakes the goroutines that wait for the part.
func (p *part) noteStart(l instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.killed, p.down = l, false, 0
	close(p.up)
}

// noteEnd records that the part is down. If the instance was not killed, it also records how it
// ended. It returns the delay before the restart.
func (p *part) noteEnd(l instance) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.up = nil, make(chan struct{})
	if !p.killed {
		p.ended = append(p.ended, fmt.Sprintf("%s exited unexpectedly: %s", p.name, l.Why()))
	}
	return p.down
}

// await waits until the part is up and returns the instance. The instance may end at any time.
func (p *part) await(ctx context.Context) (instance, error) {
	for {
		p.mu.Lock()
		l, up := p.now, p.up
		p.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", p.name, context.Cause(ctx))
		}
	}
}

// kill waits until the part is up. It calls the argument before, and then kills the part. The part
// restarts after the time in the argument away.
func (p *part) kill(ctx context.Context, away time.Duration, before func()) error {
	for {
		l, err := p.await(ctx)
		if err != nil {
			return err
		}
		p.mu.Lock()
		same := p.now == l
		if same {
			p.killed, p.down = true, away
		}
		p.mu.Unlock()
		if !same {
			continue // this instance has ended by itself, so wait for the next one
		}
		before()
		if err := l.Kill(); err != nil {
			return fmt.Errorf("killing %s: %w", p.name, err)
		}
		return nil
	}
}

// unexpectedEnds describes the ends of instances that were not killed.
func (p *part) unexpectedEnds() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ended...)
}

// partSet is a set of parts that run at the same time. Parts are only added, by one goroutine.
type partSet struct {
	fail  context.CancelCauseFunc // cancels the whole proof
	parts []*part
	wg    sync.WaitGroup
}

// addAndWait keeps a part running until ctx ends. It returns after the part's first start.
func (c *partSet) addAndWait(ctx context.Context, p *part) error {
	c.add(ctx, p)
	_, err := p.await(ctx)
	return err
}

// add keeps a part running until ctx ends. It does not wait for the part's first start.
func (c *partSet) add(ctx context.Context, p *part) {
	c.parts = append(c.parts, p)
	c.wg.Go(func() {
		if err := p.keepRunning(ctx); err != nil {
			c.fail(err)
		}
	})
}

// of returns the part with the given name.
func (c *partSet) of(name string) (*part, error) {
	for _, p := range c.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, errors.New("unknown part " + name)
}
