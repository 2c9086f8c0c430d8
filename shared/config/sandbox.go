package config

import (
	"cmp"
	"fmt"
	"time"
)

// Kinds of sandboxes.
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
	SandboxWarm        int           `name:"sandbox-warm" env:"SANDBOX_WARM" default:"-1" help:"Sandboxes kept ready for the next calls; -1: SANDBOX_CONCURRENCY, at most 8."`
	SandboxCPU         time.Duration `name:"sandbox-cpu" env:"SANDBOX_CPU" default:"10s" help:"CPU time limit of a call, for all its processes together."`
	SandboxWall        time.Duration `name:"sandbox-wall" env:"SANDBOX_WALL" default:"30s" help:"Time limit of a call."`
	SandboxMemory      int64         `name:"sandbox-memory" env:"SANDBOX_MEMORY" default:"536870912" help:"Memory limit of a call in bytes, for all its processes together."`
	SandboxProcesses   int           `name:"sandbox-processes" env:"SANDBOX_PROCESSES" default:"64" help:"Maximum processes and threads of a call."`
	SandboxFiles       int64         `name:"sandbox-files" env:"SANDBOX_FILES" default:"67108864" help:"Maximum total bytes of the files in a call's working folder."`
	SandboxOutput      int64         `name:"sandbox-output" env:"SANDBOX_OUTPUT" default:"1048576" help:"Maximum bytes that a call prints."`
}

// Default limits of a call.
const (
	DefaultSandboxCPU             = 10 * time.Second
	DefaultSandboxWall            = 30 * time.Second
	DefaultSandboxMemory    int64 = 512 << 20
	DefaultSandboxProcesses       = 64
	DefaultSandboxFiles     int64 = 64 << 20
	DefaultSandboxOutput    int64 = 1 << 20
)

const (
	// Bounds of the settings. With less memory or fewer processes, Python may fail to start.
	minSandboxMemory    = 64 << 20
	minSandboxProcesses = 8
	minSandboxFiles     = 1 << 20
	minSandboxOutput    = 4 << 10
	maxSandboxFiles     = 1 << 30
	maxSandboxOutput    = 16 << 20
	minSandboxTime      = 100 * time.Millisecond
	maxSandboxWall      = 10 * time.Minute
)

// Check returns an error for the first invalid setting. Zero means the default.
func (s Sandbox) Check() error {
	switch s.SandboxKind {
	// An empty kind means the default.
	case "", SandboxBubblewrap, SandboxGVisor, SandboxOff:
	default:
		return fmt.Errorf("SANDBOX must be bubblewrap, gvisor or off, not %q", s.SandboxKind)
	}

	switch {
	case s.SandboxConcurrency < 0:
		return fmt.Errorf("SANDBOX_CONCURRENCY must not be negative: %d", s.SandboxConcurrency)
	case s.SandboxWarm < -1:
		return fmt.Errorf("SANDBOX_WARM must be at least -1, not %d", s.SandboxWarm)
	}

	return cmp.Or(
		checkRange("SANDBOX_CPU", s.SandboxCPU, minSandboxTime, 0),
		checkRange("SANDBOX_WALL", s.SandboxWall, minSandboxTime, maxSandboxWall),
		checkRange("SANDBOX_MEMORY", s.SandboxMemory, minSandboxMemory, 0),
		checkRange("SANDBOX_PROCESSES", s.SandboxProcesses, minSandboxProcesses, 0),
		checkRange("SANDBOX_FILES", s.SandboxFiles, minSandboxFiles, maxSandboxFiles),
		checkRange("SANDBOX_OUTPUT", s.SandboxOutput, minSandboxOutput, maxSandboxOutput),
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
