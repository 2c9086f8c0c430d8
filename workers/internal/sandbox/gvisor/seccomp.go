package gvisor

import (
	"fmt"
	"runtime"

	"parley/workers/internal/sandbox/seccomp"
)

// What the OCI calls filters of system calls. runsc applies them in its own kernel, before it answers a call.
type (
	filter struct {
		DefaultAction string       `json:"defaultAction"`
		Syscalls      []filterCall `json:"syscalls"`
	}
	filterCall struct {
		Names  []string    `json:"names"`
		Action string      `json:"action"`
		Args   []filterArg `json:"args,omitempty"`
	}
	filterArg struct {
		Index    uint32 `json:"index"`
		Value    uint64 `json:"value"`    // the mask
		ValueTwo uint64 `json:"valueTwo"` // what is equal under it
		Op       string `json:"op"`
	}
)

const (
	actRefuse = "SCMP_ACT_ERRNO" // EPERM: runsc knows no other
	actAllow  = "SCMP_ACT_ALLOW"
	// actAbsent gives ENOSYS when nobody traces the process. Nobody can: ptrace is not allowed.
	actAbsent = "SCMP_ACT_TRACE"
)

// alias is what versions of runsc before 2023 call a system call. Names that a version does not know it leaves out.
var alias = map[string]string{"pselect6": "pselect"}

// newFilter renders the rules that all backends have. Calls without conditions are one entry, which runsc makes a search tree of;
// it asks the entries in their order.
func newFilter() (*filter, error) {
	list := seccomp.Rules(false) // the sentry tells all of a sandbox's memory
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no list of system calls for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	allowed := filterCall{Action: actAllow}
	var others []filterCall
	for _, r := range list {
		switch {
		case r.Errno != 0:
			others = append(others, filterCall{Names: []string{r.Name}, Action: actAbsent})
		case len(r.Conditions) == 0: // what the rules pretend is made: its inodes are gVisor's own, and the OCI knows no pretending
			allowed.Names = append(allowed.Names, r.Name)
			if other, is := alias[r.Name]; is {
				allowed.Names = append(allowed.Names, other)
			}
		default:
			others = append(others, filterCall{Names: []string{r.Name}, Action: actAllow, Args: conditions(r.Conditions)})
		}
	}
	return &filter{DefaultAction: actRefuse, Syscalls: append([]filterCall{allowed}, others...)}, nil
}

// conditions must all hold. That is so because each is of another argument: of two that are of the same, runsc wants only one.
func conditions(list []seccomp.Condition) (args []filterArg) {
	for _, c := range list {
		args = append(args, filterArg{Index: c.Arg, Value: c.Mask, ValueTwo: c.Value, Op: "SCMP_CMP_MASKED_EQ"})
	}
	return args
}
