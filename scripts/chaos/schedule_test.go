package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"parley/scripts/internal/cluster"
)

// fault is one planned fault.
type fault struct {
	At   time.Duration // time after the start
	Kind string
	Part string        // name of the affected part
	Link string        // affected link of the part: front, db or bus
	For  time.Duration // duration of a fault that lasts
	By   time.Duration // delay of a link, or offset of a clock
}

func (f fault) String() string {
	text := fmt.Sprintf("%6.1f s  %s %s", f.At.Seconds(), f.Kind, f.Part)
	if f.Link != "" {
		text += " ⇄ " + f.Link
	}
	if f.By != 0 {
		text += " by " + f.By.String()
	}
	if f.For > 0 {
		text += " for " + f.For.Round(time.Millisecond).String()
	}
	return text
}

// The kinds of faults.
const (
	kill     = "kill -9"         // kills any part
	restart  = "restart"         // restarts a server gracefully
	freeze   = "SIGSTOP"         // freezes a part, which SIGCONT later resumes
	cut      = "cut both ways"   // lets no data pass a link in either direction
	requests = "cut requests"    // lets no requests pass a link: no data from the process or, on the link front, from the client
	replies  = "cut replies"     // lets no replies pass a link: no data to the process or, on the link front, to the client
	delay    = "delay"           // delays the data on a link
	reset    = "reset"           // resets all connections of a link
	deletion = "delete store"    // kills nats-server and deletes all of JetStream's data
	truncate = "truncate stream" // kills nats-server and truncates files of the job stream
	fill     = "fill disk"       // fills a server's disk
	skew     = "set clock"       // sets a worker's clock wrong
	lock     = "lock a row"      // locks the row of a session or run in another transaction
	snapshot = "long snapshot"   // keeps a transaction open that prevents the removal of dead rows, as a backup does
)

// plan contains the frequency of each kind of fault.
type plan struct {
	total time.Duration
	parts []string // names of the processes, such as "agent 2"

	kills                                           time.Duration // mean time between two kills
	postgres, restarts, links, store, disks, clocks time.Duration // mean time between two faults of the kind; 0: no such faults
	locks                                           time.Duration
	freezes                                         time.Duration
	frozen                                          time.Duration // minimum duration of a freeze, which is longer than a lease
	natsDisk, postgresDisk, clock                   bool          // whether the machine allows the fault
}

// leeway is the maximum difference between the clocks of agent and tool workers. If it is exceeded,
// tool workers reject calls.
const leeway = 5 * time.Second

// weights contains the number of kills in a hundred that each kind of part receives.
var weights = []struct {
	kind   string
	weight int
}{{cluster.Agent, 36}, {cluster.Tool, 22}, {cluster.Ingress, 18}, {cluster.NATS, 12}, {cluster.Sweep, 12}}

// schedule draws the faults of a plan as a pure function of its arguments. In each half of the
// schedule, it spares one part of each kind from kills, so that the memory and file descriptors of
// this part can be observed for long.
func schedule(seed uint64, p plan) []fault {
	var all []fault
	for track, draw := range []struct {
		every time.Duration
		fault func(*rand.Rand, time.Duration) fault
	}{
		{p.kills, p.kill},
		{p.postgres, func(*rand.Rand, time.Duration) fault { return fault{Kind: kill, Part: cluster.Postgres} }},
		{p.restarts, func(r *rand.Rand, _ time.Duration) fault {
			return fault{Kind: restart, Part: []string{cluster.NATS, cluster.NATS, cluster.Postgres}[r.IntN(3)]}
		}},
		{p.freezes, p.freeze},
		{p.links, p.link},
		{p.store, func(r *rand.Rand, _ time.Duration) fault {
			return fault{Kind: []string{deletion, truncate}[r.IntN(2)], Part: cluster.NATS}
		}},
		{p.disks, p.disk},
		{p.clocks, p.skew},
		{p.locks, p.lock},
	} {
		if draw.every == 0 {
			continue
		}
		random := rand.New(rand.NewPCG(seed, uint64(track)))
		for at := draw.every/2 + some(random, draw.every); at < p.total; at += draw.every*4/5 + some(random, draw.every*2/5) {
			f := draw.fault(random, at)
			f.At = at
			if f.Kind != "" {
				all = append(all, f)
			}
		}
	}

	all = append(all, p.once(seed)...)
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// once returns faults of the kinds that even a short schedule must contain.
func (p plan) once(seed uint64) []fault {
	random := rand.New(rand.NewPCG(seed, 1000))
	somewhen := func() time.Duration { return p.total/10 + some(random, p.total*8/10) }
	var all []fault
	for _, part := range append([]string{cluster.NATS}, p.parts...) {
		if !p.spared(part, 0) {
			all = append(all, fault{At: some(random, p.total/2), Kind: kill, Part: part})
		}
	}

	all = append(all,
		fault{At: somewhen(), Kind: deletion, Part: cluster.NATS},
		fault{At: somewhen(), Kind: truncate, Part: cluster.NATS},
		fault{At: p.total / 3, Kind: kill, Part: cluster.Postgres},
		fault{At: p.total / 2, Kind: lock, Part: cluster.Postgres, For: 3 * time.Second},
		fault{At: p.total * 2 / 3, Kind: lock, Part: cluster.Postgres, For: 3 * time.Second},
		// A kill of PostgreSQL would end the snapshot's transaction, so the snapshot starts after
		// the kill.
		fault{At: p.total*2/5 + some(random, p.total/10), Kind: snapshot, Part: cluster.Postgres, For: p.total / 2},
	)

	for _, kind := range []string{cut, requests, replies, delay, reset} {
		f := p.linkFor(random, kind)
		f.At = somewhen()
		all = append(all, f)
	}

	all = append(all,
		fault{At: somewhen(), Kind: freeze, Part: "agent 3", For: p.frozen},
		fault{At: somewhen(), Kind: freeze, Part: "tool 1", For: p.frozen},
	)

	if p.restarts == 0 {
		return all
	}

	for _, f := range []fault{
		{Kind: restart, Part: cluster.NATS},
		{Kind: restart, Part: cluster.Postgres},
		{Kind: skew, Part: "agent 1", By: 2 * time.Second, For: 15 * time.Second},
		{Kind: skew, Part: "sweep 1", By: -time.Hour, For: 15 * time.Second},
		{Kind: fill, Part: cluster.NATS, For: 5 * time.Second},
		{Kind: fill, Part: cluster.Postgres, For: 5 * time.Second},
	} {
		f.At = somewhen()
		if f.Kind != skew || p.clock {
			all = append(all, f)
		}
	}
	return all
}

// spared reports whether a part must not be killed at the given time.
func (p plan) spared(part string, at time.Duration) bool {
	first := part == "ingress 1" || part == "agent 1" || part == "tool 1"
	second := part == "ingress 2" || part == "agent 2" || part == "tool 2"
	return first && at >= p.total/2 || second && at < p.total/2
}

// process draws a process of a kind that may be killed at the given time.
func (p plan) process(r *rand.Rand, kind string, at time.Duration) string {
	var found []string
	for _, part := range p.parts {
		if part[:len(part)-2] == kind && !p.spared(part, at) {
			found = append(found, part)
		}
	}
	return found[r.IntN(len(found))]
}

func (p plan) kill(r *rand.Rand, at time.Duration) fault {
	n := r.IntN(100)
	for _, w := range weights {
		if n -= w.weight; n >= 0 {
			continue
		}
		if w.kind == cluster.NATS {
			return fault{Kind: kill, Part: cluster.NATS}
		}
		return fault{Kind: kill, Part: p.process(r, w.kind, at)}
	}
	return fault{}
}

func (p plan) freeze(r *rand.Rand, _ time.Duration) fault {
	part := p.parts[r.IntN(len(p.parts))]
	if r.IntN(2) == 0 { // an agent worker, so that other workers take over its runs
		part = fmt.Sprintf("%s %d", cluster.Agent, 1+r.IntN(3))
	}
	f := fault{Kind: freeze, Part: part, For: p.frozen + some(r, 16*time.Second)}
	if part[:len(part)-2] == cluster.Ingress {
		f.For = 2*time.Second + some(r, 10*time.Second) // clients wait for the frozen ingress
	}
	return f
}

func (p plan) link(r *rand.Rand, _ time.Duration) fault {
	return p.linkFor(r, []string{cut, requests, replies, delay, reset}[r.IntN(5)])
}

// linkFor draws a link for a fault. All kinds of link faults last for a while, except the kind
// reset.
func (p plan) linkFor(r *rand.Rand, kind string) fault {
	part := p.parts[r.IntN(len(p.parts))]
	f := fault{Part: part, Kind: kind, Link: []string{"db", "bus"}[r.IntN(2)]}
	if part[:len(part)-2] == cluster.Ingress && r.IntN(2) == 0 {
		f.Link = "front"
	}

	f.For = min(p.total/4, time.Second+some(r, 10*time.Second))
	if r.IntN(6) == 0 && f.Link != "front" {
		f.For = p.frozen + some(r, 8*time.Second) // longer than a lease
	}

	switch f.Kind {
	case delay:
		f.By = 20*time.Millisecond + some(r, 500*time.Millisecond)
	case reset:
		f.For = 0
	}
	return f
}

func (p plan) disk(r *rand.Rand, _ time.Duration) fault {
	var disks []string
	if p.natsDisk {
		disks = append(disks, cluster.NATS)
	}
	if p.postgresDisk {
		disks = append(disks, cluster.Postgres)
	}
	if len(disks) == 0 {
		return fault{}
	}
	return fault{Kind: fill, Part: disks[r.IntN(len(disks))], For: 4*time.Second + some(r, 6*time.Second)}
}

// lock draws the duration of a row lock, which is some seconds, or longer than a lease.
func (p plan) lock(r *rand.Rand, _ time.Duration) fault {
	f := fault{Kind: lock, Part: cluster.Postgres, For: time.Second + some(r, 8*time.Second)}
	if r.IntN(8) == 0 {
		f.For = p.frozen + some(r, 8*time.Second)
	}
	return f
}

// skew draws the offset of a worker's clock. For workers that send or receive tool calls, the
// offset stays within leeway. For sweepers, the offset may be far larger.
func (p plan) skew(r *rand.Rand, at time.Duration) fault {
	if !p.clock {
		return fault{}
	}
	kind := []string{cluster.Agent, cluster.Tool, cluster.Sweep}[r.IntN(3)]
	by := []time.Duration{-2 * time.Second, 2 * time.Second}[r.IntN(2)]
	if kind == cluster.Sweep && r.IntN(2) == 0 {
		by = []time.Duration{-time.Hour, time.Hour}[r.IntN(2)]
	}
	return fault{Kind: skew, Part: p.process(r, kind, at), By: by, For: 20*time.Second + some(r, 20*time.Second)}
}

// some draws a random duration below a bound.
func some(r *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(below)))
}
