package prove

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Answer is what the client of one trigger was told.
type Answer struct {
	// Body is the finished run as it was answered; empty when there was no answer.
	Body []byte
	// Run is the run's id, Status its state, Effect whether it says that its effect was booked.
	Run, Status string
	Effect      bool
	// Replay is what asking again with the same key gave at the end.
	Replay []byte
	// Problem is why there is no answer, as far as it is known.
	Problem string
}

// Listed is a run in the service's own list.
type Listed struct {
	ID     string  `json:"id"`
	Key    *string `json:"idempotencyKey"`
	Status string  `json:"status"`
}

// Evidence is all that a verdict rests on.
type Evidence struct {
	// Answers are the triggers' by their number.
	Answers []Answer
	// Bookings are the ledger's.
	Bookings []Booking
	// Runs are all runs that the service lists of the agent.
	Runs []Listed
	// Ended are parts that ended without having been struck, each in words.
	Ended []string
}

// Verdict is what came of it. Every count below Doubled should be 0, and so should Lost and Doubled.
type Verdict struct {
	Triggers       int `json:"triggers"`
	Answered       int `json:"answered"`
	Runs           int `json:"runs"`
	Effects        int `json:"effects"`
	Lost           int `json:"lost"`           // triggers without an effect
	Doubled        int `json:"doubled"`        // effects beyond a trigger's first
	Unanswered     int `json:"unanswered"`     // triggers without an answer
	SecondRuns     int `json:"secondRuns"`     // runs beyond a key's first
	Unlisted       int `json:"unlisted"`       // answers with a run that the service does not list
	Failed         int `json:"failed"`         // answers with a run that did not complete, or not with its effect
	ChangedAnswers int `json:"changedAnswers"` // replays that are not byte for byte the answer
	Unasked        int `json:"unasked"`        // effects and runs of no trigger
	Ended          int `json:"ended"`          // processes that ended without having been struck

	// Faults are the first things of each kind that are wrong, in words.
	Faults []string `json:"faults"`

	faults int // all of them
}

// OK tells whether nothing is wrong.
func (v *Verdict) OK() bool { return v.faults == 0 }

// maxFaults bounds how many faults of each kind are told in words.
const maxFaults = 3

// faultf adds n to a count of faults, and tells the first of them.
func (v *Verdict) faultf(count *int, n int, format string, values ...any) {
	if *count < maxFaults {
		v.Faults = append(v.Faults, fmt.Sprintf(format, values...))
	}
	*count += n
	v.faults += n
}

// judge counts. It believes nobody: what the clients, the ledger and the list of runs say must agree.
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

func (v *Verdict) judgeAnswer(n int, a Answer) {
	if len(a.Body) == 0 {
		v.faultf(&v.Unanswered, 1, "trigger %d has no answer: %s", n, cmp.Or(a.Problem, "out of time"))
		return
	}
	v.Answered++
	if a.Status != "completed" || !a.Effect {
		v.faultf(&v.Failed, 1, "trigger %d was answered by run %s with status %s, effect booked: %t", n, a.Run, a.Status, a.Effect)
	}
	if !bytes.Equal(a.Body, a.Replay) {
		v.faultf(&v.ChangedAnswers, 1, "trigger %d: the replay's answer differs: %s", n, cut(a.Replay))
	}
}

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
			v.faultf(&v.SecondRuns, len(runs)-1, "trigger %d has %d runs for its one key: %s", n, len(runs), runs)
		}
		if a.Run != "" && (!listed[a.Run] || !slices.Contains(runs, a.Run)) {
			v.faultf(&v.Unlisted, 1, "trigger %d was answered by run %s, which is not listed with its key", n, a.Run)
		}
	}
	if strange := len(e.Runs) - found; strange > 0 {
		v.faultf(&v.Unasked, strange, "%d runs have an unknown key", strange)
	}
}

// keyFor is a trigger's idempotency key.
func keyFor(n int) string { return fmt.Sprintf("prove-%d", n) }

// cut makes an answer short enough for a line.
func cut(text []byte) string {
	const limit = 80 // which is enough for the id of a run
	if len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(text)
}
