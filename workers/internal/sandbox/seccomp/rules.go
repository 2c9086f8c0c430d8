package seccomp

import (
	"slices"
	"strings"
)

// Rule allows a system call if all conditions are true. If a call has several rules, one matching
// rule is enough. A call without a matching rule fails with EPERM.
type Rule struct {
	Name string
	// Number is the number of the call on this machine's architecture.
	Number     uint32
	Conditions []Condition
	Errno      uint32 // if not 0, the call fails with this error instead of EPERM
	Pretend    bool   // if true, the call returns 0 without being executed
}

// Condition is true if the argument with the index Arg, after masking, equals Value.
type Condition struct {
	Arg   uint32 // 0 to 5
	Mask  uint64
	Value uint64
}

const (
	errnoEPERM  = 1
	errnoENOSYS = 38

	low32 = 0xffffffff // mask of the bits that the kernel reads of an argument of type int
)

// Rules returns the rules for this machine's architecture, or an empty list if the architecture is
// not supported. watched means that memory is measured per process, without cgroups. In that case,
// the rules also forbid kinds of memory that the measurements would miss.
func Rules(watched bool) []Rule {
	var rules []Rule
	for _, names := range [][]string{
		strings.Fields(files), strings.Fields(memory), strings.Fields(signals),
		strings.Fields(processes), strings.Fields(clocks), strings.Fields(waiting), strings.Fields(sockets),
	} {
		for _, name := range names {
			rules = appendRule(rules, Rule{Name: name})
		}
	}

	for name := range strings.FieldsSeq(pretended) {
		rules = appendRule(rules, Rule{Name: name, Pretend: true})
	}

	more := countedRules
	if watched {
		more = watchedRules
	}

	// Each value of an argument becomes a rule of its own, because one matching rule is enough.
	for _, l := range slices.Concat(argRules, more) {
		for _, value := range l.values {
			conditions := append([]Condition{{l.arg, l.mask, value}}, l.also...)
			rules = appendRule(rules, Rule{Name: l.name, Conditions: conditions, Pretend: l.pretend})
		}
	}
	// If clone3 fails with ENOSYS, the C library uses clone instead. A filter can read the flags of
	// clone, but not those of clone3, which are in memory.
	return appendRule(rules, Rule{Name: "clone3", Errno: errnoENOSYS})
}

// appendRule appends a rule and sets its number. It omits a rule for a call that this architecture
// does not have.
func appendRule(rules []Rule, r Rule) []Rule {
	number, here := numbers[r.Name]
	if !here { // this architecture does not have the call
		return rules
	}
	r.Number = number
	return append(rules, r)
}

// The calls in these lists are allowed with any arguments. Some calls look harmless but are not in
// the lists:
//   - memfd_create, shmget, msgget, semget, mq_open: their memory belongs to no process and no
//     folder, so without cgroups it is not counted
//   - inotify: it reveals which of the host's files below /usr are used
//   - sync, syncfs, posix_fadvise: they affect the host's disks and page cache
//   - sendfile: programs have a fallback
//   - seccomp, bpf, splice, vmsplice, io_submit, keyctl: much kernel code for little use
const (
	files = `read write readv writev pread64 pwrite64 preadv pwritev open openat openat2 creat close close_range
		lseek dup dup2 dup3 pipe pipe2 truncate ftruncate fallocate readahead copy_file_range
		stat fstat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents getdents64
		getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
		chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat umask utime utimes futimesat utimensat statfs fstatfs
		getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr`

	memory = `mprotect munmap mremap brk msync`

	signals = `rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo
		rt_sigsuspend sigaltstack kill tkill tgkill pause alarm getitimer setitimer signalfd signalfd4 restart_syscall
		pidfd_open pidfd_send_signal`

	processes = `fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid
		setsid getuid geteuid getgid getegid getresuid getresgid getgroups getpriority setpriority sched_yield
		sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max
		sched_get_priority_min sched_rr_get_interval getrlimit setrlimit getrusage times sysinfo uname getcpu getrandom
		set_tid_address set_robust_list rseq`

	clocks = `time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep timer_create timer_settime timer_gettime
		timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime`

	waiting = `futex futex_waitv futex_wake futex_wait futex_requeue eventfd eventfd2 epoll_create epoll_create1 epoll_ctl
		epoll_wait epoll_pwait epoll_pwait2 poll ppoll select pselect6`

	sockets = `bind connect listen accept accept4 getsockname getpeername shutdown getsockopt`

	// Locks and syncs affect the host even if its files are read-only: other processes notice a
	// lock, and a sync waits for the host's disks. A sandbox's own files are in memory and are
	// deleted with it. So these calls return success without any effect.
	pretended = `flock fsync fdatasync sync_file_range`
)
