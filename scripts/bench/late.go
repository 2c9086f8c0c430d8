package main

import (
	"context"
	"errors"

	"parley/scripts/bench/internal/parley"
)

// late compares run-automation with late acceptance to run-automation without it.
type late struct {
	closedLoop
}

// Measure compares two deployments with separate databases, nats-servers and processes.
func (l *late) Measure(ctx context.Context, s *loadEnv) error {
	c := &comparison{closedLoop: l.closedLoop, unit: "run", goal: l.goal}
	var dsns [2]string
	for i, name := range []string{"ordinary", "late"} {
		natsURL, err := s.servers.StartNATS(ctx, "nats-"+name)
		if err != nil {
			return err
		}
		settings := map[string]string{}
		if name == "late" {
			settings["LATE_ACCEPTANCE"] = "true"
		}
		p, dsn, err := s.parley(ctx, name, parley.Config{NATSURL: natsURL, Settings: settings})
		if err != nil {
			return err
		}
		dsns[i], c.sides[i] = dsn, side{name, p.Load(p.Agent), name, p}
	}
	if err := s.compare(ctx, c); err != nil {
		return err
	}
	return errors.Join(stored(ctx, dsns[0], parley.Completed, c.answered[0]), stored(ctx, dsns[1], parley.Completed, c.answered[1]))
}

// lateGain is the goal with few clients: at least 1.8 times the runs/s.
const lateGain = 1.8

func (*late) goal(clients int, measure string) *goal {
	if measure == "runs/s" && clients <= someClients {
		return ratioAtLeast(lateGain)
	}
	return nil
}
