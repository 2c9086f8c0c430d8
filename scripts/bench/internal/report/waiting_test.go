package report

import (
	"math"
	"testing"
)

// waiting is a measurement of two rounds.
func waiting() *Waiting {
	const mib = 1 << 20
	parked := []Stage{
		{Process: Parked, Stage: StageBefore, Bytes: 2 * mib},
		{Process: Parked, Stage: StageIdle, Clients: 1024, Bytes: 10 * mib},
		{Process: Parked, Stage: StageWaiting, Clients: 1024, Bytes: 18 * mib},
	}
	round := func(seconds float64, before, idle, waiting, streams int64) WaitingRound {
		return WaitingRound{Answers: 1536, Seconds: seconds, Stages: []Stage{
			{Process: Ingress, Stage: StageBefore, Bytes: before * mib},
			{Process: Ingress, Stage: StageIdle, Clients: 1024, Bytes: idle * mib},
			{Process: Ingress, Stage: StageWaiting, Clients: 1024, Bytes: waiting * mib},
			{Process: Ingress, Stage: StageStreams, Clients: 512, Bytes: streams * mib},
		}}
	}
	return NewWaiting(1024, 512, map[string]string{"LIMIT_USER": "9", "ORG_DISPATCH_WINDOW": "1536"}, parked,
		[]WaitingRound{round(1, 10, 20, 30, 42), round(2, 10, 18, 28, 38)})
}

func TestNewWaitingTellsEachStagesShare(t *testing.T) {
	t.Parallel()
	w := waiting()
	want := []float64{0, 9, 19, 22} // medians: idle of 10 and 8, waiting of 20 and 18, streams of 24 and 20
	for i, s := range w.Median.Stages {
		if math.Abs(s.Each-want[i]) > 1e-9 {
			t.Errorf("%s: %v KiB each, want %v", s.Stage, s.Each, want[i])
		}
	}
	if w.Median.Seconds != 1.5 || w.Median.Answers != 1536 || w.Parked[2].Each != 16 {
		t.Errorf("median %+v, parked %+v", w.Median, w.Parked)
	}
}

func TestWaitingGoals(t *testing.T) {
	t.Parallel()
	var r Report
	r.AddWaiting(waiting(), nil)
	if len(r.Goals) != 2 || !r.Goals[0].Met || r.Goals[0].Clients != 1024 || r.Goals[1].Met || r.Goals[1].Clients != 512 {
		t.Errorf("goals are %+v", r.Goals)
	}
}
