// Package testsuite holds resources that several tests of a test process share, such as a service
// or a database. Such a resource lives longer than the test that creates it.
package testsuite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	mu     sync.Mutex
	owners []*Owner // in the order of their creation

	testFailed  atomic.Bool // set when all tests have ended and one of them has failed
	ownerFailed atomic.Bool // whether an owner has reported an error
)

// Run runs all tests and then releases the shared resources. It returns the exit code. TestMain
// calls it instead of m.Run.
func Run(m *testing.M) int {
	code := m.Run()
	testFailed.Store(code != 0)
	mu.Lock()
	all := slices.Clone(owners)
	mu.Unlock()
	for _, o := range slices.Backward(all) {
		o.Release()
	}
	if code == 0 && ownerFailed.Load() {
		return 1
	}
	return code
}

// Owner is a testing.TB for creating a shared resource. If creating the resource fails, the test
// that NewOwner was called with fails. A test that has ended can neither log nor fail, so an owner
// logs to the standard error output, and an error makes Run return 1.
type Owner struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
}

// NewOwner returns an owner that is released after all tests, unless Release is called earlier.
func NewOwner(tb testing.TB) *Owner {
	tb.Helper()
	o := &Owner{TB: tb}
	mu.Lock()
	defer mu.Unlock()
	owners = append(owners, o)
	return o
}

// Release calls the functions that were passed to Cleanup, the last one first.
func (o *Owner) Release() {
	o.mu.Lock()
	cleanups := o.cleanups
	o.cleanups = nil
	o.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
}

// Cleanup registers a function that Release calls.
func (o *Owner) Cleanup(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleanups = append(o.cleanups, f)
}

// Context returns a context that does not end with the test.
func (*Owner) Context() context.Context { return context.Background() }

// Failed reports, after all tests, whether one of them has failed.
func (*Owner) Failed() bool { return testFailed.Load() }

// TempDir creates a directory that exists until Release.
func (o *Owner) TempDir() string {
	o.Helper()
	dir, err := os.MkdirTemp("", "parley-suite-") //nolint:usetesting // the test's TempDir would be removed too early
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Logf writes a message to the standard error output.
func (*Owner) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// Errorf writes a message to the standard error output, and makes Run return 1.
func (o *Owner) Errorf(format string, args ...any) {
	ownerFailed.Store(true)
	o.Logf(format, args...)
}
