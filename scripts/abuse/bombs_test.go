package abuse

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

const (
	bombers = 5 // number of attacking organizations
	// bombsAhead is the maximum number of documents of an organization that wait for processing
	// during the attack.
	bombsAhead = 4
	// bombsAgain is the pause before another measurement. In this time the service forgets 2.5 s of
	// each attacker's processor time. In a measurement on two cores, an attacker uses less than 2 s.
	// The victim needs no pause, because all measurements together fit into its rate limit.
	bombsAgain = 10 * time.Second
)

// bomb returns the content and the name of the n-th document of the attack. A document with an odd
// number is an HTML page of 160 KB. For each paragraph, the parser recreates the page's 450 open
// elements, which takes all the CPU time that a document may use. A document with an even number is
// a Markdown text of 440 KB in which each delimiter could close all earlier ones.
func bomb(n int) (name, content string) {
	if n%2 == 0 {
		return fmt.Sprintf("bomb-%d.md", n), fmt.Sprintf("Bomb %d\n\n", n) + strings.Repeat("*a_ ", 110_000)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<html><!-- %d -->", n)
	for i := range 450 {
		fmt.Fprintf(&b, "<b a=%d><p>", i)
	}
	b.WriteString(strings.Repeat("</p><p>x", 20_000))
	return fmt.Sprintf("bomb-%d.html", n), b.String()
}

// bombAttack is an attack by five organizations that have the free plan. They upload documents that
// use the maximum CPU time.
type bombAttack struct {
	people []*person
	sent   tally

	mu      sync.Mutex
	made    int
	waiting map[string]*person // documents that are not yet deleted, by ID, with their owners
}

func newBombing(t *testing.T, s *service) *bombAttack {
	t.Helper()
	b := &bombAttack{waiting: map[string]*person{}}
	for range bombers {
		b.people = append(b.people, s.signUp(t, s.stranger()).withKey(t))
	}
	return b
}

func (b *bombAttack) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range b.people {
		all.Go(func() {
			for ctx.Err() == nil {
				if b.unread(ctx, p) < bombsAhead {
					b.send(ctx, p)
				}
				_ = lifecycle.Sleep(ctx, 250*time.Millisecond)
			}
		})
	}
}

func (b *bombAttack) send(ctx context.Context, p *person) {
	b.mu.Lock()
	b.made++
	n := b.made
	b.mu.Unlock()
	// The end of the attack does not cancel the upload. If it did, the service might store a
	// document whose ID the test never receives and so cannot delete.
	name, content := bomb(n)
	a, id := p.upload(context.WithoutCancel(ctx), name, content)
	b.sent.add(ctx, "bomb", a)
	if id == "" {
		return
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	b.waiting[id] = p
}

// unread returns the number of a person's unprocessed documents. It deletes the processed documents
// and adds them to the attack's counts.
func (b *bombAttack) unread(ctx context.Context, p *person) (n int) {
	for id, status := range b.statuses(ctx, p) {
		switch status {
		case "queued", "processing":
			n++
		case "ready", "failed":
			b.sent.count(status)
			b.remove(ctx, p, id)
		}
	}
	return n
}

func (b *bombAttack) statuses(ctx context.Context, p *person) map[string]string {
	b.mu.Lock()
	var ids []string
	for id, owner := range b.waiting {
		if owner == p {
			ids = append(ids, id)
		}
	}

	b.mu.Unlock()
	found := map[string]string{}
	for _, id := range ids {
		if status, err := p.status(ctx, id); err == nil {
			found[id] = status
		}
	}
	return found
}

func (b *bombAttack) remove(ctx context.Context, p *person, id string) {
	if a := p.do(ctx, http.MethodDelete, "/api/knowledge?id="+id, p.byKey(), nil); a.Check(http.StatusOK) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// begun waits until a bomb is being processed. At that moment the attack has its full effect: the
// five organizations have used no CPU time yet, so the service may use all of its slots for bombs.
func (b *bombAttack) begun(ctx context.Context) {
	for ctx.Err() == nil {
		for _, p := range b.people {
			for _, status := range b.statuses(ctx, p) {
				if status == "processing" {
					b.sent.count("round during a bomb")
					return
				}
			}
		}
		_ = lifecycle.Sleep(ctx, documentPoll)
	}
}

// calm deletes all bombs, which cancels their processing.
func (b *bombAttack) calm(ctx context.Context) {
	for _, p := range b.people {
		for id := range b.statuses(ctx, p) {
			b.remove(ctx, p, id)
		}
	}
}

func documentBombs(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	b := newBombing(t, s)
	v := &victim{probes: []probe{home.documents(pace(500 * time.Millisecond)), home.chats(pace(150 * time.Millisecond))}}
	s.judge(t, formPlan(plan{rounds: 2, each: 2500 * time.Millisecond, again: bombsAgain}), v, attack{
		run: b.run, begun: b.begun, calm: b.calm, sent: &b.sent, shows: map[string]int{
			"bomb 202":            2 * bombers,
			"round during a bomb": 2,
		},
	})
}
