package seccomp

import "golang.org/x/sys/unix"

const auditArch uint32 = unix.AUDIT_ARCH_AARCH64

// foreignBit would mark system calls of another ABI. This architecture has only one.
const foreignBit uint32 = 0

var olderNumbers map[string]uint32
