package seccomp

// argRule allows a system call if an argument, after masking, equals one of the values and all
// further conditions are true. The function Rules expands an argRule to one Rule for each value.
type argRule struct {
	name   string
	arg    uint32
	mask   uint64
	values []uint64
	also   []Condition

	// pretend makes an allowed call return 0 without being executed.
	pretend bool
}

const (
	// fileType is the mask of the file type in a file's mode.
	fileType = 0o170000
	regular  = 0o100000
	fifo     = 0o010000

	afUnix    = 1
	solSocket = 1
	sndbuf    = 7
	oob       = 1 // MSG_OOB

	mapType      = 0xf
	mapPrivate   = 0x2
	mapAnonymous = 0x20
	mapHuge      = 0x40000

	// These flags of clone are forbidden: the flags that create a namespace (NEWNS, NEWCGROUP,
	// NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET), and CLONE_PTRACE.
	namespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00002000
)

// argRules lists the calls that are allowed with certain arguments only, in every sandbox. arg is
// the index of the argument, from 0.
var argRules = []argRule{
	{name: "clone", arg: 0, mask: namespaces, values: []uint64{0}},
	{name: "socket", arg: 0, mask: low32, values: []uint64{afUnix}},
	{name: "socketpair", arg: 0, mask: low32, values: []uint64{afUnix}},
	// Allowed socket options: REUSEADDR, RCVBUF, KEEPALIVE, LINGER, REUSEPORT, PASSCRED, RCVTIMEO,
	// SNDTIMEO (both widths). Socket filters are not allowed.
	{
		name: "setsockopt", arg: 2, mask: low32, values: []uint64{2, 8, 9, 13, 15, 16, 20, 21, 66, 67},
		also: []Condition{{1, low32, solSocket}},
	},
	// Allowed requests: FIOCLEX, FIONCLEX, FIONBIO, FIONREAD, and those for isatty and the terminal
	// size.
	{name: "ioctl", arg: 1, mask: low32, values: []uint64{0x5451, 0x5450, 0x5421, 0x541b, 0x5401, 0x5413}},
	// Allowed commands: DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETLK, SETLKW, OFD locks,
	// DUPFD_CLOEXEC, GETPIPE_SZ, GET_SEALS. SETLEASE and NOTIFY are not allowed, because they
	// affect the host's files. SETPIPE_SZ is not allowed, because it uses kernel memory.
	{name: "fcntl", arg: 1, mask: low32, values: []uint64{0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034}},
	// Allowed options: PDEATHSIG, DUMPABLE, NAME, TIMERSLACK, CHILD_SUBREAPER, NO_NEW_PRIVS,
	// THP_DISABLE (set and get), GET_SECCOMP, CAPBSET_READ, and SET_VMA, which names memory.
	{
		name: "prctl", arg: 0, mask: low32,
		values: []uint64{1, 2, 3, 4, 15, 16, 21, 23, 29, 30, 36, 37, 38, 39, 41, 42, 0x53564d41},
	},
	// All advice about the process's own memory is allowed, except MERGEABLE, which shares pages
	// with other processes, and HWPOISON, which makes pages unusable.
	{
		name: "madvise", arg: 2, mask: low32,
		values: []uint64{0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25},
	},
	{name: "personality", arg: 0, mask: low32, values: []uint64{0, 0xffffffff}},
	// A process may only change its own limits. It must not lower the limits of another process,
	// for example of bwrap.
	{name: "prlimit64", arg: 0, mask: low32, values: []uint64{0}},
	{name: "mknod", arg: 1, mask: fileType, values: []uint64{0, regular, fifo}},
	{name: "mknodat", arg: 2, mask: fileType, values: []uint64{0, regular, fifo}},
	// SET_FS and GET_FS are allowed. They set and return the address of thread-local variables.
	{name: "arch_prctl", arg: 0, mask: low32, values: []uint64{0x1002, 0x1003}},
	// Only calls without flags are allowed, because the flags affect the host's disks or are rarely
	// used.
	{name: "preadv2", arg: 5, mask: low32, values: []uint64{0}},
	{name: "pwritev2", arg: 5, mask: low32, values: []uint64{0}},
	// All flags except OOB are allowed. The kernel's code for out-of-band data of Unix sockets is
	// recent, and hardly any program uses it.
	{name: "sendto", arg: 3, mask: oob, values: []uint64{0}},
	{name: "recvfrom", arg: 3, mask: oob, values: []uint64{0}},
	{name: "sendmsg", arg: 2, mask: oob, values: []uint64{0}},
	{name: "recvmsg", arg: 2, mask: oob, values: []uint64{0}},
	{name: "sendmmsg", arg: 3, mask: oob, values: []uint64{0}},
	{name: "recvmmsg", arg: 3, mask: oob, values: []uint64{0}},
}

// countedRules are additional rules for sandboxes whose memory is counted by cgroups. They forbid
// huge pages, which cgroups do not count as memory.
var countedRules = []argRule{
	{name: "mmap", arg: 3, mask: mapHuge, values: []uint64{0}},
	{name: "setsockopt", arg: 2, mask: low32, values: []uint64{sndbuf}, also: []Condition{{1, low32, solSocket}}},
}

// watchedRules are additional rules for sandboxes whose memory is measured as the memory that
// processes have mapped and touched. Shared anonymous memory can exist without being mapped or
// touched, so it would not be counted. Memory must therefore be private, or be in a file in a
// folder of limited size. The memory of socket buffers is not visible, so programs may not increase
// the size of these buffers.
var watchedRules = []argRule{
	{name: "mmap", arg: 3, mask: mapHuge | mapAnonymous, values: []uint64{0}},
	{name: "mmap", arg: 3, mask: mapHuge | mapType, values: []uint64{mapPrivate}},
	{name: "setsockopt", arg: 2, mask: low32, values: []uint64{sndbuf}, also: []Condition{{1, low32, solSocket}}, pretend: true},
}
