//go:build !linux

package gvisor

import "syscall"

// attributes returns nil, because gVisor runs only on Linux.
func attributes() *syscall.SysProcAttr { return nil }
