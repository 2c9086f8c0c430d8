package childproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// The test of killed processes needs a parent process besides its own. The parent is this test
// binary, started again with a role in the environment variable roleKey.
const roleKey = "CHILDPROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleKey) != "parent" {
		os.Exit(m.Run())
	}
	child, err := Start(exec.CommandContext(context.Background(), "sleep", "600"), syscall.SIGKILL)
	if err != nil {
		panic(err)
	}
	fmt.Println(child.PID())
	select {}
}

func TestStartReportsAMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := Start(exec.CommandContext(t.Context(), "/no/such/program"), syscall.SIGKILL); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
}
