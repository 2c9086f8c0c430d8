//go:build linux

package sandboxtest

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	ownDevices = "the device belongs to the sandbox's own kernel, which implements it"
	ownInodes  = "locks and syncs belong to the sandbox's own kernel, whose inodes are private"
)

// deniedOnHost returns attempts to reach the host. The filter of system calls cannot prevent these
// attempts.
func deniedOnHost(t *testing.T, h *host) []attempt {
	t.Helper()
	return slices.Concat(h.deniedFiles(t), deniedWrites(h), h.deniedProcesses(), deniedPrivileges(t), h.deniedNetwork())
}

func (h *host) deniedFiles(t *testing.T) []attempt {
	t.Helper()
	var attempts []attempt
	for _, file := range h.files {
		attempts = append(attempts, attempt{name: "files/read " + short(file, h), probe: "read", args: []any{file, h.canary}})
	}
	file := h.files[0]
	attempts = append(
		attempts,
		attempt{name: "files/by many parents", probe: "upwards", args: []any{file, h.canary}},
		attempt{name: "files/by a link", probe: "by_link", args: []any{file, h.canary}},
		attempt{name: "files/through a descriptor left open", probe: "by_descriptor", args: []any{file, h.canary}, inline: true},
		attempt{name: "files/by a handle", probe: "by_handle", args: []any{file, h.canary}, needs: optional},
		attempt{name: "files/anywhere", probe: "search", args: []any{[]string{"/"}, h.canary}, control: []any{h.folders, h.canary}},
		attempt{name: "files/shadow", probe: "read", args: []any{"/etc/shadow", ""}, needs: privileges},
		attempt{name: "files/of root", probe: "listing", args: []any{"/root"}, needs: privileges},
		attempt{name: "files/the resolver's", probe: "read", args: []any{"/etc/resolv.conf", ""}, needs: optional},
		attempt{name: "files/descriptors left open", probe: "descriptors", args: []any{[]int{0, 1, 2}}, inline: true},
	)
	for _, folder := range []string{"/var", "/home", "/opt", "/srv", "/boot", "/mnt", "/media", "/run", "/sys/fs/cgroup", "/dev/pts"} {
		needs := optional
		if folder == "/var" {
			needs = nothingNeeded
		}
		a := attempt{name: "files/listing of " + folder, probe: "listing", args: []any{folder}, needs: needs}
		if strings.HasPrefix(folder, "/dev/") {
			a.ownKernel = ownDevices
		}
		attempts = append(attempts, a)
	}

	devices := []string{"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr"}
	attempts = append(attempts, attempt{name: "files/devices", probe: "beyond", args: []any{"/dev", devices}, ownKernel: ownDevices})
	for name, content := range hostFiles(t) {
		sum := sha256.Sum256(content)
		attempts = append(attempts, attempt{name: "files/" + name, probe: "same", args: []any{name, hex.EncodeToString(sum[:])}})
	}
	return attempts
}

// short returns a path with its random part replaced, for use in a test's name.
func short(path string, h *host) string { return strings.ReplaceAll(path, h.canary, "canary") }

// hostFiles returns files of this host. A sandbox may contain files with the same names, but not
// with the same contents.
func hostFiles(t *testing.T) map[string][]byte {
	t.Helper()
	inline, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding the folder of the tests: %v", err)
	}
	sources, _ := filepath.Glob(filepath.Join(inline, "*.go"))
	found := map[string][]byte{}
	for _, name := range append(sources[:1], "/etc/passwd", "/etc/group") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("reading a file of this host: %v", err)
		}
		found[name] = content
	}
	return found
}

// deniedWrites returns attempts to write data that would outlive the sandbox.
func deniedWrites(h *host) []attempt {
	// Programs may write to /work, /tmp and /dev/shm.
	own := []string{"/work", "/tmp", "/dev/shm", "/proc", "/sys"}
	attempts := []attempt{
		{name: "writes/anywhere", probe: "writable", args: []any{[]string{"/"}, own}, control: []any{h.folders, []string{}}},
		{name: "writes/memory of the kernel", probe: "writes", args: []any{"/dev/mem"}, needs: optional},
		{name: "writes/block device", probe: "device", args: []any{"block", 254, 0}, needs: privileges},
		{name: "writes/character device", probe: "device", args: []any{"character", 1, 3}, needs: privileges},
		{name: "writes/userfaultfd device", probe: "writes", args: []any{"/dev/userfaultfd"}, needs: optional},
		{name: "writes/fuse", probe: "writes", args: []any{"/dev/fuse"}, needs: optional, ownKernel: ownDevices},
	}

	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger",
		"/proc/self/oom_score_adj", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs",
	} {
		attempts = append(attempts, attempt{name: "writes" + path, probe: "writes", args: []any{path}, needs: optional})
	}
	for i := range attempts {
		if attempts[i].args[0] == "/proc/self/oom_score_adj" {
			attempts[i].needs = nothingNeeded
		}
	}
	return attempts
}

func (h *host) deniedProcesses() []attempt {
	attempts := []attempt{
		{name: "processes/environment", probe: "environ", args: []any{h.pids, h.canary}},
		{name: "processes/root folders, working folders and descriptors", probe: "through", args: []any{h.pids, h.files[0], h.canary}},
		{name: "processes/memory", probe: "memory", args: []any{h.pids, h.canary}, needs: privileges},
		{name: "processes/listing", probe: "listed", args: []any{h.pids}},
		{name: "processes/signals", probe: "reach", args: []any{h.pids}},
		{name: "processes/shared memory", probe: "shared_memory", args: []any{h.shm}},
		{name: "processes/message queue", probe: "queue", args: []any{h.queue}, needs: optional},
		{name: "processes/variables from this environment", probe: "variables", args: []any{variables()}},
	}
	return attempts
}

// variables returns hashes of this process's environment variables. It omits variables that reveal
// nothing about the host.
func variables() map[string]string {
	found := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if len(value) < 4 || name == "PATH" || name == "LANG" || name == "TZ" || strings.HasPrefix(name, "LC_") {
			continue
		}
		sum := sha256.Sum256([]byte(value))
		found[name] = hex.EncodeToString(sum[:])
	}
	return found
}

// deniedPrivileges returns attempts to gain privileges.
func deniedPrivileges(t *testing.T) []attempt {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatalf("finding the host's name: %v", err)
	}
	// Core files, processor time, address space, processes, open files and file size are limited. A
	// program must not be able to raise these limits.
	limits := []int{unix.RLIMIT_CORE, unix.RLIMIT_CPU, unix.RLIMIT_AS, unix.RLIMIT_NPROC, unix.RLIMIT_NOFILE, unix.RLIMIT_FSIZE}

	root := func(name string, args ...any) attempt {
		return attempt{name: "privileges/" + name, probe: "becomes", args: slices.Concat([]any{name}, args), needs: privileges}
	}
	return []attempt{
		root("setresuid", 0, 0, 0),
		root("setresgid", 0, 0, 0),
		root("setgroups", 0, 0),
		{name: "privileges/no_new_privs", probe: "may_gain"},
		{name: "privileges/capabilities", probe: "capabilities"},
		{name: "privileges/raising limits", probe: "unlimited", args: []any{limits}},
		{
			name: "privileges/limits raised", probe: "raised", args: []any{limits, 0}, needs: optional,
			control: []any{[]int{unix.RLIMIT_NPROC}, 512},
		},
		{name: "privileges/name of the host", probe: "named", args: []any{name}},
	}
}

// deniedNetwork returns attempts to connect to servers on this host, and to look up names.
func (h *host) deniedNetwork() []attempt {
	var attempts []attempt
	for _, address := range h.unix {
		attempts = append(attempts, attempt{
			name: "network/unix " + short(address, h), probe: "connects", args: []any{"AF_UNIX", address, h.canary},
		})
	}
	for i, address := range h.tcp {
		family, target := "AF_INET", "another address"
		switch {
		case address.IP.To4() == nil:
			family, target = "AF_INET6", "loopback"
		case address.IP.IsLoopback():
			target = "loopback"
		}
		name, datagram := family+" "+target, h.udp[i]
		attempts = append(
			attempts,
			attempt{name: "network/tcp " + name, probe: "connects", args: []any{family, where(address.IP, address.Port), h.canary}},
			attempt{name: "network/udp " + name, probe: "sends", args: []any{family, where(datagram.IP, datagram.Port), h.canary}},
		)
	}
	outside := []string{"example.com", "metadata.google.internal", "one.one.one.one"}
	return append(
		attempts,
		attempt{name: "network/sockets in files", probe: "sockets", args: []any{[]string{"/"}}, control: []any{h.folders}},
		attempt{name: "network/names", probe: "resolves", args: []any{outside}, control: []any{[]string{"localhost"}}},
	)
}

func where(ip net.IP, port int) []any { return []any{ip.String(), port} }
