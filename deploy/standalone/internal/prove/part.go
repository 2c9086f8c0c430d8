package prove

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/shared/lifecycle"
	"parley/shared/lifecycle/childproc"
	"parley/shared/lifecycle/supervise"
	"parley/shared/store/pgserver"
)

const (
	// maxFailedStarts is the number of consecutive failed starts after which the proof fails.
	maxFailedStarts = 8
	// killPause is the pause after an unsuccessful kill.
	killPause = 10 * time.Millisecond
)

// newPart returns a part that is down. Its function launch returns when the part is ready.
func newPart(name string, launch func(ctx context.Context) (*supervise.Instance, error)) *supervise.Part {
	return &supervise.Part{Name: name, Launch: launch, MaxFailures: maxFailedStarts, Permanent: pgserver.ErrNotInstalled}
}

// kill waits until the part is up. It calls the argument before, and then kills the part. The part
// restarts after the time in the argument away. If the part ends by itself, kill begins again.
func kill(ctx context.Context, p *supervise.Part, away time.Duration, before func()) error {
	for {
		if err := p.Await(ctx); err != nil {
			return err
		}
		before()
		if p.Kill9(func() { _ = lifecycle.Sleep(ctx, away) }) {
			return nil
		}
		// This instance has ended by itself, so wait for the next one.
		if err := lifecycle.Sleep(ctx, killPause); err != nil {
			return err
		}
	}
}

// partSet is a set of parts that run at the same time. Parts are only added, by one goroutine.
type partSet struct {
	fail  context.CancelCauseFunc // cancels the whole proof
	parts []*supervise.Part
	wg    sync.WaitGroup
}

// addAndWait keeps a part running until ctx ends. It returns after the part's first start.
func (c *partSet) addAndWait(ctx context.Context, p *supervise.Part) error {
	c.add(ctx, p)
	return p.Await(ctx)
}

// add keeps a part running until ctx ends. It does not wait for the part's first start.
func (c *partSet) add(ctx context.Context, p *supervise.Part) {
	c.parts = append(c.parts, p)
	c.wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			c.fail(err)
		}
	})
}

// awaitAll waits until all parts are up.
func (c *partSet) awaitAll(ctx context.Context) error {
	for _, p := range c.parts {
		if err := p.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// of returns the part with the given name.
func (c *partSet) of(name string) (*supervise.Part, error) {
	for _, p := range c.parts {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, errors.New("unknown part " + name)
}

// unexpectedEnds describes the ends of parts that were not killed.
func (c *partSet) unexpectedEnds() (all []string) {
	for _, p := range c.parts {
		all = append(all, p.History().Ended...)
	}
	return all
}

// run starts a program and waits until it has ended. A status other than 0 is an error. When ctx
// ends, run kills the process.
func run(ctx context.Context, program childproc.Program) error {
	p, err := program.Start(ctx)
	if err != nil {
		return err
	}

	select {
	case <-p.Done():
	case <-ctx.Done():
		_ = p.Kill() // Kill fails only if the signal cannot be sent, which does not happen to a child
		return context.Cause(ctx)
	}

	if p.Err() != nil {
		return fmt.Errorf("%s exited: %s", program.Name, p.Why())
	}
	return nil
}
