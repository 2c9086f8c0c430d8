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
	usageDays    = 7 // unless others are asked for
	maxUsageDays = 90
	usageKept    = 10 * time.Second
	maxUsage     = 1000 // counts that are remembered
)

// usageCache remembers counts for a moment: a page that everybody looks at must not have every run counted each time.
type usageCache struct {
	mu   sync.Mutex
	kept map[usageKey]*countedUsage
}

type usageKey struct {
	org    string
	filter usagedb.UsageFilter
}

type countedUsage struct {
	mu     sync.Mutex
	report domain.UsageReport
	until  time.Time
}

// of gives the place for a count. When there are too many all are forgotten, but by those who count.
func (u *usageCache) of(key usageKey) *countedUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil || len(u.kept) >= maxUsage {
		u.kept = map[usageKey]*countedUsage{}
	}
	if u.kept[key] == nil {
		u.kept[key] = &countedUsage{}
	}
	return u.kept[key]
}

// get gives a count that is not too old, or has it made: once for all that ask meanwhile, even if the first of them goes away.
func (u *usageCache) get(
	ctx context.Context, key usageKey, now func() time.Time, count func(context.Context, time.Time) (domain.UsageReport, error),
) (domain.UsageReport, error) {
	place := u.of(key)
	place.mu.Lock()
	defer place.mu.Unlock()
	if now().Before(place.until) {
		return place.report, nil
	}
	report, err := count(context.WithoutCancel(ctx), now())
	if err == nil {
		place.report, place.until = report, now().Add(usageKept)
	}
	return report, err
}

// getUsage is GET /api/usage: what the organization's runs came to, interval by interval.
func (h *Handler) getUsage(c *gin.Context) {
	found := &httpx.Problems{}
	filter := usagedb.UsageFilter{Days: usageDays}
	if text, given := httpx.QueryValue(c, "days", found); given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxUsageDays || strconv.Itoa(n) != text {
			found.Add("days", httpx.CodeInvalidValue, "must be a whole number from 1 to %d", maxUsageDays)
		}
		filter.Days = n
	}
	filter.AgentID, _ = httpx.QueryValue(c, "agentId", found)
	filter.KeyID, _ = httpx.QueryValue(c, "keyId", found)
	if err := h.CheckReferences(c, found, "agentId", "keyId"); err != nil {
		httpx.Fail(c, err)
		return
	}
	if filter.AutomationID, _ = httpx.QueryValue(c, "automationId", found); filter.AutomationID != "" {
		httpx.CheckAutomationID(found, "automationId", filter.AutomationID)
	}
	if by, given := httpx.QueryValue(c, "by", found); given {
		filter.By = usagedb.UsageBy(by)
		httpx.OneOf(found, "by", filter.By, usagedb.UsageByAgent, usagedb.UsageByKey, usagedb.UsageByAutomation)
	}
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}
	key := usageKey{httpx.Caller(c).OrganizationID, filter}
	report, err := h.counts.get(c.Request.Context(), key, time.Now, func(ctx context.Context, now time.Time) (domain.UsageReport, error) {
		return h.UsageDB.Usage(ctx, key.org, filter, now)
	})
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, report)
}
