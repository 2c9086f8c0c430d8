package seccomp

import "golang.org/x/sys/unix"

const auditArch uint32 = unix.AUDIT_ARCH_AARCH64

// foreignBit marks the system calls of another ABI: there is none here.
const foreignBit uint32 = 0

var older map[string]uint32
