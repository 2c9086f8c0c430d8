package ratelimit

import (
	"strconv"
	"testing"
	"time"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	f := NewFailures(3, time.Minute, func() time.Time { return clock })
	for range 10 { // successful attempts are not counted
		if f.Begin("ada") != 0 {
			t.Fatal("refused after successes")
		}
		f.Undo("ada")
	}
	for range 3 {
		if f.Begin("ada") != 0 {
			t.Fatal("refused before the limit")
		}
	}
	clock = clock.Add(20 * time.Second)
	if wait, other := f.Wait("ada"), f.Wait("bea"); wait != 40*time.Second || other != 0 {
		t.Errorf("ada must wait %v, bea %v", wait, other)
	}
	if wait := f.Begin("ada"); wait != 40*time.Second {
		t.Errorf("wait %v after three failures, want 40 s", wait)
	}
	if f.Begin("bea") != 0 {
		t.Error("another name is refused")
	}
	clock = clock.Add(40 * time.Second)
	if wait := f.Wait("ada"); wait != 0 || f.Begin("ada") != 0 {
		t.Error("refused after the window")
	}
	f.Undo("nobody")
}

func TestFailuresStaySmall(t *testing.T) {
	t.Parallel()
	f := NewFailures(3, time.Minute, time.Now)
	for n := range maxFailures + 10 {
		f.Begin(strconv.Itoa(n))
	}
	if len(f.counts) > maxFailures {
		t.Errorf("%d names", len(f.counts))
	}
}
