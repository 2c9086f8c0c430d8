package id

import (
	"slices"
	"testing"
)

func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var runs, messages []string
	for range 1000 {
		run := New(Run)
		user, assistant := Derived(Message, run, "user"), Derived(Message, run, "assistant")
		if !Valid(Message, user) || !Valid(Message, assistant) || user != Derived(Message, run, "user") {
			t.Fatalf("%s gives %s and %s", run, user, assistant)
		}
		if Suffix(user)[:9] != Suffix(run)[:9] { // compares 45 of the 48 bits that contain the time
			t.Fatalf("%s is not of the time of %s", user, run)
		}
		seen[user], seen[assistant] = true, true
		runs, messages = append(runs, run), append(messages, user[:len(Message)+10])
	}
	if len(seen) != 2*len(runs) || !slices.IsSorted(messages) {
		t.Errorf("%d ids of %d runs", len(seen), len(runs))
	}
	if other := Derived(Message, "no id", "user"); !Valid(Message, other) || other == Derived(Message, "none", "user") {
		t.Errorf("of no id: %s", other)
	}
}
