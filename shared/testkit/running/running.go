// Package running runs the long-lived components of tests, such as servers, in other goroutines. It
// starts no process.
package running

import (
	"context"
	"sync"
	"testing"
)

// Start runs a component until the function stop is called or the test ends. stop waits until the
// component has ended, and may be called more than once. The test fails if the component ends with
// an error.
func Start(tb testing.TB, run func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("ended with %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}
