package gvisor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit"
	"parley/workers/internal/sandbox"
)

// nobody is the user ID of an unprivileged account that owns no files.
const nobody = 65534

func needRunsc(t *testing.T) {
	t.Helper()
	path := os.Getenv("RUNSC")
	if path == "" {
		path = "runsc"
	}
	if _, err := exec.LookPath(path); err != nil {
		t.Skipf("NOT TESTED: sandboxes in gVisor: there is no %s on this machine (install the package runsc, or set RUNSC)", path)
	}
}

func limits() sandbox.Limits {
	return sandbox.Limits{Memory: 128 << 20, Processes: 16, Files: 4 << 20}
}

// TestWithoutCgroups tests the measurement of usage and the removal of processes if no cgroups
// limit the sandbox.
func TestWithoutCgroups(t *testing.T) {
	t.Parallel()
	needRunsc(t)
	folder := t.TempDir()
	b, err := open(Config{Folder: folder}, nil, errors.New("there are none here"))
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(b.Notes(), " "); !strings.Contains(notes, "(there are none here)") {
		t.Errorf("the notes do not say why there are no cgroups: %s", notes)
	}
	using(t, b)
	if err := b.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("files that remain on the host: %v", left)
	}
	if _, err := b.Start(t.Context(), sandbox.Command{}); err == nil {
		t.Error("a closed backend starts a sandbox")
	}
}

// using starts a program that uses each kind of resource. It checks the measured usage and kills
// the program.
func using(t *testing.T, b *Backend) {
	t.Helper()
	const program = `import os, sys, time
kept = bytearray(os.urandom(1) * (50 << 20))
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
children = 0
try:
    while children < 200:
        if os.fork() == 0:
            time.sleep(600)
        children += 1
except BlockingIOError:
    pass
print(children, flush=True)
time.sleep(600)`
	started, err := b.Start(t.Context(), sandbox.Command{Args: []string{"/usr/bin/python3", "-I", "-S", "-c", program}, Limits: limits()})
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 16)
	n, err := started.Stdout().Read(said)
	if err != nil {
		t.Fatalf("reading the program's output: %v; standard error: %s", err, started.Stderr())
	}
	if got := strings.TrimSpace(string(said[:n])); got != "23" { // the sum of the limit on processes and the reserve, minus the first process
		t.Errorf("a program with 16 processes starts %s children", got)
	}
	u, err := started.Usage()
	if err != nil || u.CPU < 200*time.Millisecond || u.Memory < 50<<20 || u.Memory > 250<<20 {
		t.Errorf("usage is %+v, %v", u, err)
	}
	if x, ok := started.(*box); ok {
		gone(t, x)
	}
}

// gone kills a box and checks that all of its processes have ended.
func gone(t *testing.T, x *box) {
	t.Helper()
	pids := x.hostPids()
	if len(pids) < 4 {
		t.Errorf("processes of the sandbox on the host = %v, want at least 4", pids)
	}
	began := time.Now()
	x.Kill()
	if took := time.Since(began); took > testkit.Within(3*time.Second) {
		t.Errorf("killing the sandbox took %s", took)
	}
	for _, pid := range pids {
		if is, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status"); err == nil {
			t.Errorf("process %d still exists: %.200s", pid, is)
		}
	}
	if _, err := os.Stat(x.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sandbox's folder was not removed: %v", err)
	}
	if rest, err := io.ReadAll(x.Stdout()); err != nil || len(rest) > 0 {
		t.Errorf("output after the kill = %q, %v", rest, err)
	}
}

func TestShownFilesAreTheHostsAndCannotBeWritten(t *testing.T) {
	t.Parallel()
	needRunsc(t)
	b, err := Open(Config{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error("closing:", err)
		}
	})
	path := filepath.Join(t.TempDir(), "program")
	writeProgram(t, path, strings.NewReader("#!/bin/sh\necho shown\n"))
	x, err := b.Start(t.Context(), sandbox.Command{
		Args:  []string{"/bin/sh", "-c", "/parley/program; { echo >> /parley/program; rm -f /parley/program; } 2>/dev/null; echo /parley/*"},
		Shown: []sandbox.Shown{{Path: "/parley/program", Host: path}}, Limits: limits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Kill()
	if said, err := io.ReadAll(x.Stdout()); err != nil || string(said) != "shown\n/parley/program\n" {
		t.Errorf("output = %q, %v: %s", said, err, x.Stderr())
	}
	if content, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(content), "shown\n") {
		t.Errorf("the host's file is %q, %v", content, err)
	}
}

// TestNotRoot runs TestWithoutCgroups as an unprivileged user.
func TestNotRoot(t *testing.T) {
	t.Parallel()
	needRunsc(t)
	if os.Getuid() != 0 {
		t.Skip("the tests do not run as root, so the other tests already run without root's privileges")
	}
	folder, err := os.MkdirTemp("", "parley-test-nobody-") //nolint:usetesting // t.TempDir is in a folder that other users may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	self := filepath.Join(folder, "test")
	program, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }() // the file was only read
	writeProgram(t, self, program)
	if err := os.Chown(folder, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), self, "-test.run=^TestWithoutCgroups$", "-test.v")
	again.Env = append(os.Environ(), "TMPDIR="+folder)
	again.Dir = folder
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	said, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: TestWithoutCgroups") {
		t.Errorf("as an unprivileged user: %v\n%s", err, said)
	}
}

// writeProgram writes an executable file in another process. If this process wrote the file, a
// child of a parallel test could hold the file open for writing. The kernel would then refuse to
// execute the file.
func writeProgram(t *testing.T, path string, content io.Reader) {
	t.Helper()
	write := exec.CommandContext(t.Context(), "/bin/sh", "-c", `cat > "$0" && chmod 755 "$0"`, path)
	write.Stdin = content
	if said, err := write.CombinedOutput(); err != nil {
		t.Fatalf("writing a program: %v: %s", err, said)
	}
}

func TestOpenSaysWhyNot(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// options is the help text of a fake runsc.
	const options = `  -platform value\n    \tptrace (default)\n  -network value\n    \tx\n  -oci-seccomp\n    \tx\n  -ignore-cgroups\n    \tx\n` +
		`  -overlay2 value\n    \tx\n  -file-access value\n    \tx\n  -rootless\n    \tx\n`
	for name, c := range map[string]struct{ script, want string }{
		"missing":   {"", "install the package runsc"},
		"something": {"echo hello", "cannot read the options of"},
		"old":       {`printf '  -platform value\n    \tptrace\n'`, "no option -network"},
		"broken":    {`[ "$1" = flags ] && printf '` + options + `' || { echo first; echo it is broken; exit 1; } >&2`, "cannot start a sandbox on this machine: it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(folder, name)
			if c.script != "" {
				writeProgram(t, path, strings.NewReader("#!/bin/sh\n"+c.script+"\n"))
			}
			b, err := open(Config{Runsc: path, Folder: t.TempDir()}, nil, errors.New("none"))
			if err == nil {
				t.Fatal("open returned no error", b.Close())
			}
			if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
				t.Errorf("error = %q, want %q", text, c.want)
			}
		})
	}
}
