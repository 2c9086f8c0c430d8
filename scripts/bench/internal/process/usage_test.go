package process

import (
	"os"
	"testing"
	"time"
)

// TestUsage compares the figures of /proc for this process with those of other sources.
func TestUsage(t *testing.T) {
	t.Parallel()
	if !hasProc {
		t.Skip("this system has no /proc")
	}
	before, err := OwnCPU()
	if err != nil {
		t.Fatal(err)
	}
	used, err := CPU(os.Getpid())
	if err != nil || used < before-2*tick {
		t.Errorf("CPU is %s, at least %s expected: %v", used, before, err)
	}
	tree, err := TreeCPU(os.Getpid())
	after, ownErr := OwnCPU()
	if err != nil || ownErr != nil || tree < used || tree > after+time.Minute {
		t.Errorf("with children, CPU is %s, without %s: %v, %v", tree, used, err, ownErr)
	}

	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	memory, err := Memory(os.Getpid())
	if err != nil || memory < int64(len(held)) || memory > 16*int64(len(held)) {
		t.Errorf("memory is %d with %d held bytes: %v", memory, len(held)*int(held[0]), err)
	}
}
