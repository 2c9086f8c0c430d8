package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"parley/shared/lifecycle"
)

// Test ports are in the following range. It is below the range that systems use for outgoing
// connections (from 32768 on), so the port of a stopped server stays free until the server
// restarts.
const (
	firstPort = 20000
	portCount = 4000
)

// FreePort returns a loopback port on which no process listens. The port is reserved until the end
// of the test.
func FreePort(tb testing.TB) int {
	tb.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("parley-test-ports-%d", os.Getuid())) //nolint:usetesting // shared by all tests
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatalf("testkit: creating the directory for ports: %v", err)
	}

	start := rand.N(portCount) //nolint:gosec // G404: not a secret, only a starting point
	for i := range portCount {
		port := firstPort + (start+i)%portCount
		lock, err := lifecycle.LockFile(filepath.Join(dir, strconv.Itoa(port)))
		if errors.Is(err, lifecycle.ErrLocked) {
			continue
		}
		if err != nil {
			tb.Fatalf("testkit: reserving port: %v", err)
		}
		if listenable(tb, port) {
			tb.Cleanup(func() { _ = lock.Unlock() })
			return port
		}
		_ = lock.Unlock()
	}

	tb.Fatalf("testkit: no free port between %d and %d", firstPort, firstPort+portCount-1)
	return 0
}

// listenable reports whether a process can listen on a port. A process that is being started has a
// copy of each open listener until it executes its program. Such a copy keeps the port in use.
// listenable therefore also checks that the port refuses connections after its own listener is
// closed.
func listenable(tb testing.TB, port int) bool {
	tb.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
	if err != nil || listener.Close() != nil {
		return false
	}

	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}
