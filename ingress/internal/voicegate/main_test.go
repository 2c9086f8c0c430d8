package voicegate

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain checks that no connection leaks a goroutine, however it ends.
func TestMain(m *testing.M) {
	code := m.Run()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		left := leftBehind()
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "left behind:\n"+left)
			code = 1
			break
		}
	}
	os.Exit(code)
}

// leftBehind returns the stacks of the goroutines that belong to connections.
func leftBehind() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "/voicegate.(*") || strings.Contains(stack, "websocket.(*") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
