package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

// Durations of the steps of a round. primeTime is the duration of the first requests to each side,
// which open its connections. nudgeTime is the duration of the nudge; see compare.
const (
	primeTime  = time.Second
	nudgeTime  = 20 * time.Millisecond
	reportedIn = 1100 * time.Millisecond  // time after which a busy connection's next commit reports all earlier ones to the statistics
	idleIn     = 10500 * time.Millisecond // wait after which an idle connection has reported its commits
)

// closedLoop configures a comparison: numbers of clients, rounds and durations. A client sends its
// next request when it has received the response to the previous one.
type closedLoop struct {
	Clients []int   `default:"1,16,64,128" help:"Numbers of clients, each with one request at a time."`
	Rounds  int     `default:"3" help:"Number of rounds for each side and each number of clients."`
	Seconds float64 `default:"2" help:"Measured seconds per round, after a warm-up of a quarter of that time."`
}

// side is one of the two services that a comparison measures.
type side struct {
	name      string
	spec      load.Spec
	database  string
	processes *process.Group
}

// comparison sends the same requests to two sides and compares the measured values.
type comparison struct {
	closedLoop

	unit    string  // name of one request in the report, for example "run"
	latency string  // name of the latencies in the report; empty: unit
	sides   [2]side // the floor, then Parley
	// goal returns the goal for a measure, or nil if the measure has no goal.
	goal   func(clients int, measure string) *goal
	settle time.Duration // time between the measured requests and the reading of the number of commits; 0: reportedIn
	idle   float64       // commits per second of an idle database, subtracted from the measured rate
	more   []string      // names of the measures that derive adds
	// derive adds measures that combine the values of both sides in a round. It may be nil.
	derive func(floor, parley values)

	// streams is set in a comparison of streamed answers. In each round, each client then reads its
	// answers once; latencies are times to the first piece, and commits are not counted. The bench's
	// own CPU time is left out, because the model streams the answers in this process.
	streams load.StreamClients
	stream  [2]load.StreamSpec // requests of streamed answers; they replace the specs of the sides

	answered [2]int64 // number of answered requests of each side
}

// values contains the measured values of a round, by measure. A measure that does not apply is
// missing.
type values map[string]float64

// compare measures both sides in turn and adds a row for each measure at each number of clients:
//
//	for each number of clients, for each round, for each side:
//
//	  checkpoint │ read │ warm-up │ measured │ a second │ nudge │ read
//
// The sides take turns so that other work on the machine affects both equally.
//
// A PostgreSQL connection reports its commits when it commits, at most once a second. After the
// measured requests, compare therefore waits a second and sends a few more requests, the nudge,
// which make the connections report. Then it reads the number of commits, which includes the
// nudge's.
//
// If many connections are seldom used, settle is idleIn, and the commits of an idle database are
// subtracted.
func (s *loadEnv) compare(ctx context.Context, c *comparison) error {
	if len(c.Clients) == 0 || slices.Min(c.Clients) < 1 || c.Rounds < 1 || c.Seconds <= 0 {
		return errors.New("--clients, --rounds and --seconds must be above zero")
	}

	c.latency = cmp.Or(c.latency, c.unit)
	for i := range c.sides {
		if c.streams.Each > 0 {
			break // the first answer of each client is not measured
		}
		if _, err := s.send(ctx, c, i, slices.Max(c.Clients), 0, primeTime); err != nil {
			return err
		}
	}

	if c.settle > 0 {
		var err error
		if c.idle, err = s.idleCommits(ctx, c.sides[1].database, c.settle); err != nil {
			return err
		}
	}
	for _, clients := range c.Clients {
		var rounds [2][]values
		for n := range c.Rounds {
			for i, side := range c.sides {
				got, err := s.round(ctx, c, i, clients)
				if err != nil {
					return err
				}
				rounds[i] = append(rounds[i], got)
				progressf("%s, %d clients, round %d of %d: %-6s %6.0f %ss/s, p50 %.2f ms, p99 %.2f ms", s.load, clients, n+1, c.Rounds,
					side.name, got[c.unit+"s/s"], c.unit, got[c.latency+" p50 ms"], got[c.latency+" p99 ms"])
			}
		}
		s.addRows(c, clients, rounds)
	}
	return nil
}

// addRows adds a row for each measure at one number of clients.
func (s *loadEnv) addRows(c *comparison, clients int, rounds [2][]values) {
	for n := range rounds[1] {
		if c.derive != nil {
			c.derive(rounds[0][n], rounds[1][n])
		}
	}
	for _, measure := range append(c.measures(), c.more...) {
		floor, ours := column(rounds[0], measure), column(rounds[1], measure)
		if median(ours) == 0 {
			continue // no process has this role, or this system has no /proc
		}
		s.add(fmt.Sprintf("%d clients", clients), measure, floor, ours, c.goal(clients, measure))
	}
}

// only returns a function for the field goal of a comparison whose single goal is for the given
// measure. The goal applies from the given number of clients upward.
func only(measure string, clients int, g *goal) func(int, string) *goal {
	return func(n int, of string) *goal {
		if n < clients || of != measure {
			return nil
		}
		return new(*g) // each row has its own goal, because add sets the field Met
	}
}

// idleCommits returns the commits per second of a database without requests.
func (s *loadEnv) idleCommits(ctx context.Context, database string, settle time.Duration) (float64, error) {
	if err := lifecycle.Sleep(ctx, settle); err != nil { // until earlier commits are reported
		return 0, err
	}
	began := time.Now()
	before, err := s.servers.Commits(ctx, database)
	if err == nil {
		err = lifecycle.Sleep(ctx, settle)
	}
	if err != nil {
		return 0, err
	}
	after, err := s.servers.Commits(ctx, database)
	return float64(after-before) / time.Since(began).Seconds(), err
}

// roles lists the roles whose CPU time is reported, in the report's order.
var roles = []string{"ingress", "worker", "nats", "postgres", "client"}

// measures lists the measures of a comparison, in the report's order.
func (c *comparison) measures() []string {
	out := []string{c.unit + "s/s", c.latency + " p50 ms", c.latency + " p99 ms", "commits/" + c.unit, c.unit + " CPU µs"}
	for _, name := range roles {
		out = append(out, c.unit+" CPU µs, "+name)
	}
	return out
}

// column returns the values of one measure in several rounds. Rounds without the measure are left
// out.
func column(rounds []values, measure string) (out []float64) {
	for _, r := range rounds {
		if v, measured := r[measure]; measured {
			out = append(out, v)
		}
	}
	return out
}

// round sends the requests of one round to one side and returns the measured values. i is the
// side's index in c.sides. An error means that the values of the comparison have no meaning.
func (s *loadEnv) round(ctx context.Context, c *comparison, i, clients int) (values, error) {
	side := c.sides[i]
	if err := s.servers.Checkpoint(ctx); err != nil {
		return nil, err
	}

	began := time.Now()
	commits, err := s.servers.Commits(ctx, side.database)
	if err != nil {
		return nil, err
	}

	before, err := s.cpu(side.processes)
	if err != nil {
		return nil, err
	}

	duration := time.Duration(c.Seconds * float64(time.Second))
	result, err := s.send(ctx, c, i, clients, duration/4, duration)
	if err != nil {
		return nil, err
	}

	after, err := s.cpu(side.processes)
	if err != nil {
		return nil, err
	}
	got := values{
		c.unit + "s/s":        result.PerSecond(),
		c.latency + " p50 ms": load.Millis(result.Latencies, 50), c.latency + " p99 ms": load.Millis(result.Latencies, 99),
	}
	if c.streams.Each > 0 {
		delete(after, "client")
	} else {
		if err := lifecycle.Sleep(ctx, cmp.Or(c.settle, reportedIn)); err != nil {
			return nil, err
		}
		nudge, err := s.send(ctx, c, i, clients, 0, nudgeTime)
		if err != nil {
			return nil, err
		}
		last, err := s.servers.Commits(ctx, side.database)
		if err != nil {
			return nil, err
		}
		written := float64(last-commits) - c.idle*time.Since(began).Seconds()
		got["commits/"+c.unit] = written / float64(result.Answered+nudge.Answered)
	}
	if after["postgres"] == 0 {
		return got, nil // this system does not report CPU times
	}

	for name, used := range after {
		micros := (used - before[name]).Seconds() * 1e6 / float64(result.Answered)
		got[c.unit+" CPU µs, "+name] += micros
		got[c.unit+" CPU µs"] += micros
	}
	return got, nil
}

// cpu returns the CPU time of the servers, of a side's processes and of the clients, by role. The
// clients run in this process.
func (s *loadEnv) cpu(side *process.Group) (map[string]time.Duration, error) {
	out, err := s.servers.CPU()
	if err != nil {
		return nil, err
	}
	own, err := side.CPU()
	if err != nil {
		return nil, errors.Join(err, side.Err())
	}
	for name, used := range own {
		out[role(name)] += used
	}
	out["client"], err = process.OwnCPU()
	return out, err
}

// role returns the role of a process. The floor's only process counts as ingress.
func role(process string) string {
	if strings.Contains(process, "worker") {
		return "worker"
	}
	return "ingress"
}

// send sends the requests of one warm-up and one measured period to the side with index i.
func (s *loadEnv) send(ctx context.Context, c *comparison, i, clients int, warmUp, duration time.Duration) (*load.Result, error) {
	side := c.sides[i]
	var result *load.Result
	var err error
	if c.streams.Each > 0 {
		streams := c.streams
		streams.Clients = clients
		result, err = load.ReadStreams(ctx, c.stream[i], streams)
	} else {
		result, err = load.Execute(ctx, side.spec, load.Duration{Clients: clients, WarmUp: warmUp, Measured: duration})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s with %d clients: %w", side.name, clients, err), side.processes.Err())
	}
	c.answered[i] += result.Answered
	return result, nil
}
