//go:build !linux

package lifecycle

import "syscall"

// setDeathSignal does nothing, because only Linux has such a signal.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
