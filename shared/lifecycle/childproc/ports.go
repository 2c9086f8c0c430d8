package childproc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// These ports are below the range of ephemeral ports, which starts at 32768. Therefore no outgoing
// connection can take the port of a process before it listens or while it restarts. Tests use other
// ports, below these.
const (
	firstPort = 24000
	portCount = 8000
)

// FreePorts finds n unused loopback ports for processes that this process starts.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	var lc net.ListenConfig
	for range 100 * n {
		port := firstPort + rand.N(portCount) //nolint:gosec // G404: not a secret
		listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer listener.Close() // all listeners stay open until the function returns, so that each has a different port
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no free port between %d and %d", firstPort, firstPort+portCount-1)
}
