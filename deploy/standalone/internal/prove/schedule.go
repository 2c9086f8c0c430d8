package prove

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The kinds of parts that are killed.
const (
	kindWorker   = "worker"
	kindNATS     = "nats"
	kindIngress  = "ingress"
	kindPostgres = "postgres"
)

// times contains the number of kills per part of each kind. PostgreSQL is killed once: for one lease duration after its start,
// no run is taken from a worker, so a second kill would only add waiting time.
var times = []struct {
	kind  string
	times int
}{{kindWorker, 2}, {kindNATS, 2}, {kindIngress, 2}, {kindPostgres, 1}}

// maxDown is the longest delay before a killed part is restarted.
const maxDown = 800 * time.Millisecond

// Kill is one planned kill -9.
type Kill struct {
	// Part is the name of the killed part, such as "worker 2".
	Part string
	// Kind is the part's kind: worker, nats, ingress or postgres.
	Kind string
	// After is the number of answered triggers at which the kill is due.
	After int
	// Down is the delay before the part is restarted.
	Down time.Duration
}

// schedule draws the kills as a pure function of its arguments. They are due during the first half of the answers: the runs of
// a killed worker wait until their leases expire, and new answers must keep coming until the last kill.
func schedule(seed uint64, triggers, workers int, kinds []string) []Kill {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // G404: the seed must reproduce the kills
	var kills []Kill
	for _, t := range times {
		if !slices.Contains(kinds, t.kind) {
			continue
		}
		for _, part := range partsFor(t.kind, workers) {
			for range t.times {
				kills = append(kills, Kill{Part: part, Kind: t.kind})
			}
		}
	}

	random.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	points := make([]int, len(kills))
	for i := range points {
		points[i] = triggers/20 + random.IntN(max(1, triggers/2-triggers/20))
	}

	slices.Sort(points)
	for i := range kills {
		kills[i].After = points[i]
		kills[i].Down = time.Duration(random.Int64N(int64(maxDown))).Round(time.Millisecond)
	}
	return kills
}

// partsFor returns the names of the parts of a kind.
func partsFor(kind string, workers int) []string {
	if kind != kindWorker {
		return []string{kind}
	}
	names := make([]string, workers)
	for i := range names {
		names[i] = fmt.Sprintf("%s %d", kindWorker, i+1)
	}
	return names
}

// sizes are the number of concurrent requests and the slots of each worker.
type sizes struct{ clients, slots int }

// maxClients bounds the concurrent requests.
const maxClients = 192

// sizesFor chooses the sizes so that answers keep coming while the runs of killed workers wait until their leases expire: those
// runs occupy at most half of the clients.
func sizesFor(triggers, workers int) sizes {
	clients := min(maxClients, max(2, triggers/2))
	return sizes{clients: clients, slots: max(1, clients/(4*workers))}
}
