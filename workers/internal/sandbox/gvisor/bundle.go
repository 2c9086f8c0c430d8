package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/host"
)

const (
	rootDir  = "root"  // folder in a bundle that becomes the sandbox's root; other folders are mounted into the root
	stateDir = "state" // folder in a bundle for runsc's state

	openFiles = 1024
	// spareProcesses is added to the limit on processes, for the processes that prepare and watch
	// the program.
	spareProcesses = 8
	// oomScore makes the kernel kill sandboxes before other processes when memory is short.
	oomScore = 1000
)

// writeBundle creates the folder (an OCI bundle) from which runsc starts a sandbox: the root with
// its mount points and files, and the file config.json. Only the worker's user has access to the
// folder. writeBundle fails if the command or the path of a file is invalid.
func (b *Backend) writeBundle(dir string, c sandbox.Command) error {
	if len(c.Args) == 0 || !path.IsAbs(c.Args[0]) {
		return fmt.Errorf("a sandbox's command must begin with an absolute path, not %q", c.Args)
	}

	root := filepath.Join(dir, rootDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("creating a sandbox's folder: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, stateDir), 0o700); err != nil {
		return fmt.Errorf("creating a sandbox's folder: %w", err)
	}

	// gVisor requires each mount point to exist as a folder or file in the sandbox's root.
	mounts, err := b.show(root)
	if err != nil {
		return err
	}

	for _, d := range slices.Concat(hostFiles(), host.GeneratedFiles, c.Data, placeholders(c.Shown)) {
		if err := put(root, d, mounts); err != nil {
			return err
		}
	}

	// Memory mounts come after the host's folders, so that the memory mounts hide anything at the
	// same path.
	mounts = append(mounts, memoryMounts(c.Limits)...)
	for _, m := range mounts {
		if err := makeFolder(root, m.Destination); err != nil {
			return err
		}
	}
	for _, file := range c.Shown {
		options := []string{"bind", "ro", "nosuid", "nodev"}
		mounts = append(mounts, specs.Mount{Destination: file.Path, Type: "bind", Source: file.Host, Options: options})
	}

	text, err := json.Marshal(b.config(c, mounts))
	if err != nil {
		return fmt.Errorf("writing a sandbox's configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing a sandbox's configuration: %w", err)
	}
	return nil
}

// show adds the host folders that sandboxes contain, and returns their mounts. A symbolic link
// becomes the same link in the sandbox. Folders that do not exist on the host are omitted.
func (b *Backend) show(root string) (mounts []specs.Mount, err error) {
	for _, name := range slices.Concat(host.OuterLinks, host.Folders(b.python)) {
		// Lstat does not follow links, so a link on the host stays a link in the sandbox.
		is, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading the host folders that sandboxes contain: %w", err)
		case is.IsDir():
			mounts = append(mounts, specs.Mount{Destination: name, Type: "bind", Source: name, Options: []string{"rbind", "ro", "nosuid", "nodev"}})
			continue
		case is.Mode().Type() != fs.ModeSymlink:
			continue
		}
		target, err := os.Readlink(name)
		if err == nil {
			err = makeFolder(root, path.Dir(name))
		}
		if err == nil {
			err = os.Symlink(target, filepath.Join(root, name))
		}
		if err != nil {
			return nil, fmt.Errorf("creating a link in a sandbox: %w", err)
		}
	}
	return mounts, nil
}

// hostFiles reads the host files that are copied into sandboxes. Unreadable files are omitted.
func hostFiles() (list []sandbox.Data) {
	for _, name := range host.Files {
		if content, err := os.ReadFile(name); err == nil {
			list = append(list, sandbox.Data{Path: name, Content: content})
		}
	}
	return list
}

// placeholders returns the empty files that serve as mount points for host files.
func placeholders(shown []sandbox.Shown) (list []sandbox.Data) {
	for _, file := range shown {
		list = append(list, sandbox.Data{Path: file.Path})
	}
	return list
}

// memoryMounts returns mounts that are in memory: the writable folders, whose size is limited, and
// empty folders. gVisor always provides /proc, /sys, terminals and network devices; empty mounts
// hide these.
func memoryMounts(l sandbox.Limits) (mounts []specs.Mount) {
	size := "size=" + strconv.FormatInt(max(l.Files, 4096), 10)
	user := strconv.Itoa(host.User)
	for name, mode := range map[string]string{sandbox.WorkDir: "0700", "/tmp": "1777", "/dev/shm": "1777"} {
		options := []string{"nosuid", "nodev", size, "mode=" + mode, "uid=" + user, "gid=" + user}
		mounts = append(mounts, specs.Mount{Destination: name, Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	for _, name := range []string{"/proc", "/sys", "/dev/net"} {
		options := []string{"ro", "nosuid", "nodev", "noexec", "size=4096", "mode=0555"}
		mounts = append(mounts, specs.Mount{Destination: name, Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	// The order of a map is random, but a mount must follow the mounts above it.
	slices.SortFunc(mounts, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	return mounts
}

// put writes a file that the sandbox may read. It fails if the file would be hidden by one of the
// mounts, or if its path is not clean.
func put(root string, d sandbox.Data, mounts []specs.Mount) error {
	if !path.IsAbs(d.Path) || path.Clean(d.Path) != d.Path || path.Dir(d.Path) == "/" {
		return fmt.Errorf("sandbox file %q must be an absolute path in a folder other than /", d.Path)
	}

	// If a file were below the destination of a mount, the mount would hide the file.
	for _, m := range append(memoryMounts(sandbox.Limits{}), mounts...) {
		if strings.HasPrefix(d.Path, m.Destination+"/") {
			return fmt.Errorf("sandbox file %q is below %s, where it would not be visible", d.Path, m.Destination)
		}
	}
	if err := makeFolder(root, path.Dir(d.Path)); err != nil {
		return err
	}
	name := filepath.Join(root, d.Path)
	if err := os.WriteFile(name, d.Content, 0o600); err != nil {
		return fmt.Errorf("writing a sandbox's file: %w", err)
	}
	if err := os.Chmod(name, 0o444); err != nil { //nolint:gosec // G302: the sandbox's user reads the file; others cannot enter the parent
		return fmt.Errorf("writing a sandbox's file: %w", err)
	}
	return nil
}

// makeFolder creates a folder, with its parents, below root. All users may enter these folders.
func makeFolder(root, name string) error {
	if name != "/" {
		if err := makeFolder(root, path.Dir(name)); err != nil {
			return err
		}
	}
	full := filepath.Join(root, name)
	err := os.Mkdir(full, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(full, 0o755) //nolint:gosec // G302: the sandbox's user must enter the folders; other users cannot enter the parent
	}
	if err != nil {
		return fmt.Errorf("creating a sandbox's folder: %w", err)
	}
	return nil
}

// config returns the sandbox's configuration for runsc: an unprivileged user without capabilities,
// a read-only root, and the filter of system calls. The sandbox has separate namespaces for
// processes, network, IPC, host name and mounts.
func (b *Backend) config(c sandbox.Command, mounts []specs.Mount) specs.Spec {
	worst := oomScore
	config := specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			User: specs.User{UID: host.User, GID: host.User}, Args: withoutHome(c), Env: c.Env, Cwd: sandbox.WorkDir,
			Capabilities:    &specs.LinuxCapabilities{}, // none
			NoNewPrivileges: true, OOMScoreAdj: &worst,
			Rlimits: []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_NOFILE", Soft: openFiles, Hard: openFiles}},
		},
		Root:     &specs.Root{Path: rootDir, Readonly: true},
		Hostname: host.Hostname,
		Mounts:   mounts,
		Linux:    &specs.Linux{Seccomp: b.filter},
	}

	// gVisor's kernel enforces RLIMIT_NPROC for the sandbox's user.
	if n := c.Limits.Processes; n > 0 {
		maximum := uint64(n + spareProcesses)
		config.Process.Rlimits = append(config.Process.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_NPROC", Soft: maximum, Hard: maximum})
	}

	for _, kind := range []specs.LinuxNamespaceType{
		specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace,
	} {
		config.Linux.Namespaces = append(config.Linux.Namespaces, specs.LinuxNamespace{Type: kind})
	}
	return config
}

// withoutHome returns the arguments that run c without the variable HOME. runsc adds HOME if c does
// not set it; in that case the command is started through env, which removes HOME.
func withoutHome(c sandbox.Command) []string {
	if slices.ContainsFunc(c.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		return c.Args
	}
	return append([]string{"/usr/bin/env", "-u", "HOME", "--"}, c.Args...)
}
