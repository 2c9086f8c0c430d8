package seccomp

import "golang.org/x/sys/unix"

// auditArch is the architecture of a call in the filter's input.
const auditArch uint32 = unix.AUDIT_ARCH_AARCH64

// foreignBit would mark system calls of another ABI. This architecture has only one.
const foreignBit uint32 = 0

// olderNumbers is empty, because arm64 has only the common calls.
var olderNumbers map[string]uint32
