//go:build linux

package cputime_test

import (
	"testing"
	"time"

	"parley/shared/testkit/cputime"
)

// TestOf checks that Of counts the time of a computation, but not the time of waiting or of other
// goroutines.
func TestOf(t *testing.T) {
	t.Parallel()
	var computing time.Duration
	for computing < 200*time.Millisecond { // the loop ends, because each round adds processor time
		computing += cputime.Of(func() { compute(10_000_000) })
	}

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				compute(1000)
			}
		}
	}()
	waiting := cputime.Of(func() { <-time.After(500 * time.Millisecond) })
	close(stop)
	<-stopped
	if waiting > 100*time.Millisecond {
		t.Errorf("waiting for 500ms beside a busy goroutine used %v", waiting)
	}
}

var sink int

func compute(n int) {
	sum := 0
	for i := range n {
		sum += i % 7
	}
	sink = sum
}

func TestSpend(t *testing.T) {
	t.Parallel()
	if used := cputime.Of(func() { cputime.Spend(20 * time.Millisecond) }); used < 20*time.Millisecond {
		t.Errorf("used %s", used)
	}
}
