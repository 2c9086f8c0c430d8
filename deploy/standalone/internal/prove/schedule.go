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

// times contains the number of kills of each part, by the part's kind. PostgreSQL is killed only
// once: after it has started, no lease expires for the duration of a lease, so a second kill would
// only add waiting time.
var times = []struct {
	kind  string
	times int
}{{kindWorker, 2}, {kindNATS, 2}, {kindIngress, 2}, {kindPostgres, 1}}

// maxDown is the longest time between a kill and the restart.
const maxDown = 800 * time.Millisecond

// Kill is one planned kill -9.
type Kill struct {
	// Part is the name of the killed part, such as "worker 2".
	Part string
	// Kind is the part's kind: worker, nats, ingress or postgres.
	Kind string
	// After is the number of answered triggers after which the kill is due.
	After int
	// Down is the time between the kill and the restart.
	Down time.Duration
}

// schedule draws the kills as a pure function of its arguments. All kills are due during the first
// half of the answers. The runs of a killed worker wait until their leases expire, and until then
// the other triggers must provide enough answers for the last kill to become due.
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

// partsFor returns the names of all parts of a kind. Only workers are numbered.
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

// sizes contains the number of clients and the number of slots per worker.
type sizes struct{ clients, slots int }

// maxClients bounds the number of concurrent requests.
const maxClients = 192

// sizesFor returns sizes with which answers arrive even while the runs of killed workers wait for
// the expiry of their leases. Those runs occupy at most half of the clients.
func sizesFor(triggers, workers int) sizes {
	clients := min(maxClients, max(2, triggers/2))
	return sizes{clients: clients, slots: max(1, clients/(4*workers))}
}
