package browser

import (
	"time"

	"github.com/chromedp/cdproto/network"
)

// Limits for the first load of a page.
const (
	budgetBytes    = 155 << 10 // compressed size of the page and everything that it loads, of which the tables of texts are 4 KiB
	budgetRequests = 13        // number of requests, one of which reads the number in the inbox's badge
	budgetShift    = 0.02      // cumulative layout shift
	widgetBytes    = 20 << 10
)

// budget loads a path in a new page with an empty cache, and fails the test if the page exceeds a
// limit.
func (p *page) budget(path string) {
	p.t.Helper()
	yes := true
	call(p, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: yes})
	began := time.Now()
	p.visit(path)
	p.settled()
	var load struct {
		Ready, Shift float64
		Shifts       []string
	}

	p.js(&load, `() => ({ Ready: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd, Shift: shifted, Shifts: shifts })`)
	requests, bytes, list := p.watch.weight()
	p.t.Logf("%s: %d requests, %.1f KB, DOMContentLoaded after %.0f ms, at rest after %s, layout shift %.4f",
		path, requests, float64(bytes)/1024, load.Ready, time.Since(began).Round(time.Millisecond), load.Shift)
	if bytes > budgetBytes {
		p.t.Errorf("%s: the first load transfers %d bytes, want at most %d:\n%s", path, bytes, budgetBytes, list)
	}
	if requests > budgetRequests {
		p.t.Errorf("%s: the first load makes %d requests, want at most %d:\n%s", path, requests, budgetRequests, list)
	}
	if load.Shift > budgetShift {
		p.t.Errorf("%s: the layout shifts by %.4f, want at most %.2f: %v", path, load.Shift, budgetShift, load.Shifts)
	}
}
