package prove

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The kinds of parts that are struck.
const (
	kindWorker   = "worker"
	kindNATS     = "nats"
	kindIngress  = "ingress"
	kindPostgres = "postgres"
)

// times is how often a part of each kind is struck. PostgreSQL is struck once: for one lease after its start no run is
// taken from its worker, so another strike would only be waited for.
var times = []struct {
	kind  string
	times int
}{{kindWorker, 2}, {kindNATS, 2}, {kindIngress, 2}, {kindPostgres, 1}}

// longestDown is the longest that a struck part stays away before it is started again.
const longestDown = 800 * time.Millisecond

// Strike is one kill -9.
type Strike struct {
	// Part is whom it hits, as in "worker 2".
	Part string
	// Kind is the part's kind: worker, nats, ingress or postgres.
	Kind string
	// After is how many triggers are answered before it.
	After int
	// Down is how long the part stays away before it is started again.
	Down time.Duration
}

// schedule draws the strikes: a pure function of its arguments. They come while answers come in, within the first half of
// them, for a struck worker's runs wait for their leases, and the strikes must be over by then.
func schedule(seed uint64, triggers, workers int, kinds []string) []Strike {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // G404: it must be drawn again by whoever has the seed
	var strikes []Strike
	for _, t := range times {
		if !slices.Contains(kinds, t.kind) {
			continue
		}
		for _, part := range partsFor(t.kind, workers) {
			for range t.times {
				strikes = append(strikes, Strike{Part: part, Kind: t.kind})
			}
		}
	}
	random.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	points := make([]int, len(strikes))
	for i := range points {
		points[i] = triggers/20 + random.IntN(max(1, triggers/2-triggers/20))
	}
	slices.Sort(points)
	for i := range strikes {
		strikes[i].After = points[i]
		strikes[i].Down = time.Duration(random.Int64N(int64(longestDown))).Round(time.Millisecond)
	}
	return strikes
}

// partsFor names the parts of a kind.
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

// sizes are how many requests are under way at a time, and how many runs a worker takes on.
type sizes struct{ clients, places int }

// maxClients bounds the requests that are under way at a time.
const maxClients = 192

// sizesFor keeps answers coming while runs of struck workers wait for their leases: these are no more than half of those
// that are under way.
func sizesFor(triggers, workers int) sizes {
	clients := min(maxClients, max(2, triggers/2))
	return sizes{clients: clients, places: max(1, clients/(4*workers))}
}
