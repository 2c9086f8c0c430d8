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

// ownerFor is the user that a file belongs to.
func ownerFor(path string) (int, error) {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return int(stat.Uid), err
}

// isolation is how bwrap is started: as the first process of a namespace, and to die with the thread that starts it. Who may not
// make one of those alone makes it within a namespace of users, where he may.
func isolation(owner int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID}
	if host.MayChangeUser() {
		attr.Credential = &syscall.Credential{Uid: uint32(owner), Gid: uint32(owner), Groups: []uint32{}}
		return attr
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: host.User, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: host.User, HostID: os.Getegid(), Size: 1}}
	return attr
}

// countUp starts and ends processes until one has the number $0, and then becomes bwrap.
const countUp = `n=1; while [ "$n" -lt "$0" ]; do : & n=$!; wait; done; exec "$@"`

// launcher is the command that becomes bwrap, before its arguments. It runs on the thread that starts sandboxes.
//
// bwrap looks into /proc for its child, by the number that the child has in the namespace that isolation makes: 2. But /proc shows
// this process's namespace, and bwrap ends when nothing of that number is there. What it finds it only tells who asks, which nobody
// does here. A machine always has a thread of the kernel that is 2. A container has not: there, numbers are used up first, so that
// the child has that of this thread, which is there as long as sandboxes are.
func launcher(bwrap string) []string {
	name, err := os.ReadFile("/proc/2/comm")
	if err == nil && string(name) == "kthreadd\n" {
		return []string{bwrap}
	}
	return countingLauncher(bwrap, unix.Gettid())
}

// countingLauncher makes bwrap's child the process with this number, at least 2.
func countingLauncher(bwrap string, number int) []string {
	return []string{"/bin/sh", "-c", countUp, strconv.Itoa(number - 1), bwrap}
}

// settle sets what bwrap and all that it starts are to inherit; bwrap waits for it. When the host is out of memory, sandboxes go
// first. And when a program crashes, its memory is not handed to a program of the host: that is what a limit of 1 byte means,
// where 0 would only forbid files. Root without CAP_SYS_RESOURCE may not say so; then it is left to the command.
func settle(pid int) error {
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

// memoryFile is a file with this content, positioned at its beginning, that is on no disk.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
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

// openFolders opens the folders of the sandbox that bwrap, this process, has made; nil when they are not there yet, or closed to us.
//
// What is looked into belongs to the program: it is never opened but as a place (O_PATH), no link is followed, and what is found
// must be a file system in memory, of the sandbox's user, that has the size it was given. A sandbox that is being made shows the
// host's folders still; these are not that.
func openFolders(bwrap, owner int, size int64) []*os.File {
	root, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(commandFor(bwrap)), "root"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // of a place
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

// commandFor is bwrap's only child; 0, which is no process, when there is none.
func commandFor(bwrap int) int {
	id := strconv.Itoa(bwrap)
	children, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	if err != nil {
		return 0
	}
	child, _, _ := strings.Cut(string(children), " ")
	pid, _ := strconv.Atoi(child) // what is no number is no child
	return pid
}

// lowPriority is the niceness of a sandbox that gives way.
const lowPriority = 10

// giveWay lowers the priority of the sandbox that bwrap, this process, has made: of the session that its command leads. Where the kernel
// shares processors by session (autogroup), what counts is the session's. Both may be forbidden, and then it keeps its priority.
func giveWay(bwrap int) {
	command := commandFor(bwrap)
	if command == 0 {
		return
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, command, lowPriority)
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(command), "autogroup"), []byte(strconv.Itoa(lowPriority)), 0)
}

func isFolder(fd, owner int, size int64) bool {
	var stat unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &stat) != nil || unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	page := fs.Bsize
	return int(stat.Uid) == owner && fs.Type == unix.TMPFS_MAGIC && int64(fs.Blocks) == (size+page-1)/page
}

// folderUsage is what is in a folder that openFolders has opened.
func folderUsage(f *os.File) (bytes int64, count int) {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return 0, 0
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, int(fs.Files-fs.Ffree) - 1 // the folder itself is one
}
