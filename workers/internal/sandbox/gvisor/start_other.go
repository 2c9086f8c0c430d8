//go:build !linux

package gvisor

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
