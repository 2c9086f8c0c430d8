//go:build !linux

package lifecycle

import "syscall"

func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
