package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestHomeOfThisProcess(t *testing.T) {
	t.Parallel()
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 none rw,nsdelegate\n"
		v1     = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup none rw,cpu,cpuacct\n"
		docker = "700 690 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup none rw,memory\n"
	)
	for name, c := range map[string]struct {
		mounts, own, controller string
		want                    string
		none                    bool
		wrong                   string
	}{
		"v2":                            {mounts: v2, own: "0::/system.slice/parley.service\n", want: "/sys/fs/cgroup/system.slice/parley.service"},
		"v2, root":                      {mounts: v2, own: "0::/\n", want: "/sys/fs/cgroup"},
		"v2, colon in the name":         {mounts: v2, own: "0::/a:b\n", want: "/sys/fs/cgroup/a:b"},
		"v2, outside of the namespace":  {mounts: v2, own: "0::/../../x\n", wrong: "outside"},
		"v2, part of the tree mounted":  {mounts: "1 2 0:26 /user.slice /mnt/my\\040groups rw - cgroup2 none rw\n", own: "0::/user.slice/x\n", want: "/mnt/my groups/x"},
		"v2, another part mounted":      {mounts: "1 2 0:26 /user.slice /mnt rw - cgroup2 none rw\n", own: "0::/user.slicer/x\n", wrong: "outside"},
		"v2, none mounted":              {mounts: v1, own: "0::/x\n", none: true},
		"v1":                            {mounts: v2 + v1, own: "4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/\n", controller: "memory", want: "/sys/fs/cgroup/memory/a/b"},
		"v1, mounted together":          {mounts: v1, own: "4:memory:/a/b\n3:cpu,cpuacct:/c\n", controller: "cpuacct", want: "/sys/fs/cgroup/cpu,cpuacct/c"},
		"v1, no such controller":        {mounts: v1, own: "4:memory:/a/b\n", controller: "pids", none: true},
		"v1, not mounted":               {mounts: v2, own: "4:memory:/a/b\n", controller: "memory", none: true},
		"v1, container":                 {mounts: docker, own: "4:memory:/docker/ab\n", controller: "memory", want: "/sys/fs/cgroup/memory"},
		"v1, below the container":       {mounts: docker, own: "4:memory:/docker/ab/x\n", controller: "memory", want: "/sys/fs/cgroup/memory/x"},
		"v1, begins as another's name":  {mounts: docker, own: "4:memory:/docker/abc\n", controller: "memory", wrong: "outside"},
		"v1, a controller's name in it": {mounts: v1, own: "4:name=memory:/x\n", controller: "memory", none: true},
		"broken lines":                  {mounts: "x\n - \n1 2 - cgroup2\n", own: "0:\nx\n\n", none: true},
	} {
		dir, found, err := home(mountsIn(c.mounts), c.own, c.controller)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) || dir != c.want || err == nil && found == c.none {
			t.Errorf("%s: %q %v %v", name, dir, found, err)
		}
	}
	if _, err := open("", ""); err == nil || err.Error() != "no cgroups are mounted" {
		t.Error(err)
	}
}

// made creates a folder that contains the files of a cgroup, for tests on machines without cgroups.
func made(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := folders(dir)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func TestVersion2SaysWhyNotAndLeavesAllAsItWas(t *testing.T) {
	t.Parallel()
	parent := strconv.Itoa(os.Getppid())
	for name, c := range map[string]struct {
		files map[string]string
		wrong string
	}{
		"no controllers":      {map[string]string{"cgroup.controllers": "hugetlb\n"}, "controller memory is not delegated"},
		"no controllers file": {nil, "controller memory is not delegated"},
		"no pids":             {map[string]string{"cgroup.controllers": "cpu memory\n"}, "controller pids is not delegated"},
		"threads":             {map[string]string{"cgroup.controllers": "memory pids", "cgroup.type": "domain threaded\n"}, "not a domain cgroup (its type is domain threaded)"},
		"somebody else": {
			map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.type": "domain\n", "cgroup.procs": parent + "\n", "cgroup.subtree_control": ""},
			"process " + parent,
		},
		"somebody from outside": {
			map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.type": "domain\n", "cgroup.procs": "0\n", "cgroup.subtree_control": ""},
			"process 0",
		},
	} {
		dir := made(t, c.files)
		r, err := openV2(dir)
		if err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v %v", name, r, err)
		}
		if left := names(t, dir); left != "" {
			t.Errorf("%s: left %s", name, left)
		}
		for file, content := range c.files {
			if now, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(now) != content {
				t.Errorf("%s: %s is %q %v", name, file, now, err)
			}
		}
	}
}

func TestVersion2IsRefusedWithoutRightsToWrite(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		syscall.EROFS: "read-only", syscall.EACCES: "permission denied for this process's user", syscall.EPERM: "permission denied for this process's user", syscall.EINVAL: "invalid argument",
	} {
		if said := reason(&fs.PathError{Op: "mkdir", Path: "x", Err: err}).Error(); !strings.Contains(said, want) {
			t.Errorf("%v: %s", err, said)
		}
	}
}

func TestDescendantsAreRecognized(t *testing.T) {
	t.Parallel()
	c := command(t, "fork", 1)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	c.says()
	if err := checkProcesses("/x", []int{os.Getpid(), c.Process.Pid}); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{1, os.Getppid(), 0, 1 << 30} {
		if err := checkProcesses("/x", []int{os.Getpid(), pid}); err == nil || !strings.Contains(err.Error(), "/x") || !strings.Contains(err.Error(), "Delegate=yes") {
			t.Errorf("%d: %v", pid, err)
		}
	}
}

func TestLimitsAndUsageOfVersion2(t *testing.T) {
	t.Parallel()
	dir := made(t, map[string]string{
		"memory.max": "", "memory.swap.max": "", "pids.max": "", "cpu.weight": "",
		"memory.current": "9000\n", "memory.stat": "anon 1\nfile 4000\nfile_mapped 77\n", "memory.events": "low 0\noom 1\noom_kill 2\n",
		"pids.current": "7\n", "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
	})
	if err := limitV2(dir, []string{"memory", "pids", "cpu"}, limits); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "184549376", "memory.swap.max": "0", "pids.max": "32", "cpu.weight": "100"} {
		if got := strings.Join(words(dir, file), " "); got != want {
			t.Errorf("%s: %s", file, got)
		}
	}
	g := Group{root: &Root{version: 2}, dirs: []string{dir}}
	u, err := g.Usage()
	if err != nil || u.Memory != 5000 || u.Processes != 7 || !u.OutOfMem || u.CPU.Milliseconds() != 1500 {
		t.Errorf("%+v %v", u, err)
	}
	for _, file := range []string{"memory.current", "memory.events", "pids.current", "cpu.stat"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		if u, err := g.Usage(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %+v %v", file, u, err)
		}
	}
}

func TestControllersAreDelegatedOnce(t *testing.T) {
	t.Parallel()
	dir := made(t, map[string]string{"cgroup.subtree_control": "cpu memory pids\n"})
	if err := delegate(dir, []string{"memory", "pids"}); err != nil {
		t.Error(err)
	}
	if got := words(dir, "cgroup.subtree_control"); !slices.Equal(got, []string{"cpu", "memory", "pids"}) {
		t.Error("written without need: ", got)
	}
	if err := delegate(made(t, nil), []string{"memory"}); err == nil || !strings.Contains(err.Error(), "delegating the controller memory") {
		t.Error(err)
	}
}

func TestFolderIsLockedOnce(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, lock, err := claim(parent)
	if err != nil || lock == nil || !claimed.MatchString(filepath.Base(dir)) {
		t.Fatal(dir, err)
	}
	if retry, err := lockFolder(dir); !errors.Is(err, errTaken) {
		t.Error("locked twice: ", retry, err)
	}
	others := filepath.Join(parent, "parley-of-somebody")
	if err := os.Mkdir(others, 0o755); err != nil {
		t.Fatal(err)
	}
	clean(parent)
	if got := names(t, parent); got != filepath.Base(dir)+" parley-of-somebody" {
		t.Error(got)
	}
	// Release the lock explicitly. Closing the file would not be enough, because a program that a
	// parallel test is starting shares the lock until its exec.
	if err := errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close()); err != nil {
		t.Fatal(err)
	}
	free, err := lockFolder(dir)
	if err != nil || free == nil {
		t.Fatal(free, err)
	}
	_ = free.Close() // no data can be lost
	if gone, err := lockFolder(dir + "x"); !errors.Is(err, errTaken) {
		t.Error(gone, err)
	}
}

// GiveWay reduces a group's share of the processors to a tenth, in the units of each version.
func TestGroupsGiveWay(t *testing.T) {
	t.Parallel()
	for version, c := range map[int]struct{ file, want string }{1: {"cpu.shares", "25"}, 2: {"cpu.weight", "10"}} {
		for controller, want := range map[string]string{"memory": "", "cpu": c.want} {
			dir := made(t, map[string]string{c.file: ""})
			g := Group{root: &Root{version: version, parts: []part{{controllers: []string{controller}}}}, dirs: []string{dir}}
			if err := g.GiveWay(); err != nil || strings.Join(words(dir, c.file), " ") != want {
				t.Errorf("version %d with %s: %v, %s is %v", version, controller, err, c.file, words(dir, c.file))
			}
		}
	}
}
