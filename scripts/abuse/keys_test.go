package abuse

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

const (
	// maxKeys is what a user and an organization may have by default, maxOrganizations what a user may own.
	maxKeys          = 100
	maxOrganizations = 20
	// userTotal and its share of a minute is what all credentials of a user, and all keys of an organization, may send together.
	userTotal = 600
	// chatsEach is how many requests have one chat among them: chats alone would cost the machine more than the limit.
	chatsEach = 8

	ofUser, ofOrganization = "request of a user's key", "request of an organization's key"
)

// keyFlood has one user make as many keys and organizations as the service gives, and use all of them.
type keyFlood struct {
	*person

	owned       int      // organizations
	own, shared []string // keys of the user, and of the user's first organization
	sent        tally

	mu    sync.Mutex
	begun time.Time
}

// newKeyFlood makes keys and organizations until the service refuses, or has given one more than it may.
func newKeyFlood(t *testing.T, s *service) *keyFlood {
	t.Helper()
	k := &keyFlood{person: s.signUp(t, s.stranger()).withAgent(t), owned: 1}
	for n := range maxOrganizations {
		a := k.post(t.Context(), "/api/organizations", k.bearer(), map[string]any{"name": fmt.Sprint("Another ", n)})
		k.sent.add(t.Context(), "organization", a)
		if a.status != http.StatusCreated {
			break
		}
		k.owned++
	}
	for _, scope := range []string{"user", "organization"} {
		for n := range maxKeys + 1 {
			a := k.post(t.Context(), "/api/keys", k.bearer(), map[string]any{"name": fmt.Sprint("key ", n), "scope": scope})
			k.sent.add(t.Context(), "key of "+scope, a)
			if a.status != http.StatusCreated {
				break
			}
			var made struct {
				Key string `json:"key"`
			}
			a.into(t, &made)
			if scope == "user" {
				k.own = append(k.own, made.Key)
			} else {
				k.shared = append(k.shared, made.Key)
			}
		}
	}
	return k
}

func (k *keyFlood) run(ctx context.Context) {
	k.mu.Lock()
	if k.begun.IsZero() {
		k.begun = time.Now()
	}
	k.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		paced(ctx, 4*time.Millisecond, 8, func(ctx context.Context, n int) {
			by := header{"X-Api-Key": k.own[n%len(k.own)], "X-Organization-Id": k.organization}
			if n%chatsEach == 0 {
				k.sent.add(ctx, ofUser, k.chat(ctx, by, "flood"))
				return
			}
			k.sent.add(ctx, ofUser, k.get(ctx, "/api/agents?limit=1", by))
		})
	})
	all.Go(func() {
		paced(ctx, 4*time.Millisecond, 8, func(ctx context.Context, n int) {
			k.sent.add(ctx, ofOrganization, k.get(ctx, "/api/agents?limit=1", header{"X-Api-Key": k.shared[n%len(k.shared)]}))
		})
	})
}

// letThrough fails the test if more requests of a kind were let through than the user's, or the organization's, total allows.
func (k *keyFlood) letThrough(t *testing.T, what string) {
	t.Helper()
	passed := k.sent.of(what + " 200")
	limit := userTotal + int(time.Since(k.begun).Seconds()*userTotal/60) + 1
	if passed > limit {
		t.Errorf("%d × %s were let through, at most %d may be", passed, what, limit)
	}
	t.Logf("%d × %s were let through of at most %d", passed, what, limit)
}

func keyFloods(t *testing.T, s *service) { //nolint:thelper // a test, not a part of one
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	k := newKeyFlood(t, s)
	if n := len(k.own); n > maxKeys {
		t.Errorf("a user has %d keys", n)
	}
	if n := len(k.shared); n > maxKeys {
		t.Errorf("an organization has %d keys", n)
	}
	if k.owned > maxOrganizations {
		t.Errorf("a user owns %d organizations", k.owned)
	}
	v := &victim{probes: []probe{home.triggers(pace(80 * time.Millisecond)), home.lists(pace(120 * time.Millisecond))}}
	s.judge(t, planned(plan{rounds: 3, each: 1200 * time.Millisecond}), v, attack{
		run: k.run, sent: &k.sent, shows: map[string]int{
			ofUser + " 200": userTotal / 4, ofUser + " 429": 20, ofOrganization + " 200": userTotal / 4, ofOrganization + " 429": 20,
		},
	})
	k.letThrough(t, ofUser)
	k.letThrough(t, ofOrganization)
}
