package bubblewrap

import (
	"os"
	"sync"

	"parley/workers/internal/sandbox/host"
)

// If the worker is root, each sandbox runs as a different user, so that the kernel's limits per
// user apply to one sandbox. The ids lie between the ranges that systemd assigns, so no other user
// has such an id.
const (
	firstOwner = 60706
	ownerCount = 61183 - firstOwner + 1
)

// owners assigns users to sandboxes. Several workers on one machine may assign the same user. Their
// sandboxes then share the limits per user, which only makes the limits stricter.
type owners struct {
	own bool // true if all sandboxes run as this process's user

	mu   sync.Mutex
	used map[int]int // number of sandboxes per user id
	next int
}

// newOwners returns owners without sandboxes. Each worker begins with a different user, so that
// several workers rarely share a user.
func newOwners() *owners {
	return &owners{own: !host.MayChangeUser(), used: map[int]int{}, next: os.Getpid() % ownerCount}
}

// take returns the user with the fewest sandboxes. Among several such users, it returns the one
// that has been unused for the longest time.
func (o *owners) take() int {
	if o.own {
		return os.Geteuid()
	}
	o.mu.Lock()
	defer o.mu.Unlock()

	// The search begins after the user assigned last. So the processes of a user's earlier
	// sandboxes have time to disappear.
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

// isOne reports whether a user id lies in the range from which sandboxes get their users.
func (o *owners) isOne(uid int) bool {
	if o.own {
		return uid == os.Geteuid()
	}
	return uid >= firstOwner && uid < firstOwner+ownerCount
}

// giveBack records that a sandbox of the user has ended.
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
