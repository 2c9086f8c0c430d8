//go:build !linux

package gvisor

import (
	"errors"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// keepDescriptors fails: gVisor runs on Linux.
func keepDescriptors() error { return errors.New("it runs on Linux alone") }

func mayNamespace() bool { return false }
