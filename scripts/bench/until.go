package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/shared/lifecycle"
)

const (
	pollEvery = 50 * time.Millisecond
	patience  = 5 * time.Minute // the ingress lets a request wait for up to 55 s, and a large document takes minutes
)

// until calls the function done every pollEvery until done returns true or an error, for at most
// patience. It returns an error if the clients end first. The channel ended receives the clients'
// error when they end; the channel may be nil.
func until(ctx context.Context, ended <-chan error, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if enough, err := done(); enough || err != nil {
			return err
		}
		select {
		case err := <-ended:
			return errors.Join(errors.New("the clients ended before the measurement was complete"), err)
		default:
		}
		if err := lifecycle.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting: %w", err)
		}
	}
}
