package seccomp

import "golang.org/x/sys/unix"

// auditArch identifies this architecture in the filter's input.
const auditArch uint32 = unix.AUDIT_ARCH_X86_64

// foreignBit is set in the numbers of calls through the x32 ABI, whose arguments have another
// layout.
const foreignBit uint32 = 0x40000000

// olderNumbers contains calls that newer architectures do not have.
var olderNumbers = map[string]uint32{
	"open":         unix.SYS_OPEN,
	"creat":        unix.SYS_CREAT,
	"dup2":         unix.SYS_DUP2,
	"pipe":         unix.SYS_PIPE,
	"stat":         unix.SYS_STAT,
	"lstat":        unix.SYS_LSTAT,
	"access":       unix.SYS_ACCESS,
	"readlink":     unix.SYS_READLINK,
	"getdents":     unix.SYS_GETDENTS,
	"mkdir":        unix.SYS_MKDIR,
	"rmdir":        unix.SYS_RMDIR,
	"unlink":       unix.SYS_UNLINK,
	"rename":       unix.SYS_RENAME,
	"link":         unix.SYS_LINK,
	"symlink":      unix.SYS_SYMLINK,
	"mknod":        unix.SYS_MKNOD,
	"chmod":        unix.SYS_CHMOD,
	"chown":        unix.SYS_CHOWN,
	"lchown":       unix.SYS_LCHOWN,
	"utime":        unix.SYS_UTIME,
	"utimes":       unix.SYS_UTIMES,
	"futimesat":    unix.SYS_FUTIMESAT,
	"pause":        unix.SYS_PAUSE,
	"alarm":        unix.SYS_ALARM,
	"signalfd":     unix.SYS_SIGNALFD,
	"eventfd":      unix.SYS_EVENTFD,
	"fork":         unix.SYS_FORK,
	"vfork":        unix.SYS_VFORK,
	"getpgrp":      unix.SYS_GETPGRP,
	"time":         unix.SYS_TIME,
	"epoll_create": unix.SYS_EPOLL_CREATE,
	"epoll_wait":   unix.SYS_EPOLL_WAIT,
	"poll":         unix.SYS_POLL,
	"select":       unix.SYS_SELECT,
	"arch_prctl":   unix.SYS_ARCH_PRCTL,
}
