//go:build !linux

package pg

import (
	"net"
	"time"
)

// setUserTimeout is a Linux setting; elsewhere keep-alive probes alone find a dead peer.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
