package bubblewrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"parley/workers/internal/sandbox/host"
)

// ownerFor returns the user id of a file's owner.
func ownerFor(path string) (int, error) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return int(stat.Uid), err
}

// isolation returns the process attributes with which bwrap is started. bwrap becomes the first
// process of a PID namespace and dies with the thread that starts it. If this process may not
// create a PID namespace, it also creates a user namespace.
func isolation(owner int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID}
	if host.MayChangeUser() {
		// No supplementary groups: the sandbox must not inherit the worker's rights on files.
		attr.Credential = &syscall.Credential{Uid: uint32(owner), Gid: uint32(owner), Groups: []uint32{}}
		return attr
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: host.User, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: host.User, HostID: os.Getegid(), Size: 1}}
	return attr
}

// countUp is a shell script that starts processes until one has the pid $0, and then executes
// bwrap.
const countUp = `n=1; while [ "$n" -lt "$0" ]; do : & n=$!; wait; done; exec "$@"`

// launcher returns the command that becomes bwrap, without bwrap's arguments. It must be called on
// the thread that starts sandboxes.
//
// bwrap looks up its child in /proc by the child's pid, which is 2 in the namespace that isolation
// creates. But /proc shows the worker's namespace, and bwrap exits if no process has that pid
// there. bwrap uses the data of the process only for reports, which are not requested here, so any
// process will do.
//
// On a host, pid 2 is always a kernel thread. In a container, pid 2 may not exist. Then processes
// are started until the child gets the pid of the calling thread, which lives as long as the
// sandboxes.
func launcher(bwrap string) []string {
	name, err := os.ReadFile("/proc/2/comm")
	if err == nil && string(name) == "kthreadd\n" {
		return []string{bwrap}
	}
	return countingLauncher(bwrap, unix.Gettid())
}

// countingLauncher returns a command that starts bwrap so that bwrap's child gets the pid number,
// which must be at least 2.
func countingLauncher(bwrap string, number int) []string {
	return []string{"/bin/sh", "-c", countUp, strconv.Itoa(number - 1), bwrap}
}

// setAttributes sets process attributes of bwrap. All processes of the sandbox inherit these
// attributes. bwrap waits at the gate until the attributes are set.
//
// When the host runs out of memory, the kernel kills sandboxes first. The limit on core dumps is 1
// byte, so that a crashing program's memory does not reach the host's core dump handler. A limit of
// 0 would only prevent core files. Root without CAP_SYS_RESOURCE may not set that limit; then the
// command has to set it.
func setAttributes(pid int) error {
	err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte("1000"), 0)
	if err != nil {
		return fmt.Errorf("setting oom_score_adj of a sandbox: %w", err)
	}
	err = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	if err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("forbidding core dumps: %w", err)
	}
	return nil
}

// memoryFile creates a file in memory with the given content, positioned at its beginning.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(content)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("filling a file in memory: %w", err), f.Close())
	}
	return f, nil
}

// openFolders opens the writable folders of a sandbox, found through the process that bwrap has
// created. It returns nil if the folders do not exist yet or are inaccessible.
//
// The program controls these paths. So the folders are opened only as paths (O_PATH), without
// following links. Each must be a tmpfs that belongs to the sandbox's user and has the expected
// size. While a sandbox is being created, its paths still lead to the host's folders, which fail
// this check.
func openFolders(bwrap, owner int, size int64) []*os.File {
	root, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(commandFor(bwrap)), "root"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // no data can be lost

	var opened []*os.File
	for _, path := range folders {
		fd, err := unix.Openat2(int(root.Fd()), strings.TrimPrefix(path, "/"), &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err == nil {
			opened = append(opened, os.NewFile(uintptr(fd), path))
		}
		if err != nil || !isFolder(fd, owner, size) {
			closeAll(opened)
			return nil
		}
	}
	return opened
}

// commandFor returns the pid of bwrap's only child, or 0 if bwrap has no child.
func commandFor(bwrap int) int {
	id := strconv.Itoa(bwrap)
	children, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	if err != nil {
		return 0
	}
	child, _, _ := strings.Cut(string(children), " ")
	pid, _ := strconv.Atoi(child) // pid is 0 if the text is not a number
	return pid
}

// lowPriority is the nice value of a sandbox that gives way.
const lowPriority = 10

// giveWay lowers the priority of a sandbox's command and its process group. If the kernel schedules
// by session (autogroup), giveWay lowers the session's priority as well. If neither is permitted,
// the priority stays the same.
func giveWay(bwrap int) {
	command := commandFor(bwrap)
	if command == 0 {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, command, lowPriority)
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(command), "autogroup"), []byte(strconv.Itoa(lowPriority)), 0)
}

// isFolder reports whether a descriptor is a tmpfs of the expected owner and size.
func isFolder(fd, owner int, size int64) bool {
	var stat unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &stat) != nil || unix.Fstatfs(fd, &fs) != nil {
		return false
	}

	// The kernel rounds the size of a tmpfs up to whole pages.
	page := fs.Bsize
	return int(stat.Uid) == owner && fs.Type == unix.TMPFS_MAGIC && int64(fs.Blocks) == (size+page-1)/page
}

// folderUsage returns the number of bytes, and of files and folders, in a folder that openFolders
// has opened.
func folderUsage(f *os.File) (bytes int64, count int) {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return 0, 0
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, int(fs.Files-fs.Ffree) - 1 // the folder itself is not counted
}
