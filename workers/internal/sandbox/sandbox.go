package sandbox

import (
	"context"
	"io"
	"time"
)

// Limits bound what runs in a sandbox, all its processes together.
type Limits struct {
	CPU       time.Duration // time on processors
	Wall      time.Duration // from the start of the program to its end
	Memory    int64         // bytes, without files
	Processes int           // processes and threads
	Files     int64         // bytes of the files in its folders
	FileCount int           // files and folders in its folders
	Output    int64         // bytes of standard output and standard error that are kept
}

// Limit names one of the limits.
type Limit string

// The limits.
const (
	LimitCPU       Limit = "cpu"
	LimitWall      Limit = "wall"
	LimitMemory    Limit = "memory"
	LimitProcesses Limit = "processes"
	LimitFiles     Limit = "files"
	LimitOutput    Limit = "output"
)

// WorkDir is the folder in a sandbox that its program starts in and may write to. It is empty at first, and gone with the
// sandbox. /tmp may be written to as well.
const WorkDir = "/work"

// Command is what to run in a sandbox.
type Command struct {
	Args   []string // the program's path in the sandbox and its arguments
	Env    []string // NAME=value; nothing else is in its environment
	Data   []Data
	Shown  []Shown
	Limits Limits
	// GivesWay has the sandbox get less of the processors than others once it has used GiveWayAfter, where its backend can do that. A
	// program that uses less is not slowed down, however busy the machine is.
	GivesWay bool
}

// GiveWayAfter is the processor time after which a sandbox gives way.
const GiveWayAfter = 250 * time.Millisecond

// Data is a file that is put into the sandbox, read-only.
type Data struct {
	Path    string // absolute, in the sandbox, in no folder that may be written to
	Content []byte
}

// Shown is a file of the host's that the sandbox shows, read-only: for what is too large to be put into each one. The sandbox's user
// must be able to read it, and to get to it, on the host.
type Shown struct {
	Path string // absolute, in the sandbox, in no folder that may be written to
	Host string // absolute
}

// Backend makes sandboxes of one kind; safe for concurrent use.
type Backend interface {
	// Name is the setting's word for it.
	Name() string
	// Notes says in full sentences what this machine does not give, so that a limit is watched instead of enforced.
	Notes() []string
	// Start starts a command in a new sandbox, as its first process: orphans become its children, and nothing in the sandbox
	// can kill or stop it. ctx is of the start alone.
	Start(ctx context.Context, c Command) (Box, error)
	// Close ends all sandboxes and removes what the backend keeps on the host.
	Close() error
}

// Box is a sandbox in which a command runs. Nothing of it outlives Kill, or this process.
type Box interface { //nolint:interfacebloat // a running program has this many sides
	// Stdin is the command's standard input.
	Stdin() io.WriteCloser
	// Stdout is the command's standard output, up to its end.
	Stdout() io.Reader
	// Usage is what the sandbox uses now.
	Usage() (Usage, error)
	// Kill ends everything in the sandbox at once, and returns when nothing of it lives. It may be called again.
	Kill()
	// Done is closed when nothing in the sandbox lives any more.
	Done() <-chan struct{}
	// Complaint is the beginning of what was written to standard error, by the command or the backend: at most 16 KiB.
	Complaint() string
}

// Usage is what a sandbox uses, all its processes together.
type Usage struct {
	CPU       time.Duration // since its start
	Memory    int64         // bytes, without files where the kernel tells them apart
	Processes int           // processes and threads that live
	Files     int64         // bytes of its folders; 0 where that cannot be told
	FileCount int           // files in its folders; 0 where that cannot be told
	OutOfMem  bool          // the kernel has ended a process of it for want of memory
}

// Exceeds names the first limit that is exceeded; CPU time counts from began on. "" is none.
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
