package prove

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"parley/shared/truncate"
)

// Answer is a client's record of one trigger.
type Answer struct {
	// Body is the finished run as JSON. It is empty if there was no answer.
	Body []byte
	// Run and Status are the ID and the status of the run. Effect is true if the run reports that
	// its booking was confirmed.
	Run, Status string
	Effect      bool
	// Replay is the response to the same trigger with the same key after all kills.
	Replay []byte
	// Problem is the reason why there is no answer, if it is known.
	Problem string
}

// Listed is a run in the service's list of runs.
type Listed struct {
	ID     string  `json:"id"`
	Key    *string `json:"idempotencyKey"`
	Status string  `json:"status"`
}

// Evidence contains everything on which the verdict depends. It comes from three independent
// sources: the clients, the ledger, and the service.
type Evidence struct {
	// Answers contains the answer to each trigger, by the trigger's number.
	Answers []Answer
	// Bookings are all effects in the ledger.
	Bookings []Booking
	// Runs are all runs of the agent, as the service lists them.
	Runs []Listed
	// Ended describes the ends of parts that were not killed.
	Ended []string
}

// Verdict contains the counts of what happened. All counts from Lost on must be 0.
type Verdict struct {
	Triggers       int `json:"triggers"`
	Answered       int `json:"answered"`
	Runs           int `json:"runs"`
	Effects        int `json:"effects"`
	Lost           int `json:"lost"`           // triggers without an effect
	Doubled        int `json:"doubled"`        // effects of a trigger beyond its first
	Unanswered     int `json:"unanswered"`     // triggers without an answer
	SecondRuns     int `json:"secondRuns"`     // runs of a key beyond its first
	Unlisted       int `json:"unlisted"`       // answers with a run that is not in the service's list
	Failed         int `json:"failed"`         // answers with a run that failed or has no effect
	ChangedAnswers int `json:"changedAnswers"` // replays that differ from the answer in any byte
	Unasked        int `json:"unasked"`        // effects and runs that belong to no trigger
	Ended          int `json:"ended"`          // processes that ended without a kill

	// Faults describes the first faults of each kind.
	Faults []string `json:"faults"`

	faults int // number of all faults
}

// OK reports whether there are no faults.
func (v *Verdict) OK() bool { return v.faults == 0 }

// maxFaults is the maximum number of faults of each kind that Faults describes.
const maxFaults = 3

// faultf adds n to a count of faults. It describes the fault if it is among the first of its kind.
func (v *Verdict) faultf(count *int, n int, format string, values ...any) {
	if *count < maxFaults {
		v.Faults = append(v.Faults, fmt.Sprintf(format, values...))
	}
	*count += n
	v.faults += n
}

// judge counts the faults in the evidence. Answers, ledger and list of runs must agree. judge is a
// pure function.
func judge(e Evidence) Verdict {
	v := Verdict{Triggers: len(e.Answers), Runs: len(e.Runs), Faults: []string{}}
	v.judgeEffects(e)
	v.judgeRuns(e)
	for n, a := range e.Answers {
		v.judgeAnswer(n, a)
	}
	for _, what := range e.Ended {
		v.faultf(&v.Ended, 1, "%s", what)
	}
	return v
}

// judgeAnswer counts trigger n as answered, and counts the faults of its answer.
func (v *Verdict) judgeAnswer(n int, a Answer) {
	if len(a.Body) == 0 {
		v.faultf(&v.Unanswered, 1, "trigger %d has no answer: %s", n, cmp.Or(a.Problem, "the time limit was reached"))
		return
	}
	v.Answered++
	if a.Status != "completed" || !a.Effect {
		v.faultf(&v.Failed, 1, "trigger %d was answered by run %s with status %s, effect booked: %t", n, a.Run, a.Status, a.Effect)
	}
	if !bytes.Equal(a.Body, a.Replay) {
		v.faultf(&v.ChangedAnswers, 1, "trigger %d: the replay's answer differs: %s", n, truncate.Ellipsis(string(a.Replay), maxQuoted))
	}
}

// judgeEffects counts triggers without an effect, additional effects, and effects without a
// trigger.
func (v *Verdict) judgeEffects(e Evidence) {
	keys := make([][]string, len(e.Answers))
	for _, b := range e.Bookings {
		v.Effects++
		if b.Trigger < 0 || b.Trigger >= len(keys) {
			v.faultf(&v.Unasked, 1, "trigger %d has an effect, but was never sent", b.Trigger)
			continue
		}
		keys[b.Trigger] = append(keys[b.Trigger], b.Key)
	}

	for n, of := range keys {
		slices.Sort(of)
		switch {
		case len(of) == 0:
			v.faultf(&v.Lost, 1, "trigger %d has no effect", n)
		case len(of) > 1:
			v.faultf(&v.Doubled, len(of)-1, "trigger %d has %d effects, under the keys %s", n, len(of), of)
		}
	}
}

// judgeRuns compares the answers with the service's list of runs. It counts additional runs of a
// key, answers with a run that is not in the list, and runs that belong to no trigger.
func (v *Verdict) judgeRuns(e Evidence) {
	byKey, listed := map[string][]string{}, map[string]bool{}
	for _, r := range e.Runs {
		listed[r.ID] = true
		if r.Key != nil {
			byKey[*r.Key] = append(byKey[*r.Key], r.ID)
		}
	}

	found := 0
	for n, a := range e.Answers {
		runs := byKey[keyFor(n)]
		found += len(runs)
		if len(runs) > 1 {
			v.faultf(&v.SecondRuns, len(runs)-1, "trigger %d has %d runs instead of one: %s", n, len(runs), runs)
		}
		if a.Run != "" && (!listed[a.Run] || !slices.Contains(runs, a.Run)) {
			v.faultf(&v.Unlisted, 1, "trigger %d was answered by run %s, but the service lists no such run for the trigger's key", n, a.Run)
		}
	}

	if strange := len(e.Runs) - found; strange > 0 {
		v.faultf(&v.Unasked, strange, "%d runs have a key that was never sent", strange)
	}
}

// keyFor returns the idempotency key of trigger n.
func keyFor(n int) string { return fmt.Sprintf("prove-%d", n) }

// maxQuoted is the maximum length of the part of a response that a message quotes. It is longer
// than the ID of a run.
const maxQuoted = 80
