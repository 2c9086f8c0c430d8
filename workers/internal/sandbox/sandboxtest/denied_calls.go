//go:build linux

package sandboxtest

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// deniedCalls returns system calls that the filter refuses with any arguments. The arguments are
// harmless in case a call is executed. In gVisor, calls pass the same filter before they reach
// gVisor's own kernel.
func deniedCalls() []attempt {
	calls := slices.Concat(callsOnProcesses(), callsOnSystem())
	for i, c := range calls {
		calls[i].name = "calls/" + c.call
		if c.must == "" {
			calls[i].must = "EPERM"
		}
	}
	return calls
}

const bad = 1 // an invalid address

// callsOnProcesses returns calls that affect other processes, namespaces, and rarely used parts of
// the kernel.
func callsOnProcesses() []attempt {
	return []attempt{
		{call: "process_vm_readv", args: []any{-1, 0, 0, 0, 0, 1}},
		{call: "process_vm_writev", args: []any{-1, 0, 0, 0, 0, 1}},
		{call: "process_madvise", args: []any{-1, 0, 0, 0, 0}},
		{call: "pidfd_getfd", args: []any{-1, 0, 0}},
		{call: "kcmp", args: []any{-1, -1, 99, 0, 0}},
		{call: "mount", args: []any{bad, bad, bad, 0, 0}, needs: privileges},
		{call: "umount2", args: []any{bad, 0}, needs: privileges},
		{call: "pivot_root", args: []any{bad, bad}, needs: privileges},
		{call: "chroot", args: []any{bad}},
		{call: "open_tree", args: []any{-1, bad, 0}},
		{call: "move_mount", args: []any{-1, bad, -1, bad, 0}, needs: privileges},
		{call: "fsopen", args: []any{bad, 0}, needs: privileges},
		{call: "fsconfig", args: []any{-1, 99, 0, 0, 0}},
		{call: "fsmount", args: []any{-1, 0, 0}, needs: privileges},
		{call: "fspick", args: []any{-1, bad, 0}, needs: privileges},
		{call: "mount_setattr", args: []any{-1, bad, 0, bad, 0}},
		{call: "setns", args: []any{-1, 0}},
		{call: "bpf", args: []any{99, bad, 8}, needs: optional},
		{call: "keyctl", args: []any{9999, 0, 0, 0, 0}, needs: optional},
		{call: "add_key", args: []any{bad, bad, 0, 0, 0}, needs: optional},
		{call: "request_key", args: []any{bad, bad, 0, 0}, needs: optional},
		{call: "io_uring_setup", args: []any{0, bad}, needs: optional},
		{call: "io_uring_enter", args: []any{-1, 0, 0, 0, 0, 0}, needs: optional},
		{call: "io_uring_register", args: []any{-1, 99, 0, 0}, needs: optional},
		{call: "userfaultfd", args: []any{0x7fff0000}, needs: optional},
		{call: "perf_event_open", args: []any{bad, 0, 0, -1, 0}, needs: optional},
	}
}

// callsOnSystem returns calls that change the machine.
func callsOnSystem() []attempt {
	return []attempt{
		{call: "kexec_load", args: []any{0, 1 << 20, bad, 0xfff0}, needs: privileges},
		{call: "kexec_file_load", args: []any{-1, -1, 0, 0, 0xfff0}, needs: privileges},
		{call: "init_module", args: []any{bad, 0, bad}, needs: privileges},
		{call: "finit_module", args: []any{-1, bad, 0}, needs: privileges},
		{call: "delete_module", args: []any{bad, 0}, needs: privileges},
		{call: "open_by_handle_at", args: []any{-1, bad, 0}, needs: privileges},
		{call: "name_to_handle_at", args: []any{-1, bad, bad, bad, 0}, needs: optional},
		{call: "quotactl", args: []any{-1, bad, 0, 0}, needs: optional},
		{call: "quotactl_fd", args: []any{-1, -1, 0, 0}, needs: optional},
		{call: "acct", args: []any{bad}, needs: privileges},
		{call: "swapon", args: []any{bad, 0}, needs: privileges},
		{call: "swapoff", args: []any{bad}, needs: privileges},
		{call: "reboot", args: []any{0, 0, 0, 0}, needs: privileges},
		{call: "settimeofday", args: []any{bad, 0}},
		{call: "clock_settime", args: []any{0, bad}},
		{call: "clock_adjtime", args: []any{0, bad}},
		{call: "syslog", args: []any{99, 0, 0}, needs: optional},
		{call: "move_pages", args: []any{0, 1, bad, 0, 0, 99}, needs: optional},
		{call: "migrate_pages", args: []any{0, 0, bad, bad}, needs: optional},
		{call: "mbind", args: []any{bad, 0, 0, 0, 0, 0}, needs: optional},
		{call: "set_mempolicy", args: []any{99, 0, 0}, needs: optional},
		{call: "fanotify_init", args: []any{-1, 0}, needs: privileges},
		{call: "memfd_secret", args: []any{-2}},
		{call: "sethostname", args: []any{bad, 5}, needs: privileges},
		{call: "setdomainname", args: []any{bad, 5}, needs: privileges},
		{call: "personality", args: []any{0x0040000}},
		{call: "iopl", args: []any{99}, needs: optional},
		{call: "ioperm", args: []any{1 << 20, 1, 1}, needs: optional},
		{call: "clone3", args: []any{bad, 8}, must: "ENOSYS", needs: optional},
		{call: "sendfile", args: []any{-1, -1, 0, 1}},
	}
}

// deniedArguments returns system calls that honest programs need, with arguments that honest
// programs do not use.
func deniedArguments() []attempt {
	attempts := []attempt{
		{
			name: "calls/another calling convention: int 0x80", probe: "machine", args: []any{"b814000000cd804898c3"},
			must: "SIGSYS", needs: optional, fatal: true,
		},
		{
			name: "calls/another calling convention: x32", probe: "machine", args: []any{"b8270000400f05c3"},
			must: "SIGSYS", needs: optional, fatal: true,
		},
		{name: "calls/clone3 with a user namespace", probe: "cloned3", args: []any{unix.CLONE_NEWUSER}, must: "ENOSYS", needs: optional},
		{name: "ptrace/by the parent, as requested", probe: "traced", args: []any{0}, must: "EPERM"},
		{name: "ptrace/attach", probe: "traced", args: []any{unix.PTRACE_ATTACH}, must: "EPERM"},
		{name: "ptrace/seize", probe: "traced", args: []any{unix.PTRACE_SEIZE}, must: "EPERM"},
		{name: "ptrace/process_vm_readv of a child", probe: "other_memory", args: []any{"process_vm_readv"}, must: "EPERM"},
		{name: "ptrace/process_vm_writev of a child", probe: "other_memory", args: []any{"process_vm_writev"}, must: "EPERM"},
		{name: "keys/add_key", probe: "key", must: "EPERM", needs: optional},
	}
	for name, flag := range map[string]int{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "network": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		needs := privileges
		if flag == unix.CLONE_NEWUSER {
			needs = optional // some distributions disable the feature
		}
		attempts = append(
			attempts,
			attempt{name: "namespaces/unshare " + name, call: "unshare", args: []any{flag}, must: "EPERM", needs: needs},
			attempt{name: "namespaces/clone " + name, probe: "cloned", args: []any{flag}, must: "EPERM", needs: needs},
		)
	}
	return slices.Concat(attempts, deniedFlags(), deniedControls())
}

// deniedFlags returns common system calls with unusual flags, and calls that a sandbox only
// pretends to execute.
func deniedFlags() []attempt {
	attempts := []attempt{
		{name: "flags/preadv2", call: "preadv2", args: []any{-1, 0, 0, 0, 0, unix.RWF_HIPRI}, must: "EPERM"},
		{name: "flags/pwritev2", call: "pwritev2", args: []any{-1, 0, 0, 0, 0, unix.RWF_SYNC}, must: "EPERM"},
		{name: "flags/out-of-band data sent", probe: "out_of_band", args: []any{true}, must: "EPERM", needs: optional},
		{name: "flags/out-of-band data received", probe: "out_of_band", args: []any{false}, must: "EPERM"},
		{name: "locks/flock", probe: "locks", args: []any{interpreter}, ownKernel: ownInodes},
	}
	for _, name := range []string{"fsync", "fdatasync", "sync_file_range"} {
		attempts = append(attempts, attempt{name: "syncs/" + name, probe: "syncs", args: []any{name}, ownKernel: ownInodes})
	}
	for name, args := range map[string][]any{
		"sendto": {-1, 0, 0, unix.MSG_OOB, 0, 0}, "recvfrom": {-1, 0, 0, unix.MSG_OOB, 0, 0}, "sendmsg": {-1, 0, unix.MSG_OOB},
		"recvmsg": {-1, 0, unix.MSG_OOB}, "sendmmsg": {-1, 0, 1, unix.MSG_OOB}, "recvmmsg": {-1, 0, 1, unix.MSG_OOB, 0},
	} {
		attempts = append(attempts, attempt{name: "flags/" + name, call: name, args: args, must: "EPERM"})
	}
	return attempts
}

// deniedControls returns requests that insert characters into terminals. The kernel ignores all but
// the lowest 32 bits of a request, so the filter must ignore the other bits as well.
func deniedControls() []attempt {
	var attempts []attempt
	for name, request := range map[string]int{"TIOCSTI": unix.TIOCSTI, "TIOCLINUX": unix.TIOCLINUX} {
		for _, high := range []int{0, 1 << 32, 1 << 62} {
			for _, on := range []string{"null", "pipe"} {
				attempts = append(attempts, attempt{
					name:  fmt.Sprintf("terminal/%s with %#x on %s", name, high, on),
					probe: "ioctl", args: []any{request | high, on}, must: "EPERM",
				})
			}
		}
	}
	return append(
		attempts,
		attempt{name: "terminal/TIOCSTI on the program's own terminal", probe: "ioctl", args: []any{unix.TIOCSTI, "terminal"}, needs: optional},
	)
}

// deniedSockets returns kinds of sockets that reach beyond a sandbox or into rarely used parts of
// the kernel.
func deniedSockets() []attempt {
	var attempts []attempt
	for _, s := range []struct {
		name                   string
		family, kind, protocol int
		needs                  need
	}{
		{name: "tcp", family: unix.AF_INET, kind: unix.SOCK_STREAM},
		{name: "udp", family: unix.AF_INET, kind: unix.SOCK_DGRAM},
		{name: "icmp", family: unix.AF_INET, kind: unix.SOCK_DGRAM, protocol: unix.IPPROTO_ICMP, needs: optional},
		{name: "tcp6", family: unix.AF_INET6, kind: unix.SOCK_STREAM},
		{name: "udp6", family: unix.AF_INET6, kind: unix.SOCK_DGRAM},
		{name: "raw", family: unix.AF_INET, kind: unix.SOCK_RAW, protocol: unix.IPPROTO_TCP, needs: privileges},
		{name: "raw6", family: unix.AF_INET6, kind: unix.SOCK_RAW, protocol: unix.IPPROTO_TCP, needs: privileges},
		{name: "netlink", family: unix.AF_NETLINK, kind: unix.SOCK_RAW},
		{name: "netlink audit", family: unix.AF_NETLINK, kind: unix.SOCK_RAW, protocol: unix.NETLINK_AUDIT, needs: optional},
		{name: "packet", family: unix.AF_PACKET, kind: unix.SOCK_RAW, needs: privileges},
		{name: "vsock", family: unix.AF_VSOCK, kind: unix.SOCK_STREAM},
		{name: "alg", family: unix.AF_ALG, kind: unix.SOCK_SEQPACKET},
		{name: "xdp", family: unix.AF_XDP, kind: unix.SOCK_RAW, needs: privileges},
		{name: "key", family: unix.AF_KEY, kind: unix.SOCK_RAW, needs: privileges},
		{name: "can", family: unix.AF_CAN, kind: unix.SOCK_RAW, needs: optional},
		{name: "bluetooth", family: unix.AF_BLUETOOTH, kind: unix.SOCK_RAW, needs: optional},
		{name: "tipc", family: unix.AF_TIPC, kind: unix.SOCK_STREAM},
		{name: "rds", family: unix.AF_RDS, kind: unix.SOCK_SEQPACKET},
		{name: "smc", family: unix.AF_SMC, kind: unix.SOCK_STREAM},
	} {
		attempts = append(attempts, attempt{
			name: "sockets/" + s.name, probe: "opens", args: []any{s.family, s.kind, s.protocol}, must: "EPERM", needs: s.needs,
		})
	}
	return append(
		attempts,
		attempt{name: "sockets/pair of tipc", probe: "paired", args: []any{unix.AF_TIPC}, must: "EPERM"},
		attempt{name: "sockets/high bits", call: "socket", args: []any{unix.AF_INET | 1<<32, unix.SOCK_STREAM, 0}, must: "EPERM"},
	)
}
