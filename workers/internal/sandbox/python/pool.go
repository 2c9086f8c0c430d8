package python

import (
	"context"
	"slices"
	"sync"
	"time"

	"parley/shared/lifecycle"
)

// Delays between attempts to create a sandbox after failures. The delay doubles with each failure.
const (
	backoffFirst = 100 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// pool keeps sandboxes ready. It creates them in the background, one after the other. If no sandbox
// is ready, a program does not wait but starts a new sandbox. A pool is safe for concurrent use.
type pool struct {
	// warm is the number of sandboxes to keep ready. start creates a sandbox, and report receives
	// failures.
	warm   int
	start  func(context.Context) (*box, error)
	report func(error)
	// wakeUp receives a value when refill should check the size of the pool.
	wakeUp chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup

	// mu protects the fields below.
	mu       sync.Mutex
	idle     []*box
	failures int // number of consecutive sandboxes that ended unused or could not be created
	closed   bool
}

// newPool returns a pool of the given size and begins to fill it. start must return a sandbox that
// is ready. report is called with the reason for each failure. The caller must call close.
func newPool(warm int, start func(context.Context) (*box, error), report func(error)) *pool {
	p := &pool{warm: warm, start: start, report: report, wakeUp: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.done.Go(func() { p.refill(ctx) })
	return p
}

// refill keeps the pool at its size until ctx ends. After failures, it waits with increasing
// delays, so that a broken host is not kept busy with starts.
func (p *pool) refill(ctx context.Context) {
	for {
		missing, wait := p.want()
		if !missing {
			select {
			case <-ctx.Done():
				return
			case <-p.wakeUp:
			}
			continue
		}
		if wait > 0 && lifecycle.Sleep(ctx, wait) != nil {
			return
		}
		b, err := p.start(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				b.Kill()
			}
			return
		case err != nil:
			p.failed()
			p.report(err)
		default:
			p.put(b)
		}
	}
}

// want reports whether a sandbox is missing, and the delay before it is created. The delay is 0
// unless the last sandbox ended unused or could not be created.
func (p *pool) want() (missing bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 {
		wait = min(backoffFirst<<min(p.failures-1, 20), maxBackoff)
	}
	return len(p.idle) < p.warm, wait
}

// failed counts a failure, which increases the delay before the next start.
func (p *pool) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
}

// wake makes refill check the size of the pool. It never blocks.
func (p *pool) wake() {
	select {
	case p.wakeUp <- struct{}{}:
	default:
	}
}

// put adds a box to the ready boxes, where it stays until it is taken or ends. After close, put
// kills the box.
func (p *pool) put(b *box) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		b.Kill()
		return
	}
	p.idle = append(p.idle, b)

	// A sandbox may end while it is ready, for example because the kernel is short of memory. The
	// pool then replaces it.
	p.done.Go(func() {
		select {
		case <-b.taken:
		case <-b.Done():
			if p.remove(b) {
				p.failed()
				p.wake()
			}
		}
	})
}

// remove removes a box from the ready boxes. It returns false if the box was already taken.
func (p *pool) remove(b *box) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.idle, b)
	if at < 0 {
		return false
	}
	p.idle = slices.Delete(p.idle, at, at+1)
	close(b.taken)
	return true
}

// take returns a ready sandbox, or nil if there is none. The caller must kill the sandbox. The pool
// begins to create a replacement. The sandbox may have ended without the pool's knowledge.
func (p *pool) take() *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	b := p.idle[0]
	p.idle = slices.Delete(p.idle, 0, 1)
	p.failures = 0
	close(b.taken)
	p.wake()
	return b
}

// close ends all sandboxes that are ready, and waits until the background work has ended.
func (p *pool) close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true

	// For each ready box, a goroutine waits for the end of the box. Closing taken stops these
	// goroutines before the boxes are killed.
	idle := p.idle
	p.idle = nil
	for _, b := range idle {
		close(b.taken)
	}
	p.mu.Unlock()
	for _, b := range idle {
		b.Kill()
	}
	p.done.Wait()
}
