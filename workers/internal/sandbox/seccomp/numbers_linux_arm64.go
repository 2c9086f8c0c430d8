package seccomp

import "golang.org/x/sys/unix"

// auditArch identifies this architecture in the filter's input.
const auditArch uint32 = unix.AUDIT_ARCH_AARCH64

// foreignBit is 0, because this architecture has only one ABI.
const foreignBit uint32 = 0

// olderNumbers is empty, because arm64 has only the common calls.
var olderNumbers map[string]uint32
