package main

import (
	"context"

	"parley/scripts/bench/internal/report"
)

// short is the most telling measurements, with fewer and shorter rounds: for before and after a change, not for the page.
type short struct{ options }

// Validate is called by kong.
func (s *short) Validate() error { return s.options.check() }

// Run measures and writes the report.
func (s *short) Run(ctx context.Context) error { return s.options.run(ctx, shortParts()...) }

func shortParts() []measurement {
	return []measurement{
		&automationFlags{Clients: []int{1, 16, 128}, Rounds: 2, Seconds: 1.5, WarmUp: 0.5, Sides: []string{report.Floor, report.Parley}},
		&replayFlags{ReplayClients: []int{1, 64}, ReplayRounds: 2, ReplaySeconds: 1, ReplayKeys: 1000},
		&hookFlags{HookClients: []int{1, 64}, HookRounds: 2, HookSeconds: 1},
		&waitingFlags{Waiters: 2000, Streams: 2000, WaitingRounds: 1},
	}
}
