package usage

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/store/usagedb"
)

const (
	defaultUsageDays = 7 // number of days in a report if the query names none
	maxUsageDays     = 90
	// Time for which a report is cached. Newer runs may be missing in the report.
	usageTTL         = 10 * time.Second
	maxCachedReports = 1000 // maximum number of cached reports
)

// usageCache caches reports for a few seconds, because each report counts all runs of its interval.
// It is safe for concurrent use. Its zero value is an empty cache.
type usageCache struct {
	mu sync.Mutex
	// Entries stay after they have expired, until the cache is full.
	reports map[usageKey]*cachedReport
}

// usageKey identifies a report. Requests of different users of an organization share a report,
// because a report does not depend on the user.
type usageKey struct {
	org    string
	filter usagedb.UsageFilter
}

// cachedReport is a report in the cache. mu is locked while count computes the report. Meanwhile,
// other requests for the same report wait, and requests for other reports proceed.
type cachedReport struct {
	mu     sync.Mutex
	report domain.UsageReport
	// Time at which the report expires; zero: no report was computed yet.
	until time.Time
}

// entry returns the cache entry of a report. If the cache is full, it first drops all entries. The
// caller locks the entry before it uses the report.
func (u *usageCache) entry(key usageKey) *cachedReport {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reports == nil || len(u.reports) >= maxCachedReports {
		u.reports = map[usageKey]*cachedReport{}
	}
	if u.reports[key] == nil {
		u.reports[key] = &cachedReport{}
	}
	return u.reports[key]
}

// get returns a report from the cache or computes it with count. Concurrent requests for the same
// report share one computation. The computation continues if the first caller disconnects. An error
// is not cached: the next request computes the report again. The function now is the clock.
func (u *usageCache) get(
	ctx context.Context, key usageKey, now func() time.Time, count func(context.Context, time.Time) (domain.UsageReport, error),
) (domain.UsageReport, error) {
	cached := u.entry(key)
	cached.mu.Lock()
	defer cached.mu.Unlock()
	if now().Before(cached.until) {
		return cached.report, nil
	}

	// The result is for all waiting requests, so it must not depend on the connection of the first
	// one.
	report, err := count(context.WithoutCancel(ctx), now())
	if err == nil {
		cached.report, cached.until = report, now().Add(usageTTL)
	}
	return report, err
}

// getUsage handles GET /api/usage: it returns the organization's usage by interval. The query
// selects the number of days and, optionally, an agent, a key, an automation and a grouping. A
// report may be up to usageTTL old.
func (h *Handler) getUsage(c *gin.Context) error {
	found := &httpx.Problems{}
	filter := usagedb.UsageFilter{Days: defaultUsageDays}
	if text, present := httpx.QueryValue(c, "days", found); present {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxUsageDays || strconv.Itoa(n) != text {
			found.Add("days", httpx.CodeInvalidValue, "must be a whole number from 1 to %d", maxUsageDays)
		}
		filter.Days = n
	}

	filter.AgentID, _ = httpx.QueryValue(c, "agentId", found)
	filter.KeyID, _ = httpx.QueryValue(c, "keyId", found)
	if err := h.CheckReferences(c, found, "agentId", "keyId"); err != nil {
		return err
	}
	if filter.AutomationID, _ = httpx.QueryValue(c, "automationId", found); filter.AutomationID != "" {
		httpx.CheckAutomationID(found, "automationId", filter.AutomationID)
	}
	if by, present := httpx.QueryValue(c, "by", found); present {
		filter.By = usagedb.UsageBy(by)
		httpx.OneOf(found, "by", filter.By, usagedb.UsageByAgent, usagedb.UsageByKey, usagedb.UsageByAutomation)
	}

	if err := found.Err(); err != nil {
		return err
	}

	// The filter has been checked, so it names only existing agents, keys and automations. The
	// check limits the number of cached reports of an organization.
	key := usageKey{httpx.Caller(c).OrganizationID, filter}
	report, err := h.counts.get(c.Request.Context(), key, time.Now, func(ctx context.Context, now time.Time) (domain.UsageReport, error) {
		return h.UsageDB.Usage(ctx, key.org, filter, now)
	})
	if err != nil {
		return err
	}

	report.Currency = h.Currency
	return httpx.JSON(c, http.StatusOK, report)
}
