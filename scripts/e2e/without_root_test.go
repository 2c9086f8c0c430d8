package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"parley/scripts/internal/quickstart"
	"parley/shared/lifecycle/childproc"
	"parley/shared/testkit"
)

// TestParleyUpWithoutRoot runs `parley up` as the user "nobody" if the tests run as root. If the
// tests do not run as root, the other tests already show that `parley up` needs no root.
func TestParleyUpWithoutRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the tests do not run as root, so every test of parley up has run without it")
	}

	uid, gid := nobody(t)
	// The user "nobody" cannot access the build cache and the tests' directories, because they
	// belong to root.
	home := t.TempDir()
	for _, dir := range []string{home, filepath.Dir(home)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Chown(home, uid, gid); err != nil {
		t.Fatal(err)
	}

	program := filepath.Join(home, "parley")
	copyProgram(t, testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), program)

	dir := filepath.Join(home, "data")
	output := filepath.Join(home, "output")
	child := startAs(t, uid, gid, output, program, quickstart.Environment(dir, testkit.FreePort(t)))
	printed := func() []byte {
		raw, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}

	eventually(t, time.Minute, "parley is ready", func() bool { return child.Ended() || bytes.Contains(printed(), []byte(quickstart.BannerEnd)) })
	if child.Ended() {
		t.Fatalf("parley ended while starting: %v", child.Err())
	}

	pastesWork(t, string(printed()))
	keyWorks(t, readCredentials(t, dir))
	for _, pid := range processesBelow(t, dir) {
		if owner, lives := ownerFor(pid); lives && owner != uid {
			t.Errorf("process %d runs as user %d, want %d", pid, owner, uid)
		}
	}

	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	eventually(t, 30*time.Second, "parley ends", child.Ended)
	if err := child.Err(); err != nil {
		t.Fatalf("parley did not exit with 0: %v", err)
	}
	if left := processesBelow(t, dir); len(left) > 0 {
		t.Fatalf("parley left processes behind: %v", left)
	}
}

// startAs starts `parley up` as another user, and kills it at the end of the test. If the test
// fails, the output is shown.
func startAs(t *testing.T, uid, gid int, output, program string, env []string) *childproc.Child {
	t.Helper()
	log, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()

	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "up")
	cmd.Dir = filepath.Dir(program)
	cmd.Env = append(append(os.Environ(), env...), "HOME="+cmd.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	child, err := childproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if !child.Ended() {
			_ = child.Signal(syscall.SIGKILL) // also ends its PostgreSQL
			<-child.Done()
		}
		if raw, err := os.ReadFile(output); t.Failed() && err == nil {
			t.Logf("output of parley as user %d:\n%s", uid, raw)
		}
	})
	return child
}

func nobody(t *testing.T) (uid, gid int) {
	t.Helper()
	found, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}

	uid, err = strconv.Atoi(found.Uid)
	if err != nil {
		t.Fatal(err)
	}

	gid, err = strconv.Atoi(found.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

// copyProgram copies a program with the command cp. If the test process wrote the copy, children
// that other tests start meanwhile could inherit the open file. An execution of the copy would then
// fail with "text file busy".
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying %s: %v: %s", from, err, out)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// ownerFor returns the ID of a process's user, or false if the process has ended. A PostgreSQL
// process that serves a connection may end at any time.
func ownerFor(pid int) (uid int, lives bool) {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
