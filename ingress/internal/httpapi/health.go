package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

const checkTime = 2 * time.Second

// healthz says that the process lives; nothing but its death changes that.
func healthz(c *gin.Context) { writeJSON(c, http.StatusOK, gin.H{"status": "ok"}) }

type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// readyz says whether requests should be sent here: 503 while a check fails or the ingress drains.
func (a *api) readyz(c *gin.Context) {
	r := readiness{Status: "ready", Checks: a.check(c.Request.Context())}
	for _, result := range r.Checks {
		if result != "ok" {
			r.Status = "not ready"
		}
	}
	if a.stopping() {
		r.Status = "draining"
	}
	status := http.StatusOK
	if r.Status != "ready" {
		status = http.StatusServiceUnavailable
		c.Header("Retry-After", "1")
	}
	writeJSON(c, status, r)
}

// stopping reports whether the ingress drains, and its grace before.
func (a *api) stopping() bool { return a.Draining != nil && a.Draining() }

// check asks all at once: "ok", "failing" or, of one that does not answer in time, "timeout". The
// reasons are in the log of whoever fails.
func (a *api) check(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	results := make(map[string]string, len(a.Checks))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, ask := range a.Checks {
		wg.Go(func() {
			result := "ok"
			if err := ask(ctx); err != nil {
				result = "failing"
				if ctx.Err() != nil {
					result = "timeout"
				}
				a.Log.Warn().Err(err).Str("check", name).Msg("readiness check failed")
			}
			mu.Lock()
			defer mu.Unlock()
			results[name] = result
		})
	}
	wg.Wait()
	return results
}
