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

// life is a part from one start to its end.
type life interface {
	// Done is closed when it has ended.
	Done() <-chan struct{}
	// Kill ends it as a crash would, and waits until it is gone.
	Kill() error
	// End ends it for good, as fast as is sound.
	End()
	// Why says how it ended.
	Why() string
}

// part is a process of the service under test, or PostgreSQL, that is started again whenever it has ended: what a
// container's restart policy does.
type part struct {
	name, kind string
	launch     func(ctx context.Context) (life, error) // returns once it is ready

	mu     sync.Mutex
	now    life // nil while it is down
	up     chan struct{}
	struck bool
	down   time.Duration // how long it stays away after the strike
	ended  []string      // ends that no strike explains
}

const (
	// failedStarts is how often in a row a part may fail to start before that is given up.
	failedStarts = 8
	// startPause is what lies between a failed start and the next.
	startPause = 300 * time.Millisecond
)

func newPart(kind, name string, launch func(ctx context.Context) (life, error)) *part {
	return &part{name: name, kind: kind, launch: launch, up: make(chan struct{})}
}

// keep starts the part, and again whenever it has ended, until ctx ends.
func (p *part) keep(ctx context.Context) error {
	failed := 0
	for ctx.Err() == nil {
		l, err := p.launch(ctx)
		if err != nil {
			if failed++; ctx.Err() == nil && (failed >= failedStarts || errors.Is(err, pgserver.ErrNotInstalled)) {
				return fmt.Errorf("starting %s: %w", p.name, err)
			}
			_ = lifecycle.Sleep(ctx, startPause)
			continue
		}
		failed = 0
		p.serving(l)
		select {
		case <-l.Done():
			_ = lifecycle.Sleep(ctx, p.gone(l))
		case <-ctx.Done():
			l.End()
		}
	}
	return nil
}

// serving tells those who wait that the part is up.
func (p *part) serving(l life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.struck, p.down = l, false, 0
	close(p.up)
}

// gone notes that the part is down, and why if nobody struck it; it gives how long it stays away.
func (p *part) gone(l life) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.up = nil, make(chan struct{})
	if !p.struck {
		p.ended = append(p.ended, fmt.Sprintf("%s exited unexpectedly: %s", p.name, l.Why()))
	}
	return p.down
}

// await gives the part's life once it is up.
func (p *part) await(ctx context.Context) (life, error) {
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

// strike kills the part, when it is up, and keeps it away for a while.
func (p *part) strike(ctx context.Context, away time.Duration, before func()) error {
	for {
		l, err := p.await(ctx)
		if err != nil {
			return err
		}
		p.mu.Lock()
		same := p.now == l
		if same {
			p.struck, p.down = true, away
		}
		p.mu.Unlock()
		if !same {
			continue // it ended by itself just now
		}
		before()
		if err := l.Kill(); err != nil {
			return fmt.Errorf("killing %s: %w", p.name, err)
		}
		return nil
	}
}

// endings gives the ends that no strike explains.
func (p *part) endings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ended...)
}

// crew is the parts that are kept up together.
type crew struct {
	fail  context.CancelCauseFunc // ends the whole proof
	parts []*part
	wg    sync.WaitGroup
}

// join keeps a part up until ctx ends, and returns once it is ready for the first time.
func (c *crew) join(ctx context.Context, p *part) error {
	c.enlist(ctx, p)
	_, err := p.await(ctx)
	return err
}

// enlist is join without the wait.
func (c *crew) enlist(ctx context.Context, p *part) {
	c.parts = append(c.parts, p)
	c.wg.Go(func() {
		if err := p.keep(ctx); err != nil {
			c.fail(err)
		}
	})
}

// of gives a part by its name.
func (c *crew) of(name string) (*part, error) {
	for _, p := range c.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, errors.New("unknown part " + name)
}
