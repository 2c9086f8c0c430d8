package measure

import (
	"context"

	"parley/scripts/bench/internal/report"
)

// counts are what is counted from the start of the servers and of a side's processes.
type counts struct {
	commits   int64              // in the side's database
	syncs     int64              // of the whole PostgreSQL
	allocated map[string]float64 // bytes, by process; nil when the side does not tell
}

func (m *measurer) counts(ctx context.Context, side Side) (c counts, err error) {
	if c.commits, err = m.servers.Commits(ctx, side.Database); err != nil {
		return c, err
	}
	if c.syncs, err = m.servers.WALSyncs(ctx); err != nil || side.Allocated == nil {
		return c, err
	}
	c.allocated, err = side.Allocated(ctx)
	return c, err
}

// until puts what was counted between two moments into a round, by run.
func (c counts) until(end counts, runs int64, into *report.Round) {
	each := func(n float64) float64 { return n / float64(max(runs, 1)) }
	into.CommitsPerRun = each(float64(end.commits - c.commits))
	into.WALSyncsPerRun = each(float64(end.syncs - c.syncs))
	if end.allocated == nil {
		return
	}
	into.Bytes = map[string]float64{}
	for name, bytes := range end.allocated {
		into.Bytes[name] = each(bytes - c.allocated[name])
	}
}
