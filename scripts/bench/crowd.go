package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/shared/lifecycle"
)

const (
	clientsPerTick = 10 // clients started simultaneously
	tickEvery      = 10 * time.Millisecond
	pollEvery      = 20 * time.Millisecond
	patience       = 2 * time.Minute // the ingress lets a request wait for 55 s
)

// gather starts clients, ten at a time, and returns when all have begun; size is their number. Each
// client is a call of do. The group waits for their ends.
func gather(ctx context.Context, group *errgroup.Group, size int, do func(n int) error) error {
	for n := range size {
		if n%clientsPerTick == 0 {
			if err := lifecycle.Sleep(ctx, tickEvery); err != nil {
				return err
			}
		}
		group.Go(func() error { return do(n) })
	}
	return nil
}

// until calls done until it returns true.
func until(ctx context.Context, condition string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		if err := lifecycle.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting until %s: %w", condition, err)
		}
	}
	return nil
}
