package seccomp

// list allows a system call when an argument is one of the values, under the mask, and the other conditions hold as well.
type list struct {
	name   string
	arg    uint32
	mask   uint64
	values []uint64
	also   []Condition
}

const (
	// fileType is the part of a mode that says what a node is.
	fileType = 0o170000
	regular  = 0o100000
	fifo     = 0o010000

	afUnix    = 1
	solSocket = 1

	// namespaces are the flags of clone that make one (NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET), and
	// CLONE_PTRACE.
	namespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00002000
)

var listed = []list{
	{name: "clone", arg: 0, mask: namespaces, values: []uint64{0}},
	{name: "socket", arg: 0, mask: low32, values: []uint64{afUnix}},
	{name: "socketpair", arg: 0, mask: low32, values: []uint64{afUnix}},
	// REUSEADDR, SNDBUF, RCVBUF, KEEPALIVE, LINGER, REUSEPORT, PASSCRED, RCVTIMEO, SNDTIMEO (both widths); never a filter.
	{
		name: "setsockopt", arg: 2, mask: low32, values: []uint64{2, 7, 8, 9, 13, 15, 16, 20, 21, 66, 67},
		also: []Condition{{1, low32, solSocket}},
	},
	// FIOCLEX, FIONCLEX, FIONBIO, FIONREAD, and what isatty and the size of a terminal are asked with.
	{name: "ioctl", arg: 1, mask: low32, values: []uint64{0x5451, 0x5450, 0x5421, 0x541b, 0x5401, 0x5413}},
	// DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETLK, SETLKW, OFD locks, DUPFD_CLOEXEC, GETPIPE_SZ, GET_SEALS. Not SETLEASE
	// and NOTIFY, which are about the host's files, nor SETPIPE_SZ, whose memory is the kernel's.
	{name: "fcntl", arg: 1, mask: low32, values: []uint64{0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034}},
	// PDEATHSIG, DUMPABLE, NAME, TIMERSLACK, CHILD_SUBREAPER, NO_NEW_PRIVS, THP_DISABLE (set and get), GET_SECCOMP,
	// CAPBSET_READ, SET_VMA, which names memory.
	{
		name: "prctl", arg: 0, mask: low32,
		values: []uint64{1, 2, 3, 4, 15, 16, 21, 23, 29, 30, 36, 37, 38, 39, 41, 42, 0x53564d41},
	},
	// All of one's own memory, but not the hints that share pages with neighbours or break them: MERGEABLE, HWPOISON.
	{
		name: "madvise", arg: 2, mask: low32,
		values: []uint64{0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25},
	},
	{name: "personality", arg: 0, mask: low32, values: []uint64{0, 0xffffffff}},
	// Its own limits alone: another process's, such as its keeper's, it may not lower.
	{name: "prlimit64", arg: 0, mask: low32, values: []uint64{0}},
	{name: "mknod", arg: 1, mask: fileType, values: []uint64{0, regular, fifo}},
	{name: "mknodat", arg: 2, mask: fileType, values: []uint64{0, regular, fifo}},
	// SET_FS and GET_FS: where a thread's own variables are.
	{name: "arch_prctl", arg: 0, mask: low32, values: []uint64{0x1002, 0x1003}},
}
