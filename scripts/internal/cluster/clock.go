package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
)

// clockVariable is the environment variable from which a program built by Skewed reads its clock
// offset, in seconds.
const clockVariable = "PARLEY_TEST_CLOCK_OFFSET"

// clockSource is Go source that Skewed adds to the standard library's package time. It reads the
// offset once, when the program starts.
const clockSource = `package time

import "syscall"

var parleyTestOffset = func() int64 {
	text, _ := syscall.Getenv("` + clockVariable + `")
	sign, seconds := int64(1), int64(0)
	for _, c := range text {
		if c == '-' {
			sign = -1
		} else if c >= '0' && c <= '9' {
			seconds = 10*seconds + int64(c-'0')
		}
	}
	return sign * seconds
}()
`

// nowCall is the only code in package time that reads the system clock.
const nowCall = "sec, nsec, mono := runtimeNow()\n\tif mono == 0 {"

// Skewed builds the worker with an adjustable wall clock and returns the program's path. It changes
// only time.Now in the standard library, which then adds the offset from the environment. The
// monotonic clock stays correct, as on a machine whose time was set wrongly. A preloaded library
// could not adjust the clock, because Go programs read it without libc.
func Skewed(tb testing.TB) (path string, err error) {
	tb.Helper()
	root, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}

	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), nowCall) != 1 {
		return "", errors.New("this Go release's package time reads the clock differently: update clock.go")
	}

	changed := strings.Replace(string(source), nowCall, strings.Replace(nowCall, "\n", "\n\tsec += parleyTestOffset\n", 1), 1)
	// The file names are the same for every build in a checkout, so that Go's build cache can be
	// used.
	cache, err := testkit.CacheDir()
	if err != nil {
		return "", err
	}

	checkout := sha256.Sum256([]byte(testkit.Root(tb)))
	dir := filepath.Join(cache, "skewed-"+hex.EncodeToString(checkout[:6]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	testkit.Used(dir)

	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		original: filepath.Join(dir, "time.go"), filepath.Join(filepath.Dir(original), "parley_test_offset.go"): filepath.Join(dir, "offset.go"),
	}})
	if err != nil {
		return "", err
	}

	for name, content := range map[string]string{"time.go": changed, "offset.go": clockSource, "overlay.json": string(overlay)} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}

	if err != nil {
		return "", err
	}

	path = filepath.Join(dir, "worker")
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", path, ".")
	cmd.Dir = filepath.Join(testkit.Root(tb), "workers", "cmd", "worker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
}

// lock waits until no other process holds the lock file. The function unlock releases the lock. The
// lock is also released when the process ends.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}

	for {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Offset returns the environment setting that makes a Skewed program's clock wrong by this
// duration, in whole seconds.
func Offset(by time.Duration) string { return clockVariable + "=" + strconv.Itoa(int(by/time.Second)) }
