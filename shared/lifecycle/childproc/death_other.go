//go:build !linux

package childproc

import "syscall"

// setDeathSignal does nothing, because only Linux can send a signal when a parent process dies.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
