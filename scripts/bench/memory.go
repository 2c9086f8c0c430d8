package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

const (
	spareFiles = 1000        // number of files that the bench opens besides its connections
	settleTime = time.Second // time after which the memory of processes is steady
)

// clientsWithin returns the wanted number of clients, or the largest number that the limit of open
// files allows, whichever is smaller.
func clientsWithin(wanted, filesOfEach int) (int, error) {
	allowed, err := process.MaxFiles()
	if err != nil {
		return 0, err
	}
	maximum := (allowed - spareFiles) / filesOfEach
	if maximum < 1 || wanted < 1 {
		return 0, errors.New("no client can connect; raise the limit of open files (ulimit -Hn)")
	}
	if maximum < wanted {
		progressf("%d clients instead of %d, because a process may open only %d files (ulimit -Hn)", maximum, wanted, allowed)
	}
	return min(maximum, wanted), nil
}

// heldMemory measures the memory that requests occupy while they wait. It returns the growth of
// each process of a group in bytes, by the name of the process. The function send sends the
// requests, and held reports whether all of them wait. When the memory has been measured,
// heldMemory calls release, and the requests must end.
func heldMemory(
	ctx context.Context, group *process.Group, send func(context.Context) error, held func() (bool, error), release func() error,
) (grown map[string]int64, err error) {
	before, err := measureMemory(ctx, group)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- send(ctx) }()
	if err := until(ctx, ended, held); err != nil {
		return nil, errors.Join(fmt.Errorf("starting requests: %w", err), group.Err())
	}

	grown, err = measureMemory(ctx, group)
	for name := range grown {
		grown[name] -= before[name]
	}
	if err != nil {
		return nil, err
	}
	return grown, errors.Join(release(), <-ended)
}

// measureMemory waits until the memory of the processes of a group has settled. It returns the
// memory of each process in bytes, by the name of the process.
func measureMemory(ctx context.Context, group *process.Group) (map[string]int64, error) {
	if err := lifecycle.Sleep(ctx, settleTime); err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, p := range group.Processes() {
		bytes, err := process.Memory(p.PID())
		if err != nil {
			return nil, errors.Join(err, p.Err())
		}
		out[p.Name] = bytes
	}
	return out, nil
}

// kibEach converts the bytes that n requests occupy to KiB per request.
func kibEach(bytes int64, n int) float64 { return float64(bytes) / float64(n) / (1 << 10) }

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
