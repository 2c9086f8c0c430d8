package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/workers/internal/speech"
	"parley/workers/internal/speech/process"
)

// turn returns a Turn. Its organization is the given letter. A capital letter means that the call
// is long.
func turn(name rune) process.Turn {
	small := strings.ToLower(string(name))
	return process.Turn{Organization: small, Long: small != string(name)}
}

// TestOrganizationsTakeTurns: calls arrive one after the other. Then the calls that have a slot end
// in the same order, so that waiting calls get slots.
func TestOrganizationsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slots int
		come  string
		first string // calls that have a slot after all calls have arrived
		order string // order in which all calls get a slot
	}{
		"one organization":                     {1, "aaa", "a", "aaa"},
		"one with many":                        {1, "aaaaab", "a", "aabaaa"},
		"three":                                {1, "aaabbc", "a", "aabcab"},
		"two places":                           {2, "aaaaabb", "aa", "aaababa"},
		"a short one behind long ones":         {2, "AAAAb", "Ab", "AbAAA"},
		"its own short one":                    {2, "AAAa", "Aa", "AaAA"},
		"long ones of two organizations":       {2, "ABAB", "A", "ABAB"},
		"more places":                          {4, "AAAAAb", "AAAb", "AAAbAA"},
		"a single place is for long ones, too": {1, "AAb", "A", "AAb"},
		"who is passed over keeps its turn":    {2, "ABccc", "Ac", "AcBcc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slots := process.NewSlots(c.slots, 100, 100)
				var order strings.Builder
				var releases []func()
				for _, who := range c.come {
					go func() {
						release, err := slots.Take(t.Context(), turn(who))
						if err != nil {
							t.Error(err)
							return
						}
						order.WriteRune(who)
						releases = append(releases, release)
					}()
					synctest.Wait()
				}
				if order.String() != c.first {
					t.Errorf("calls with a slot at first: %s, want %s", order.String(), c.first)
				}
				for len(releases) > 0 {
					release := releases[0]
					releases = releases[1:]
					release()
					synctest.Wait()
				}
				if order.String() != c.order {
					t.Errorf("%s, not %s", order.String(), c.order)
				}
			})
		})
	}
}

// TestAnOrganizationDoesNotFillTheQueue: calls of other organizations can still wait when one
// organization has reached its limit.
func TestAnOrganizationDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slots := process.NewSlots(1, 2, 4)
		release, err := slots.Take(ctx, turn('a'))
		if err != nil {
			t.Fatal(err)
		}
		left := make(chan error, 10)
		var refused []string
		for n, who := range "aaabbbcd" {
			go func() {
				_, err := slots.Take(ctx, turn(who))
				if errors.Is(err, speech.ErrOverloaded) {
					refused = append(refused, fmt.Sprint(n, string(who)))
					return
				}
				left <- err
			}()
			synctest.Wait()
		}
		if got := strings.Join(refused, " "); got != "2a 5b 6c 7d" {
			t.Errorf("refused: %s", got)
		}
		cancel()
		for range 4 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		release()
		release()                                                          // the second release has no effect
		if release, err = slots.Take(t.Context(), turn('d')); err != nil { // succeeds, because no other call is waiting
			t.Fatal(err)
		}
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := slots.Take(late, turn('e')); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("two calls have the same slot: %v", err)
		}
		release()
	})
}

func TestPlacesAreTakenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue = 3
		slots := process.NewSlots(1, queue, queue)
		release, err := slots.Take(t.Context(), process.Turn{})
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan int, queue)
		for n := range queue {
			go func() {
				release, err := slots.Take(t.Context(), process.Turn{})
				if err != nil {
					t.Error(err)
					return
				}
				order <- n
				release()
			}()
			synctest.Wait()
		}
		if _, err := slots.Take(t.Context(), process.Turn{}); !errors.Is(err, speech.ErrOverloaded) {
			t.Errorf("a call beyond the limit: %v", err)
		}
		release()
		synctest.Wait()
		for n := range queue {
			if got := <-order; got != n {
				t.Errorf("slot %d was taken by call %d", n, got)
			}
		}
		if release, err = slots.Take(t.Context(), process.Turn{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := slots.Take(ctx, process.Turn{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call waits after its context has ended: %v", err)
		}
		release()
		if release, err = slots.Take(ctx, process.Turn{}); !errors.Is(err, context.DeadlineExceeded) { // the free slot is for short calls
			release()
			t.Errorf("a call whose context has ended takes a slot: %v", err)
		}
	})
}
