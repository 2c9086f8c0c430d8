package gvisor

import (
	"fmt"
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox/seccomp"
)

// Actions of the system call filter, in OCI format. runsc's own kernel applies the filter before it
// executes a system call.
const (
	actRefuse = specs.ActErrno // EPERM; runsc supports no other error
	actAllow  = specs.ActAllow
	// actAbsent makes a system call return ENOSYS if the process is not traced. ptrace is
	// forbidden, so no process is traced.
	actAbsent = specs.ActTrace
)

// alias contains the names that versions of runsc before 2023 use for some system calls. runsc
// ignores unknown names.
var alias = map[string]string{"pselect6": "pselect"}

// newFilter converts the common rules to OCI format. Rules without conditions form one entry, which
// runsc compiles to a search tree. runsc evaluates the entries in order. A call without a rule
// fails with EPERM. newFilter fails on an architecture without rules.
func newFilter() (*specs.LinuxSeccomp, error) {
	list := seccomp.Rules(false) // no rules for measured memory are needed, because the sentry reports all memory of a sandbox
	if len(list) == 0 {
		return nil, fmt.Errorf("no list of allowed system calls for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	allowed := specs.LinuxSyscall{Action: actAllow}
	var others []specs.LinuxSyscall
	for _, r := range list {
		switch {
		case r.Errno != 0:
			others = append(others, specs.LinuxSyscall{Names: []string{r.Name}, Action: actAbsent})
		case len(r.Conditions) == 0: // OCI filters cannot fake success, so these calls are executed; they affect only gVisor's files
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

// conditions converts the conditions of one rule, all of which must be true. If several conditions
// apply to the same argument, runsc requires only one of them. So each condition of a rule must
// apply to a different argument.
func conditions(list []seccomp.Condition) (args []specs.LinuxSeccompArg) {
	for _, c := range list {
		args = append(args, specs.LinuxSeccompArg{
			Index: uint(c.Arg), Value: c.Mask, ValueTwo: c.Value, Op: specs.OpMaskedEqual, // (arg & Value) == ValueTwo
		})
	}
	return args
}
