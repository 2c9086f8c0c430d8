package mcp

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// holding adds lists of an organization to a cache. The argument lists is the number of lists, and
// the argument size is the size of each list.
func holding(t *testing.T, c *cache, at *atomic.Int64, org string, lists, size int) {
	t.Helper()
	for n := range lists {
		at.Add(1)
		var k key
		copy(k[:], fmt.Sprint(org, "/", n))
		if _, err := c.get(t.Context(), org, k, func(_ context.Context, l *listing) error { l.size = size; return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func kept(c *cache, org string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.lists {
		if l.org == org {
			n++
		}
	}
	return n
}

func TestOrganizationsWithTheMostListsLoseFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                         string
		small, smallLists, smallSize int // number of other organizations, number of lists of each of them, and size of each of these lists
		lists, size                  int // number of lists of the organization that is added last, and size of each of these lists
		want                         int // number of the last organization's lists that remain
	}{
		{"lists of one", 1, 10, 1, 600, 1, maxOrg},
		{"bytes of one", 1, 10, 1, 20, 1 << 20, 8},
		{"one list that is too large", 1, 10, 1, 1, maxOrgKept + 1, 0},
		{"lists of all", 50, 9, 1, 600, 1, maxLists - 450},
		{"bytes of all", 63, 1, 1 << 20, 8, 1 << 20, 1},
	} {
		var at atomic.Int64
		cache := newCache()
		cache.now = func() time.Time { return time.UnixMilli(at.Load()) }
		for n := range c.small {
			holding(t, cache, &at, fmt.Sprint("small", n), c.smallLists, c.smallSize)
		}
		holding(t, cache, &at, "large", c.lists, c.size)
		if got := kept(cache, "large"); got != c.want {
			t.Errorf("%s: the cache keeps %d lists of the organization \"large\"", c.name, got)
		}
		for n := range c.small {
			if got := kept(cache, fmt.Sprint("small", n)); got != c.smallLists {
				t.Errorf("%s: another keeps %d", c.name, got)
			}
		}
	}
}
