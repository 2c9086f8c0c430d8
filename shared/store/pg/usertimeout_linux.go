package pg

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of linux/tcp.h, missing in package syscall

// setUserTimeout makes the kernel close a connection whose peer leaves sent bytes unacknowledged
// for the duration d.
func setUserTimeout(conn *net.TCPConn, d time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("reaching socket: %w", err)
	}

	var setErr error
	if err := raw.Control(func(fd uintptr) {
		setErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	}); err != nil {
		return fmt.Errorf("reaching socket: %w", err)
	}

	if setErr != nil {
		return fmt.Errorf("setting TCP_USER_TIMEOUT: %w", setErr)
	}

	return nil
}
