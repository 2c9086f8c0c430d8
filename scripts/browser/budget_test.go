package browser

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
)

// Limits for the first load of a page.
const (
	budgetBytes    = 140 << 10 // compressed size of the page and everything that it loads
	budgetRequests = 14        // number of requests, including the one for the inbox's badge, which may be repeated
	budgetShift    = 0.02      // cumulative layout shift
	widgetBytes    = 20 << 10
)

// bytesBefore contains the compressed sizes of first loads on 2026-11-23, before the dashboard got
// a home page, a finder and plots. Each of these pages may now be a fifth larger. The API reference
// was at /docs.
var bytesBefore = map[string]int64{
	"agents": 97012, "agent": 98179, "session": 130192, "settings": 97664, "embed": 96035, "use": 96035,
	"template": 99486, "templates": 98660, "knowledge": 96411, "runs": 106502, "run": 132243, "waiting": 132406,
	"automations": 129721, "hook": 125311, "message": 127228, "org": 125647, "usage": 129545, "demo": 97747,
	"new-hook": 125221, "hook-setup": 123622, "notifications": 123818,
	"empty-agents": 95704, "empty-knowledge": 96041, "empty-runs": 99960, "empty-automations": 127392,
	"empty-nowhere": 95383, "empty-foreign": 95884, "preview": 22965,
	"login": 4794, "signup": 4882, "accept": 4798, "notice": 4076, "api": 68908, "errors": 6858,
}

// bytesFirst contains the compressed sizes of first loads on 2026-11-29 of pages that did not exist
// on 2026-11-23. Each of these pages may now be a tenth larger.
var bytesFirst = map[string]int64{
	"home": 109632, "inbox": 133765, "empty-home": 103647, "empty-inbox": 101724,
	"docs": 9977, "guide": 13086, "search": 8438, "schemas": 40812, "missing": 3675, "missing-guide": 3675, "reset": 4303,
}

// maxPageBytes returns the limit for the compressed size of a page's first load.
func maxPageBytes(t *testing.T, name string) int64 {
	t.Helper()
	before, old := bytesBefore[name]
	first, known := bytesFirst[name]
	switch {
	case old == known:
		t.Fatalf("the page %s needs its size in either bytesBefore or bytesFirst", name)
	case old:
		return min(before*6/5, budgetBytes)
	}
	return min(first*11/10, budgetBytes)
}

// budget loads a path in a new page with an empty cache, and fails the test if the page exceeds a
// limit. The argument name is the page's name in the tests.
func (p *page) budget(name, path string) {
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
	if limit := maxPageBytes(p.t, name); bytes > limit {
		p.t.Errorf("%s: the first load transfers %d bytes, want at most %d:\n%s", path, bytes, limit, list)
	}
	if requests > budgetRequests {
		p.t.Errorf("%s: the first load makes %d requests, want at most %d:\n%s", path, requests, budgetRequests, list)
	}
	if load.Shift > budgetShift {
		p.t.Errorf("%s: the layout shifts by %.4f, want at most %.2f: %v", path, load.Shift, budgetShift, load.Shifts)
	}
}
