package seccomp

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Environment variables that make the test binary act as a program under the filter. The program
// makes either all calls or one call.
const (
	envCalls = "PARLEY_TEST_SECCOMP_CALLS"
	envCall  = "PARLEY_TEST_SECCOMP_CALL"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envCalls) != "":
		makeCalls()
	case os.Getenv(envCall) != "":
		makeCall()
	default:
		os.Exit(m.Run())
	}
}

const wild = ^uintptr(0) // not a valid descriptor, address or set of flags

// call is a system call. Its arguments have no effect if the call is allowed.
type call struct {
	name   string
	number uintptr
	args   [6]uintptr
	want   syscall.Errno // expected result under the filter; without the filter, a call that the filter refuses has another result
}

const refused = syscall.EPERM

// done is the result of a call that the filter pretends to execute. Without the filter, the call
// fails.
const done syscall.Errno = 0

// unfiltered stands for every result that comes from the kernel and not from the filter.
const unfiltered syscall.Errno = 0xffff

var calls = []call{
	{"ptrace", unix.SYS_PTRACE, [6]uintptr{wild, wild}, refused},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [6]uintptr{wild, 0, 0, 0, 0, wild}, refused},
	{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, [6]uintptr{wild, 0, 0, 0, 0, wild}, refused},
	{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [6]uintptr{wild, 0, 0}, refused},
	{"mount", unix.SYS_MOUNT, [6]uintptr{wild, wild, wild, 0, 0}, refused},
	{"umount2", unix.SYS_UMOUNT2, [6]uintptr{wild, wild}, refused},
	{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uintptr{wild, wild}, refused},
	{"chroot", unix.SYS_CHROOT, [6]uintptr{wild}, refused},
	{"fsopen", unix.SYS_FSOPEN, [6]uintptr{wild, wild}, refused},
	{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{wild, wild, wild}, refused},
	{"move_mount", unix.SYS_MOVE_MOUNT, [6]uintptr{wild, wild, wild, wild, wild}, refused},
	{"unshare", unix.SYS_UNSHARE, [6]uintptr{wild}, refused},
	{"setns", unix.SYS_SETNS, [6]uintptr{wild, 0}, refused},
	{"bpf", unix.SYS_BPF, [6]uintptr{wild, 0, 0}, refused},
	{"keyctl", unix.SYS_KEYCTL, [6]uintptr{wild}, refused},
	{"add_key", unix.SYS_ADD_KEY, [6]uintptr{wild, wild, 0, 0, 0}, refused},
	{"request_key", unix.SYS_REQUEST_KEY, [6]uintptr{wild, wild, 0, 0}, refused},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{0, wild}, refused},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, [6]uintptr{wild, 0, 0, wild}, refused},
	{"io_setup", unix.SYS_IO_SETUP, [6]uintptr{0, wild}, refused},
	{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{wild}, refused},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{wild, 0, 0, wild, wild}, refused},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{wild, wild, 0}, refused},
	{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, [6]uintptr{wild, wild, wild, wild, wild}, refused},
	{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{0, wild, 0, wild}, refused},
	{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{wild, 1, wild}, refused},
	{"finit_module", unix.SYS_FINIT_MODULE, [6]uintptr{wild, wild, wild}, refused},
	{"delete_module", unix.SYS_DELETE_MODULE, [6]uintptr{wild, 0}, refused},
	{"swapon", unix.SYS_SWAPON, [6]uintptr{wild, wild}, refused},
	{"reboot", unix.SYS_REBOOT, [6]uintptr{0, 0, 0}, refused},
	{"acct", unix.SYS_ACCT, [6]uintptr{wild}, refused},
	{"syslog", unix.SYS_SYSLOG, [6]uintptr{wild}, refused},
	{"move_pages", unix.SYS_MOVE_PAGES, [6]uintptr{0, 1, wild, wild, wild, wild}, refused},
	{"mbind", unix.SYS_MBIND, [6]uintptr{1, 0, wild, 0, 0, wild}, refused},
	{"memfd_create", unix.SYS_MEMFD_CREATE, [6]uintptr{wild, wild}, refused},
	{"shmget", unix.SYS_SHMGET, [6]uintptr{0, 0, 0}, refused},
	{"msgget", unix.SYS_MSGGET, [6]uintptr{7, 0}, refused},
	{"inotify_init1", unix.SYS_INOTIFY_INIT1, [6]uintptr{wild}, refused},
	{"fanotify_init", unix.SYS_FANOTIFY_INIT, [6]uintptr{wild, wild}, refused},
	{"seccomp", unix.SYS_SECCOMP, [6]uintptr{wild, 0, 0}, refused},
	{"setuid", unix.SYS_SETUID, [6]uintptr{wild}, refused},
	{"sethostname", unix.SYS_SETHOSTNAME, [6]uintptr{wild, 1}, refused},
	{"clock_settime", unix.SYS_CLOCK_SETTIME, [6]uintptr{0, wild}, refused},
	{"splice", unix.SYS_SPLICE, [6]uintptr{wild, 0, wild, 0, 1, 0}, refused},
	{"a number that is not a call", 999, [6]uintptr{}, refused},

	{"clone for a thread", unix.SYS_CLONE, [6]uintptr{unix.CLONE_SIGHAND}, syscall.EINVAL}, // the kernel rejects CLONE_SIGHAND without CLONE_VM
	{"clone NEWUSER", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_SIGHAND}, refused},
	{"clone NEWNS", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWNS | unix.CLONE_SIGHAND}, refused},
	{"clone NEWPID", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWPID | unix.CLONE_SIGHAND}, refused},
	{"clone NEWNET", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWNET | unix.CLONE_SIGHAND}, refused},
	{"clone NEWIPC", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWIPC | unix.CLONE_SIGHAND}, refused},
	{"clone NEWUTS", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUTS | unix.CLONE_SIGHAND}, refused},
	{"clone NEWCGROUP", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWCGROUP | unix.CLONE_SIGHAND}, refused},
	{"clone PTRACE", unix.SYS_CLONE, [6]uintptr{unix.CLONE_PTRACE | unix.CLONE_SIGHAND}, refused},
	{"clone3", unix.SYS_CLONE3, [6]uintptr{wild, 0}, syscall.ENOSYS},

	{"ioctl TIOCSTI", unix.SYS_IOCTL, [6]uintptr{wild, unix.TIOCSTI}, refused},
	{"ioctl TIOCSTI, high bits", unix.SYS_IOCTL, [6]uintptr{wild, 1<<32 | unix.TIOCSTI}, refused},
	{"ioctl TIOCSTI, all high bits", unix.SYS_IOCTL, [6]uintptr{wild, 0xffffffff<<32 | unix.TIOCSTI}, refused},
	{"ioctl TIOCLINUX", unix.SYS_IOCTL, [6]uintptr{wild, unix.TIOCLINUX}, refused},
	{"ioctl TIOCLINUX, high bits", unix.SYS_IOCTL, [6]uintptr{wild, 1<<63 | unix.TIOCLINUX}, refused},
	{"ioctl TIOCSCTTY", unix.SYS_IOCTL, [6]uintptr{wild, unix.TIOCSCTTY}, refused},
	{"ioctl TCGETS", unix.SYS_IOCTL, [6]uintptr{wild, unix.TCGETS}, syscall.EBADF},
	{"ioctl TCGETS, high bits", unix.SYS_IOCTL, [6]uintptr{wild, 1<<32 | unix.TCGETS}, syscall.EBADF}, // the kernel ignores high bits

	{"socket UNIX", unix.SYS_SOCKET, [6]uintptr{unix.AF_UNIX, wild, 0}, syscall.EINVAL},
	{"socket INET", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, wild, 0}, refused},
	{"socket INET6", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET6, wild, 0}, refused},
	{"socket NETLINK", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, wild, 0}, refused},
	{"socket PACKET", unix.SYS_SOCKET, [6]uintptr{unix.AF_PACKET, wild, 0}, refused},
	{"socket ALG", unix.SYS_SOCKET, [6]uintptr{unix.AF_ALG, wild, 0}, refused},
	{"socket VSOCK", unix.SYS_SOCKET, [6]uintptr{unix.AF_VSOCK, wild, 0}, refused},
	{"socket INET, high bits", unix.SYS_SOCKET, [6]uintptr{1<<32 | unix.AF_INET, wild, 0}, refused},
	{"socketpair UNIX", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_UNIX, wild, 0, 0}, syscall.EINVAL},
	{"socketpair TIPC", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_TIPC, wild, 0, 0}, refused},
	{"setsockopt SNDBUF", unix.SYS_SETSOCKOPT, [6]uintptr{wild, unix.SOL_SOCKET, unix.SO_SNDBUF}, syscall.EBADF},
	{"setsockopt ATTACH_FILTER", unix.SYS_SETSOCKOPT, [6]uintptr{wild, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, refused},
	{"setsockopt of IP", unix.SYS_SETSOCKOPT, [6]uintptr{wild, 0, unix.SO_SNDBUF}, refused},

	{"fcntl GETFD", unix.SYS_FCNTL, [6]uintptr{wild, unix.F_GETFD}, syscall.EBADF},
	{"fcntl SETLEASE", unix.SYS_FCNTL, [6]uintptr{wild, unix.F_SETLEASE}, refused},
	{"fcntl NOTIFY", unix.SYS_FCNTL, [6]uintptr{wild, unix.F_NOTIFY}, refused},
	{"fcntl SETPIPE_SZ", unix.SYS_FCNTL, [6]uintptr{wild, unix.F_SETPIPE_SZ}, refused},
	{"prctl GET_DUMPABLE", unix.SYS_PRCTL, [6]uintptr{unix.PR_GET_DUMPABLE}, unfiltered},
	{"prctl SET_MM", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_MM, wild, 0, 0, wild}, refused},
	{"prctl SET_PTRACER", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_PTRACER, wild - 1}, refused},
	{"madvise DONTNEED", unix.SYS_MADVISE, [6]uintptr{1, 1, unix.MADV_DONTNEED}, syscall.EINVAL},
	{"madvise MERGEABLE", unix.SYS_MADVISE, [6]uintptr{1, 1, unix.MADV_MERGEABLE}, refused},
	{"personality, asked for", unix.SYS_PERSONALITY, [6]uintptr{0xffffffff}, unfiltered},
	{"personality READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, [6]uintptr{0x0400000}, refused},
	{"prlimit of itself", unix.SYS_PRLIMIT64, [6]uintptr{0, wild}, syscall.EINVAL},
	{"prlimit of another", unix.SYS_PRLIMIT64, [6]uintptr{1, wild}, refused},
	{"mknodat of a fifo", unix.SYS_MKNODAT, [6]uintptr{wild, wild, unix.S_IFIFO | 0o600}, unfiltered},
	{"mknodat of a device", unix.SYS_MKNODAT, [6]uintptr{wild, wild, unix.S_IFCHR | 0o600}, refused},
	{"mknodat of a device, high bits", unix.SYS_MKNODAT, [6]uintptr{wild, wild, 1<<32 | unix.S_IFBLK | 0o600}, refused},
	{"sendto", unix.SYS_SENDTO, [6]uintptr{wild, 0, 0, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"sendto OOB", unix.SYS_SENDTO, [6]uintptr{wild, 0, 0, unix.MSG_OOB}, refused},
	{"sendto OOB and others, high bits", unix.SYS_SENDTO, [6]uintptr{wild, 0, 0, 1<<32 | unix.MSG_OOB | unix.MSG_DONTWAIT}, refused},
	{"recvfrom", unix.SYS_RECVFROM, [6]uintptr{wild, 0, 0, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"recvfrom OOB", unix.SYS_RECVFROM, [6]uintptr{wild, 0, 0, unix.MSG_OOB | unix.MSG_PEEK}, refused},
	{"sendmsg", unix.SYS_SENDMSG, [6]uintptr{wild, 0, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"sendmsg OOB", unix.SYS_SENDMSG, [6]uintptr{wild, 0, unix.MSG_OOB}, refused},
	{"recvmsg", unix.SYS_RECVMSG, [6]uintptr{wild, 0, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"recvmsg OOB", unix.SYS_RECVMSG, [6]uintptr{wild, 0, unix.MSG_OOB}, refused},
	{"sendmmsg", unix.SYS_SENDMMSG, [6]uintptr{wild, 0, 1, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"sendmmsg OOB", unix.SYS_SENDMMSG, [6]uintptr{wild, 0, 1, unix.MSG_OOB}, refused},
	{"recvmmsg", unix.SYS_RECVMMSG, [6]uintptr{wild, 0, 1, unix.MSG_DONTWAIT}, syscall.EBADF},
	{"recvmmsg OOB", unix.SYS_RECVMMSG, [6]uintptr{wild, 0, 1, unix.MSG_OOB}, refused},
	{"sendfile", unix.SYS_SENDFILE, [6]uintptr{wild, wild, 0, 1}, refused},
	{"preadv2", unix.SYS_PREADV2, [6]uintptr{wild, 0, 0, 0, 0, 0}, syscall.EBADF},
	{"preadv2 HIPRI", unix.SYS_PREADV2, [6]uintptr{wild, 0, 0, 0, 0, unix.RWF_HIPRI}, refused},
	{"pwritev2", unix.SYS_PWRITEV2, [6]uintptr{wild, 0, 0, 0, 0, 0}, syscall.EBADF},
	{"pwritev2 SYNC", unix.SYS_PWRITEV2, [6]uintptr{wild, 0, 0, 0, 0, unix.RWF_SYNC}, refused},
	{"flock", unix.SYS_FLOCK, [6]uintptr{wild, unix.LOCK_EX}, done},
	{"fsync", unix.SYS_FSYNC, [6]uintptr{wild}, done},
	{"fdatasync", unix.SYS_FDATASYNC, [6]uintptr{wild}, done},
	{"sync_file_range", unix.SYS_SYNC_FILE_RANGE, [6]uintptr{wild, 0, 1, 2}, done},
	{"mmap of a file", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, unix.MAP_SHARED, wild, 0}, syscall.EBADF},
	{"mmap private", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, unix.MAP_PRIVATE | unix.MAP_ANON, wild, 0}, unfiltered},
	{"mmap HUGETLB", unix.SYS_MMAP, [6]uintptr{1, 0, 0, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB, wild, 0}, refused},
	{"getpid", unix.SYS_GETPID, [6]uintptr{}, unfiltered},
}

// watchedCalls contains the calls that are made under the filter for sandboxes without cgroups.
var watchedCalls = []call{
	{"mmap shared", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, unix.MAP_SHARED | unix.MAP_ANON, wild, 0}, refused},
	{"mmap shared, high bits", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, 1<<40 | unix.MAP_SHARED | unix.MAP_ANON, wild, 0}, refused},
	{"mmap private", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, unix.MAP_PRIVATE | unix.MAP_ANON, wild, 0}, unfiltered},
	{"mmap of a file", unix.SYS_MMAP, [6]uintptr{0, 4096, 0, unix.MAP_SHARED, wild, 0}, syscall.EBADF},
	{"mmap HUGETLB", unix.SYS_MMAP, [6]uintptr{1, 0, 0, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB, wild, 0}, refused},
	{"setsockopt SNDBUF", unix.SYS_SETSOCKOPT, [6]uintptr{wild, unix.SOL_SOCKET, unix.SO_SNDBUF}, done},
	{"setsockopt RCVBUF", unix.SYS_SETSOCKOPT, [6]uintptr{wild, unix.SOL_SOCKET, unix.SO_RCVBUF}, syscall.EBADF},
}

func (c call) make() syscall.Errno {
	a := c.args
	_, _, errno := syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

type answer struct {
	Without syscall.Errno `json:"without"`
	With    syscall.Errno `json:"with"`
}

// install applies the filter to the calling thread.
func install(watched bool) error {
	filter, err := Filter(watched)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0)
}

func callsFor(watched bool) []call {
	if watched {
		return watchedCalls
	}
	return calls
}

func makeCalls() {
	watched := os.Getenv(envCalls) == "watched"
	calls := callsFor(watched)
	answers := make([]answer, len(calls))
	for i, c := range calls {
		answers[i].Without = c.make()
	}
	if err := install(watched); err != nil {
		panic(err)
	}
	for i, c := range calls {
		answers[i].With = c.make()
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func TestTheKernelAnswersAsTheListSays(t *testing.T) {
	t.Parallel()
	for name, watched := range map[string]bool{"counted": false, "watched": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), envCalls+"="+name)
			cmd.Stderr = os.Stderr
			said, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var answers []answer
			if err := json.Unmarshal(said, &answers); err != nil || len(answers) != len(callsFor(watched)) {
				t.Fatalf("%d answers, %v", len(answers), err)
			}
			for i, c := range callsFor(watched) {
				c.verify(t, answers[i])
			}
		})
	}
}

func (c call) verify(t *testing.T, got answer) {
	t.Helper()
	switch {
	case c.want == unfiltered:
		if got.With != got.Without {
			t.Errorf("%s: %v, without the filter %v", c.name, got.With, got.Without)
		}
	case got.With != c.want:
		t.Errorf("%s: %v instead of %v", c.name, got.With, c.want)
	case c.want == done && got.Without == done, c.want == refused && got.Without == refused && os.Geteuid() == 0:
		t.Errorf("%s: is answered so without the filter too, which proves nothing", c.name)
	}
}

func makeCall() {
	number, err := strconv.ParseUint(os.Getenv(envCall), 0, 64)
	if err == nil {
		err = install(false)
	}
	if err != nil {
		panic(err)
	}
	_, _, errno := syscall.RawSyscall(uintptr(number), 0, 0, 0)
	panic(errno)
}

func TestX32CallsEndTheProcess(t *testing.T) {
	t.Parallel()
	if foreignBit == 0 {
		t.Skip("this architecture has no second ABI of the same kind")
	}
	for _, number := range []uint64{uint64(foreignBit), uint64(foreignBit) | unix.SYS_GETPID, uint64(foreignBit) | 512} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envCall+"="+strconv.FormatUint(number, 10))
		said, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, said)
		}
		status, is := exit.Sys().(syscall.WaitStatus)
		if !is || status.Signal() != syscall.SIGSYS {
			t.Errorf("%#x: %v: %s", number, err, said)
		}
	}
}
