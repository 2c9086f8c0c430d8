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
	"parley/shared/truncate"
)

// load sends the triggers. It repeats each trigger with the same key until it gets an answer.
// Element n of answers is the answer to trigger n; only one client writes each element.
type load struct {
	api       *api
	freshKeys bool // sabotage: repeat a trigger with a new key
	answers   []Answer

	// next is the number of triggers that clients have taken. begun is the number of triggers that
	// were sent, and answered the number of triggers that were answered.
	next, begun, answered atomic.Int64

	mu      sync.Mutex
	posts   int
	retries map[string]int // number of retries, by reason
}

const (
	// retryPause is the mean delay before a retry.
	retryPause = 150 * time.Millisecond
	// maxPause is the longest delay before a retry. Clients retry after this time even if a
	// Retry-After header asks for more, because the service must also cope with impatient clients.
	maxPause = 2 * time.Second
)

// newLoad returns a load of the given number of triggers, which has sent nothing yet.
func newLoad(a *api, triggers int, freshKeys bool) *load {
	return &load{api: a, freshKeys: freshKeys, answers: make([]Answer, triggers), retries: map[string]int{}}
}

// run sends all triggers with the given number of clients at a time. It returns when each trigger
// is answered or rejected, or when ctx ends.
func (s *load) run(ctx context.Context, clients int) {
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

// ask repeats trigger n until it is answered or rejected, or until ctx ends. Without an answer, the
// result contains the problem of the last attempt.
func (s *load) ask(ctx context.Context, n int) Answer {
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
		problem = fmt.Sprintf("%s: %s", why, truncate.Ellipsis(string(got.body), maxQuoted))
		if err != nil {
			problem = err.Error()
		}
		if final {
			break
		}
		// The pause spreads the retries of the clients over time.
		_ = lifecycle.Sleep(ctx, retryDelay(got.header))
		if s.freshKeys {
			key = fmt.Sprintf("%s-again-%d", keyFor(n), try)
		}
	}
	return Answer{Problem: problem}
}

// reason returns why the client retries after an attempt. If final is true, the client does not
// retry, because the result would be the same.
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

// retryDelay returns the delay before a retry: the Retry-After header, at most maxPause, or a
// random delay around retryPause.
func retryDelay(header http.Header) time.Duration {
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > 0 {
		return min(maxPause, time.Duration(seconds)*time.Second)
	}
	return retryPause/2 + rand.N(retryPause) //nolint:gosec // G404: jitter between clients
}

// count counts a request. If why is not empty, it also counts a retry for this reason.
func (s *load) count(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	if why != "" {
		s.retries[why]++
	}
}

// counts returns the number of requests and the retries by reason.
func (s *load) counts() (posts int, retries map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts, maps.Clone(s.retries)
}

// underWay returns the number of triggers that were sent but not answered yet.
func (s *load) underWay() int { return int(s.begun.Load() - s.answered.Load()) }

// replay sends every answered trigger once more with its key, with the given number of clients at a
// time. It stores the responses in the answers.
func (s *load) replay(ctx context.Context, clients int) {
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

// again sends an answered trigger once more and returns the response, or the error as text. No part
// is killed at this time, so any response except the answer is a fault. The method retries only
// after an overload.
func (s *load) again(ctx context.Context, n int) []byte {
	for ctx.Err() == nil {
		got, err := s.api.trigger(ctx, n, keyFor(n))
		switch {
		case err != nil:
			return []byte(err.Error())
		case got.status == http.StatusTooManyRequests || got.status == http.StatusServiceUnavailable:
			_ = lifecycle.Sleep(ctx, retryDelay(got.header))
		default:
			return got.body
		}
	}
	return nil
}
