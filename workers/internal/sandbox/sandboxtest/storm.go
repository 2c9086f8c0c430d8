//go:build linux

package sandboxtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/shared/lifecycle"
	"parley/workers/internal/sandbox/python"
)

// seedVariable is an environment variable with the seed of a storm to be repeated.
const seedVariable = "PARLEY_STORM_SEED"

// storm runs hostile and honest programs simultaneously, with small limits. Honest programs have a
// higher limit on wall time, because they have to wait for processors.
func (s *suite) storm(t *testing.T) {
	seed := seedFor(t)
	n, hostileAtOnce, honestAtOnce := 100, 100, 100
	switch {
	case s.brief:
		n, hostileAtOnce, honestAtOnce = 8, 4, 1
	case testing.Short(): // fewer programs; the seed is random, so each test run uses other programs
		n = 30
	}
	t.Logf("%d hostile and %d honest programs, %s=%d repeats them", n, n, seedVariable, seed)
	limits := tightLimits()
	wall := max(3*time.Second, 5*s.measure(t))
	limits.Wall = wall
	in := s.python(t, limits)
	limits.Wall = runTimeout / 2
	honestIn := s.python(t, limits)
	tree := newTree(t)
	before := hashes(t, tree)
	hostile := make([]excessResult, n)
	honest := make([]python.Outcome, n)
	errs := make([]error, n)
	good := generateHonest(seed, n)
	bad := generateHostile(seed, n, tree, s.host)

	quiet := watchHost(t.Context(), func() { <-time.After(500 * time.Millisecond) })
	var all sync.WaitGroup
	busy := watchHost(t.Context(), func() {
		all.Go(func() { each(hostileAtOnce, n, func(i int) { hostile[i] = s.exceed(t.Context(), in, bad[i]) }) })
		all.Go(func() {
			each(honestAtOnce, n, func(i int) {
				ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
				defer cancel()
				begin := time.Now()
				honest[i], errs[i] = begun(ctx, honestIn, python.Program{Code: good[i].code})
				s.honestTook(time.Since(begin))
			})
		})
		all.Wait()
	})

	for i, g := range good {
		if o := honest[i]; errs[i] != nil || o.Failed() || o.Stdout != g.answer {
			t.Errorf("honest program %d: %v %+v, want %q\n%s", i, errs[i], o, g.answer, g.code)
		}
	}
	for i, r := range hostile {
		s.verifyHostile(t, bad[i], r, wall)
	}
	if after := hashes(t, tree); !slices.Equal(before, after) {
		t.Errorf("files on the host have changed: before %v, after %v", before, after)
	}
	t.Logf("delays on the host: %+v without and %+v with hostile programs", quiet, busy)
	if maximum := 10*quiet.late + 500*time.Millisecond; busy.late > maximum {
		t.Errorf("a timer on the host was late by %s, want at most %s", busy.late, maximum)
	}
	if maximum := 10*quiet.work + 100*time.Millisecond; busy.work > maximum {
		t.Errorf("a small task on the host took %s, want at most %s", busy.work, maximum)
	}
}

func seedFor(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv(seedVariable)
	if given == "" {
		return rand.Uint64N(1_000_000) //nolint:gosec // not a secret
	}
	var seed uint64
	if _, err := fmt.Sscan(given, &seed); err != nil {
		t.Fatalf("reading %s: %v", seedVariable, err)
	}
	return seed
}

func (s *suite) verifyHostile(t *testing.T, e excess, r excessResult, wall time.Duration) {
	t.Helper()
	// There are more hostile programs than honest programs. A hostile program may thus wait long
	// for a processor, so its grace is doubled.
	if maximum := wall + 2*s.grace(); r.took > maximum {
		t.Errorf("hostile program %s took %s, want at most %s", e.name, r.took, maximum)
	}
	if len(r.left) > 0 {
		t.Errorf("processes still alive %s after the end of hostile program %s: %v", goneTimeout, e.name, r.left)
	}
	if r.err != nil && !e.fatal {
		t.Errorf("hostile program %s: %s\n%s", e.name, r, e.code)
	}
	if o := r.outcome; o.Traceback == "" && o.Limit == "" && o.ExitCode == 0 && r.err == nil && !e.fine {
		t.Errorf("hostile program %s exited successfully: %s\n%s", e.name, r, e.code)
	}
}

// load is the load of the host: the delay of timers and the duration of a small task, both as 90th
// percentiles.
type load struct{ late, work time.Duration }

// watchHost runs a function and measures the load of the host during the call.
func watchHost(ctx context.Context, during func()) load {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan load)
	go func() { watched <- measureLoad(ctx) }()
	during()
	cancel()
	return <-watched
}

func measureLoad(ctx context.Context) load {
	const pause = 25 * time.Millisecond
	var late, work []time.Duration
	content := make([]byte, 256<<10)
	for ctx.Err() == nil {
		begin := time.Now()
		if lifecycle.Sleep(ctx, pause) == nil {
			late = append(late, max(time.Since(begin)-pause, 0))
		}
		begin = time.Now()
		sum := sha256.Sum256(content)
		copy(content, sum[:])
		work = append(work, time.Since(begin))
	}
	return load{late: maximum(late), work: maximum(work)}
}

// maximum returns the 90th percentile of the durations, so that rare delays have no effect.
func maximum(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*9/10]
}

// newTree creates files on the host that everyone may change, so only a sandbox prevents changes.
func newTree(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "parley-tree-") //nolint:usetesting // not in a folder with restricted access
	if err != nil {
		t.Fatalf("creating a tree of files: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	for i := range 40 {
		folder := filepath.Join(root, fmt.Sprint(i%5))
		if err := os.MkdirAll(folder, 0o777); err != nil { //nolint:gosec // intended
			t.Fatalf("creating a tree of files: %v", err)
		}
		file := filepath.Join(folder, fmt.Sprint("file-", i))
		if err := os.WriteFile(file, fmt.Appendf(nil, "content %d", i), 0o666); err != nil { //nolint:gosec // as above
			t.Fatalf("creating a tree of files: %v", err)
		}
		for _, path := range []string{root, folder, file} {
			if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // as above
				t.Fatalf("making a tree of files accessible to everyone: %v", err)
			}
		}
	}
	return root
}

// hashes returns the hashes of all files in a tree.
func hashes(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // this test's own tree
		sum := sha256.Sum256(content)
		found = append(found, d.Name()+" "+hex.EncodeToString(sum[:8]))
		return err
	})
	if err != nil {
		t.Fatalf("reading a tree of files: %v", err)
	}
	return found
}
