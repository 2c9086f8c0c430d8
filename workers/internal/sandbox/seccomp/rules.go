package seccomp

import (
	"slices"
	"strings"
)

// Rule allows a system call when all its conditions hold. Several rules of one name allow it when one of them does.
type Rule struct {
	Name       string
	Number     uint32
	Conditions []Condition
	Errno      uint32 // not 0: the call is refused with this instead of EPERM
	Pretend    bool   // the call is not made, and answers 0 as if it had been
}

// Condition holds when the argument, under the mask, is the value.
type Condition struct {
	Arg   uint32 // 0 to 5
	Mask  uint64
	Value uint64
}

const (
	errnoEPERM  = 1
	errnoENOSYS = 38

	low32 = 0xffffffff // what the kernel reads of an int
)

// Rules are the rules of this machine's architecture; none where there is no list of its numbers. In a sandbox that is watched,
// whose memory is what its processes are seen to have (without cgroups), they also refuse memory that is then seen nowhere.
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
	more := whenCounted
	if watched {
		more = whenWatched
	}
	for _, l := range slices.Concat(listed, more) {
		for _, value := range l.values {
			conditions := append([]Condition{{l.arg, l.mask, value}}, l.also...)
			rules = appendRule(rules, Rule{Name: l.name, Conditions: conditions, Pretend: l.pretend})
		}
	}
	// The C library falls back to clone, whose flags a filter can read; those of clone3 lie in memory.
	return appendRule(rules, Rule{Name: "clone3", Errno: errnoENOSYS})
}

func appendRule(rules []Rule, r Rule) []Rule {
	number, here := numbers[r.Name]
	if !here { // a call of older architectures
		return rules
	}
	r.Number = number
	return append(rules, r)
}

// What is allowed with any arguments. Not among them, though they look harmless, are
//   - memfd_create, shmget, msgget, semget, mq_open: memory that belongs to no process and lies in no folder, so that it is
//     counted nowhere without cgroups;
//   - inotify: it tells who uses the host's files below /usr;
//   - sync, syncfs, posix_fadvise: they work on the host's disks and page cache;
//   - sendfile: what uses it can do without;
//   - seccomp, bpf, splice, vmsplice, io_submit, keyctl: much kernel for little use.
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

	// Locks and syncs work on the host's inodes, also on those that can only be read: a lock is seen by other sandboxes and by
	// the host, a sync waits for its disks. A sandbox's own files are in memory and gone with it.
	pretended = `flock fsync fdatasync sync_file_range`
)
