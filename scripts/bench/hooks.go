package main

import (
	"context"

	"parley/scripts/bench/internal/floor"
	"parley/scripts/bench/internal/load"
	"parley/scripts/bench/internal/parley"
)

// hooks measures how fast Parley accepts signed webhook deliveries. Each delivery creates a run.
type hooks struct {
	closedLoop
}

// hookSecret is the secret with which the deliveries are signed.
const hookSecret = "the secret of the bench"

// Measure compares Parley with a process that verifies the signature and inserts a row. No worker
// is started, because the measured request ends with the 202 response, before the run starts.
func (h *hooks) Measure(ctx context.Context, s *loadEnv) error {
	bare, p, _, err := s.both(ctx, floor.Config{Secret: hookSecret},
		parley.Config{Settings: map[string]string{"BACKLOG_MAX": "100000000"}}, floor.Hooks)
	if err != nil {
		return err
	}

	delivery, err := p.Hook(ctx, hookSecret)
	if err == nil {
		err = p.SetWorkers(ctx, 0)
	}
	if err != nil {
		return err
	}

	return s.compare(ctx, &comparison{
		closedLoop: h.closedLoop, unit: "request",
		sides: [2]side{
			{"floor", load.Delivery(bare.Address, floor.Path, hookSecret), "floor", &bare.Group},
			{"parley", delivery, "parley", &p.Group},
		},
		goal: only("requests/s", 2, ratioAtLeast(0.5)),
	})
}
