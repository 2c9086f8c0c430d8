package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestPostgresProcess(t *testing.T) {
	t.Parallel()
	server := PostgresProcess(t)
	dsn := server.DSN()
	if got := query(t, dsn, "SHOW fsync"); got != "on" {
		t.Fatalf("fsync is %s", got)
	}
	execute(t, dsn, "INSERT INTO organizations (id, name) VALUES ('org_1', 'kept')")
	for name, end := range map[string]func(){"killed": server.Kill9, "ended": server.Term} {
		end()
		began := time.Now()
		server.Restart()
		t.Logf("%s, back after %s", name, time.Since(began))
		if server.DSN() != dsn {
			t.Fatal("another URL")
		}
		if got := query(t, dsn, "SELECT name FROM organizations"); got != "kept" {
			t.Fatal(got)
		}
	}
}

// After Kill9, the processes of a server execute no more statements. This includes a busy process
// that has not noticed that the server is gone.
func TestAKilledPostgresStopsCompletely(t *testing.T) {
	t.Parallel()
	server := PostgresProcess(t)
	var processes []int
	for _, pid := range children(server.PID()) {
		err := syscall.Kill(pid, syscall.SIGSTOP)
		if errors.Is(err, syscall.ESRCH) { // some of the processes live only briefly
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // fails because the process has ended, unless the test failed
		processes = append(processes, pid)
	}
	if len(processes) < 3 {
		t.Fatalf("the server has the processes %v", processes)
	}
	server.Kill9()
	lives := func(pid int) bool { return !slices.Contains([]string{"", "Z"}, stateFor(pid)) } // a zombie executes nothing
	if gone := await(t, time.Minute, func() bool { return !slices.ContainsFunc(processes, lives) }); !gone {
		t.Errorf("some of the processes %v still run", processes)
	}
}

func TestNATSProcess(t *testing.T) {
	t.Parallel()
	server := NATSProcess(t, "")
	js := openJetStream(t, server.URL)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "jobs.a", nil); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	server.Restart()
	var stream jetstream.Stream
	back := await(t, time.Minute, func() (ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		stream, err = js.Stream(ctx, "JOBS")
		return err == nil
	})
	if !back || stream.CachedInfo().State.Msgs != 1 {
		t.Fatal("the stream is gone")
	}
}

func TestBuildBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/greet\n\ngo 1.24\n",
		"main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.RemoveAll(pathFor(t, dir)) })
	var group sync.WaitGroup
	paths := make([]string, 3)
	for i := range paths {
		group.Go(func() { paths[i] = build(t, dir, ".", "", Race, "GOWORK=off", "GOFLAGS=-mod=mod") })
	}
	group.Wait()
	if paths[0] != paths[1] || paths[1] != paths[2] {
		t.Fatalf("the paths of the built programs are %v", paths)
	}
	if output, err := exec.CommandContext(t.Context(), paths[0]).CombinedOutput(); err != nil || string(output) != "hello\n" {
		t.Fatalf("%q, %v", output, err)
	}
}

// pathFor returns the directory in the cache for a program that is built from dir.
func pathFor(t *testing.T, dir string) string {
	t.Helper()
	path := build(t, dir, ".", "", Race)
	return path[:strings.LastIndex(path, "/")]
}

func TestFreePort(t *testing.T) {
	t.Parallel()
	var ports []int
	for range 20 {
		port := FreePort(t)
		if slices.Contains(ports, port) || port < firstPort || port >= firstPort+portCount {
			t.Fatalf("port %d after %v", port, ports)
		}
		ports = append(ports, port)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if listenable(t, ports[0]) {
		t.Fatal("FreePort returned a port on which a process listens")
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u:p@h:5432/old?sslmode=disable": "postgres://u:p@h:5432/new?sslmode=disable",
		"postgresql://h/old":                        "postgresql://h/new",
		"postgres://u@h":                            "postgres://u@h/new",
		"postgres://u@h?sslmode=disable":            "postgres://u@h/new?sslmode=disable",
		"postgres://u@/old?host=/run/pg":            "postgres://u@/new?host=/run/pg",
		"host=/run/pg dbname=old":                   "host=/run/pg dbname=old dbname=new",
	} {
		if got := withDatabase(dsn, "new"); got != want {
			t.Errorf("%s: %s, want %s", dsn, got, want)
		}
	}
}

// echo starts a server that sends each line back, and returns the server's address.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, bufio.NewReader(conn)
}

func send(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// receive reads a line. It returns "" if no line arrives in time.
func receive(t *testing.T, conn net.Conn, lines *bufio.Reader, within time.Duration) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	line, err := lines.ReadString('\n')
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*FaultProxy){
		"both": (*FaultProxy).Cut, "requests": (*FaultProxy).CutRequests, "replies": (*FaultProxy).CutReplies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := Proxy(t, echo(t))
			conn, lines := dial(t, proxy.Addr())
			send(t, conn, "one")
			if got := receive(t, conn, lines, time.Minute); got != "one" {
				t.Fatalf("got %q", got)
			}
			cut(proxy)
			send(t, conn, "two")
			later, laterLines := dial(t, proxy.Addr())
			send(t, later, "three")
			if got := receive(t, conn, lines, 50*time.Millisecond); got != "" {
				t.Fatalf("got %q through a cut", got)
			}
			if got := receive(t, later, laterLines, 50*time.Millisecond); got != "" {
				t.Fatalf("got %q through a cut", got)
			}
			proxy.Restore()
			if got := receive(t, conn, lines, time.Minute); got != "two" {
				t.Fatalf("got %q", got)
			}
			if got := receive(t, later, laterLines, time.Minute); got != "three" {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	proxy := Proxy(t, echo(t))
	proxy.Delay(100 * time.Millisecond)
	conn, lines := dial(t, proxy.Addr())
	began := time.Now()
	const many = 1000 // number of pieces; if they were delayed one after the other, they would take 200 s
	for range many {
		send(t, conn, "line")
	}
	for range many {
		if got := receive(t, conn, lines, time.Minute); got != "line" {
			t.Fatalf("got %q", got)
		}
	}
	if took := time.Since(began); took < 200*time.Millisecond || took > 100*time.Second {
		t.Fatalf("took %s for a delay of twice 100ms", took)
	}
}

func TestProxyResets(t *testing.T) {
	t.Parallel()
	proxy := Proxy(t, echo(t))
	conn, lines := dial(t, proxy.Addr())
	send(t, conn, "one")
	receive(t, conn, lines, time.Minute)
	proxy.Reset()
	if _, err := lines.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after a reset: %v", err)
	}
	conn, lines = dial(t, proxy.Addr())
	send(t, conn, "two")
	if got := receive(t, conn, lines, time.Minute); got != "two" {
		t.Fatalf("got %q", got)
	}
}

func TestProxyHandsOnTheEnd(t *testing.T) {
	t.Parallel()
	conn, lines := dial(t, Proxy(t, echo(t)).Addr())
	send(t, conn, "last words")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || string(rest) != "last words\n" {
		t.Fatalf("%q, %v", rest, err)
	}
	refused, err := new(net.Dialer).DialContext(t.Context(), "tcp", Proxy(t, "127.0.0.1:1").Addr())
	if err != nil {
		return // reset before it was accepted
	}
	defer refused.Close()
	if err := refused.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after a dead target: %v", err)
	}
}
