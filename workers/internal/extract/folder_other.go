//go:build !linux

package extract

import "errors"

// folder is Linux's, as sandboxes are.
type folder struct{}

func newFolder() (*folder, error) { return nil, errors.New("documents are read only on Linux") }

func (*folder) program() string { return "" }

func (*folder) remove() error { return nil }
