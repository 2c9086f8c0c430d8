//go:build linux

package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/workers/internal/sandbox"
)

func TestOnlyWhatIsMeantIsSeen(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		leak, err := syscall.Open("/etc/hostname", syscall.O_RDONLY, 0) // stands for any file descriptor that this process uses
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Close(leak) }() // no data can be lost, because the file was opened only for reading
		c := code(`
import fcntl, json, os, resource
descriptors = []
for n in range(1024):
    try:
        fcntl.fcntl(n, fcntl.F_GETFD)
        descriptors.append(n)
    except OSError:
        pass
print(json.dumps({
    "descriptors": descriptors, "environment": dict(os.environ), "root": sorted(os.listdir("/")), "etc": sorted(os.listdir("/etc")),
    "dev": sorted(os.listdir("/dev")), "ids": [os.getpid(), os.getppid(), *os.getresuid(), *os.getresgid()], "groups": os.getgroups(),
    "folder": os.getcwd(), "work": os.listdir("/work"), "tmp": os.listdir("/tmp"), "data": open("/parley/a b/x").read(),
    "mode": os.stat("/parley/a b/x").st_mode & 0o777, "name": os.uname().nodename, "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
}))`)
		c.Env = []string{"A=b=c", "EMPTY=", "TEXT=x y\n--bind"}
		c.Data = []sandbox.Data{{Path: "/parley/a b/x", Content: []byte("content")}}
		x := start(t, b, c)
		text := said(t, x)
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s%s", err, text, x.Stderr())
		}
		delete(got["environment"].(map[string]any), "LC_CTYPE") // Python sets this variable
		devices := "[full null random shm urandom zero]"
		if b.groups == nil {
			devices = "[full null random shm urandom]" // zero is missing, because shared mappings of /dev/zero would not be counted as memory
		}
		for what, want := range map[string]string{
			"descriptors": "[0 1 2]", "environment": "map[A:b=c EMPTY: PWD:/work TEXT:x y\n--bind]", "groups": "",
			"ids": "[1 0 1000 1000 1000 1000 1000 1000]", "folder": "/work", "work": "[]", "tmp": "[]", "data": "content",
			"mode": fmt.Sprint(0o444), "name": "sandbox", "core": coreLimit(t), "dev": devices,
		} {
			if found := fmt.Sprint(got[what]); found != want && want != "" {
				t.Errorf("%s: %s instead of %s", what, found, want)
			}
		}
		if os.Geteuid() == 0 && fmt.Sprint(got["groups"]) != "[]" {
			t.Errorf("groups: %v", got["groups"])
		}
		for what, may := range map[string][]any{
			"root": {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "parley", "tmp", "usr", "work"},
			"etc":  {"alternatives", "fonts", "group", "hosts", "ld.so.cache", "localtime", "matplotlibrc", "mime.types", "passwd"},
		} {
			for _, name := range got[what].([]any) {
				if !slices.Contains(may, name) {
					t.Errorf("/%s shows %v", what, name)
				}
			}
		}
	})
}

// coreLimit returns the expected limit on core files. This process may set the limit for other
// processes, unless it is root without CAP_SYS_RESOURCE.
func coreLimit(t *testing.T) string {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		return ""
	}
	return "1"
}

func TestNothingOfTheHostIsWritten(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, code(`
import os
for path in "/x", "/usr/x", "/usr/bin/x", "/etc/x", "/dev/x", "/lib/x", "/parley/x", "/bin/x":
    try:
        open(path, "w")
        print("made", path)
    except OSError:
        pass
for change in (lambda: os.chmod("/etc/passwd", 0o777), lambda: os.unlink("/etc/passwd"), lambda: os.rename("/work", "/x"), lambda: os.rmdir("/tmp"),
               lambda: os.symlink("/etc", "/dev/y"), lambda: os.chmod("/dev/null", 0), lambda: os.chmod("/", 0o777), lambda: os.mkdir("/y"),
               lambda: os.utime("/usr/bin/env"), lambda: open("/etc/passwd", "a")):
    try:
        change()
        print("changed")
    except OSError:
        pass
print("tried")`))
	if text := said(t, x); text != "tried\n" {
		t.Errorf("%s%s", text, x.Stderr())
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		c := code(`
import os, threading, time
open("/work/a", "wb").write(b"x" * (3 << 20))
open("/tmp/b", "wb").write(b"x" * (2 << 20))
os.makedirs("/work/d/e")
for n in range(50):
    open(f"/tmp/{n}", "w").close()
memory = b"x" * (100 << 20)
for _ in range(3):
    if os.fork() == 0:
        threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
        time.sleep(1000)
end = time.process_time() + 0.3
while time.process_time() < end:
    pass
print("ready", flush=True)
input()
raise SystemExit`)
		c.Limits = testLimits()
		c.Limits.Memory = 200 << 20 // low, because shared memory is counted once only if the sum for all processes exceeds the limit
		x := start(t, b, c)
		if line := make([]byte, 6); !readsFull(x.Stdout(), line) || string(line) != "ready\n" {
			t.Fatalf("%q %s", line, x.Stderr())
		}
		u, err := x.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if u.CPU < 300*time.Millisecond || u.CPU > time.Minute {
			t.Errorf("CPU %s", u.CPU)
		}
		if u.Memory < 100<<20 || u.Memory > 200<<20 {
			t.Errorf("memory %d", u.Memory)
		}
		if u.Processes != 7 {
			t.Errorf("%d processes and threads instead of 7", u.Processes)
		}
		if u.Files != 5<<20 || u.FileCount != 54 {
			t.Errorf("%d bytes of files, %d files, instead of %d, 54", u.Files, u.FileCount, 5<<20)
		}
		if u.OutOfMem {
			t.Error("out of memory")
		}
		if _, err := io.WriteString(x.Stdin(), "\n"); err != nil {
			t.Error(err)
		}
		<-x.Done()
		after, err := x.Usage()
		if err != nil || after.CPU < u.CPU || after.Processes != 0 || after.Files < u.Files {
			t.Errorf("usage after the end: %+v, %v", after, err)
		}
	})
}

func readsFull(r io.Reader, into []byte) bool {
	_, err := io.ReadFull(r, into)
	return err == nil
}

func TestFoldersAreLimited(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	c := code(`
import os
for folder in "/work", "/tmp", "/dev/shm":
    size = 0
    try:
        with open(folder + "/fill", "wb", buffering=0) as f:
            while size < 64 << 20:
                size += f.write(b"x" * 65536)
    except OSError as e:
        print(folder, size, os.strerror(e.errno))`)
	c.Limits = testLimits()
	c.Limits.Files = 1 << 20
	want := "/work 1048576 No space left on device\n/tmp 1048576 No space left on device\n/dev/shm 1048576 No space left on device\n"
	x := start(t, b, c)
	if text := said(t, x); text != want {
		t.Errorf("%s%s", text, x.Stderr())
	}
	if u, err := x.Usage(); err != nil || u.Exceeds(c.Limits, sandbox.Usage{}) != "" && u.Exceeds(c.Limits, sandbox.Usage{}) != sandbox.LimitFiles {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestMemoryIsLimitedByTheKernelWhereThereAreCgroups(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		if b.groups == nil {
			if len(b.Notes()) != 1 || !strings.Contains(b.Notes()[0], "the test wants none") {
				t.Errorf("notes: %q", b.Notes())
			}
			return
		}
		c := code(`
import os
print("started", flush=True)
held = []
while True:
    held.append(b"x" * (16 << 20))
    if len(held) > 64:
        print("has 1 GiB")
        break`)
		c.Limits = testLimits()
		c.Limits.Memory = 128 << 20
		x := start(t, b, c)
		if text := said(t, x); text != "started\n" {
			t.Errorf("%q", text)
		}
		if u, err := x.Usage(); err != nil || !u.OutOfMem || u.Exceeds(c.Limits, sandbox.Usage{}) != sandbox.LimitMemory {
			t.Errorf("%+v, %v", u, err)
		}
		if len(b.Notes()) != 0 {
			t.Errorf("notes: %q", b.Notes())
		}
	})
}

func TestTheHostsFoldersAreNotTakenForASandboxs(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, code(`import os; os.symlink("/", "/work/link"); print("ready", flush=True); input()`))
	if line := make([]byte, 6); !readsFull(x.Stdout(), line) {
		t.Fatal(x.Stderr())
	}
	bwrap, size := x.cmd.Process.Pid, folderSize(x.limits)
	right := openFolders(bwrap, x.owner, size)
	if len(right) != len(folders) {
		t.Errorf("%d folders", len(right))
	}
	closeAll(right)
	for what, found := range map[string][]*os.File{
		"another user": openFolders(bwrap, x.owner+1, size),
		"another size": openFolders(bwrap, x.owner, size+int64(os.Getpagesize())),
		"the host":     openFolders(os.Getppid(), x.owner, size),
		"no process":   openFolders(1<<30, x.owner, size),
	} {
		if found != nil {
			t.Errorf("%s: %d folders", what, len(found))
			closeAll(found)
		}
	}
}

func TestStderrIsTheBeginning(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, code(`import os; os.write(2, b"\xffbegin"); [os.write(2, b"y" * 65536) for _ in range(50)]; print("written")`))
	if text := said(t, x); text != "written\n" {
		t.Errorf("%q", text)
	}
	if got := x.Stderr(); !strings.HasPrefix(got, "\uFFFDbeginyyy") || len(got) != 16<<10+2 {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

func TestOutputIsThereAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, code(`print("x" * 50000)`))
	<-x.Done()
	if text := said(t, x); len(text) != 50001 {
		t.Errorf("%d bytes", len(text))
	}
	if _, err := x.Stdin().Write([]byte("x")); err == nil {
		t.Error("a dead sandbox takes input")
	}
}

func TestShownFilesAreTheHostsAndCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := script(t, 0o755, "echo shown")
	eachWay(t, func(t *testing.T, b *Backend) {
		t.Helper()
		c := code(`
import os, subprocess, sys
print(subprocess.run(["/parley/program"], capture_output=True, text=True).stdout, end="")
for attempt in (lambda: open("/parley/program", "a"), lambda: os.remove("/parley/program"), lambda: os.chmod("/parley/program", 0o777)):
    try:
        attempt()
        print("it can be written")
    except OSError as error:
        pass
print(sorted(os.listdir("/parley")), os.path.exists(sys.argv[1]))`, path)
		c.Shown = []sandbox.Shown{{Path: "/parley/program", Host: path}}
		if got := said(t, start(t, b, c)); got != "shown\n['program'] False\n" {
			t.Errorf("got %s", got)
		}
	})
}

func TestCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	args := []string{"/usr/bin/true"}
	for name, c := range map[string]sandbox.Command{
		"no command":           {},
		"a relative path":      {Args: []string{"true"}},
		"NUL in an argument":   {Args: []string{"/usr/bin/true", "a\x00b"}},
		"NUL in a variable":    {Args: args, Env: []string{"A=\x00--bind"}},
		"no variable":          {Args: args, Env: []string{"A"}},
		"no name":              {Args: args, Env: []string{"=A"}},
		"data in /work":        {Args: args, Data: []sandbox.Data{{Path: "/work/x"}}},
		"data in /tmp":         {Args: args, Data: []sandbox.Data{{Path: "/tmp/x/y"}}},
		"data for /dev/shm":    {Args: args, Data: []sandbox.Data{{Path: "/dev/shm"}}},
		"data with a detour":   {Args: args, Data: []sandbox.Data{{Path: "/x/../work/y"}}},
		"data somewhere":       {Args: args, Data: []sandbox.Data{{Path: "x"}}},
		"NUL in a data's path": {Args: args, Data: []sandbox.Data{{Path: "/x\x00--bind"}}},
		"shown in /work":       {Args: args, Shown: []sandbox.Shown{{Path: "/work/x", Host: "/usr/bin/true"}}},
		"shown from somewhere": {Args: args, Shown: []sandbox.Shown{{Path: "/x", Host: "true"}}},
		"NUL in a shown path":  {Args: args, Shown: []sandbox.Shown{{Path: "/x", Host: "/usr\x00--bind"}}},
	} {
		if x, err := b.Start(t.Context(), c); err == nil {
			x.Kill()
			t.Errorf("%s: is taken", name)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Start(ended, sandbox.Command{Args: args, Limits: testLimits()}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestACommandThatIsNotThereComplains(t *testing.T) {
	t.Parallel()
	b := opened(t, nil, errors.New("the test wants none"))
	x := start(t, b, sandbox.Command{Args: []string{"/usr/bin/nothing-of-the-kind"}})
	if text := said(t, x); text != "" || !strings.Contains(x.Stderr(), "nothing-of-the-kind") {
		t.Errorf("%q, %q", text, x.Stderr())
	}
}
