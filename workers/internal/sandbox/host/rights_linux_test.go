package host

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDescriptorsAreSealed(t *testing.T) { //nolint:paralleltest // another test may seal this one's descriptors
	for name, seal := range map[string]func() error{"at once": SealDescriptors, "one by one": sealEach} {
		fd, err := syscall.Open("/etc", syscall.O_RDONLY, 0) // without CLOEXEC, like a careless library
		if err != nil {
			t.Fatal(err)
		}
		if err := seal(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: descriptor %d has flags %d, %v", name, fd, flags, err)
		}
		for n := range firstSealed {
			if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC != 0 {
				t.Errorf("%s: descriptor %d is not handed on", name, n)
			}
		}
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

// TestRightsAreThoseOfTheKernel compares the reported rights with those in /proc/self/status.
func TestRightsAreThoseOfTheKernel(t *testing.T) {
	t.Parallel()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	has := func(capabilities ...int) bool {
		for _, c := range capabilities {
			if effective&(1<<c) == 0 {
				return false
			}
		}
		return os.Geteuid() == 0
	}
	said := fmt.Sprintf("as user %d with %d capabilities", os.Geteuid(), bits.OnesCount64(effective))
	if got := MayNamespace(); got != has(unix.CAP_SYS_ADMIN) {
		t.Errorf("%s: %t of namespaces", said, got)
	}
	if got := MayChangeUser(); got != has(unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID) {
		t.Errorf("%s: %t of users", said, got)
	}
}
