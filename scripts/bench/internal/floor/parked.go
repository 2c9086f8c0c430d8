package floor

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// parked keeps HTTP requests waiting until they are released. The goroutine of each handler only
// waits on a channel. No service that uses net/http can keep a request waiting with less memory.
type parked struct {
	mu       sync.Mutex
	released chan struct{} // closed to release the waiting requests
	waiting  atomic.Int64
}

// runParked serves requests that wait, until ctx ends.
func runParked(ctx context.Context, c Config) error {
	p := &parked{released: make(chan struct{})}
	router := routes(bound(p.park))
	router.POST(ReleasePath, p.release)
	router.GET(WaitingPath, func(c *gin.Context) { c.JSON(http.StatusOK, p.waiting.Load()) })
	return serve(ctx, c.Address, router)
}

// park waits until the request is released or its client disconnects.
func (p *parked) park(c *gin.Context, req *request) {
	p.mu.Lock()
	released := p.released
	p.mu.Unlock()
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	select {
	case <-released:
		c.JSON(http.StatusOK, gin.H{"message": req.Input.Message})
	case <-c.Request.Context().Done():
	}
}

// release releases all waiting requests. Later requests wait again.
func (p *parked) release(c *gin.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	p.released = make(chan struct{})
	c.Status(http.StatusOK)
}
