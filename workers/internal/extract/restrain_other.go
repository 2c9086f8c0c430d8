//go:build !linux

package extract

import "errors"

// restrain always fails on this system, because sandboxes need Linux.
func restrain(Limits) error { return errors.New("documents are read only on Linux") }

// failAtLimit does nothing, because restrain fails.
func failAtLimit(*eventWriter) {}
