package bubblewrap

import (
	"os"
	"sync"

	"parley/workers/internal/sandbox/host"
)

// A worker that is root gives each sandbox a user of its own, so that what the kernel counts by user is counted for one sandbox
// alone. These numbers are nobody's: they lie between those that systemd gives out.
const (
	firstOwner = 60706
	ownerCount = 61183 - firstOwner + 1
)

// owners gives out users; those of several workers on one machine may overlap, which only makes the counts stricter.
type owners struct {
	own bool // sandboxes are this process's user's

	mu   sync.Mutex
	used map[int]int // sandboxes of a user
	next int
}

func newOwners() *owners {
	return &owners{own: !host.MayChangeUser(), used: map[int]int{}, next: os.Getpid() % ownerCount}
}

// take gives the user with the fewest sandboxes, the one that has rested longest first.
func (o *owners) take() int {
	if o.own {
		return os.Geteuid()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	best := -1
	for i := range ownerCount {
		uid := firstOwner + (o.next+i)%ownerCount
		if best < 0 || o.used[uid] < o.used[best] {
			best = uid
		}
		if o.used[best] == 0 {
			break
		}
	}
	o.next = (best - firstOwner + 1) % ownerCount
	o.used[best]++
	return best
}

// isOne reports whether sandboxes may be this user's.
func (o *owners) isOne(uid int) bool {
	if o.own {
		return uid == os.Geteuid()
	}
	return uid >= firstOwner && uid < firstOwner+ownerCount
}

func (o *owners) giveBack(uid int) {
	if o.own {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[uid]--; o.used[uid] <= 0 {
		delete(o.used, uid)
	}
}
