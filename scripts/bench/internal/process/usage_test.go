package process

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// TestUsage compares the figures of /proc for this process with each other and with its memory.
func TestUsage(t *testing.T) {
	t.Parallel()
	if !hasProc {
		t.Skip("this system has no /proc")
	}
	used, err := CPU(os.Getpid())
	if err != nil || used <= 0 {
		t.Errorf("CPU is %s: %v", used, err)
	}
	tree, err := TreeCPU(os.Getpid())
	if err != nil || tree < used || tree > used+time.Minute {
		t.Errorf("with children, CPU is %s, without %s: %v", tree, used, err)
	}

	held := bytes.Repeat([]byte{1}, 64<<20)
	memory, err := Memory(os.Getpid())
	if err != nil || memory < int64(len(held)) || memory > 16*int64(len(held)) {
		t.Errorf("memory is %d with %d held bytes: %v", memory, len(held)*int(held[0]), err)
	}
}
