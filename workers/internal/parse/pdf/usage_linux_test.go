package pdf

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// ration is the name of an environment variable. Its value is the limit of processor time, in
// seconds, that the process of this test sets for itself.
const ration = "PARLEY_TEST_RATION"

// TestProgramsMayTakeWhatIsLeft starts the test binary again, because the limit applies to the
// whole process. Programs that this process starts get only the processor time that remains.
func TestProgramsMayTakeWhatIsLeft(t *testing.T) {
	t.Parallel()
	if os.Getenv(ration) != "" {
		testRation(t)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgramsMayTakeWhatIsLeft$", "-test.v")
	again.Env = append(os.Environ(), ration+"=1")
	said, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS") {
		t.Errorf("%v\n%s", err, said)
	}
}

func testRation(t *testing.T) {
	t.Helper()
	const seconds = 9
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &own); err != nil {
		t.Fatal(err)
	}
	limit := func(of uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: of, Max: own.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(seconds)
	said, err := output(t.Context(), 100, nil, "sh", "-c", "ulimit -S -t")
	if err != nil || strings.TrimSpace(string(said)) != "8" { // some of the nine seconds have already been used
		t.Errorf("%s, %v", said, err)
	}
	var is syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &is); err != nil || is.Cur != seconds {
		t.Errorf("this process itself may take %d s, %v", is.Cur, err)
	}
	limit(1)
	if _, err := start(t.Context(), nil, "sh", "-c", "exit 0"); !errors.Is(err, errCPU) {
		t.Errorf("with nothing left: %v", err)
	}
	limit(own.Cur)
}
