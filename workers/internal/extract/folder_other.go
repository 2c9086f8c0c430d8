//go:build !linux

package extract

import "errors"

// folder is not implemented on this system, because sandboxes need Linux.
type folder struct{}

func newFolder() (*folder, error) { return nil, errors.New("documents are read only on Linux") }

func (*folder) program() string { return "" }

func (*folder) remove() error { return nil }
