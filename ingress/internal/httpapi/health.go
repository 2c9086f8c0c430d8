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
	// checkTime is the time limit of one round of checks.
	checkTime = 2 * time.Second
	// checkMaxAge is the time for which the results of the readiness checks are reused. Any client
	// may request /readyz, and a check may open a database connection.
	checkMaxAge = time.Second
)

// cachedChecks caches the results of the last readiness checks. It is safe for concurrent use. The
// zero value has no results.
type cachedChecks struct {
	mu sync.Mutex

	asked time.Time // when the checks ended
	// "ok", "failing" or "timeout" by the name of a check.
	results map[string]string
}

// healthz reports that the process is alive. It always succeeds. It must not depend on other
// services, because container platforms restart a process when this request fails.
func healthz(c *gin.Context) { httpx.WriteJSON(c, http.StatusOK, gin.H{"status": "ok"}) }

// readiness is the response of GET /readyz. The status is "ready", "not ready" or "draining".
type readiness struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks"`
}

// readyz reports whether the ingress should receive requests. If a check fails or the ingress is
// stopping, it responds with 503. A load balancer then sends requests to other processes.
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

// stopping reports whether the ingress is draining or in the grace period before it drains. The
// field Draining is nil in tests.
func (a *api) stopping() bool { return a.Draining != nil && a.Draining() }

// check returns the results of all readiness checks by name: "ok", "failing" or "timeout". It runs
// the checks unless there are results younger than checkMaxAge. The log contains the reasons of
// failures. Concurrent requests wait for the same round of checks. Callers must not change the map.
func (a *api) check(ctx context.Context) map[string]string {
	a.checks.mu.Lock()
	defer a.checks.mu.Unlock()
	if a.checks.results == nil || time.Since(a.checks.asked) > checkMaxAge {
		a.checks.results = a.runChecks(context.WithoutCancel(ctx)) // other requests use the outcome, too
		a.checks.asked = time.Now()
	}
	return a.checks.results
}

// runChecks runs all checks concurrently, for at most checkTime. A check that is ended by the time
// limit has the result "timeout".
func (a *api) runChecks(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	results := make(map[string]string, len(a.Checks))
	var mu sync.Mutex
	var wg sync.WaitGroup

	// A failing check must not delay the others.
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
