package pgserver

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/lifecycle"
)

// Some tests need a supervising process that they can kill. This process is the test binary itself,
// started again with a role in roleKey and a directory in dirKey.
const (
	roleKey = "PGSERVER_TEST_ROLE"
	dirKey  = "PGSERVER_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleKey) {
	case "":
		code := m.Run()
		if template.dir != "" {
			_ = os.RemoveAll(template.dir)
		}
		os.Exit(code)
	case "supervisor": // starts a server and waits to be killed
		server, err := Start(context.Background(), Config{Dir: os.Getenv(dirKey)})
		if err != nil {
			panic(err)
		}
		fmt.Println(server.PID(), server.socket)
		select {}
	case "deserter": // starts a server that outlives this process, and exits
		fmt.Println(desert(os.Getenv(dirKey)), "-")
	}
}

func desert(dir string) int {
	lock, err := lifecycle.LockFile(filepath.Join(dir, "server.lock"))
	if err != nil {
		panic(err)
	}
	opened, err := openCluster(context.Background(), dir, true, lock)
	if err != nil {
		panic(err)
	}
	name, err := clusterName(opened.data)
	if err != nil {
		panic(err)
	}
	cmd, _, err := opened.command(context.Background(), opened.binaries.Postgres, arguments(nil, 0, name), lock)
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	ready, err := poll(context.Background(), time.Minute, func() (bool, error) {
		return recordedPostmaster(opened.data).status == "ready", nil
	})
	if err != nil || !ready {
		panic(err)
	}
	return cmd.Process.Pid
}

// run starts this test binary in a role. It returns the process and the first line of its output.
func run(t *testing.T, role, dir string) (cmd *exec.Cmd, pid int, rest string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleKey+"="+role, dirKey+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(stdout, &pid, &rest); err != nil {
		t.Fatalf("role %s printed nothing: %v", role, err)
	}
	return cmd, pid, rest
}

// template is a cluster that is created once. Tests copy it.
var template struct {
	once sync.Once
	dir  string
	err  error
}

// clusterDir returns a directory for this test with a copy of the cluster.
func clusterDir(t *testing.T) string {
	t.Helper()
	template.once.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		template.dir, template.err = os.MkdirTemp("", "pgserver-test-") //nolint:usetesting // outlives the test that creates it
		if template.err != nil {
			return
		}
		var server *Server
		server, template.err = Start(ctx, Config{Dir: template.dir, Settings: map[string]string{"fsync": "off"}})
		if template.err == nil {
			template.err = server.Stop(ctx)
		}
	})
	if template.err != nil {
		t.Fatalf("making the template: %v", template.err)
	}
	dir := filepath.Join(t.TempDir(), "pg")
	if output, err := exec.CommandContext(t.Context(), "cp", "-a", template.dir, dir).CombinedOutput(); err != nil {
		t.Fatalf("copying the template: %v: %s", err, output)
	}
	return dir
}

// startIn starts a server that is stopped at the end of the test.
func startIn(t *testing.T, config Config) *Server {
	t.Helper()
	config.Log = zerolog.New(zerolog.NewTestWriter(t))
	server, err := Start(t.Context(), config)
	if err != nil {
		t.Fatalf("starting: %v", err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	return server
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatalf("stopping: %v", err)
	}
}

// ask runs a statement and returns the first column of the first row as text.
func ask(t *testing.T, dsn, statement string) string {
	t.Helper()
	answer, err := tryAsk(t.Context(), dsn, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func tryAsk(ctx context.Context, dsn, statement string) (answer string, err error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, statement).Scan(&answer)
	return answer, err
}

func do(t *testing.T, dsn, statement string) {
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

// waitUntil polls until a condition that depends on another process is true.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	yes, err := poll(t.Context(), 20*time.Second, func() (bool, error) { return done(), nil })
	if err != nil || !yes {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// serving lists the live processes of a data directory.
func serving(t *testing.T, dir string) []int {
	t.Helper()
	name, err := clusterName(filepath.Join(dir, dataDir))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, pid := range processIDs() {
		if serves(pid, name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func running(pid int) bool {
	line := commandLine(pid) // empty for a zombie
	return line != "" && syscall.Kill(pid, 0) == nil
}

func pidText(pid int) string { return strings.TrimSpace(strconv.Itoa(pid)) }
