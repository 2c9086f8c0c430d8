package pdf

import (
	"syscall"
	"testing"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	exit := func(n int) syscall.WaitStatus { return syscall.WaitStatus(n << 8) }
	killed := func(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }
	for name, c := range map[string]struct {
		status syscall.WaitStatus
		said   string
		want   error
	}{
		"password":      {exit(1), "Command Line Error: Incorrect password\n", errEncrypted},
		"permission":    {exit(3), "Permission Error", errForbidden},
		"no PDF":        {exit(1), "Syntax Warning: May not be a PDF file", errDamaged},
		"no pages":      {exit(99), "", errDamaged},
		"memory":        {exit(1), "Out of memory\n", errMemory},
		"memory of C":   {killed(syscall.SIGABRT), "terminate called after throwing an instance of 'std::bad_alloc'", errMemory},
		"aborted":       {killed(syscall.SIGABRT), "assertion failed", errCrashed},
		"crashed":       {killed(syscall.SIGSEGV), "", errCrashed},
		"CPU":           {killed(syscall.SIGXCPU), "", errCPU},
		"files":         {killed(syscall.SIGXFSZ), "", errFiles},
		"by the kernel": {killed(syscall.SIGKILL), "", errMemory},
	} {
		if got := explain(c.status, c.said); error(got) != c.want { //nolint:errorlint // must be the same pointer
			t.Errorf("%s: %v", name, got)
		}
	}
}
