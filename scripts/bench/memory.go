package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/scripts/bench/internal/parley"
	"parley/scripts/bench/internal/process"
	"parley/shared/lifecycle"
)

const (
	spareFiles  = 1000 // number of files that the bench opens besides its connections
	sampleEvery = 50 * time.Millisecond
	sampleCount = 6           // number of consecutive samples that must agree within 1 %
	settleTime  = time.Second // if the samples do not agree within this time, the last one is used
)

var errTooFewFiles = errors.New("no client can connect; raise the limit of open files (ulimit -Hn)")

// clientsWithin returns the wanted number of clients, or the number that the limit of open files
// allows if that is smaller.
func clientsWithin(wanted, filesOfEach int) (int, error) {
	allowed, err := process.MaxFiles()
	if err != nil {
		return 0, err
	}
	maximum := (allowed - spareFiles) / filesOfEach
	if maximum < 1 || wanted < 1 {
		return 0, errTooFewFiles
	}
	if maximum < wanted {
		progressf("%d clients instead of %d, because a process may open only %d files (ulimit -Hn)", maximum, wanted, allowed)
	}
	return min(maximum, wanted), nil
}

// memoryOf returns the memory of Parley's processes, once it stops changing, in bytes by name.
func memoryOf(ctx context.Context, p *parley.Parley) (map[string]int64, error) {
	out := map[string]int64{}
	for _, running := range p.Processes() {
		bytes, err := settledMemory(ctx, running)
		if err != nil {
			return nil, err
		}
		out[running.Name] = bytes
	}
	return out, nil
}

// settledMemory returns a process's memory once it stops changing, in bytes.
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

func kibEach(bytes int64, n int) float64 { return float64(bytes) / float64(n) / (1 << 10) }
