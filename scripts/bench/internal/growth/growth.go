package growth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/report"
)

// Filled runs were accepted since then, and before now.
const (
	oldest = 22 * time.Hour
	before = 20 * time.Hour // the first ones, in which all of the owner's are, were accepted until then
	newest = time.Minute
)

// Config says what to measure.
type Config struct {
	Servers Servers
	// Start starts a deployment with nothing in its database, whose workers do not sweep, and gives the address of the database.
	Start func(ctx context.Context, name string) (p *parley.Parley, dsn string, err error)

	Small         int   // finished runs on the one side
	Sizes         []int // finished runs on the other side, rising; each at least ten times Small
	Organizations int   // on the other side, beside the owner
	Clients       []int
	Rounds        int // of each side at each number of clients
	WarmUp        time.Duration
	Duration      time.Duration // of a round
	Requests      int           // for the list of runs, in a round
	Expired       int           // runs that expire at once; 0: none, and erasing is not measured

	Command  string // a binary that calls load.Serve on the argument client
	Progress func(format string, args ...any)
}

// Servers are what both sides stand on.
type Servers interface {
	CPU() (map[string]time.Duration, error)
	Logged(ctx context.Context) (int64, error)
	Err() error
}

// Run measures all sizes, and then the erasing of expired runs.
func Run(ctx context.Context, c Config) (out *report.Growth, err error) {
	m := &measurer{config: c}
	defer func() { err = errors.Join(err, m.stop()) }()
	for _, name := range []string{"small", "large"} {
		if err := m.start(ctx, name); err != nil {
			return nil, err
		}
	}
	small, large := m.sides[0], m.sides[1]
	if err := m.fill(ctx, small, Batch{First: 1, Runs: c.Small, From: oldest, To: before, OwnEvery: 1}); err != nil {
		return nil, err
	}
	if err := large.db.AddOrganizations(ctx, c.Organizations); err != nil {
		return nil, err
	}
	out = &report.Growth{Small: c.Small, Organizations: c.Organizations + 1}
	filled := 0
	for _, runs := range c.Sizes {
		batch := Batch{First: filled + 1, Runs: runs - filled, From: before, To: newest}
		if filled == 0 {
			batch.From, batch.To, batch.OwnEvery = oldest, before, runs/c.Small
		}
		if err := m.fill(ctx, large, batch); err != nil {
			return nil, err
		}
		filled = runs
		size, err := m.size(ctx, runs)
		if err != nil {
			return nil, err
		}
		out.Sizes = append(out.Sizes, size)
	}
	if c.Expired > 0 {
		out.Erasing, err = m.erasing(ctx, large, filled+1)
	}
	return out, err
}

type measurer struct {
	config Config
	sides  []*side
	others float64 // see report.GrowthSize
}

// side is a deployment with its database.
type side struct {
	name   string
	parley *parley.Parley
	db     *Database
}

func (m *measurer) start(ctx context.Context, name string) error {
	p, dsn, err := m.config.Start(ctx, name)
	if err != nil {
		return err
	}
	s := &side{name: name, parley: p}
	m.sides = append(m.sides, s)
	if s.db, err = Open(ctx, dsn); err != nil {
		return err
	}
	_, err = p.StartSweeper(ctx)
	return err
}

func (m *measurer) stop() error {
	var errs []error
	for _, s := range m.sides {
		if s.db != nil {
			errs = append(errs, s.db.Close())
		}
		errs = append(errs, s.parley.Stop())
	}
	return errors.Join(errs...)
}

func (m *measurer) fill(ctx context.Context, s *side, b Batch) error {
	began := time.Now()
	if err := s.db.Fill(ctx, b); err != nil {
		return errors.Join(err, m.config.Servers.Err())
	}
	m.config.Progress("growth: %d runs filled in (%s) in %.1f s", b.Runs, s.name, time.Since(began).Seconds())
	return nil
}

// size measures both sides with what is in them.
func (m *measurer) size(ctx context.Context, runs int) (report.GrowthSize, error) {
	m.others = 0
	out := report.GrowthSize{Runs: runs}
	for _, clients := range m.config.Clients {
		for _, kind := range []kind{fresh, replay} {
			figures, err := m.level(ctx, kind, clients)
			if err != nil {
				return out, err
			}
			out.Figures = append(out.Figures, figures...)
		}
	}
	lists, err := m.lists(ctx)
	out.Figures, out.Others = append(out.Figures, lists...), m.others
	return out, err
}

// kind is what is asked of run-automation: runs of their own, or such as have ended.
type kind string

const (
	fresh  kind = "a run"
	replay kind = "a replay"
)

func (m *measurer) load(s *side, kind kind) load.Spec {
	spec := s.parley.Load()
	if kind == replay {
		spec.Nonce, spec.Keys = ownKeys, int64(m.config.Small)
	}
	return spec
}

// level measures both sides with so many clients. What was measured is removed behind each round, so that the small side stays small.
func (m *measurer) level(ctx context.Context, kind kind, clients int) ([]report.GrowthFigure, error) {
	var rounds [2][]round
	for n := range m.config.Rounds {
		for _, i := range turn(n) {
			s := m.sides[i]
			measured, err := m.round(ctx, s, m.load(s, kind), clients)
			if err != nil {
				return nil, err
			}
			m.config.Progress("growth: %s, %d clients, round %d of %d: %-5s %.0f a second, p50 %.2f ms, p99 %.2f ms", kind, clients, n+1,
				m.config.Rounds, s.name, measured.RunsPerSecond, measured.P50, measured.P99)
			rounds[i] = append(rounds[i], measured)
			if err := s.db.Forget(ctx); err != nil {
				return nil, err
			}
		}
	}
	var out []report.GrowthFigure
	add := func(what string, goal bool, f func(round) float64) {
		out = append(out, report.NewGrowthFigure(what, clients, column(rounds[0], f), column(rounds[1], f), goal))
	}
	add("µs "+string(kind), true, func(r round) float64 { return 1e6 / r.RunsPerSecond })
	add(string(kind)+", p50 ms", false, func(r round) float64 { return r.P50 })
	add(string(kind)+", p99 ms", false, func(r round) float64 { return r.P99 })
	add(string(kind)+", CPU µs, all processes", false, func(r round) float64 { return r.cpu })
	if kind == fresh {
		add("a run, WAL bytes", false, func(r round) float64 { return r.logged })
		add("a run, ms until it is claimed", false, func(r round) float64 { return r.claimed })
	}
	return out, nil
}

// turn gives both sides, the other one first each time.
func turn(n int) []int {
	if n%2 == 0 {
		return []int{0, 1}
	}
	return []int{1, 0}
}

func column(rounds []round, f func(round) float64) []float64 {
	out := make([]float64, len(rounds))
	for i, r := range rounds {
		out[i] = f(r)
	}
	return out
}

// lists measures how long the first page of the list of runs takes, by one client.
func (m *measurer) lists(ctx context.Context) ([]report.GrowthFigure, error) {
	var p50s, p99s [2][]float64
	for n := range m.config.Rounds {
		for _, i := range turn(n) {
			took, err := m.list(ctx, m.sides[i])
			if err != nil {
				return nil, err
			}
			slices.Sort(took)
			p50s[i] = append(p50s[i], millis(took[len(took)/2]))
			p99s[i] = append(p99s[i], millis(took[len(took)*99/100]))
		}
	}
	return []report.GrowthFigure{
		report.NewGrowthFigure("a page of runs, p50 ms", 1, p50s[0], p50s[1], true),
		report.NewGrowthFigure("a page of runs, p99 ms", 1, p99s[0], p99s[1], false),
	}, nil
}

const page = 20

func (m *measurer) list(ctx context.Context, s *side) ([]time.Duration, error) {
	client := newClient()
	defer client.CloseIdleConnections()
	took := make([]time.Duration, m.config.Requests)
	for i := range took {
		began := time.Now()
		var listed struct {
			Data []struct {
				Status string `json:"status"`
			} `json:"data"`
		}
		if err := s.parley.Ask(ctx, client, s.parley.Runs(page), &listed); err != nil {
			return nil, errors.Join(err, s.parley.Err())
		}
		took[i] = time.Since(began)
		if len(listed.Data) != page || listed.Data[0].Status != "completed" {
			return nil, fmt.Errorf("%d runs are listed, the first of them %+v", len(listed.Data), listed.Data)
		}
	}
	return took, nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
