package config

import (
	"cmp"
	"fmt"
	"time"
)

// Kinds of sandboxes. SandboxOff means that the workers execute no code.
const (
	SandboxBubblewrap = "bubblewrap"
	SandboxGVisor     = "gvisor"
	SandboxOff        = "off"
)

// Sandbox contains the settings of the sandboxes that run agents' code. The limits apply to one
// call.
type Sandbox struct {
	SandboxKind        string        `name:"sandbox" env:"SANDBOX" default:"bubblewrap" help:"Sandbox for running code: bubblewrap, gvisor or off."`
	SandboxConcurrency int           `name:"sandbox-concurrency" env:"SANDBOX_CONCURRENCY" default:"0" help:"Simultaneous calls that run code; 0: two per core, at least 4."`
	SandboxCPU         time.Duration `name:"sandbox-cpu" env:"SANDBOX_CPU" default:"10s" help:"CPU time limit of a call, for all its processes together."`
	SandboxWall        time.Duration `name:"sandbox-wall" env:"SANDBOX_WALL" default:"30s" help:"Time limit of a call."`
	SandboxMemory      int64         `name:"sandbox-memory" env:"SANDBOX_MEMORY" default:"536870912" help:"Memory limit of a call in bytes, for all its processes together."`
}

// The default limits of a call. They equal the defaults in the tags of Sandbox.
const (
	DefaultSandboxCPU          = 10 * time.Second
	DefaultSandboxWall         = 30 * time.Second
	DefaultSandboxMemory int64 = 512 << 20
)

const (
	// Bounds of the settings. With less memory, Python may fail to start.
	minSandboxMemory = 64 << 20
	minSandboxTime   = 100 * time.Millisecond
	maxSandboxWall   = 10 * time.Minute
)

// Check returns an error for the first invalid setting. Zero means the default.
func (s Sandbox) Check() error {
	switch s.SandboxKind {
	// An empty kind means the default.
	case "", SandboxBubblewrap, SandboxGVisor, SandboxOff:
	default:
		return fmt.Errorf("SANDBOX must be bubblewrap, gvisor or off, not %q", s.SandboxKind)
	}

	if s.SandboxConcurrency < 0 {
		return fmt.Errorf("SANDBOX_CONCURRENCY must not be negative: %d", s.SandboxConcurrency)
	}

	return cmp.Or(
		checkRange("SANDBOX_CPU", s.SandboxCPU, minSandboxTime, 0),
		checkRange("SANDBOX_WALL", s.SandboxWall, minSandboxTime, maxSandboxWall),
		checkRange("SANDBOX_MEMORY", s.SandboxMemory, minSandboxMemory, 0),
	)
}

// checkRange returns an error if a setting is neither zero nor within the bounds. An upper bound of
// zero means that there is none.
func checkRange[T int | int64 | time.Duration](name string, value, least, maximum T) error {
	switch {
	case value == 0 || value >= least && (maximum == 0 || value <= maximum):
		return nil
	case maximum == 0:
		return fmt.Errorf("%s must be at least %v, not %v", name, least, value)
	default:
		return fmt.Errorf("%s must be between %v and %v, not %v", name, least, maximum, value)
	}
}
