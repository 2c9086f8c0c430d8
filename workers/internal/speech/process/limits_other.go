//go:build !linux

package process

// setLimits does nothing on this system, on which a process cannot limit another process.
func setLimits(int, Command) error { return nil }
