package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestFirstStartAndRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "below", "pg")
	server := startIn(t, Config{Dir: dir})
	for range 2 { // in the second round, the cluster exists already
		if err := server.CreateDatabase(t.Context(), `odd "name`); err != nil {
			t.Fatal(err)
		}
	}
	do(t, server.DSN(`odd "name`), "CREATE TABLE kept AS SELECT 'Grüße' AS word")
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "",
		"data_checksums": "on", "server_encoding": "UTF8", "idle_in_transaction_session_timeout": "1min",
	} {
		if got := ask(t, server.DSN("postgres"), "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if got := ask(t, server.DSN("postgres"), "SELECT upper('grüße')"); got != "GRÜSSE" && got != "GRÜßE" {
		t.Errorf("letters beyond ASCII: %s", got)
	}
	stop(t, server)
	if err := server.Err(); err != nil {
		t.Fatalf("error of a stopped server: %v", err)
	}
	stop(t, server) // stopping again has no effect

	began := time.Now()
	server = startIn(t, Config{Dir: dir})
	t.Logf("start of an existing cluster: %s", time.Since(began))
	if got := ask(t, server.DSN(`odd "name`), "SELECT word FROM kept"); got != "Grüße" {
		t.Fatalf("after a restart: %q", got)
	}
}

func TestNothingAboveTheDataIsOpened(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	dir := filepath.Join(closed, ".data", "pg")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	startIn(t, Config{Dir: dir})
	for _, path := range []string{closed, filepath.Dir(dir), dir} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			t.Errorf("%s has mode %s and owner %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
	}
	info, err := os.Stat(filepath.Join(dir, dataDir))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 || info.Mode().Perm() != 0o700 {
		t.Errorf("data has mode %s and owner %d", info.Mode(), owner)
	}
}

func TestPortWithPassword(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	dir := clusterDir(t)
	_, err = Start(t.Context(), Config{Dir: dir, Port: port})
	if err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Fatalf("start on a busy port: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server := startIn(t, Config{Dir: dir, Port: port})
	dsn := server.DSN("postgres")
	if got := ask(t, dsn, "SELECT current_user || ' ' || host(inet_server_addr())"); got != User+" 127.0.0.1" {
		t.Fatalf("connected as %s", got)
	}
	parsed, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []*url.Userinfo{url.UserPassword(User, "guess"), url.User(User)} {
		parsed.User = user
		if _, err := tryAsk(t.Context(), parsed.String(), "SELECT 1"); err == nil {
			t.Errorf("let in as %s", user)
		}
	}
	stop(t, server)
	if again := startIn(t, Config{Dir: dir, Port: port}); again.DSN("postgres") != dsn {
		t.Error("a restart changed the connection URL")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	_, err := Start(t.Context(), Config{Dir: dir, Settings: map[string]string{"shared_buffers": "a lot"}})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Fatalf("start with a bad setting: %v", err)
	}
	server := startIn(t, Config{Dir: dir, Settings: map[string]string{"work_mem": "7MB", "listen_addresses": "*"}})
	if got := ask(t, server.DSN("postgres"), "SELECT current_setting('work_mem') || current_setting('listen_addresses')"); got != "7MB" {
		t.Fatalf("settings %q", got)
	}
}

func TestEnvironmentStaysHere(t *testing.T) {
	t.Setenv("SECRETS_KEY", "hush")
	t.Setenv("PGDATA", "/nowhere")
	server := startIn(t, Config{Dir: clusterDir(t)})
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", server.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if len(environment) == 0 || strings.Contains(string(environment), "hush") || strings.Contains(string(environment), "PGDATA") {
		t.Fatalf("environment %q", environment)
	}
}

func TestEnvironmentOfClientsIsIgnored(t *testing.T) {
	t.Setenv("PGHOSTADDR", "192.0.2.1")
	t.Setenv("PGOPTIONS", "-c fsync=off")
	server := startIn(t, Config{Dir: clusterDir(t)})
	if err := server.CreateDatabase(t.Context(), "made"); err != nil {
		t.Fatal(err)
	}
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 20), strings.Repeat("way", 20), "pg")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(clusterDir(t), dir); err != nil {
		t.Fatal(err)
	}
	killed, _, shortcut := run(t, "supervisor", dir)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if _, err := os.Lstat(shortcut); err != nil {
		t.Fatalf("short socket directory: %v", err)
	}
	server := startIn(t, Config{Dir: dir})
	if _, err := os.Lstat(filepath.Dir(shortcut)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("short socket directory of the killed run: %v", err)
	}
	if got := ask(t, server.DSN("postgres"), "SELECT 'here'"); got != "here" {
		t.Fatal(got)
	}
	shortcut = filepath.Dir(server.socket)
	stop(t, server)
	if _, err := os.Lstat(shortcut); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("short socket directory after the stop: %v", err)
	}
}

func TestOneSupervisor(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	other, _, _ := run(t, "supervisor", dir)
	_, err := Start(t.Context(), Config{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), pidText(other.Process.Pid)) {
		t.Fatalf("second start: %v", err)
	}
}

func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	supervisor, orphan, socket := run(t, "supervisor", dir)
	dsn := (&Server{socket: socket}).DSN("postgres")
	do(t, dsn, "CREATE TABLE kept AS SELECT 'committed' AS word")
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	began := time.Now()
	server := startIn(t, Config{Dir: dir})
	t.Logf("start after a kill: %s", time.Since(began))
	if running(orphan) {
		t.Errorf("process %d still runs", orphan)
	}
	if got := ask(t, server.DSN("postgres"), "SELECT word FROM kept"); got != "committed" {
		t.Fatal(got)
	}
}

func TestServerEndsWithItsSupervisor(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	supervisor, orphan, _ := run(t, "supervisor", dir)
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the server ended", func() bool { return !running(orphan) && len(serving(t, dir)) == 0 })
	if _, err := os.Stat(filepath.Join(dir, dataDir, "postmaster.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the server did not shut down cleanly: %v", err)
	}
}

func TestOrphanWithoutStopSignal(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	deserter, orphan, _ := run(t, "deserter", dir)
	_ = deserter.Wait()
	if !running(orphan) {
		t.Fatal("the orphan is gone already")
	}
	began := time.Now()
	server := startIn(t, Config{Dir: dir})
	t.Logf("start beside an orphan: %s", time.Since(began))
	if running(orphan) || server.PID() == orphan {
		t.Fatal("the orphan lives")
	}
}

func TestFrozenOrphanIsKilled(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	deserter, orphan, _ := run(t, "deserter", dir)
	_ = deserter.Wait()
	if err := syscall.Kill(orphan, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ways := []stopSignal{{syscall.SIGINT, 50 * time.Millisecond}, {syscall.SIGQUIT, 50 * time.Millisecond}, {syscall.SIGKILL, 10 * time.Second}}
	killed := false
	lock, err := takeOver(t.Context(), dir, ways, func(pids []int, signal syscall.Signal) {
		killed = killed || slices.Contains(pids, orphan) && signal == syscall.SIGKILL
	})
	if err != nil || !killed {
		t.Fatalf("killed: %t, error: %v", killed, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if left := serving(t, dir); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	startIn(t, Config{Dir: dir})
}

func TestRecordedIdOfAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	data := filepath.Join(dir, dataDir)
	owner, err := accountFor(data)
	if err != nil {
		t.Fatal(err)
	}
	// A process of the same user has the id in the server's stale pid file. Without the checks of
	// this package, PostgreSQL would refuse to start.
	other := exec.CommandContext(t.Context(), "sleep", "600")
	other.SysProcAttr = owner.processAttributes()
	other.Dir = "/"
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	record := fmt.Sprintf("%d\n%s\n1\n5432\n.\n\n 1 1\nready\n", other.Process.Pid, data)
	for _, name := range []string{"postmaster.pid", ".s.PGSQL.5432.lock"} {
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(path, owner.uid, owner.gid); err != nil {
			t.Fatal(err)
		}
	}
	startIn(t, Config{Dir: dir})
	if !running(other.Process.Pid) {
		t.Fatal("the other program was ended")
	}
}

func TestPostmasterKilled(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	server := startIn(t, Config{Dir: dir})
	do(t, server.DSN("postgres"), "CREATE TABLE kept AS SELECT 'committed' AS word")
	if server.Err() != nil {
		t.Fatal(server.Err())
	}
	if err := syscall.Kill(server.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-server.Done()
	if err := server.Err(); !errors.Is(err, ErrDied) {
		t.Fatalf("error %v", err)
	}
	began := time.Now()
	again := startIn(t, Config{Dir: dir})
	t.Logf("start after the postmaster was killed: %s", time.Since(began))
	if got := ask(t, again.DSN("postgres"), "SELECT word FROM kept"); got != "committed" {
		t.Fatal(got)
	}
	if err := server.Stop(t.Context()); !errors.Is(err, ErrDied) {
		t.Fatalf("stop of a dead server: %v", err)
	}
}

func TestStopOutOfTime(t *testing.T) {
	t.Parallel()
	server := startIn(t, Config{Dir: clusterDir(t)})
	if err := syscall.Kill(server.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(200*time.Millisecond, func() { _ = syscall.Kill(server.PID(), syscall.SIGCONT) }).Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := server.Stop(ctx); err == nil || !strings.Contains(err.Error(), "recovers") {
		t.Fatalf("error %v", err)
	}
}

func TestStartInterrupted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pg")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // interrupts the start as soon as initdb is running
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, newDataDir)); err == nil {
				cancel()
			}
			<-tick.C
		}
	}()
	if _, err := Start(ctx, Config{Dir: dir, Log: zerolog.Nop()}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, newDataDir)); err != nil {
		t.Fatalf("initdb was not interrupted: %v", err)
	}
	startIn(t, Config{Dir: dir})
}

func TestRestoredByRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can hold a data directory that PostgreSQL cannot: nothing to test")
		return
	}
	dir := clusterDir(t)
	if output, err := exec.CommandContext(t.Context(), "chown", "-R", "root:root", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	startIn(t, Config{Dir: dir})
}

func TestOtherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("already run by another user than root: nothing to test")
		return
	}
	base, err := os.MkdirTemp("/tmp", "pgserver-nobody-") //nolint:usetesting // t.TempDir is root's, and closed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	nobody := account{uid: 65534, gid: 65534, switched: true}
	if err := nobody.chown(base); err != nil {
		t.Fatal(err)
	}
	binary, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	// The program is started by its descriptor, because the path of its file leads through
	// directories that only root can enter.
	tests := exec.CommandContext(t.Context(), inheritedData, "-test.v", "-test.parallel=2",
		"-test.run=^(TestFirstStartAndRestart|TestNothingAboveTheDataIsOpened|TestPortWithPassword|TestLongPath|TestOrphanWithoutStopSignal|TestRecordedIdOfAnotherProgram|TestPostmasterKilled)$")
	tests.ExtraFiles = []*os.File{binary}
	tests.Env = append(os.Environ(), "TMPDIR="+base)
	tests.Dir = base
	tests.SysProcAttr = nobody.processAttributes()
	output, err := tests.CombinedOutput()
	if err != nil || strings.Count(string(output), "--- PASS") != 7 {
		t.Fatalf("as nobody: %v\n%s", err, output)
	}
	t.Logf("as nobody:\n%s", output)
}
