package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

const (
	spareFiles  = 1000 // number of files that the bench opens besides its connections
	sampleEvery = 50 * time.Millisecond
	sampleCount = 6           // number of consecutive samples that must agree within 1 %
	settleTime  = time.Second // if the samples do not agree within this time, the last one is used
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

// measureMemory returns the memory of each process of a group in bytes, by the name of the process;
// see settledMemory.
func measureMemory(ctx context.Context, group *process.Group) (map[string]int64, error) {
	out := map[string]int64{}
	for _, p := range group.Processes() {
		bytes, err := settledMemory(ctx, p)
		if err != nil {
			return nil, err
		}
		out[p.Name] = bytes
	}
	return out, nil
}

// settledMemory waits until the memory of a process is steady, for at most settleTime. It returns
// the last sample, in bytes.
func settledMemory(ctx context.Context, p *process.Process) (int64, error) {
	var samples []int64
	for over := time.Now().Add(settleTime); ; {
		if err := lifecycle.Sleep(ctx, sampleEvery); err != nil {
			return 0, err
		}
		bytes, err := process.Memory(p.PID())
		if err != nil {
			return 0, errors.Join(err, p.Err())
		}
		samples = append(samples, bytes)
		last := samples[max(0, len(samples)-sampleCount):]
		steady := len(last) == sampleCount && slices.Max(last)-slices.Min(last) <= slices.Max(last)/100
		if steady || time.Now().After(over) {
			return bytes, nil
		}
	}
}

// kibEach converts the bytes that n requests occupy to KiB per request.
func kibEach(bytes int64, n int) float64 { return float64(bytes) / float64(n) / (1 << 10) }
