package seccomp

import "golang.org/x/sys/unix"

const auditArch uint32 = unix.AUDIT_ARCH_AARCH64

// foreignBit marks system calls of another ABI. There is none on this architecture.
const foreignBit uint32 = 0

var olderNumbers map[string]uint32
