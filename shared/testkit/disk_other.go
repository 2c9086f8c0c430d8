//go:build !linux

package testkit

import (
	"errors"
	"testing"
)

func mount(testing.TB, string, ...string) (*Disk, error) {
	return nil, errors.New("mounting a disk is supported only on Linux")
}
