package abuse

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/lifecycle"
)

const (
	readersOrganizations = 4
	largeTurns           = 32 // turns of a session in an organization; the messages together exceed 8 MiB
	largeCharacters      = 32_000
	largestCharacters    = 500_000 // characters in the message of a single run; the run object with the answer is 4 MB
	readersEach          = 18      // number of connections per organization
	readPause            = 500 * time.Millisecond
	refusedPause         = time.Second // delay before a rejected reader tries again
	readPiece            = 16          // bytes that a reader reads at a time
	readBuffer           = 4 << 10
)

// slowReadAttack is an attack by organizations with large stored answers. On many connections they
// read lists of runs, messages of sessions and single runs, a few bytes per second.
type slowReadAttack struct {
	people []*person
	paths  map[*person]map[string]string
	sent   tally

	mu       sync.Mutex
	reading  int
	answered int // number of the round's requests that got a response
}

func newSlowReading(t *testing.T, s *service) *slowReadAttack {
	t.Helper()
	r := &slowReadAttack{paths: map[*person]map[string]string{}}
	var all sync.WaitGroup
	for range readersOrganizations {
		p := s.signUp(t, s.stranger()).withKey(t).withAgent(t)
		r.people = append(r.people, p)
		paths := map[string]string{"list": "/api/runs?limit=100", "session": "/api/sessions?limit=100&id=large&agentId=" + p.agent}
		r.paths[p] = paths
		all.Go(func() {
			for range largeTurns {
				a := p.post(t.Context(), "/api/agents?action=chat&id="+p.agent, p.byKey(),
					map[string]any{"message": strings.Repeat("\U0001F4A3", largeCharacters), "sessionId": "large"})
				if err := a.Check(http.StatusOK); err != nil {
					t.Errorf("starting a chat with a large answer: %v", err)
					return
				}
			}
			paths["run"] = p.largeRun(t)
		})
	}

	all.Wait()
	return r
}

// largeRun creates a run with the longest allowed message and returns the run's path.
func (p *person) largeRun(t *testing.T) (path string) {
	t.Helper()
	a := p.post(t.Context(), "/api/agents?action=chat&id="+p.agent, p.byKey(),
		map[string]any{"message": strings.Repeat("\U0001F4A3", largestCharacters), "sessionId": "largest"})
	var run struct {
		ID string `json:"id"`
	}
	if err := cmp.Or(a.Check(http.StatusOK), json.Unmarshal(a.Body, &run)); err != nil {
		t.Errorf("chat with the largest message: %v", err)
	}
	return "/api/runs?id=" + run.ID
}

func (r *slowReadAttack) run(ctx context.Context) {
	r.mu.Lock()
	r.answered = 0
	r.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()

	for _, p := range r.people {
		for n := range readersEach {
			all.Go(func() {
				for ctx.Err() == nil {
					r.read(ctx, p, []string{"list", "session", "run"}[n%3])
					_ = lifecycle.Sleep(ctx, refusedPause)
				}
			})
		}
	}
}

// read requests a resource on a new connection and reads the response a few bytes at a time.
func (r *slowReadAttack) read(ctx context.Context, p *person, what string) {
	res, leave, err := p.open(ctx, r.paths[p][what]) //nolint:bodyclose // leave closes the connection
	if err != nil {
		if ctx.Err() == nil {
			r.sent.count(what + " without answer")
		}
		return
	}
	defer leave()

	r.answer()
	r.sent.count(what + " " + strconv.Itoa(res.StatusCode))
	if res.StatusCode != http.StatusOK {
		return
	}

	r.held(1)
	defer r.held(-1)

	for piece := make([]byte, readPiece); ; _ = lifecycle.Sleep(ctx, readPause) {
		if _, err := io.ReadFull(res.Body, piece); err != nil {
			if ctx.Err() == nil {
				r.sent.count(what + " ended early")
			}
			return
		}
	}
}

// open requests a path on a new connection with a small receive buffer. The connection stays open
// until the caller calls leave or ctx ends.
func (p *person) open(ctx context.Context, path string) (res *http.Response, leave func(), err error) {
	dialer := *p.dial
	dialer.Control = func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, readBuffer) // the kernel may use a larger buffer
		})
	}

	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return nil, nil, err
	}

	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the context was canceled
	leave = func() {
		stop()
		_ = conn.Close() // the context was canceled
	}

	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: parley.test\r\nX-Api-Key: "+p.key+"\r\n\r\n")
	if err == nil {
		res, err = http.ReadResponse(bufio.NewReaderSize(conn, readPiece), nil)
	}
	if err != nil {
		leave()
	}
	return res, leave, err
}

func (r *slowReadAttack) answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered++
}

func (r *slowReadAttack) held(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading += more
}

// begun waits until responses are being read, and at least as many responses have begun as there
// are readers.
func (r *slowReadAttack) begun(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		full := r.reading >= readersOrganizations && r.answered >= readersOrganizations*readersEach
		r.mu.Unlock()
		if full {
			r.sent.count("round with open responses")
			return
		}
		_ = lifecycle.Sleep(ctx, 10*time.Millisecond)
	}
}

func slowReaders(t *testing.T, s *service) { //nolint:thelper // a subtest, not a helper
	home := s.signUp(t, victimAddress).withKey(t).withAgent(t)
	for n := range 25 {
		home.trigger(t.Context(), home.key, fmt.Sprint("before ", n)).Want(t, http.StatusOK)
	}

	r := newSlowReading(t, s)
	v := &victim{probes: []probe{home.lists(pace(60 * time.Millisecond)), home.chats(pace(120 * time.Millisecond))}}
	s.judge(t, formPlan(plan{rounds: 3, each: 1200 * time.Millisecond, again: refill}), v, attack{
		run: r.run, begun: r.begun, sent: &r.sent, shows: map[string]int{
			"session 200":               readersOrganizations,
			"run 200":                   readersOrganizations,
			"run 429":                   1,
			"list 200":                  3 * readersOrganizations,
			"round with open responses": 3,
		},
	})
}
