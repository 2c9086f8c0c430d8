package floor

import (
	"context"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
)

// ReleasePath is where a post lets all requests go that RunParked has kept waiting on Path.
const ReleasePath = "/release"

// RunParked serves on address until ctx ends: it reads requests as the floor's ingress does and then keeps them
// waiting, each in the goroutine of its handler, which has nothing but a channel to wait on. No service can keep a
// request of net/http waiting for less.
func RunParked(ctx context.Context, address string) error {
	return serve(ctx, address, newParked().routes())
}

type parked struct {
	mu       sync.Mutex
	released chan struct{} // closed when the requests that wait now may go
}

func newParked() *parked { return &parked{released: make(chan struct{})} }

func (p *parked) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.POST(Path, p.park)
	router.POST(ReleasePath, p.release)
	router.GET(ReadyPath, func(c *gin.Context) { c.Status(http.StatusOK) })
	return router
}

func (p *parked) park(c *gin.Context) {
	var req request
	if err := c.ShouldBindJSON(&req); err != nil {
		c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
		return
	}
	p.mu.Lock()
	released := p.released
	p.mu.Unlock()
	select {
	case <-released:
		c.JSON(http.StatusOK, gin.H{"message": req.Input.Message})
	case <-c.Request.Context().Done():
	}
}

func (p *parked) release(c *gin.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
	p.released = make(chan struct{})
	c.Status(http.StatusOK)
}
