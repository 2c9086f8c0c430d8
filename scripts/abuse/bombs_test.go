package abuse

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	bombers = 5 // organizations
	// bombsAhead is how many documents of an organization may wait to be read.
	bombsAhead = 4
)

// bomb returns the n-th bomb and its name. Every second one is an HTML page of 160 KB whose 450 open elements are made again for each
// paragraph: it takes all processor time that a document may have. The others are Markdown of 440 KB whose delimiters each could
// close every one before them.
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

// bombing has five free organizations send documents that cost as much processor time as a document may.
type bombing struct {
	people []*person
	sent   tally

	mu      sync.Mutex
	made    int
	waiting map[string]*person // documents that are not deleted, by id
}

func newBombing(t *testing.T, s *service) *bombing {
	t.Helper()
	b := &bombing{waiting: map[string]*person{}}
	for range bombers {
		b.people = append(b.people, s.signUp(t, s.stranger()).withKey(t))
	}
	return b
}

func (b *bombing) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range b.people {
		all.Go(func() {
			for ctx.Err() == nil {
				if b.unread(ctx, p) < bombsAhead {
					b.send(ctx, p)
				}
				wait(ctx, 250*time.Millisecond)
			}
		})
	}
}

func (b *bombing) send(ctx context.Context, p *person) {
	b.mu.Lock()
	b.made++
	n := b.made
	b.mu.Unlock()
	// The end of the attack does not cut an upload off, or its document could not be deleted.
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

// unread counts the documents of a person that wait or are in hand, and keeps count of those that are done.
func (b *bombing) unread(ctx context.Context, p *person) (n int) {
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

func (b *bombing) statuses(ctx context.Context, p *person) map[string]string {
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

func (b *bombing) remove(ctx context.Context, p *person, id string) {
	if a := p.do(ctx, http.MethodDelete, "/api/knowledge?id="+id, p.byKey(), nil); a.ok(http.StatusOK) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// begun waits until a bomb is in hand. The service knows nothing of the five organizations then, and may read bombs in all of its slots.
func (b *bombing) begun(ctx context.Context) {
	for ctx.Err() == nil {
		for _, p := range b.people {
			for _, status := range b.statuses(ctx, p) {
				if status == "processing" {
					b.sent.count("round with a bomb in hand")
					return
				}
			}
		}
		wait(ctx, documentPoll)
	}
}

// calm deletes all bombs: those that are in hand end.
func (b *bombing) calm(ctx context.Context) {
	for _, p := range b.people {
		for id := range b.statuses(ctx, p) {
			b.remove(ctx, p, id)
		}
	}
}

func documentBombs(t *testing.T, s *service) { //nolint:thelper // a test, not a part of one
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	b := newBombing(t, s)
	v := &victim{probes: []probe{home.documents(pace(500 * time.Millisecond)), home.chats(pace(150 * time.Millisecond))}}
	s.judge(t, planned(plan{rounds: 2, each: 2500 * time.Millisecond}), v, attack{
		run: b.run, begun: b.begun, calm: b.calm, sent: &b.sent, shows: map[string]int{
			"bomb 202":                  2 * bombers,
			"round with a bomb in hand": 2,
		},
	})
}
