package cgroup

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
)

// asChild is an environment variable that makes the test binary act as a program in a sandbox. Its
// value is the name of the program and a number.
const asChild = "PARLEY_CGROUP_CHILD"

// The children run on the main goroutine, which stays on the process's first thread.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // the only place where this is possible

func TestMain(m *testing.M) {
	if what, number, is := strings.Cut(os.Getenv(asChild), " "); is {
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		child(what, n)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(what string, n int) {
	time.AfterFunc(30*time.Second, func() { os.Exit(3) }) //nolint:revive // ends this process even if the test hangs
	switch what {
	case "wait":
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "spin":
		cputime.Spend(time.Duration(n) * time.Millisecond)
	case "allocate": // allocates n MiB
		allocated := make([]byte, n<<20)
		for i := 0; i < len(allocated); i += 4096 {
			allocated[i] = 1
		}
	case "file": // writes n MiB to a file in /dev/shm, which is in memory
		f, err := os.CreateTemp("/dev/shm", "parley")
		if err == nil {
			_ = os.Remove(f.Name())
			_, err = f.Write(make([]byte, n<<20))
		}
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
	case "fork": // starts n children that wait
		for range n {
			cmd := exec.CommandContext(context.Background(), "/bin/sleep", "100") // needs less memory than this binary
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				fmt.Println("failed:", err)
				break
			}
		}
	case "storm": // forks as fast as possible forever, like each of its children
		fmt.Println("ready")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					cmd := exec.CommandContext(context.Background(), os.Args[0])
					cmd.Env = []string{asChild + "=storm 0"}
					_ = cmd.Start()
				}
			})
		}
		all.Wait()
	case "root": // starts n+1 processes in a group, one after the other, and kills all of them except the last
		r, err := Open()
		if err != nil {
			panic(err)
		}
		g, err := r.New(limits)
		if err != nil {
			panic(err)
		}
		before, _ := os.ReadFile("/proc/self/cgroup")
		var cmd *exec.Cmd
		for range 50 {
			cmd = exec.CommandContext(context.Background(), "/bin/sleep", "100")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // sent only at the end of this thread
			if err := g.Start(cmd); err != nil {
				panic(err)
			}
			if after, _ := os.ReadFile("/proc/self/cgroup"); string(after) != string(before) || syscall.Gettid() != os.Getpid() {
				panic("the first thread was moved")
			}
			if n > 0 { // kill all processes except the last
				n--
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				continue
			}
			break
		}
		fmt.Println("pid", cmd.Process.Pid, g.dirs[0])
	}
	fmt.Println("ready")
	for { // wait until a signal ends this process
		time.Sleep(time.Hour) //nolint:forbidigo // a process that does nothing
	}
}

// childProcess is a child process with its output.
type childProcess struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// command prepares a child that acts as the program with the given name and number.
func command(t *testing.T, what string, n int) *childProcess {
	t.Helper()
	c := &childProcess{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.Env = append(os.Environ(), asChild+"="+what+" "+strconv.Itoa(n), "GOMAXPROCS=2")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// begin starts a child in a group.
func begin(t *testing.T, g *Group, what string, n int) *childProcess {
	t.Helper()
	c := command(t, what, n)
	if err := g.Start(c.Cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// says returns the next line of the child's output, or "" at the end.
func (c *childProcess) says() string {
	if !c.lines.Scan() {
		return ""
	}
	return c.lines.Text()
}
