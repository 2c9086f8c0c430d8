package measure

import (
	"context"

	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/report"
)

// Open measures a side once by arrivals: spec is the side's, with clients, times and arrivals. The side has been measured
// by Run before, so that it has come to life. The outcome counts the nudge's answers, too.
func Open(ctx context.Context, command string, servers Servers, side Side, spec load.Spec) (*load.Result, *Outcome, error) {
	m := &measurer{config: Config{Command: command}, servers: servers, out: Outcome{Answered: map[string]int64{}}}
	result, round, err := m.observe(ctx, side, spec)
	if err != nil {
		return nil, nil, err
	}
	m.out.Samples = []report.Sample{{Side: side.Name, Clients: spec.Clients, Round: round}}
	return result, &m.out, nil
}
