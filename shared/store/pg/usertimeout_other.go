//go:build !linux

package pg

import (
	"net"
	"time"
)

// setUserTimeout does nothing. Only Linux has the setting; elsewhere keep-alive probes
// detect a dead peer.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
