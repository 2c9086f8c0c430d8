package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/domain"
	"parley/shared/store/executiondb"
	"parley/shared/store/lease"
	"parley/workers/internal/agentloop"
)

// writerEnv records the events that an event writer publishes and saves.
type writerEnv struct {
	*eventWriter

	mu        sync.Mutex
	published []string
	saved     []executiondb.Checkpoint
	at        []time.Time
	fail      error
	lost      bool
	slow      time.Duration
	taken     int
}

func newWriterEnv(fence int64) *writerEnv {
	tt := &writerEnv{}
	tt.eventWriter = &eventWriter{
		held: lease.Held{RunID: "run_1", Fence: fence}, epoch: time.Now(), pace: &pace{}, log: zerolog.Nop(),
		publish: func(_ string, c domain.EventChunk) {
			tt.published = append(tt.published, fmt.Sprintf("%d.%d %s", c.Fence, c.First, c.Lines))
		},
		save:  tt.store,
		taken: func() { tt.taken++ },
	}
	tt.begin(domain.At(time.Now()))
	return tt
}

func (tt *writerEnv) store(_ context.Context, c executiondb.Checkpoint) (bool, error) {
	if tt.slow > 0 {
		<-time.After(tt.slow)
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.at = append(tt.at, time.Now())
	if tt.fail != nil {
		return false, tt.fail
	}
	tt.saved = append(tt.saved, c)
	return !tt.lost, nil
}

func (tt *writerEnv) say(text string) {
	tt.loop(agentloop.Event{Type: agentloop.EventDelta, Text: text})
}

// chunks formats the numbers of the saved events, for example as "2-3".
func chunks(saved []executiondb.Checkpoint) string {
	var out []string
	for _, c := range saved {
		out = append(out, fmt.Sprintf("%d-%d", c.FirstN, c.LastN))
	}
	return strings.Join(out, " ")
}

func answered(text string) domain.Run {
	return domain.Run{Status: domain.RunCompleted, Message: &text}
}

func TestEventsArePublishedImmediatelyAndSavedPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := newWriterEnv(1)
		for n := range 20 {
			tt.say(fmt.Sprint(n))
			if len(tt.published) != n+2 {
				t.Fatalf("event %d was not published immediately", n)
			}
			<-time.After(49 * time.Millisecond)
		}
		tt.closeAndWait(t.Context())
		for i := range tt.at[1:] {
			if gap := tt.at[i+1].Sub(tt.at[i]); gap < checkpointEvery {
				t.Errorf("two checkpoints within %s", gap)
			}
		}
		rest, end := tt.rest(answered("whatever"))
		if got := chunks(append(tt.saved, executiondb.Checkpoint{Chunk: rest})); got != "2-7 8-12 13-17 18-21" || end != 22 {
			t.Errorf("stored in %s, ended at %d", got, end)
		}
		if !strings.HasPrefix(tt.published[0], "1.1 run.started {") || tt.published[1] != "1.2 message.delta {\"text\":\"0\"}\n" {
			t.Errorf("published %q", tt.published[:2])
		}
	})
}

// Runs that began at different times save their events at the same moments, so that their
// checkpoints are part of the same statements. A run that finishes soon has no checkpoint.
func TestRunsShareTheMomentsOfTheirCheckpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		epoch, moments := time.Now(), map[time.Duration]int{}
		for n := range 10 {
			tt := newWriterEnv(1)
			tt.epoch = epoch
			for range 25 {
				tt.say(fmt.Sprint(n))
				<-time.After(21 * time.Millisecond)
			}
			tt.closeAndWait(t.Context())
			if len(tt.at) == 0 {
				t.Errorf("run %d has no checkpoint", n)
			}
			for _, at := range tt.at {
				moments[at.Sub(epoch)%checkpointEvery]++
			}

			short := newWriterEnv(1)
			short.epoch = epoch
			short.say("a")
			<-time.After(checkpointAge - time.Millisecond)
			short.closeAndWait(t.Context())
			if len(short.at) > 0 {
				t.Errorf("a short run wrote %d checkpoints", len(short.at))
			}
		}
		if len(moments) != 1 {
			t.Errorf("runs wrote checkpoints at %v", moments)
		}
	})
}

func TestAnAnswerInOnePieceStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			fence int64
			texts []string
			run   domain.Run
			first int // number of the first event that is not yet saved; 0 if all are saved
			end   int
		}{
			"the answer":           {1, []string{"all"}, answered("all"), 0, 3},
			"nothing":              {1, nil, answered(""), 0, 2},
			"nothing, in a piece":  {1, []string{""}, answered(""), 0, 2},
			"failed before a word": {1, nil, domain.Run{Status: domain.RunFailed}, 0, 2},
			"two pieces":           {1, []string{"a", "ll"}, answered("all"), 2, 4},
			"another text":         {1, []string{"al"}, answered("all"), 2, 3},
			"failed after a piece": {1, []string{"all"}, domain.Run{Status: domain.RunFailed}, 2, 3},
			"timed out":            {1, []string{"all"}, domain.Run{Status: domain.RunTimedOut}, 2, 3},
			"a later attempt":      {3, []string{"all"}, answered("all"), 1, 2},
		} {
			tt := newWriterEnv(tc.fence)
			for _, text := range tc.texts {
				tt.say(text)
			}
			tt.closeAndWait(t.Context())
			rest, end := tt.rest(tc.run)
			if rest.FirstN != tc.first || end != tc.end || (rest.Events == "") != (tc.first == 0) || tc.first > 0 && rest.LastN != tc.end-1 {
				t.Errorf("%s: left %+v, ends at %d", name, rest, end)
			}
		}
	})
}

func TestALaterAttemptPublishesThatTheRunRestarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := newWriterEnv(3)
		tt.restarted(4)
		tt.say("a")
		tt.close()
		if got := strings.Join(tt.published, ""); got != "3.1 run.restarted {\"afterStep\":4}\n3.2 message.delta {\"text\":\"a\"}\n" {
			t.Errorf("published %q", got)
		}
		first := newWriterEnv(1)
		first.restarted(0)
		if len(first.published) != 1 {
			t.Errorf("a first attempt published %q", first.published)
		}
	})
}

func TestAFailedCheckpointIsRetriedWithLaterEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := newWriterEnv(1)
		tt.fail = errors.New("down")
		tt.say("a")
		<-time.After(3 * checkpointEvery)
		tt.say("b")
		tt.mu.Lock()
		tried := len(tt.at)
		tt.fail = nil
		tt.mu.Unlock()
		<-time.After(2 * checkpointEvery)
		synctest.Wait()
		if tried < 2 || chunks(tt.saved) != "2-3" || tt.saved[0].Events != "message.delta {\"text\":\"a\"}\nmessage.delta {\"text\":\"b\"}\n" {
			t.Errorf("after %d failures stored %+v", tried, tt.saved)
		}
		tt.closeAndWait(t.Context())
		if rest, end := tt.rest(answered("ab")); rest != (executiondb.Chunk{}) || end != 4 {
			t.Errorf("left %+v, ends at %d", rest, end)
		}
	})
}

func TestFinishingWaitsForACheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := newWriterEnv(1)
		tt.slow = time.Second
		tt.say("a")
		<-time.After(checkpointEvery + 100*time.Millisecond)
		tt.say("b")
		tt.closeAndWait(t.Context())
		if rest, end := tt.rest(answered("ab")); chunks(tt.saved) != "2-2" || rest.FirstN != 3 || rest.LastN != 3 || end != 4 {
			t.Errorf("stored %s, left %+v, ends at %d", chunks(tt.saved), rest, end)
		}
		tt.forget()
		if rest, end := tt.rest(domain.Run{Status: domain.RunFailed}); rest != (executiondb.Chunk{}) || end != 4 {
			t.Errorf("left %+v, ends at %d", rest, end)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(tt.at) != 1 {
			t.Errorf("%d checkpoints after the end", len(tt.at)-1)
		}
	})
}

func TestALostRunEndsItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tt := newWriterEnv(1)
		tt.lost = true
		tt.say("a")
		<-time.After(2 * checkpointEvery)
		synctest.Wait()
		tt.close()
		if tt.taken != 1 {
			t.Errorf("the attempt was ended %d times", tt.taken)
		}
	})
}
