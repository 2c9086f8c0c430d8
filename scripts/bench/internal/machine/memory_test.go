package machine

import (
	"errors"
	"os"
	"runtime"
	"testing"
)

func TestParseMemory(t *testing.T) {
	t.Parallel()
	got, err := parseMemory([]byte("Name:\tx\nVmRSS:\t   9000 kB\nRssAnon:\t    5120 kB\nRssFile:\t    3880 kB\n"))
	if err != nil || got != 5<<20 {
		t.Errorf("read %d: %v, want 5 MiB", got, err)
	}
	for _, bad := range []string{"RssAnon:\t5120\n", "RssAnon:\t5120 MB\n", "RssAnon:\tmany kB\n"} {
		if _, err := parseMemory([]byte(bad)); err == nil || errors.Is(err, ErrNoMemory) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := parseMemory([]byte("Name:\tx\n")); !errors.Is(err, ErrNoMemory) {
		t.Errorf("a system that does not tell: %v", err)
	}
}

func TestMemoryOfThisProcessGrows(t *testing.T) { //nolint:paralleltest // other tests would free memory meanwhile
	before, err := Memory(os.Getpid())
	if errors.Is(err, ErrNoMemory) {
		t.Skip("this system tells no memory of other processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	const more = 64 << 20
	block := make([]byte, more)
	for i := 0; i < more; i += 1 << 10 {
		block[i] = 1
	}
	after, err := Memory(os.Getpid())
	runtime.KeepAlive(block)
	if err != nil || after-before < more*3/4 || after-before > more*3/2 {
		t.Errorf("grew by %d after writing %d: %v", after-before, more, err)
	}
	if _, err := Memory(1 << 30); err == nil || errors.Is(err, ErrNoMemory) {
		t.Errorf("a process that is not there: %v", err)
	}
}
