package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	checkTime = 2 * time.Second
	// checkMaxAge is how long the results of the readiness checks are reused, because any client
	// may request /readyz and a check may open a database connection.
	checkMaxAge = time.Second
)

// cachedChecks caches the results of the last readiness checks.
type cachedChecks struct {
	mu sync.Mutex

	asked   time.Time // when the checks ended
	results map[string]string
}

// healthz reports that the process is alive. It always succeeds.
func healthz(c *gin.Context) { httpx.WriteJSON(c, http.StatusOK, gin.H{"status": "ok"}) }

// readiness is the response of GET /readyz.
type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// readyz reports whether the ingress should receive requests. If a check fails or the ingress is
// stopping, it responds with 503.
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

	httpx.WriteJSON(c, status, r)
}

// stopping reports whether the ingress is draining or in the grace period before it drains.
func (a *api) stopping() bool { return a.Draining != nil && a.Draining() }

// check returns the results of all readiness checks by name: "ok", "failing" or "timeout". It runs
// the checks unless there are results younger than checkMaxAge. The log contains the reasons of
// failures.
func (a *api) check(ctx context.Context) map[string]string {
	a.checks.mu.Lock()
	defer a.checks.mu.Unlock()
	if a.checks.results == nil || time.Since(a.checks.asked) > checkMaxAge {
		a.checks.results = a.runChecks(context.WithoutCancel(ctx)) // other requests use the outcome, too
		a.checks.asked = time.Now()
	}
	return a.checks.results
}

// runChecks runs all checks concurrently, for at most checkTime.
func (a *api) runChecks(ctx context.Context) map[string]string {
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
