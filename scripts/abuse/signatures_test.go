package abuse

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

const (
	signatureAddresses = 14
	strangers          = 5 // number of the attackers' organizations
)

// signatureFlood is an attack with wrongly signed deliveries. One address sends many small
// deliveries to the victim's hooks. Each of fourteen other addresses sends large deliveries, one at
// a time, to hooks of the attackers' five organizations and to the victim's hooks.
type signatureFlood struct {
	clients   []*client
	small     []*hook // hooks of the victim
	large     []*hook // hooks of the attackers and of the victim
	few, many []byte
	sent      tally
}

func newSignatureFlood(t *testing.T, s *service, victims ...*hook) *signatureFlood {
	t.Helper()
	f := &signatureFlood{small: victims, large: victims[1:], few: payload("few", 100), many: payload("many", 128<<10)}
	for range signatureAddresses {
		f.clients = append(f.clients, s.from(t, s.stranger()))
	}
	for n := range strangers {
		stranger := s.signUp(t, s.stranger()).withKey(t).withAgent(t)
		for _, source := range []string{"hmac", "github"} {
			f.large = append(f.large, stranger.newHook(t, fmt.Sprint(source, n), source))
		}
	}
	return f
}

func (f *signatureFlood) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()

	all.Go(func() {
		paced(ctx, 10*time.Millisecond, 8, func(ctx context.Context, n int) {
			to := f.small[n%len(f.small)]
			f.sent.add(ctx, "small", to.send(ctx, f.clients[0], fmt.Sprint(n), wrongSignature, f.few))
		})
	})

	for at, client := range f.clients {
		all.Go(func() {
			for n := at; ctx.Err() == nil; n++ {
				to := f.large[n%len(f.large)]
				body := &inPieces{ctx: ctx, rest: f.many, piece: len(f.many) / 2, pause: piecePause}
				f.sent.add(ctx, "large", to.send(ctx, client, fmt.Sprint(n), wrongSignature, body))
				_ = lifecycle.Sleep(ctx, 5*time.Millisecond) // limits the rate of repetitions if the service rejects deliveries at once
			}
		})
	}
}

func wrongSignatures(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	small, large := home.newHook(t, "small", "hmac"), home.newHook(t, "large", "github")
	for _, h := range []*hook{small, large} { // the service must have received valid deliveries from the victim's address before the attack
		h.deliver(t.Context(), home.client, "first", 1).Want(t, http.StatusAccepted)
	}

	flood := newSignatureFlood(t, s, small, large)
	v := &victim{probes: []probe{
		small.deliveries("small delivery", pace(50*time.Millisecond), 100),
		large.deliveries("large delivery", pace(300*time.Millisecond), 512<<10),
		home.logins(pace(500 * time.Millisecond)),
	}}

	s.judge(t, formPlan(plan{rounds: 3, each: 1200 * time.Millisecond, again: refill}), v, attack{
		run: flood.run, sent: &flood.sent, shows: map[string]int{
			"small 401": 100,
			"small 429": 20,
			"large 401": 50,
		},
	})
}
