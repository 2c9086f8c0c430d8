package gvisor

import (
	"fmt"
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox/seccomp"
)

// Actions of the system call filter in OCI format. runsc applies the filter in its own kernel
// before it executes a call.
const (
	actRefuse = specs.ActErrno // EPERM; runsc supports no other error
	actAllow  = specs.ActAllow
	// actAbsent returns ENOSYS if the process is not traced. It cannot be, because ptrace is
	// forbidden.
	actAbsent = specs.ActTrace
)

// alias are names that versions of runsc before 2023 use. runsc ignores unknown names.
var alias = map[string]string{"pselect6": "pselect"}

// newFilter converts the common rules to OCI format. Calls without conditions form one entry, which
// runsc compiles to a search tree. runsc evaluates the entries in order.
func newFilter() (*specs.LinuxSeccomp, error) {
	list := seccomp.Rules(false) // the sentry reports all of a sandbox's memory
	if len(list) == 0 {
		return nil, fmt.Errorf("no list of system calls for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	allowed := specs.LinuxSyscall{Action: actAllow}
	var others []specs.LinuxSyscall
	for _, r := range list {
		switch {
		case r.Errno != 0:
			others = append(others, specs.LinuxSyscall{Names: []string{r.Name}, Action: actAbsent})
		case len(r.Conditions) == 0: // OCI cannot pretend, so pretended calls are executed; they only affect gVisor's own inodes
			allowed.Names = append(allowed.Names, r.Name)
			if other, is := alias[r.Name]; is {
				allowed.Names = append(allowed.Names, other)
			}
		default:
			others = append(others, specs.LinuxSyscall{Names: []string{r.Name}, Action: actAllow, Args: conditions(r.Conditions)})
		}
	}
	return &specs.LinuxSeccomp{DefaultAction: actRefuse, Syscalls: append([]specs.LinuxSyscall{allowed}, others...)}, nil
}

// conditions converts conditions, all of which must be true. This works because each applies to a
// different argument; of several for the same argument, runsc requires only one.
func conditions(list []seccomp.Condition) (args []specs.LinuxSeccompArg) {
	for _, c := range list {
		args = append(args, specs.LinuxSeccompArg{
			Index: uint(c.Arg), Value: c.Mask, ValueTwo: c.Value, Op: specs.OpMaskedEqual, // (arg & Value) == ValueTwo
		})
	}
	return args
}
