package pocketsphinx

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newMemory creates a file that exists only in memory and has no name.
func newMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("utterance", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "utterance"), nil
}
