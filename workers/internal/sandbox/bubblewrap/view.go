package bubblewrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parley/workers/internal/sandbox"
)

// shown is what a sandbox shows of the host, where it is there: programs, libraries, and what Python's packages read.
var shown = []string{
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
	"/usr/share/zoneinfo", "/usr/share/fonts", "/usr/share/fontconfig", "/usr/share/matplotlib", "/usr/share/python3",
	"/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/matplotlibrc", "/etc/localtime", "/etc/mime.types",
}

// outerLinks are folders that are links into /usr where /usr is merged, and folders of their own elsewhere.
var outerLinks = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32"}

// madeUp are files that programs look for, whose host's version is nobody's business.
var madeUp = []sandbox.Data{
	{Path: "/etc/passwd", Content: []byte("sandbox:x:1000:1000::/work:/bin/sh\n")},
	{Path: "/etc/group", Content: []byte("sandbox:x:1000:\n")},
	{Path: "/etc/hosts", Content: []byte("127.0.0.1 localhost\n::1 localhost\n")},
}

// viewOf lists bwrap's arguments for what all sandboxes show.
func viewOf(python string) []string {
	paths := slices.Clone(shown)
	if strings.HasPrefix(python, "/usr/local/") {
		paths = append(paths, "/usr/local/bin", "/usr/local/lib")
	} else { // packages that were installed for the system's Python without its package manager
		extra, _ := filepath.Glob("/usr/local/lib/python3*/dist-packages") // fails for bad patterns only
		paths = append(paths, extra...)
	}
	var args []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			args = append(args, "--ro-bind", path, path)
		}
	}
	for _, path := range outerLinks {
		if target, err := os.Readlink(path); err == nil {
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

// devices are bound as they are: a device on a read-only mount of bwrap's cannot be opened.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// checkDevices refuses devices that a sandbox's user owns: for him they would be the host's to change.
func (o *owners) checkDevices(paths []string) error {
	for _, path := range paths {
		uid, err := ownerOf(path)
		if err != nil {
			return fmt.Errorf("looking at a device: %w", err)
		}
		if o.isOne(uid) {
			return fmt.Errorf("%s belongs to user %d, so a program in a sandbox could take it from everyone: it must be root's", path, uid)
		}
	}
	return nil
}

// insideID is the number of the user and the group that all in a sandbox is.
const insideID = 1000

// arguments are those of one sandbox, without the command and what all sandboxes show, which comes first. files are the numbers
// of the descriptors of c.Data and then of madeUp.
func arguments(c sandbox.Command, filter int, files []int) []string {
	args := []string{
		"--unshare-all", "--unshare-user", "--uid", strconv.Itoa(insideID), "--gid", strconv.Itoa(insideID), "--hostname", "sandbox",
		"--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--seccomp", strconv.Itoa(filter), "--clearenv",
	}
	for _, dir := range folders {
		args = append(args, "--size", strconv.FormatInt(folderSize(c.Limits), 10), "--tmpfs", dir)
	}
	for i, data := range slices.Concat(c.Data, madeUp) {
		args = append(args, "--perms", "0444", "--file", strconv.Itoa(files[i]), data.Path)
	}
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	return append(args, "--remount-ro", "/", "--chdir", sandbox.WorkDir)
}

// folders may be written to.
var folders = []string{sandbox.WorkDir, "/tmp", "/dev/shm"}

// folderSize is the size of one of them; together they are watched. The least is a page, for bwrap knows no empty folder.
func folderSize(l sandbox.Limits) int64 { return max(l.Files, int64(os.Getpagesize())) }

// check refuses what bwrap would take for something else.
func check(c sandbox.Command) error {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return fmt.Errorf("a sandbox's command begins with an absolute path, not %q", c.Args)
	}
	for _, data := range c.Data {
		if !filepath.IsAbs(data.Path) || filepath.Clean(data.Path) != data.Path || hasNUL(data.Path) {
			return fmt.Errorf("data %q has no clean absolute path", data.Path)
		}
		for _, dir := range folders {
			if data.Path == dir || strings.HasPrefix(data.Path, dir+"/") {
				return fmt.Errorf("data %q would lie in %s, which may be written to", data.Path, dir)
			}
		}
	}
	for _, text := range slices.Concat(c.Args, c.Env) {
		if hasNUL(text) {
			return fmt.Errorf("an argument or variable has a NUL byte: %q", text)
		}
	}
	for _, variable := range c.Env {
		if strings.Index(variable, "=") < 1 {
			return fmt.Errorf("%q is no variable of the form NAME=value", variable)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }
