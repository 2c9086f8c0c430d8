package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a small file system for one server.
type Disk struct {
	Dir  string // directory where it is mounted
	Kind string // for example "tmpfs"
}

// fillerName is the name of the file that fills a disk.
const fillerName = "filler"

// MemoryDisk mounts a small file system in memory until the test ends. It returns an error if the
// machine does not support this.
func MemoryDisk(tb testing.TB, mebibytes int) (*Disk, error) {
	tb.Helper()
	return mount(tb, "tmpfs", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mebibytes), "tmpfs")
}

// ImageDisk mounts a small ext4 file system from a file until the test ends. Data synced on this
// file system reaches the underlying disk. ImageDisk returns an error if the machine does not
// support this.
func ImageDisk(tb testing.TB, mebibytes int) (*Disk, error) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "image")
	if out, err := exec.CommandContext(tb.Context(), "truncate", "-s", fmt.Sprintf("%dM", mebibytes), path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("creating image: %w: %s", err, out)
	}
	if out, err := exec.CommandContext(tb.Context(), "mkfs.ext4", "-q", "-F", "-m", "0", path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("creating file system: %w: %s", err, out)
	}
	return mount(tb, "ext4 in a file", "-o", "loop", path)
}

// Fill uses up all remaining space, until Free is called.
func (d *Disk) Fill() error {
	file, err := os.OpenFile(filepath.Join(d.Dir, fillerName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	for _, size := range []int{1 << 20, 4 << 10} { // small writes fill the last pages, too
		piece := make([]byte, size)
		for err == nil {
			_, err = file.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return errors.Join(err, file.Close())
		}
		err = nil
	}

	return file.Close()
}

// Free releases the space that Fill has used.
func (d *Disk) Free() error {
	err := os.Remove(filepath.Join(d.Dir, fillerName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
