//go:build !linux

package pg

import (
	"net"
	"time"
)

// setUserTimeout does nothing, because only Linux has this setting. On other systems, keep-alive
// probes detect a dead peer.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
