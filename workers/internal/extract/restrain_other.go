//go:build !linux

package extract

import "errors"

// restrain fails: sandboxes are made on Linux alone.
func restrain(Limits) error { return errors.New("documents are read on Linux alone") }

// failAtLimit does nothing: restrain has failed.
func failAtLimit(*eventWriter) {}
