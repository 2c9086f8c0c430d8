package growth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/scripts/bench/internal/process"
	"parley/scripts/bench/internal/report"
)

// Expired runs were accepted so long ago, a day and more.
const (
	expiredFrom = 26 * time.Hour
	expiredTo   = 25 * time.Hour
)

const (
	beginsWithin = 30 * time.Second // the sweeper looks for expired runs every ten seconds
	erasesWithin = 2 * time.Minute  // after which what is left is left
	lookEvery    = 50 * time.Millisecond
)

// erasing measures a side while its sweeper erases runs that have all expired at once. They are filled in while it has no sweeper.
func (m *measurer) erasing(ctx context.Context, s *side, first int) (*report.Erasing, error) {
	sweeper := slices.IndexFunc(s.parley.Processes(), func(p *process.Process) bool { return p.Name == "sweeper" })
	if err := s.parley.End(s.parley.Processes()[sweeper]); err != nil {
		return nil, err
	}
	out := &report.Erasing{Expired: m.config.Expired, Clients: slices.Max(m.config.Clients)}
	if err := m.fill(ctx, s, Batch{First: first, Runs: m.config.Expired, From: expiredFrom, To: expiredTo}); err != nil {
		return nil, err
	}
	if err := m.several(ctx, s, "before", &out.Before); err != nil {
		return nil, err
	}
	if _, err := s.parley.StartSweeper(ctx); err != nil {
		return nil, err
	}
	if err := m.whileErasing(ctx, s, out); err != nil {
		return nil, err
	}
	if err := m.several(ctx, s, "after", &out.After); err != nil {
		return nil, err
	}
	out.Compare()
	return out, nil
}

// several measures as many rounds as everywhere.
func (m *measurer) several(ctx context.Context, s *side, when string, into *report.Figures) error {
	for range m.config.Rounds {
		if err := m.one(ctx, s, when, into); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurer) one(ctx context.Context, s *side, when string, into *report.Figures) error {
	r, err := m.round(ctx, s, m.load(s, fresh), slices.Max(m.config.Clients))
	if err != nil {
		return err
	}
	m.config.Progress("growth: %s: %.0f a second, p50 %.2f ms, p99 %.2f ms", when, r.RunsPerSecond, r.P50, r.P99)
	into.Rounds = append(into.Rounds, r.Round)
	return nil
}

// whileErasing measures rounds until nothing is left to erase. One in which the last was erased does not count, unless it is the only one.
func (m *measurer) whileErasing(ctx context.Context, s *side, out *report.Erasing) error {
	started := time.Now()
	left, err := s.db.expired(ctx)
	for ; err == nil && left == out.Expired; left, err = s.db.expired(ctx) {
		if time.Since(started) > beginsWithin {
			return fmt.Errorf("nothing was erased in %s", beginsWithin)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	began, first := time.Now(), left
	for err == nil && left > 0 && time.Since(began) < erasesWithin {
		if err = m.one(ctx, s, fmt.Sprintf("while erasing, %d left", left), &out.While); err == nil {
			left, err = s.db.expired(ctx)
		}
		rounds := len(out.While.Rounds)
		if left == 0 && rounds > 1 {
			out.While.Rounds = out.While.Rounds[:rounds-1]
			break
		}
		out.Erased, out.Seconds = first-left, time.Since(began).Seconds()
	}
	if err == nil && len(out.While.Rounds) == 0 {
		err = errors.New("all was erased before it could be measured: there must be more of it")
	}
	out.Left = left
	return err
}

// expired is how many runs are there whose retention is over.
func (d *Database) expired(ctx context.Context) (n int, err error) {
	if err := d.db.QueryRowContext(ctx, `SELECT count(*) FROM runs WHERE sweep_after <= now()`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting expired runs: %w", err)
	}
	return n, nil
}
