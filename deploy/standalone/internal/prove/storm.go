package prove

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"parley/shared/lifecycle"
)

// storm is the triggers on their way. Each is sent, and sent again with its key, until it is answered.
type storm struct {
	api       *api
	freshKeys bool // sabotage: a retry has another key
	answers   []Answer

	next, begun, answered atomic.Int64

	mu      sync.Mutex
	posts   int
	retries map[string]int // why requests were sent again
}

const (
	// retryPause is about what lies between a try and the next.
	retryPause = 150 * time.Millisecond
	// longestPause bounds what a Retry-After may ask for: the service must bear a client that is less patient.
	longestPause = 2 * time.Second
)

func newStorm(a *api, triggers int, freshKeys bool) *storm {
	return &storm{api: a, freshKeys: freshKeys, answers: make([]Answer, triggers), retries: map[string]int{}}
}

// run sends all triggers, so many at a time, and returns when all are answered or ctx ends.
func (s *storm) run(ctx context.Context, clients int) {
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for n := int(s.next.Add(1)) - 1; n < len(s.answers) && ctx.Err() == nil; n = int(s.next.Add(1)) - 1 {
				s.begun.Add(1)
				s.answers[n] = s.ask(ctx, n)
			}
		})
	}
	wg.Wait()
}

// ask sends one trigger until there is an answer.
func (s *storm) ask(ctx context.Context, n int) Answer {
	key, problem := keyFor(n), ""
	for try := 1; ctx.Err() == nil; try++ {
		got, err := s.api.trigger(ctx, n, key)
		if ctx.Err() != nil {
			break
		}
		if err == nil && got.status == http.StatusOK {
			if answer, ok := readAnswer(got.body); ok {
				s.count("")
				s.answered.Add(1)
				return answer
			}
		}
		why, final := reason(got, err)
		s.count(why)
		problem = fmt.Sprintf("%s: %s", why, cut(got.body))
		if err != nil {
			problem = err.Error()
		}
		if final {
			break
		}
		_ = lifecycle.Sleep(ctx, patience(got.header))
		if s.freshKeys {
			key = fmt.Sprintf("%s-again-%d", keyFor(n), try)
		}
	}
	return Answer{Problem: problem}
}

// reason names why a request has to be sent again; final says that it makes no sense to.
func reason(got response, err error) (why string, final bool) {
	switch {
	case err != nil:
		return "connection lost", false
	case got.status == http.StatusOK:
		return "200 without a run", true
	case got.status == http.StatusAccepted:
		return "202 not finished yet", false
	case got.status == http.StatusTooManyRequests, got.status == http.StatusRequestTimeout, got.status >= http.StatusInternalServerError:
		return strconv.Itoa(got.status), false
	default:
		return strconv.Itoa(got.status), true
	}
}

// patience is how long a client waits before it asks again.
func patience(header http.Header) time.Duration {
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 {
		return min(longestPause, time.Duration(seconds)*time.Second)
	}
	return retryPause/2 + rand.N(retryPause) //nolint:gosec // G404: clients that do not come all at once
}

// count notes a request, and why it has to be sent again if it has.
func (s *storm) count(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	if why != "" {
		s.retries[why]++
	}
}

// counts gives how many requests there were, and why how many were sent again.
func (s *storm) counts() (posts int, retries map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts, maps.Clone(s.retries)
}

// underWay is how many triggers are sent and not answered.
func (s *storm) underWay() int { return int(s.begun.Load() - s.answered.Load()) }

// replay asks for every answered trigger again, with its key.
func (s *storm) replay(ctx context.Context, clients int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(s.answers) && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if len(s.answers[n].Body) > 0 {
					s.answers[n].Replay = s.again(ctx, n)
				}
			}
		})
	}
	wg.Wait()
}

// again asks for a trigger that was answered. Nothing is struck any more: what is not an answer at once is a fault.
func (s *storm) again(ctx context.Context, n int) []byte {
	for ctx.Err() == nil {
		got, err := s.api.trigger(ctx, n, keyFor(n))
		switch {
		case err != nil:
			return []byte(err.Error())
		case got.status == http.StatusTooManyRequests || got.status == http.StatusServiceUnavailable:
			_ = lifecycle.Sleep(ctx, patience(got.header))
		default:
			return got.body
		}
	}
	return nil
}
