package sandbox

import (
	"context"
	"io"
	"time"
)

// Limits contains the limits on the usage of a sandbox. They apply to all of its processes
// together.
type Limits struct {
	CPU       time.Duration // processor time
	Wall      time.Duration // elapsed time between the program's start and end
	Memory    int64         // bytes, without files
	Processes int           // processes and threads
	Files     int64         // bytes of all files in the sandbox's folders
	FileCount int           // number of files and folders in the sandbox's folders
	Output    int64         // bytes of standard output and standard error that are kept, in total
}

// Limit names one of the limits.
type Limit string

// Names of the limits.
const (
	LimitCPU       Limit = "cpu"
	LimitWall      Limit = "wall"
	LimitMemory    Limit = "memory"
	LimitProcesses Limit = "processes"
	LimitFiles     Limit = "files"
	LimitOutput    Limit = "output"
)

// WorkDir is the folder in which a program starts and which it may write to. It is empty at first
// and deleted with the sandbox. /tmp is writable as well.
const WorkDir = "/work"

// Command is a command to run in a sandbox.
type Command struct {
	Args   []string // path of the program in the sandbox, followed by its arguments
	Env    []string // variables in the form NAME=value; the environment contains no others
	Data   []Data
	Shown  []Shown
	Limits Limits
	// GivesWay makes the backend lower the sandbox's priority when the sandbox has used the
	// processor time GiveWayAfter. It has no effect if the backend cannot lower priorities.
	GivesWay bool
}

// GiveWayAfter is the processor time after which the priority of a sandbox with GivesWay is
// lowered.
const GiveWayAfter = 250 * time.Millisecond

// Data is a read-only file that is copied into the sandbox.
type Data struct {
	Path    string // absolute path in the sandbox, not in a writable folder
	Content []byte
}

// Shown is a host file that the sandbox shows read-only. It is meant for files that are too large
// to be copied. The user of the sandbox must have the right to read the file on the host.
type Shown struct {
	Path string // absolute path in the sandbox, not in a writable folder
	Host string // absolute path on the host
}

// Backend creates sandboxes of one kind. It is safe for concurrent use.
type Backend interface {
	// Name returns the backend's name in the settings.
	Name() string
	// Notes returns full sentences about limits that this machine cannot enforce and that are only
	// monitored.
	Notes() []string
	// Start starts a command as the first process of a new sandbox. So the command adopts orphaned
	// processes, and no process in the sandbox can kill or stop the command. ctx applies only to
	// the start.
	Start(ctx context.Context, c Command) (Box, error)
	// Close ends all sandboxes and removes the backend's files on the host.
	Close() error
}

// Box is a sandbox in which a command runs. None of its processes outlives Kill or this process.
type Box interface { //nolint:interfacebloat // a running program has this many aspects
	// Stdin returns the command's standard input.
	Stdin() io.WriteCloser
	// Stdout returns the command's standard output, up to its end.
	Stdout() io.Reader
	// Usage returns the sandbox's current usage.
	Usage() (Usage, error)
	// Kill kills all processes in the sandbox and waits until they are gone. It may be called more
	// than once.
	Kill()
	// Done returns a channel that is closed when no process is left in the sandbox.
	Done() <-chan struct{}
	// Stderr returns at most the first 16 KiB of standard error, written by the command or the
	// backend.
	Stderr() string
}

// Usage is a sandbox's usage, for all of its processes together.
type Usage struct {
	CPU       time.Duration // processor time since the sandbox's start
	Memory    int64         // bytes of memory; excludes files if the kernel can distinguish them
	Processes int           // live processes and threads
	Files     int64         // bytes of the files in the sandbox's folders; 0 if unknown
	FileCount int           // number of files and folders in the sandbox's folders; 0 if unknown
	OutOfMem  bool          // the kernel has killed a process because memory was exhausted
}

// Exceeds returns the first limit that the usage exceeds, or "". began is the usage at the start of
// the measured program. The CPU time in began is subtracted.
func (u Usage) Exceeds(l Limits, began Usage) Limit {
	switch {
	case u.OutOfMem, u.Memory > l.Memory:
		return LimitMemory
	case u.CPU-began.CPU > l.CPU:
		return LimitCPU
	case u.Files > l.Files, u.FileCount > l.FileCount:
		return LimitFiles
	case u.Processes > l.Processes:
		return LimitProcesses
	default:
		return ""
	}
}
