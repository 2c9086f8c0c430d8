package crashpoints

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/contract"
	"parley/shared/failpoint"
)

// lanes is how many beds the pairs share. Each takes one pair after the other.
const lanes = 8

// place is a point on the path of one run, whose process is killed there.
type place struct {
	role role
	at   failpoint.Point
	does string
}

// path is where a run comes by whose tool honours keys, in order.
var path = []place{
	{ingress, failpoint.AcceptBefore, "kill"},
	{ingress, failpoint.AcceptAfter, "kill"},
	{ingress, failpoint.RingAfter, "kill:100ms"},
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

// Where a run comes by only because something was lost.
var (
	requeued    = place{sweep, failpoint.RequeueAfter, "kill"}
	dispatched  = place{sweep, failpoint.DispatchAfter, "kill"}
	redispatch  = place{sweep, failpoint.RedispatchAfter, "kill"}
	putBackByIt = place{agent, failpoint.PutBackAfter, "kill"}
)

// pair is a run that is struck twice.
type pair struct{ first, second place }

func (p pair) name() string { return fmt.Sprintf("%s then %s", p.first.at, p.second.at) }

// pairs gives each point of the path with each that a run comes by, once its process has died at the first one.
func pairs() (all []pair) {
	for n, first := range path {
		for _, second := range behind(n) {
			all = append(all, pair{first, second})
		}
	}
	return all
}

// behind gives the points that a run comes by, still or again, whose process has died at the n-th of the path.
func behind(n int) []place {
	at := func(p failpoint.Point) int {
		return slices.IndexFunc(path, func(of place) bool { return of.at == p })
	}
	from := func(p failpoint.Point) []place { return path[at(p):] }
	claim := path[at(failpoint.ClaimBefore) : at(failpoint.ClaimAfter)+1]
	lost := []place{requeued, dispatched}
	switch p := path[n]; p.at {
	case failpoint.AcceptBefore: // the client posts again
		return path
	case failpoint.AcceptAfter, failpoint.ClaimBefore:
		return slices.Concat([]place{redispatch}, from(failpoint.ClaimBefore))
	case failpoint.RingAfter: // it may have ended before the client comes again, who is answered with the row then
		return path[at(failpoint.ClaimBefore):at(failpoint.AnswerBefore)]
	case failpoint.ClaimAfter, failpoint.TurnBefore: // nothing is in the journal
		return slices.Concat(lost, from(failpoint.ClaimBefore))
	case failpoint.TurnAfter, failpoint.EffectAfter:
		return slices.Concat(lost, claim, from(failpoint.EffectAfter))
	case failpoint.SendBefore, failpoint.SendAfter, failpoint.OutcomeBefore: // the agent worker lives, and puts the run back
		return slices.Concat([]place{putBackByIt}, claim, from(failpoint.EffectAfter))
	case failpoint.OutcomeAfter: // the ledger knows
		return slices.Concat([]place{putBackByIt}, claim, from(failpoint.ToolBefore))
	case failpoint.ToolBefore:
		return slices.Concat(lost, claim, from(failpoint.ToolBefore))
	case failpoint.ToolAfter, failpoint.FinishBefore:
		return slices.Concat(lost, claim, from(failpoint.FinishBefore))
	case failpoint.FinishAfter: // the doorbell rings again, and an ingress that hears nothing looks
		return []place{path[at(failpoint.ClaimBefore)], path[at(failpoint.AnswerBefore)]}
	case failpoint.DoneAfter:
		return path[at(failpoint.ClaimBefore) : at(failpoint.ClaimBefore)+1]
	default: // AnswerBefore: the run has ended, and its doorbell is acknowledged
		return nil
	}
}

// few are the pairs that run with -short.
var few = []pair{
	{path[0], path[1]},   // an accepted run after one that was not
	{path[4], path[4]},   // two claims
	{path[10], path[10]}, // sent twice, with one key
}

// TestPairs has a run's process die at one point, and the process that goes on with the run at another.
func TestPairs(t *testing.T) {
	t.Parallel()
	all, beds := pairs(), lanes
	if testing.Short() {
		all, beds = few, 1
		t.Logf("NOT TESTED with -short: %d of %d pairs", len(pairs())-len(few), len(pairs()))
	}
	next := make(chan pair, len(all))
	for _, p := range all {
		next <- p
	}
	close(next)
	for lane := range beds {
		t.Run("lane "+strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, options{})
			b.eventually("PostgreSQL is up for longer than a lease: before, no worker is taken for dead", func() bool {
				return b.number(`SELECT (pg_postmaster_start_time() < clock_timestamp() - interval '31 seconds')::int`) == 1
			})
			for p := range next {
				began := time.Now()
				if !t.Run(p.name(), func(t *testing.T) { b.within(t).twice(p) }) {
					return // the bed is not as others expect it
				}
				t.Logf("%s: %s", p.name(), time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// within is the bed for a test within the one that it was made for; its processes live on behind that.
func (b *testEnv) within(t *testing.T) *laned {
	t.Helper()
	inner := &laned{testEnv: b, outer: b.T}
	b.T = t
	return inner
}

// laned is a bed that tests take one after the other.
type laned struct {
	*testEnv

	outer *testing.T
}

// twice strikes a run twice.
func (b *laned) twice(p pair) {
	b.Helper()
	inner := b.T
	defer func() { b.T = b.outer }()
	b.silence()
	b.T = b.outer // whose processes these are
	if p.first.role == p.second.role {
		b.replace(p.first.role, p.first.arm(1))
	} else {
		b.replace(p.first.role, p.first.arm(1))
		b.replace(p.second.role, p.second.arm(p.times()))
	}
	b.T = inner
	done := b.begin(call{name: strings.ReplaceAll(p.name(), " ", "-"), tool: byKey})
	follow := ""
	if p.first.role == p.second.role {
		follow = p.second.arm(1)
	}
	b.falls(p.first, follow)
	b.falls(p.second, "")
	b.settleAll(nil, done)
}

// arm gives PARLEY_FAILPOINTS for the n-th time that a process comes by.
func (p place) arm(n int) string {
	return fmt.Sprintf("%s=%s@%d", p.at, p.does, n)
}

// times is at which time the second process dies, if it is another than the first: it comes by once before the first one dies when
// its point is before that one's.
func (p pair) times() int {
	first := slices.Index(path, p.first)
	if second := slices.Index(path, p.second); second >= 0 && second < first {
		return 2
	}
	return 1
}

// falls waits until the process of a place has died there, and puts another one into its place.
func (b *laned) falls(at place, armed string) {
	b.Helper()
	b.awaitReached(at.role, at.at)
	b.awaitDeath(at.role)
	inner := b.T
	b.T = b.outer
	b.launch(at.role, armed)
	b.T = inner
	if at.role == agent { // any other has none, and agents that live keep theirs
		b.loseLeases()
	}
}

// silence takes what earlier pairs have left off the stream: doorbells in the hands of dead workers, which would ring again.
func (b *testEnv) silence() {
	b.Helper()
	nc, err := nats.Connect(b.bus.URL, nats.Timeout(20*time.Second))
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	stream, err := js.Stream(b.Context(), contract.StreamJobs)
	if err != nil {
		b.Fatal(err)
	}
	if err := stream.Purge(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// TestPairsAreOfThePath keeps the table whole: each point of the path is the first of some pair and the second of some.
func TestPairsAreOfThePath(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, at := range path {
		if at.at != failpoint.AnswerBefore && !slices.ContainsFunc(all, func(p pair) bool { return p.first == at }) {
			t.Errorf("no pair begins with %s", at.at)
		}
		if !slices.ContainsFunc(all, func(p pair) bool { return p.second == at }) {
			t.Errorf("no pair ends with %s", at.at)
		}
	}
	t.Logf("%d pairs", len(all))
	for _, p := range few {
		if !slices.Contains(all, p) {
			t.Errorf("%s is none of the pairs", p.name())
		}
	}
}
