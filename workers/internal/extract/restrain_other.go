//go:build !linux

package extract

import "errors"

// restrain always fails on this system, because sandboxes need Linux.
func restrain(Limits) error { return errors.New("documents can be read on Linux only") }

// failAtLimit does nothing, because restrain fails.
func failAtLimit(*eventWriter) {}
