package proctree

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/shared/testkit/cputime"
)

// asChild is an environment variable that makes the test binary act as a program. Its value is the
// name of the program and a number.
const asChild = "PARLEY_PROCTREE_CHILD"

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

// again returns a command that starts this test binary. The binary then acts as the program with
// the given name and number.
func again(what string, n int) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = []string{asChild + "=" + what + " " + strconv.Itoa(n), "GOMAXPROCS=1", "MARK=" + os.Getenv("MARK")}
	return cmd
}

func child(what string, n int) {
	time.AfterFunc(20*time.Second, func() { os.Exit(3) }) //nolint:revive // ends this process even if the test hangs
	switch what {
	case "wait":
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "spin":
		cputime.Spend(time.Duration(n) * time.Millisecond)
	case "busy":
		_ = again("spent", n).Run() // a child that is reaped
	case "spent":
		cputime.Spend(time.Duration(n) * time.Millisecond)
		return
	case "allocate": // allocate n MiB, and share them with a child
		allocated := make([]byte, n<<20)
		for i := 0; i < len(allocated); i += 4096 {
			allocated[i] = 1
		}
	case "chain": // starts a chain of n processes, each the child of the one before
		if n > 0 {
			cmd := again("chain", n-1)
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			bufio.NewScanner(out).Scan()
		}
	case "daemons": // start n grandchildren whose parents end; in a PID namespace, this process adopts them
		for range n {
			_ = again("daemon", 0).Run()
		}
	case "daemon":
		cmd := again("stubborn", 0)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		return
	case "zombies": // starts n children that end and are not reaped
		for range n {
			if err := again("spent", 0).Start(); err != nil {
				panic(err)
			}
		}
	case "stopped": // starts n children and stops them
		for range n {
			cmd := again("wait", 0)
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			_ = cmd.Process.Signal(syscall.SIGSTOP)
		}
	case "storm": // starts 8 processes, each of which starts 8 more, n levels deep
		fmt.Println("ready")
		var allProcesses sync.WaitGroup
		for range 2 {
			allProcesses.Go(func() {
				for range 4 {
					cmd := again("storm", n-1)
					if n > 0 && cmd.Start() == nil {
						go func() { _ = cmd.Wait() }()
					}
				}
			})
		}
		allProcesses.Wait()
	}
	fmt.Println("ready")
	for {
		time.Sleep(time.Hour) //nolint:forbidigo // a process that does nothing
	}
}

// begin starts a child and waits until it is ready. The environment of the child and its children
// contains mark.
func begin(t *testing.T, what string, n int, attr *syscall.SysProcAttr) (tree Tree, cmd *exec.Cmd, mark string) {
	t.Helper()
	mark = fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
	cmd = again(what, n)
	cmd.Env = append(cmd.Env, "MARK="+mark)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range marked(t, mark) {
			t.Errorf("process %d lives on", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if tree, err = Of(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "ready" {
		t.Error("output: ", lines.Text())
	}
	return tree, cmd, mark
}

// marked returns the live processes whose environment contains the mark, anywhere in the process
// tree.
func marked(t *testing.T, mark string) (pids []int) {
	t.Helper()
	every, err := allProcesses()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range every {
		env, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ") // empty for zombies
		if !p.gone() && strings.Contains(string(env), "MARK="+mark+"\x00") {
			pids = append(pids, p.pid)
		}
	}
	return pids
}
