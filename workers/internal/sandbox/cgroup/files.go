package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// write writes to an existing kernel file in the cgroup dir. It never creates a file.
func write(dir, name, value string) error {
	// Without O_CREATE, a missing kernel file is an error.
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// writeIfThere writes to a kernel file, or does nothing if this kernel does not have the file.
func writeIfThere(dir, name, value string) error {
	if err := write(dir, name, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// number reads a file that contains one number.
func number(dir, name string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", name, err)
	}
	return n, nil
}

// keyed returns the number for a key from a file with lines of the form "key number". It returns 0
// if the key is missing.
func keyed(dir, name, key string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if k, v, found := strings.Cut(strings.TrimSpace(line), " "); found && k == key {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading %s of %s: %w", key, name, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

// words returns the words in a file, or nil if it cannot be read.
func words(dir, name string) []string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// pidsIn lists the processes of a cgroup and of all cgroups below it, without zombies. The pid is 0
// for a process that is invisible to this process, because it is in another PID namespace.
func pidsIn(dir string) (pids []int, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("reading cgroup.procs: %w", err)
		}
		pids = append(pids, pid)
	}

	// Another goroutine may remove a cgroup while this loop reads it.
	below, err := folders(dir)
	for _, name := range below {
		more, goneErr := pidsIn(filepath.Join(dir, name))
		if goneErr != nil && !errors.Is(goneErr, fs.ErrNotExist) {
			err = goneErr
		}
		pids = append(pids, more...)
	}
	return pids, err
}

// folders lists the names of the cgroups directly below a cgroup. If it fails, the list may be
// incomplete.
func folders(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
