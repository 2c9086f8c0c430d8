//go:build !linux

package pocketsphinx

import (
	"errors"
	"fmt"
	"os"
)

// newMemory creates a temporary file and immediately removes its name.
func newMemory() (*os.File, error) {
	file, err := os.CreateTemp("", "utterance")
	if err != nil {
		return nil, fmt.Errorf("creating a file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("creating a file: %w", errors.Join(err, file.Close()))
	}
	return file, nil
}
