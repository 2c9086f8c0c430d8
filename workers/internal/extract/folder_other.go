//go:build !linux

package extract

import "errors"

// folder is not implemented on this system, because sandboxes need Linux.
type folder struct{}

// newFolder always fails on this system.
func newFolder() (*folder, error) { return nil, errors.New("documents are read only on Linux") }

// program is never called, because newFolder fails.
func (*folder) program() string { return "" }

// remove does nothing.
func (*folder) remove() error { return nil }
