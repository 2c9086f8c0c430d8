package gvisor

import (
	"fmt"
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox/seccomp"
)

// Actions of a filter of system calls, as the OCI names them. runsc applies the filter in its own kernel, before it answers a call.
const (
	actRefuse = specs.ActErrno // EPERM: runsc knows no other
	actAllow  = specs.ActAllow
	// actAbsent gives ENOSYS when nobody traces the process. Nobody can: ptrace is not allowed.
	actAbsent = specs.ActTrace
)

// alias is what versions of runsc before 2023 call a system call. Names that a version does not know it leaves out.
var alias = map[string]string{"pselect6": "pselect"}

// newFilter renders the rules that all backends have. Calls without conditions are one entry, which runsc makes a search tree of;
// it asks the entries in their order.
func newFilter() (*specs.LinuxSeccomp, error) {
	list := seccomp.Rules(false) // the sentry tells all of a sandbox's memory
	if len(list) == 0 {
		return nil, fmt.Errorf("no list of system calls for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	allowed := specs.LinuxSyscall{Action: actAllow}
	var others []specs.LinuxSyscall
	for _, r := range list {
		switch {
		case r.Errno != 0:
			others = append(others, specs.LinuxSyscall{Names: []string{r.Name}, Action: actAbsent})
		case len(r.Conditions) == 0: // what the rules pretend is made: its inodes are gVisor's own, and the OCI knows no pretending
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

// conditions must all hold. That is so because each is of another argument: of two that are of the same, runsc wants only one.
func conditions(list []seccomp.Condition) (args []specs.LinuxSeccompArg) {
	for _, c := range list {
		args = append(args, specs.LinuxSeccompArg{
			Index: uint(c.Arg), Value: c.Mask, ValueTwo: c.Value, Op: specs.OpMaskedEqual, // under the mask Value, equal to ValueTwo
		})
	}
	return args
}
