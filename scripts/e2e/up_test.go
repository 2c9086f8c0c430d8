package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
)

// up starts `parley up` with the data directory dir and more environment variables, and returns
// when the banner is complete.
func up(t *testing.T, dir string, port int, environment ...string) *testkit.Process {
	t.Helper()
	// After the end of parley, PostgreSQL still writes for a moment. The test's directory, which is
	// removed afterwards, must not change then. If another parley uses the directory, the wait is
	// limited.
	t.Cleanup(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); len(processesBelow(t, dir)) > 0 && time.Since(began) < 5*time.Second; {
			<-tick.C
		}
	})
	return testkit.StartProcess(t, testkit.Command{
		Name: "parley", Path: testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), Args: []string{"up"},
		Env: append(quickstart.Environment(dir, port), environment...), ReadyLine: quickstart.BannerEnd,
	})
}

// TestChaosParleyUpStartsAgain starts `parley up` three times on one data directory. The second
// start must keep the database and the credentials, but print a new login link. The third start
// follows a kill: the old PostgreSQL must have ended, and earlier results must still exist.
func TestChaosParleyUpStartsAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	testkit.BuildBinary(t, "deploy/standalone/cmd/parley") // built first, because the test measures only the start
	began := time.Now()
	parley := up(t, dir, testkit.FreePort(t))
	firstStart := time.Since(began)
	first := readCredentials(t, dir)
	pastesWork(t, parley.Output())
	keyWorks(t, first)
	endInOrder(t, parley, dir)

	cluster := filepath.Join(dir, "postgres", "data", "PG_VERSION")
	made, err := os.Stat(cluster)
	if err != nil {
		t.Fatal(err)
	}

	began = time.Now()
	parley.Restart()
	secondStart := time.Since(began)
	t.Logf("first start %s, second %s", firstStart.Round(time.Millisecond), secondStart.Round(time.Millisecond))
	if kept, err := os.Stat(cluster); err != nil || !kept.ModTime().Equal(made.ModTime()) {
		t.Errorf("the second start created a new database: %v", err)
	}

	second := readCredentials(t, dir)
	if second.APIKey != first.APIKey || second.AgentID != first.AgentID || second.OrganizationID != first.OrganizationID {
		t.Fatalf("credentials after the second start = %+v, want %+v", second, first)
	}
	if second.LoginURL == first.LoginURL {
		t.Fatal("the second start printed the first one's login link, which works once")
	}

	owner := account{url: second.BaseURL, key: second.APIKey, agent: second.AgentID}
	asked := trigger{message: "What is 2 + 2?", key: "before"}
	before := owner.post(t.Context(), asked).Want(t, http.StatusOK)
	old := processesBelow(t, dir)
	if len(old) == 0 {
		t.Fatal("no PostgreSQL runs below DATA_DIR")
	}

	parley.Kill9()
	parley.Restart()
	for _, pid := range processesBelow(t, dir) {
		if slices.Contains(old, pid) {
			t.Errorf("process %d of the killed parley is still running", pid)
		}
	}
	if again := owner.post(t.Context(), asked).Replayed(t); !bytes.Equal(again.Body, before.Body) {
		t.Fatalf("the replay after the crash differs:\n%s\n%s", again.Body, before.Body)
	}

	keyWorks(t, readCredentials(t, dir))
	endInOrder(t, parley, dir)
}

// TestParleyUpNamesWhoHasItsPortAndTakesTheNext starts `parley up` while its port is in use. The
// command must name the process that uses the port, and take the next port. Other commands must
// find the service if only the data directory is set.
func TestParleyUpNamesWhoHasItsPortAndTakesTheNext(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	dir := filepath.Join(t.TempDir(), "data")
	parley := up(t, dir, port)
	named := fmt.Sprintf("port %d is in use by ", port)
	owner := fmt.Sprintf("(pid %d)", os.Getpid())
	if out := parley.Output(); !strings.Contains(out, named) || !strings.Contains(out, owner) {
		t.Fatalf("the banner does not contain %q … %q", named, owner)
	}

	creds := readCredentials(t, dir)
	_, used, err := net.SplitHostPort(strings.TrimPrefix(creds.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if next, err := strconv.Atoi(used); err != nil || next <= port {
		t.Fatalf("parley serves on port %s, want a port after %d", used, port)
	}

	keyWorks(t, creds)
	resetsPassword(t, dir, creds)
	endInOrder(t, parley, dir)
}

func readCredentials(t *testing.T, dir string) quickstart.Credentials {
	t.Helper()
	creds, err := quickstart.ReadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	return creds
}

// keyWorks fails the test unless the API key can trigger the demo agent, as a scheduler does.
func keyWorks(t *testing.T, creds quickstart.Credentials) {
	t.Helper()
	owner := account{url: creds.BaseURL, key: creds.APIKey, agent: creds.AgentID}
	if r := owner.post(t.Context(), trigger{message: "What is 12 * 34?"}).Want(t, http.StatusOK).Run(t); r.Status != "completed" {
		t.Fatalf("the demo agent's run did not complete: %+v", r)
	}
}

// pastesWork runs the banner's commands in a shell. Each must succeed.
func pastesWork(t *testing.T, banner string) {
	t.Helper()
	var pastes []string
	for line := range strings.Lines(banner) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
			pastes = append(pastes, line)
		}
	}

	if len(pastes) != 3 {
		t.Fatalf("the banner has %d commands to paste, want 3:\n%s", len(pastes), banner)
	}

	var last []byte
	for _, paste := range pastes {
		last = pasted(t, paste)
	}

	if again := pasted(t, pastes[2]); !bytes.Equal(again, last) {
		t.Fatalf("pasted again, the automation returned a different response:\n%s\n%s", again, last)
	}
}

func pasted(t *testing.T, command string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), api.Timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-c", command).Output()
	if err != nil {
		t.Fatalf("%s\n%v", command, err)
	}
	if r := (api.Answer{Status: http.StatusOK, Body: out}).Run(t); r.Status != "completed" || r.Output == nil || r.Output.Message == "" {
		t.Fatalf("%s\nreturned no completed run: %s", command, out)
	}
	return out
}

// endInOrder stops parley, which must exit with status 0 and leave no process behind.
func endInOrder(t *testing.T, parley *testkit.Process, dir string) {
	t.Helper()
	parley.Term()
	if err := parley.Wait(30 * time.Second); err != nil {
		t.Fatalf("parley did not exit with 0: %v", err)
	}
	if left := processesBelow(t, dir); len(left) > 0 {
		t.Fatalf("parley left processes behind: %v", left)
	}
}

// processesBelow returns the processes whose working directory is below dir, such as those of the
// private PostgreSQL.
func processesBelow(t *testing.T, dir string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}

	var pids []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, dir+"/") {
			continue // the process belongs to another user, has ended, or runs in another directory
		}
		if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// resetsPassword creates a password reset link with a command of parley, while the service is
// running. Then it uses the link.
func resetsPassword(t *testing.T, dir string, creds quickstart.Credentials) {
	t.Helper()
	user := map[string]any{"email": "ada@example.test", "password": "what was it again"}
	api.Send(t.Context(), http.MethodPost, creds.BaseURL+"/api/auth/signup", nil, user).Want(t, http.StatusCreated)

	command := exec.CommandContext(t.Context(), testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), "reset-password", "ada@example.test")
	command.Env = []string{"DATA_DIR=" + dir}
	printed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}

	token, ours := strings.CutPrefix(strings.TrimSpace(string(printed)), creds.BaseURL+"/reset?token=")
	if !ours {
		t.Fatalf("printed %q", printed)
	}

	api.Send(t.Context(), http.MethodPost, creds.BaseURL+"/api/auth/reset", nil, map[string]any{"token": token, "password": "something else"}).
		Want(t, http.StatusOK)
	user["password"] = "something else"
	api.Send(t.Context(), http.MethodPost, creds.BaseURL+"/api/auth/login", nil, user).Want(t, http.StatusOK)
}
