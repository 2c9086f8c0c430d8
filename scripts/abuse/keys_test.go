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
	// maxKeys is the default limit of keys per user and per organization. maxOrganizations is the
	// default limit of organizations per user.
	maxKeys          = 100
	maxOrganizations = 20
	// userTotal is the number of requests per minute that all credentials of a user together may
	// send. The keys of an organization together have the same limit.
	userTotal = 600
	// chatsEach is the number of requests among which one is a chat. If all allowed requests were
	// chats, the chats would overload the machine.
	chatsEach = 8

	ofUser, ofOrganization = "request of a user's key", "request of an organization's key"
)

// keyFlood is an attack by one user. The user creates and uses as many keys and organizations as
// allowed.
type keyFlood struct {
	*person

	owned       int      // number of organizations
	own, shared []string // the user's own keys, and the keys of the user's first organization
	sent        tally

	mu    sync.Mutex
	begun time.Time
}

// newKeyFlood creates keys and organizations. It creates keys until the service rejects a key or
// has accepted one key more than the limit allows. It creates organizations in the same way.
func newKeyFlood(t *testing.T, s *service) *keyFlood {
	t.Helper()
	k := &keyFlood{person: s.signUp(t, s.stranger()).withAgent(t), owned: 1}
	for n := range maxOrganizations {
		a := k.post(t.Context(), "/api/organizations", k.bearer(), map[string]any{"name": fmt.Sprint("Another ", n)})
		k.sent.add(t.Context(), "organization", a)
		if a.Status != http.StatusCreated {
			break
		}
		k.owned++
	}

	for _, scope := range []string{"user", "organization"} {
		for n := range maxKeys + 1 {
			a := k.post(t.Context(), "/api/keys", k.bearer(), map[string]any{"name": fmt.Sprint("key ", n), "scope": scope})
			k.sent.add(t.Context(), "key of "+scope, a)
			if a.Status != http.StatusCreated {
				break
			}
			var made struct {
				Key string `json:"key"`
			}
			a.Into(t, &made)
			if scope == "user" {
				k.own = append(k.own, made.Key)
			} else {
				k.shared = append(k.shared, made.Key)
			}
		}
	}
	return k
}

// run sends requests with the user's keys and with the organization's keys, far more than their
// limits allow.
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

// checkAccepted fails the test if the service has accepted more requests than the limits of the
// user and the organization allow.
func (k *keyFlood) checkAccepted(t *testing.T, what string) {
	t.Helper()
	passed := k.sent.of(what + " 200")
	limit := userTotal + int(time.Since(k.begun).Seconds()*userTotal/60) + 1
	if passed > limit {
		t.Errorf("accepted %d × %s, limit %d", passed, what, limit)
	}
	t.Logf("accepted %d × %s, limit %d", passed, what, limit)
}

func keyFloods(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	k := newKeyFlood(t, s)
	if n := len(k.own); n > maxKeys {
		t.Errorf("a user has %d keys, want at most %d", n, maxKeys)
	}
	if n := len(k.shared); n > maxKeys {
		t.Errorf("an organization has %d keys, want at most %d", n, maxKeys)
	}
	if k.owned > maxOrganizations {
		t.Errorf("a user owns %d organizations, want at most %d", k.owned, maxOrganizations)
	}

	v := &victim{probes: []probe{home.triggers(pace(80 * time.Millisecond)), home.lists(pace(120 * time.Millisecond))}}
	s.judge(t, formPlan(plan{rounds: 3, each: 1200 * time.Millisecond, again: refill}), v, attack{
		run: k.run, sent: &k.sent, shows: map[string]int{
			ofUser + " 200": userTotal / 4, ofUser + " 429": 20, ofOrganization + " 200": userTotal / 4, ofOrganization + " 429": 20,
		},
	})

	k.checkAccepted(t, ofUser)
	k.checkAccepted(t, ofOrganization)
}
