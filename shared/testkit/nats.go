package testkit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"parley/shared/bus/embedded"
	"parley/shared/contract"
	"parley/shared/lifecycle"
)

// sharedWithin is how long a test waits for the exclusive use of the shared server.
const sharedWithin = 5 * time.Minute

// NATS returns the URL of a NATS server with JetStream on loopback that only this test uses: a
// private server, or the shared server. The server initially has none of Parley's streams.
func NATS(tb testing.TB) string {
	tb.Helper()
	url, err := configuredNATS()
	if err != nil {
		tb.Fatalf("testkit: NATS: %v", err)
	}

	if url != "" {
		return borrow(tb, url)
	}

	server, err := embedded.Start(embedded.Config{Dir: tempDir(tb, "nats"), Port: embedded.RandomPort, Log: zerolog.Nop()})
	if err != nil {
		tb.Fatalf("testkit: NATS: %v", err)
	}

	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			tb.Errorf("testkit: %v", err)
		}
	})
	return server.URL()
}

// borrowers maps the URLs of shared servers to the tests that use them. A second request from the
// same test gets the same server.
var borrowers = struct {
	sync.Mutex
	byURL map[string]testing.TB
}{byURL: map[string]testing.TB{}}

// borrow waits until this test has the exclusive use of the shared server, and returns the server's
// URL. Only one test of all test processes on the machine may use the server at a time.
func borrow(tb testing.TB, url string) string {
	tb.Helper()
	borrowers.Lock()
	holder := borrowers.byURL[url]
	borrowers.Unlock()
	if holder == tb {
		return url
	}

	if holder != nil && strings.HasPrefix(tb.Name(), holder.Name()+"/") {
		// The parent test holds the lock until it ends, and it ends only after this test. This test
		// would therefore wait for the lock forever.
		tb.Fatalf("testkit: %s uses the shared NATS server: request it either in that test or in its subtests, not in both", holder.Name())
	}

	ctx, cancel := context.WithTimeout(tb.Context(), sharedWithin)
	defer cancel()
	lock, err := awaitLock(ctx, borrowPath(url))
	if err != nil {
		tb.Fatalf("testkit: waiting for the shared NATS server: %v", err)
	}

	borrowers.Lock()
	borrowers.byURL[url] = tb
	borrowers.Unlock()
	tb.Cleanup(func() { returnServer(tb, url, lock) })
	if err := removeStreams(ctx, url); err != nil {
		tb.Fatalf("testkit: emptying the shared NATS server: %v", err)
	}

	return url
}

// borrowPath returns the path of the lock file of a shared server. All test processes use the same
// path.
func borrowPath(url string) string {
	key := sha256.Sum256([]byte(url))
	return filepath.Join(os.TempDir(), "parley-test-nats-"+hex.EncodeToString(key[:8]))
}

func returnServer(tb testing.TB, url string, lock *lifecycle.Lock) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	err := removeStreams(ctx, url)
	borrowers.Lock()
	delete(borrowers.byURL, url)
	borrowers.Unlock()
	if err := errors.Join(err, lock.Unlock()); err != nil {
		tb.Errorf("testkit: releasing the shared NATS server: %v", err)
	}
}

// removeStreams deletes Parley's streams and keeps all other streams.
func removeStreams(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Timeout(10*time.Second))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}

	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("opening JetStream: %w", err)
	}

	if err := js.DeleteStream(ctx, contract.StreamJobs); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("deleting stream: %w", err)
	}

	return nil
}
