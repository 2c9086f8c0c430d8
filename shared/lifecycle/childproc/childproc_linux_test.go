package childproc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestChildDiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), roleKey+"=parent")
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscanln(output, &pid)
	_ = parent.Process.Kill() // fails only if the parent has ended, which the line above reports
	_ = parent.Wait()
	if err != nil {
		t.Fatal(err)
	}
	over := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}

// alive returns false for a process that is gone or a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
