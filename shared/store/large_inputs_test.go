package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/shared/domain"
	"parley/shared/store/queuedb"
)

// runWithMessage returns a run of a session with a message of the given size in bytes.
func (b *testEnv) runWithMessage(session string, bytes int) queuedb.NewRun {
	r := b.run("", session)
	input, err := json.Marshal(domain.Input{Message: strings.Repeat("m", bytes)})
	if err != nil {
		b.Fatal(err)
	}
	r.Input = input
	return r
}

// The result of a batch of claims does not contain large inputs. Each worker reads the large input
// of its run separately.
func TestLargeInputsAreNotClaimedWithTheirRuns(t *testing.T) {
	t.Parallel()
	b, other := newTestEnv(t), "org_other"
	small, large := b.runWithMessage("", 1000), b.runWithMessage("", 300<<10)
	b.accept(10, small, large)
	if c := b.mustClaim(small.ID); string(c.RawInput) != string(small.Input) || c.LargeInput != 0 {
		t.Errorf("a small input is %d bytes, and %d large ones", len(c.RawInput), c.LargeInput)
	}
	c := b.mustClaim(large.ID)
	if c.RawInput != nil || c.LargeInput != len(large.Input) {
		t.Errorf("a large input is %d bytes, and %d large ones, want %d", len(c.RawInput), c.LargeInput, len(large.Input))
	}
	if input, err := b.s.Executions.RunInput(t.Context(), b.org, large.ID); err != nil || string(input) != string(large.Input) {
		t.Errorf("the run's input has %d bytes, %v", len(input), err)
	}
	if input, err := b.s.Executions.RunInput(t.Context(), other, large.ID); err == nil {
		t.Errorf("another organization reads %d bytes of it", len(input))
	}
}

// A session's history contains the newest turns that fit into 8 MiB.
func TestHistoriesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for range 5 {
		r := b.runWithMessage("s", 2<<20-100)
		b.accept(10, r)
		b.finish(b.mustClaim(r.ID), "answer")
	}
	last := b.runWithMessage("s", 1)
	b.accept(10, last)
	c := b.mustClaim(last.ID)
	turns, err := b.s.Sessions.History(t.Context(), b.org, c.SessionRef, c.Seq, 200)
	if err != nil || len(turns) != 4 {
		t.Fatalf("%d turns, %v; want the newest 4 of 2 MiB each", len(turns), err)
	}
	if turns[0].Seq != 2 || turns[3].Seq != 5 {
		t.Errorf("turns %d to %d", turns[0].Seq, turns[3].Seq)
	}
	size := 0
	for _, turn := range turns {
		size += len(turn.Message) + len(turn.Answer)
	}
	if short, large, err := b.s.Sessions.ShortHistory(t.Context(), b.org, c.SessionRef, c.Seq, 200); err != nil || len(short) != 0 || large != size {
		t.Errorf("a large history is %d turns and %d bytes, %v; want %d bytes", len(short), large, err, size)
	}
	for _, message := range []int{100 << 10, 1} {
		r := b.runWithMessage("short", message)
		b.accept(10, r)
		c = b.mustClaim(r.ID)
		b.finish(c, "answer")
	}
	if short, large, err := b.s.Sessions.ShortHistory(t.Context(), b.org, c.SessionRef, c.Seq, 200); err != nil || len(short) != 1 || large != 0 {
		t.Errorf("a short history is %d turns and %d bytes, %v", len(short), large, err)
	}
}
