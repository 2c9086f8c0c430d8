package testkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"parley/shared/bus/embedded"
	"parley/shared/contract"
)

// If roleKey is set in the environment, this test binary does not run its tests. It acts as a
// process that StartProcess starts, or as a test process that is killed.
const roleKey = "TESTKIT_TEST_ROLE"

func TestMain(m *testing.M) {
	role, args, _ := strings.Cut(os.Getenv(roleKey), " ")
	switch role {
	case "":
		m.Run()
	case "web": // reports that it is ready, and then serves HTTP on the port in args
		fmt.Println("starting")
		server := &http.Server{Addr: "127.0.0.1:" + args, ReadHeaderTimeout: time.Second}
		fmt.Println("listening", os.Getpid())
		fmt.Println(server.ListenAndServe())
		os.Exit(3)
	case "family": // starts a child that leaves the process group
		child := exec.CommandContext(context.Background(), "sleep", "600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("child", child.Process.Pid)
		select {}
	case "failing":
		fmt.Println("no such file: /etc/parley")
		os.Exit(2)
	}
}

func query(t *testing.T, dsn, statement string) (answer string) {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), statement).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func execute(t *testing.T, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestPostgresIsEachTestsOwn(t *testing.T) {
	t.Parallel()
	for range 4 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			dsn := Postgres(t)
			t.Logf("database after %s", time.Since(began))
			if got := query(t, dsn, "SELECT count(*) FROM organizations"); got != "0" {
				t.Fatalf("%s organizations in a new database", got)
			}
			execute(t, dsn, "INSERT INTO organizations (id, name) VALUES ('org_1', 'one')")
		})
	}
}

func TestPostgresIsDroppedUnderItsUsers(t *testing.T) { //nolint:tparallel // looks at what its subtest left
	t.Parallel()
	var dsn string
	t.Run("user", func(t *testing.T) {
		dsn = Postgres(t)
		db, err := sql.Open("postgres", dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The process is still running at the end of the test, as after a failed test.
	})
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.PingContext(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Fatalf("error after the test = %v, want one that the database does not exist", err)
	}
}

func TestNATSIsEachTestsOwn(t *testing.T) {
	t.Parallel()
	for range 3 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			url := NATS(t)
			js := openJetStream(t, url)
			_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: contract.StreamJobs, Subjects: []string{contract.SubjectsJobs}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func openJetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	js := JetStream(t, url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	return js
}

func TestBorrowedNATS(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Port: embedded.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	own := server.URL()
	t.Cleanup(func() {
		_ = os.Remove(borrowPath(own))
		_ = server.Stop(context.WithoutCancel(t.Context()))
	})
	for range 3 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			for range 2 {
				if borrow(t, own) != own {
					t.Fatal("the second request of a test got another server")
				}
			}
			t.Run("below", func(t *testing.T) {
				if said := play(t, func(s *recorder) { borrow(s, own) }); !strings.Contains(said, "uses the shared NATS server") {
					t.Errorf("asked again below: %q", said)
				}
			})
			js := openJetStream(t, own)
			for name, found := range map[string]error{contract.StreamJobs: jetstream.ErrStreamNotFound, "OTHERS": nil} {
				if _, err := js.Stream(t.Context(), name); found != nil && !errors.Is(err, found) {
					t.Errorf("stream %s: %v", name, err)
				}
				if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{strings.ToLower(name) + ".>"}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// self returns a command that runs this test binary in the given role.
func self(role string) Command {
	return Command{Path: os.Args[0], Env: []string{roleKey + "=" + role}}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(FreePort(t))
	command := self("web " + port)
	command.ReadyLine, command.ReadyURL = "listening", ""
	p := StartProcess(t, command)
	first := p.PID()
	if !strings.Contains(p.Output(), "listening "+strconv.Itoa(first)) {
		t.Fatalf("output %q", p.Output())
	}
	p.Kill9()
	var exit *exec.ExitError
	if err := p.Wait(time.Second); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("ended with %v", err)
	}
	p.Restart()
	if p.PID() == first || strings.Count(p.Output(), "listening") != 2 {
		t.Fatalf("after a restart: %q", p.Output())
	}
	p.Stop()
	if state := processState(t, p.PID()); state != "T" {
		t.Fatalf("frozen, but its state is %s", state)
	}
	p.Cont()
	p.Term()
	_ = p.Wait(10 * time.Second)
}

func processState(t *testing.T, pid int) (state string) {
	t.Helper()
	await(t, 5*time.Second, func() bool {
		state = stateFor(pid)
		return state == "T"
	})
	return state
}

// stateFor returns the state of a process according to the kernel, or "" if there is no such
// process.
func stateFor(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(after, " ")
	return state
}

func TestReadyURL(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
		default:
			close(ready)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	command := Command{Path: "sleep", Args: []string{"600"}, ReadyURL: "http://" + listener.Addr().String()}
	StartProcess(t, command)
	<-ready
}

// recorder is a testing.TB that records failures instead of failing the test.
type recorder struct {
	testing.TB

	cleanups []func()
	failed   bool
	said     strings.Builder
}

func (s *recorder) Helper()          {}
func (s *recorder) Failed() bool     { return s.failed }
func (s *recorder) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
func (s *recorder) Logf(format string, values ...any) {
	fmt.Fprintf(&s.said, format+"\n", values...)
}

func (s *recorder) Errorf(format string, values ...any) {
	s.failed = true
	s.Logf(format, values...)
}

func (s *recorder) Fatalf(format string, values ...any) {
	s.Errorf(format, values...)
	panic(s)
}

// play runs f and its cleanups and returns the recorded messages.
func play(t *testing.T, f func(s *recorder)) string {
	t.Helper()
	s := &recorder{TB: t}
	func() {
		defer func() {
			if value := recover(); value != nil && value != any(s) {
				panic(value)
			}
		}()
		f(s)
	}()
	for _, cleanup := range slices.Backward(s.cleanups) {
		cleanup()
	}
	return s.said.String()
}

func TestFailuresAreExplained(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(s *recorder)
		says []string
	}{
		{"no program", func(s *recorder) { StartProcess(s, Command{Path: "/no/such/program"}) }, []string{"starting program", "no such file"}},
		{"ends at once", func(s *recorder) {
			command := self("failing")
			command.Name, command.ReadyLine = "worker", "ready"
			StartProcess(s, command)
		}, []string{"worker ended while starting: exit status 2", "output of worker:\nno such file: /etc/parley"}},
		{"never ready", func(s *recorder) {
			command := self("family")
			command.ReadyLine, command.ReadyWithin = "ready", time.Second
			StartProcess(s, command)
		}, []string{"is not ready after ", "child"}},
		{"restarted alive", func(s *recorder) { StartProcess(s, Command{Path: "sleep", Args: []string{"600"}}).Restart() }, []string{"still running"}},
		{"no such package", func(s *recorder) { BuildBinary(s, "shared/nothing") }, []string{"building", "shared/nothing"}},
		{"failed later", func(s *recorder) {
			command := self("family")
			command.ReadyLine = "child"
			StartProcess(s, command)
			s.Errorf("wrong answer")
		}, []string{"wrong answer", "child"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said := play(t, test.run)
			for _, part := range test.says {
				if !strings.Contains(said, part) {
					t.Errorf("output %q does not contain %q", said, part)
				}
			}
		})
	}
}

func TestNothingOutlivesItsTest(t *testing.T) { //nolint:tparallel // looks at what its subtest left
	t.Parallel()
	var parent, child int
	t.Run("run", func(t *testing.T) {
		command := self("family")
		command.ReadyLine = "child"
		p := StartProcess(t, command)
		parent, child = p.PID(), childFor(t, p.Output())
		p.Kill9()
		if !running(child) {
			t.Fatal("the child went with its parent: nothing left to test")
		}
	})
	if running(parent) || !await(t, 5*time.Second, func() bool { return !running(child) }) {
		t.Fatalf("parent runs: %t, child runs: %t", running(parent), running(child))
	}
}

func childFor(t *testing.T, output string) (pid int) {
	t.Helper()
	_, after, _ := strings.Cut(output, "child ")
	if _, err := fmt.Sscan(after, &pid); err != nil {
		t.Fatalf("no child in %q: %v", output, err)
	}
	return pid
}

// running reports whether a process is running. A zombie does not count.
func running(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0
}

// TestVictim exists only for TestNothingOutlivesAKilledRun, which runs it in another process and
// kills that process.
func TestVictim(t *testing.T) { //nolint:paralleltest // alone in its process
	if os.Getenv(victimKey) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		panic("told to")
	}()
	dsn := Postgres(t)
	url := NATS(t)
	postgres := PostgresProcess(t)
	command := self("family")
	command.ReadyLine = "child"
	p := StartProcess(t, command)
	own, err := ownResources()
	if err != nil {
		t.Fatal(err)
	}
	pid := query(t, dsn, "SELECT pg_backend_pid()") // id of a backend process of the private server; ends together with the postmaster
	fmt.Println("victim", own.dir, p.PID(), childFor(t, p.Output()), postgres.PID(), postmaster(t, own.dir), pid, url)
	select {}
}

const victimKey = "TESTKIT_TEST_VICTIM"

func postmaster(t *testing.T, dir string) (pid int) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(content), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestNothingOutlivesAKilledRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(process *os.Process, stdin io.Closer) error
	}{
		{"killed", func(process *os.Process, _ io.Closer) error { return process.Kill() }},
		// This case simulates a timeout, after which go test ends the process by a panic, without
		// cleanups.
		{"panics", func(_ *os.Process, stdin io.Closer) error { return stdin.Close() }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
			victim.Env = append(os.Environ(), victimKey+"=1", "TEST_DATABASE_URL=", "TEST_NATS_URL=")
			output, err := victim.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdin, err := victim.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = victim.Process.Kill() }()
			var word, dir string
			pids := make([]int, 5)
			if _, err := fmt.Fscan(output, &word, &dir, &pids[0], &pids[1], &pids[2], &pids[3], &pids[4]); err != nil || word != "victim" {
				t.Fatalf("the victim said %q: %v", word, err)
			}
			if err := test.end(victim.Process, stdin); err != nil {
				t.Fatal(err)
			}
			_ = victim.Wait()
			began := time.Now()
			await(t, 20*time.Second, func() bool {
				_, err := os.Stat(dir)
				return err != nil && !anyRunning(pids)
			})
			t.Logf("cleaned up after %s", time.Since(began))
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("directory %s was not removed", dir)
			}
			for _, pid := range pids {
				if running(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

func anyRunning(pids []int) bool {
	return slices.ContainsFunc(pids, running)
}
