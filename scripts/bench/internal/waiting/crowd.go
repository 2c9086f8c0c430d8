package waiting

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/scripts/bench/internal/parley"
)

const (
	comePerTick = 10 // clients that begin at a time
	comeEvery   = 10 * time.Millisecond
	pollEvery   = 20 * time.Millisecond
)

// crowd is clients that do the same, each on its own connection.
type crowd struct {
	clients []*client
	all     sync.WaitGroup
	unhook  func() bool

	mu      sync.Mutex
	started int
	done    int
	errs    []error
}

// connect connects n clients, each of which sends a request that is answered at once and then is idle.
func connect(ctx context.Context, address string, n int, first parley.Request) (*crowd, error) {
	c := &crowd{}
	c.unhook = context.AfterFunc(ctx, c.shut)
	for range n {
		client, err := dial(ctx, address)
		if err != nil {
			c.close()
			return nil, err
		}
		c.mu.Lock()
		c.clients = append(c.clients, client)
		c.mu.Unlock()
		if _, err := client.ask(ctx, first); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// start has each client do something, not all in the same moment.
func (c *crowd) start(ctx context.Context, do func(n int, c *client) error) error {
	tick := time.NewTicker(comeEvery)
	defer tick.Stop()
	for n, client := range c.clients {
		if n%comePerTick == 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		c.all.Go(func() { c.end(do(n, client)) })
	}
	return nil
}

// begun says that one client's run has started.
func (c *crowd) begun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
}

func (c *crowd) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// waits reports whether so many clients' runs have started; clients that are through already are an error.
func (c *crowd) waits(started int) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done > 0 {
		return false, fmt.Errorf("%d of %d clients were answered too early: %w", c.done, len(c.clients), c.failures())
	}
	return c.started >= started, nil
}

// finish waits for all clients.
func (c *crowd) finish(ctx context.Context) error {
	c.all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) > 0 {
		return fmt.Errorf("%d of %d clients did not get their answer: %w", len(c.errs), len(c.clients), c.failures())
	}
	return nil
}

const failuresShown = 3

func (c *crowd) failures() error {
	if len(c.errs) == 0 {
		return errors.New("none of them wrongly")
	}
	return errors.Join(c.errs[:min(failuresShown, len(c.errs))]...)
}

// close ends all connections, and with them what their clients do.
func (c *crowd) close() {
	c.unhook()
	c.shut()
	c.all.Wait()
}

func (c *crowd) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.clients {
		_ = client.conn.Close() // closing twice is no harm
	}
}

// until polls until done says yes.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		}
	}
}
