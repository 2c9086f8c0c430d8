package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// proved returns the evidence of a faultless service that got the given number of triggers.
func proved(triggers int) Evidence {
	var e Evidence
	for n := range triggers {
		id, key := fmt.Sprintf("run_%d", n), keyFor(n)
		body := []byte(`{"id":"` + id + `"}`)
		e.Answers = append(e.Answers, Answer{Body: body, Replay: slices.Clone(body), Run: id, Status: "completed", Effect: true})
		e.Bookings = append(e.Bookings, Booking{Trigger: n, Key: "effect-" + id, Times: 1 + n%3})
		e.Runs = append(e.Runs, Listed{ID: id, Key: &key, Status: "completed"})
	}
	return e
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	key := func(n int) *string {
		k := keyFor(n)
		return &k
	}
	for name, c := range map[string]struct {
		spoil func(e *Evidence)
		want  Verdict // Triggers is omitted; Answered, Runs and Effects are 0 if they equal Triggers
		says  string
	}{
		"proved": {func(*Evidence) {}, Verdict{}, ""},
		"lost": {
			func(e *Evidence) { e.Bookings = slices.Delete(e.Bookings, 1, 3) },
			Verdict{Lost: 2, Effects: 3},
			"trigger 1 has no effect",
		},
		"doubled": {
			func(e *Evidence) {
				e.Bookings = append(e.Bookings, Booking{Trigger: 3, Key: "other", Times: 1}, Booking{Trigger: 3, Key: "third", Times: 1})
			},
			Verdict{Doubled: 2, Effects: 7},
			"trigger 3 has 3 effects, under the keys [effect-run_3 other third]",
		},
		"one lost and one doubled": {
			func(e *Evidence) { e.Bookings[0].Trigger = 1 },
			Verdict{Lost: 1, Doubled: 1},
			"trigger 0 has no effect",
		},
		"two runs for a key": {
			func(e *Evidence) {
				e.Runs = append(e.Runs, Listed{ID: "run_x", Key: key(2), Status: "completed"})
			},
			Verdict{SecondRuns: 1, Runs: 6},
			"trigger 2 has 2 runs instead of one: [run_2 run_x]",
		},
		"unanswered": {
			func(e *Evidence) { e.Answers[4] = Answer{Problem: "503: away"} },
			Verdict{Unanswered: 1, Answered: 4},
			"trigger 4 has no answer: 503: away",
		},
		"unanswered for an unknown reason": {
			func(e *Evidence) { e.Answers[4] = Answer{} },
			Verdict{Unanswered: 1, Answered: 4},
			"the time limit was reached",
		},
		"answered by a failed run": {
			func(e *Evidence) { e.Answers[0].Status = "failed" },
			Verdict{Failed: 1},
			"run run_0 with status failed",
		},
		"completed without a booked effect": {
			func(e *Evidence) { e.Answers[0].Effect = false },
			Verdict{Failed: 1},
			"effect booked: false",
		},
		"another answer to the replay": {
			func(e *Evidence) { e.Answers[2].Replay = []byte(`{"id":"run_2" }`) },
			Verdict{ChangedAnswers: 1},
			`trigger 2: the replay's answer differs: {"id":"run_2" }`,
		},
		"no answer to the replay": {
			func(e *Evidence) { e.Answers[2].Replay = nil },
			Verdict{ChangedAnswers: 1},
			"trigger 2",
		},
		"a run that is not listed": {
			func(e *Evidence) { e.Runs = slices.Delete(e.Runs, 3, 4) },
			Verdict{Unlisted: 1, Runs: 4},
			"trigger 3 was answered by run run_3, but the service lists no such run for the trigger's key",
		},
		"two triggers answered by one run": {
			func(e *Evidence) { e.Answers[1].Run = "run_0" },
			Verdict{Unlisted: 1},
			"trigger 1 was answered by run run_0",
		},
		"runs without a trigger": {
			func(e *Evidence) {
				e.Runs = append(e.Runs, Listed{ID: "run_x"}, Listed{ID: "run_y", Key: key(5)})
			},
			Verdict{Unasked: 2, Runs: 7},
			"2 runs have a key that was never sent",
		},
		"effects without a trigger": {
			func(e *Evidence) {
				e.Bookings = append(e.Bookings, Booking{Trigger: 5, Key: "a", Times: 1}, Booking{Trigger: -1, Key: "b", Times: 1})
			},
			Verdict{Unasked: 2, Effects: 7},
			"trigger -1 has an effect, but was never sent",
		},
		"a process that ended without a kill": {
			func(e *Evidence) { e.Ended = []string{"worker 1 ended: panic"} },
			Verdict{Ended: 1},
			"worker 1 ended: panic",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := proved(5)
			c.spoil(&e)
			got := judge(e)
			if got.OK() != (c.says == "") {
				t.Errorf("OK = %t: %+v", got.OK(), got)
			}
			if said := strings.Join(got.Faults, "\n"); !strings.Contains(said, c.says) {
				t.Errorf("faults =\n%s", said)
			}
			want := c.want
			want.Triggers = 5
			for _, count := range []*int{&want.Answered, &want.Runs, &want.Effects} {
				if *count == 0 {
					*count = 5
				}
			}
			want.Faults, want.faults = got.Faults, got.faults
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("verdict = %+v\nwant      %+v", got, want)
			}
		})
	}
}

// TestNothingProvesNothing checks that the verdict on a service that does nothing is negative.
func TestNothingProvesNothing(t *testing.T) {
	t.Parallel()
	v := judge(Evidence{Answers: make([]Answer, 1000)})
	if v.OK() || v.Lost != 1000 || v.Unanswered != 1000 || v.faults != 2000 {
		t.Errorf("verdict = %+v", v)
	}
	if len(v.Faults) != 2*maxFaults {
		t.Errorf("described faults = %d", len(v.Faults))
	}
}
