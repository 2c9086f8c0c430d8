package crashpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/shared/contract"
	"parley/shared/failpoint"
	"parley/shared/testkit"
)

// lanes is the number of environments for the pairs. Each environment runs one pair after another.
const lanes = 8

// crashPoint is a failpoint on the path of a run, and the role of the process that reaches it.
type crashPoint struct {
	role role
	at   failpoint.Point
	does string
}

// path lists the points that a run with an idempotent tool passes, in order.
var path = []crashPoint{
	{ingress, failpoint.AcceptBefore, "kill"},
	{ingress, failpoint.AcceptAfter, "kill"},
	{ingress, failpoint.PublishJobAfter, "kill:100ms"},
	{agent, failpoint.ClaimBefore, "kill"},
	{agent, failpoint.ClaimAfter, "kill"},
	{agent, failpoint.TurnBefore, "kill"},
	{agent, failpoint.TurnAfter, "kill"},
	{agent, failpoint.EffectAfter, "kill"},
	{tool, failpoint.SendBefore, "kill"},
	{tool, failpoint.SendAfter, "kill"},
	{tool, failpoint.OutcomeBefore, "kill"},
	{tool, failpoint.OutcomeAfter, "kill"},
	{agent, failpoint.ToolBefore, "kill"},
	{agent, failpoint.ToolAfter, "kill"},
	{agent, failpoint.FinishBefore, "kill"},
	{agent, failpoint.FinishAfter, "kill"},
	{agent, failpoint.DoneAfter, "kill:100ms"},
	{ingress, failpoint.AnswerBefore, "kill"},
}

// Points that a run reaches only after a process has died.
var (
	requeued     = crashPoint{sweep, failpoint.ExpireAfter, "kill"}
	dispatched   = crashPoint{sweep, failpoint.DispatchAfter, "kill"}
	redispatch   = crashPoint{sweep, failpoint.RedispatchAfter, "kill"}
	requeuedByIt = crashPoint{agent, failpoint.RequeuedAfter, "kill"}
)

// pair contains the two points at which a run's processes are killed.
type pair struct{ first, second crashPoint }

func (p pair) name() string { return fmt.Sprintf("%s then %s", p.first.at, p.second.at) }

// pairs combines each point on the path with each point that a run passes after a kill at the first
// point.
func pairs() (all []pair) {
	for n, first := range path {
		for _, second := range pointsAfter(n) {
			all = append(all, pair{first, second})
		}
	}
	return all
}

// pointsAfter returns the points that a run passes, perhaps for the second time, after its process
// has died at the n-th point of the path.
func pointsAfter(n int) []crashPoint {
	at := func(p failpoint.Point) int {
		return slices.IndexFunc(path, func(of crashPoint) bool { return of.at == p })
	}

	from := func(p failpoint.Point) []crashPoint { return path[at(p):] }
	claim := path[at(failpoint.ClaimBefore) : at(failpoint.ClaimAfter)+1]
	lost := []crashPoint{requeued, dispatched}
	switch p := path[n]; p.at {
	case failpoint.AcceptBefore: // the client retries, so the run passes all points
		return path
	case failpoint.AcceptAfter, failpoint.ClaimBefore:
		return slices.Concat([]crashPoint{redispatch}, from(failpoint.ClaimBefore))
	case failpoint.PublishJobAfter: // the run may finish before the client retries; if so, the retry gets the answer from the run's row
		return path[at(failpoint.ClaimBefore):at(failpoint.AnswerBefore)]
	case failpoint.ClaimAfter, failpoint.TurnBefore: // the journal is still empty
		return slices.Concat(lost, from(failpoint.ClaimBefore))
	case failpoint.TurnAfter, failpoint.EffectAfter:
		return slices.Concat(lost, claim, from(failpoint.EffectAfter))
	case failpoint.SendBefore, failpoint.SendAfter, failpoint.OutcomeBefore: // the tool worker died; the agent worker requeues the run
		return slices.Concat([]crashPoint{requeuedByIt}, claim, from(failpoint.EffectAfter))
	case failpoint.OutcomeAfter: // the tool ledger contains the outcome
		return slices.Concat([]crashPoint{requeuedByIt}, claim, from(failpoint.ToolBefore))
	case failpoint.ToolBefore:
		return slices.Concat(lost, claim, from(failpoint.ToolBefore))
	case failpoint.ToolAfter, failpoint.FinishBefore:
		return slices.Concat(lost, claim, from(failpoint.FinishBefore))
	case failpoint.FinishAfter: // an ingress that gets no reply polls the run
		return path[at(failpoint.AnswerBefore):]
	default: // at DoneAfter and AnswerBefore, the run has finished
		return nil
	}
}

// shortPairs are the pairs that -short tests.
var shortPairs = []pair{
	{path[0], path[1]},   // the client's retry is accepted
	{path[4], path[4]},   // the process dies twice after a claim
	{path[10], path[10]}, // here the request to the till is sent twice with the same key
}

// TestPairs kills the process of a run at one point. At another point, it kills the process that
// continues the run. With -short, TestShortForm tests some of the pairs.
func TestPairs(t *testing.T) {
	t.Parallel()
	testkit.Long(t)
	var cases []envCase
	for _, p := range pairs() {
		cases = append(cases, envCase{p.name(), true, func(b *testEnv) { b.twice(p) }})
	}
	inLanes(t, lanes, cases)
}

// twice executes a call whose run loses a process at each point of the pair.
func (b *testEnv) twice(p pair) {
	b.Helper()
	b.dropJobMessages()
	if p.first.role == p.second.role {
		b.replace(p.first.role, p.first.arm(1))
	} else {
		b.replace(p.first.role, p.first.arm(1))
		b.replace(p.second.role, p.second.arm(p.times()))
	}

	done := b.begin(call{name: strings.ReplaceAll(p.name(), " ", "-"), tool: byKey})
	follow := ""
	if p.first.role == p.second.role {
		follow = p.second.arm(1)
	}

	b.replaceDead(p.first, follow)
	b.replaceDead(p.second, "")
	b.settleAll(nil, done)
}

// arm returns the value of PARLEY_FAILPOINTS with which a process fails on the n-th pass of the
// point.
func (p crashPoint) arm(n int) string {
	return fmt.Sprintf("%s=%s@%d", p.at, p.does, n)
}

// times returns on which pass of the second point the second process dies. It returns 2 if the
// second point precedes the first one on the path, because the first process has already passed the
// second point once. Otherwise it returns 1.
func (p pair) times() int {
	first := slices.Index(path, p.first)
	if second := slices.Index(path, p.second); second >= 0 && second < first {
		return 2
	}
	return 1
}

// replaceDead waits until the process has died at the point, and starts another process.
func (b *testEnv) replaceDead(at crashPoint, armed string) {
	b.Helper()
	b.awaitReached(at.role, at.at)
	b.awaitDeath(at.role)
	b.launch(at.role, armed)
	if at.role == agent { // only agent workers hold leases
		b.loseLeases()
	}
}

// dropJobMessages removes the job messages of earlier pairs from the stream. Otherwise the stream
// would redeliver the messages that dead workers received.
func (b *testEnv) dropJobMessages() {
	b.Helper()
	js := testkit.JetStream(b, b.bus.URL)

	stream, err := js.Stream(b.Context(), contract.StreamJobs)
	if err != nil {
		b.Fatal(err)
	}
	if err := stream.Purge(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestPairsAreOfThePath checks that the pairs cover the path of a run. Each point must be the
// second point of a pair. Each point must also be the first point of a pair, unless a run passes no
// further point after a kill there.
func TestPairsAreOfThePath(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, at := range path {
		last := at.at == failpoint.DoneAfter || at.at == failpoint.AnswerBefore
		if !last && !slices.ContainsFunc(all, func(p pair) bool { return p.first == at }) {
			t.Errorf("no pair begins with %s", at.at)
		}
		if !slices.ContainsFunc(all, func(p pair) bool { return p.second == at }) {
			t.Errorf("no pair ends with %s", at.at)
		}
	}

	t.Logf("%d pairs", len(all))
	for _, p := range shortPairs {
		if !slices.Contains(all, p) {
			t.Errorf("short pair %s is not among the pairs", p.name())
		}
	}
}
