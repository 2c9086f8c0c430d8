//go:build !linux || (!amd64 && !arm64)

package seccomp

// There are no rules for this platform, so sandboxes cannot be opened.
const (
	auditArch  uint32 = 0
	foreignBit uint32 = 0
)

var numbers map[string]uint32
