package bubblewrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/host"
)

// viewFor returns bwrap's arguments for the host files that all sandboxes contain.
func viewFor(python string, devices []string) []string {
	var args []string
	for _, path := range slices.Concat(host.Folders(python), host.Files) {
		if _, err := os.Stat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range host.OuterLinks {
		if target, err := os.Readlink(path); err == nil {
			// On systems with a merged /usr, a path such as /bin is a link into a folder that is
			// already bound.
			args = append(args, "--symlink", target, path)
		} else if _, err := os.Stat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range devices {
		args = append(args, "--dev-bind", path, path)
	}
	return args
}

// devicesFor returns the devices that sandboxes contain. They are bound individually, because
// devices that bwrap creates cannot be opened on a read-only mount.
//
// watched is true if memory is measured per process. In that case /dev/zero is omitted: the memory
// of a shared mapping of /dev/zero is no longer counted once the process has released the mapping.
func devicesFor(watched bool) []string {
	devices := []string{"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"}
	if !watched {
		devices = append(devices, "/dev/zero")
	}
	return devices
}

// checkDevices returns an error if a device belongs to one of the users that sandboxes run as. Such
// a user could change the device for the whole host.
func (o *owners) checkDevices(paths []string) error {
	for _, path := range paths {
		uid, err := ownerFor(path)
		if err != nil {
			return fmt.Errorf("inspecting a device: %w", err)
		}
		if o.isOne(uid) {
			return fmt.Errorf("%s belongs to user %d, so a program in a sandbox could change it: it must belong to root", path, uid)
		}
	}
	return nil
}

// arguments returns bwrap's arguments for one sandbox. It omits the command, and the arguments from
// viewFor, which come first. files are the descriptors of c.Data, followed by those of
// host.GeneratedFiles.
func arguments(c sandbox.Command, filter int, files []int) []string {
	// --as-pid-1 makes the command the first process of its namespace. --new-session separates it
	// from the worker's terminal.
	args := []string{
		"--unshare-all", "--unshare-user", "--uid", strconv.Itoa(host.User), "--gid", strconv.Itoa(host.User), "--hostname", host.Hostname,
		"--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--seccomp", strconv.Itoa(filter), "--clearenv",
	}
	for _, dir := range folders {
		args = append(args, "--size", strconv.FormatInt(folderSize(c.Limits), 10), "--tmpfs", dir)
	}
	for i, data := range slices.Concat(c.Data, host.GeneratedFiles) {
		args = append(args, "--perms", "0444", "--file", strconv.Itoa(files[i]), data.Path)
	}
	for _, file := range c.Shown {
		args = append(args, "--ro-bind", file.Host, file.Path)
	}
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}

	// The root becomes read-only last, when all files are in place.
	return append(args, "--remount-ro", "/", "--chdir", sandbox.WorkDir)
}

// folders lists the writable folders of a sandbox.
var folders = []string{sandbox.WorkDir, "/tmp", "/dev/shm"}

// folderSize returns the size limit of one writable folder. The total size of the folders is
// watched separately. The limit is at least one page, because bwrap rejects a size of 0.
func folderSize(l sandbox.Limits) int64 { return max(l.Files, int64(os.Getpagesize())) }

// check returns an error for commands that bwrap would misinterpret.
func check(c sandbox.Command) error {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return fmt.Errorf("a sandbox's command must begin with an absolute path, not %q", c.Args)
	}
	for _, data := range c.Data {
		if err := checkMountPoint(data.Path); err != nil {
			return err
		}
	}
	for _, file := range c.Shown {
		if err := checkMountPoint(file.Path); err != nil {
			return err
		}
		if !filepath.IsAbs(file.Host) || hasNUL(file.Host) {
			return fmt.Errorf("the host folder for %s must have an absolute path, not %q", file.Path, file.Host)
		}
	}

	// Arguments are passed to bwrap separated by NUL bytes, so a NUL byte could inject an argument.
	for _, text := range slices.Concat(c.Args, c.Env) {
		if hasNUL(text) {
			return fmt.Errorf("an argument or variable contains a NUL byte: %q", text)
		}
	}
	for _, variable := range c.Env {
		if strings.Index(variable, "=") < 1 {
			return fmt.Errorf("%q is not a variable of the form NAME=value", variable)
		}
	}
	return nil
}

// checkMountPoint returns an error unless path is a clean absolute path outside of the writable
// folders.
func checkMountPoint(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || hasNUL(path) {
		return fmt.Errorf("sandbox file %q must have a clean absolute path", path)
	}
	for _, dir := range folders {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("sandbox file %q must not be in %s, which is writable", path, dir)
		}
	}
	return nil
}

// hasNUL reports whether a string contains a NUL byte.
func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }
