package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/scripts/internal/api"
	"parley/scripts/internal/faultproxy"
	"parley/scripts/internal/fenced"
	"parley/scripts/internal/quickstart"
	"parley/shared/testkit"
	"parley/shared/testkit/openaistub"
)

// terminal is the environment for tests of the command line. It consists of a running parley, its
// demo agent, and an agent whose model follows directives in the message.
type terminal struct {
	quickstart.Credentials

	program string
	data    string
	model   *openaistub.Server
	stub    string // the ID of the agent whose model follows directives
	users   string // the ID of an agent that only users may call
}

// cliDeadline is the deadline of all runs. Only a run that is meant to time out reaches it.
const cliDeadline = 12 * time.Second

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	s := &terminal{
		program: testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), data: filepath.Join(t.TempDir(), "data"), model: openaistub.New(),
	}

	model := httptest.NewServer(s.model)
	t.Cleanup(model.Close)
	env := append(quickstart.Environment(s.data, testkit.FreePort(t)),
		"OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=stub", "DEFAULT_MODEL=offline", "RUN_DEADLINE="+cliDeadline.String())
	testkit.StartProcess(t, testkit.Command{Name: "parley", Path: s.program, Args: []string{"up"}, Env: env, ReadyLine: quickstart.BannerEnd})
	s.Credentials = readCredentials(t, s.data)
	s.stub = s.agent(t, "Stub agent", "user", "system")
	s.users = s.agent(t, "Users only", "user")
	return s
}

func (s *terminal) agent(t *testing.T, name string, callers ...string) string {
	t.Helper()
	body := map[string]any{"name": name, "systemPrompt": "Answer.", "model": "openai/stub", "allowedCallers": callers}
	var made struct {
		ID string `json:"id"`
	}
	api.Send(t.Context(), http.MethodPost, s.BaseURL+"/api/agents", map[string]string{"x-api-key": s.APIKey}, body).Want(t, http.StatusCreated).Into(t, &made)
	return made.ID
}

// commandResult is the result of a command.
type commandResult struct {
	args     string
	code     int
	out, err string
}

func (r commandResult) wants(t *testing.T, code int, says ...string) commandResult {
	t.Helper()
	if r.code != code {
		t.Fatalf("%s: exit status = %d, want %d\n%s\n%s", r.args, r.code, code, r.out, r.err)
	}
	for _, word := range says {
		if !strings.Contains(r.out+r.err, word) {
			t.Fatalf("%s: output does not contain %q:\n%s\n%s", r.args, word, r.out, r.err)
		}
	}
	return r
}

// runs decodes a command's output, which contains one run object per line.
func (r commandResult) runs(t *testing.T) []api.Run {
	t.Helper()
	var list []api.Run
	for line := range strings.Lines(r.out) {
		var one api.Run
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: output is not a run: %v: %s", r.args, err, line)
		}
		list = append(list, one)
	}
	return list
}

// command returns a command that runs parley with the given arguments. Its environment contains
// only the data directory and env.
func (s *terminal) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "DATA_DIR=" + s.data}, env...)
	return cmd
}

func (s *terminal) parley(t *testing.T, stdin string, args ...string) commandResult {
	t.Helper()
	return s.in(t, nil, stdin, args...)
}

func (s *terminal) in(t *testing.T, env []string, stdin string, args ...string) commandResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), api.Timeout)
	defer cancel()
	cmd := s.command(ctx, env, args...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaints
	err := cmd.Run()
	if exited, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exited.ExitCode() < 0) {
		t.Fatalf("parley %v: %v\n%s", args, err, complaints.String())
	}
	return commandResult{"parley " + strings.Join(args, " "), cmd.ProcessState.ExitCode(), out.String(), complaints.String()}
}

// TestCLI runs all tests of the command line against one running parley.
func TestCLI(t *testing.T) {
	t.Parallel()
	s := newTerminal(t)
	for name, test := range map[string]func(*testing.T, *terminal){
		"chat":            cliChat,
		"chat_streams":    cliChatStreams,
		"chat_resumes":    cliChatResumes,
		"trigger":         cliTrigger,
		"trigger_retries": cliTriggerRetries,
		"exit_codes":      cliExitCodes,
		"keys":            cliKeys,
		"tail":            cliTail,
		"interrupted":     cliInterrupted,
		"service_away":    cliServiceAway,
		"completion":      cliCompletion,
		"docs":            cliDocs,
		"json":            cliJSON,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func cliChat(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	if r := s.parley(t, "", "chat", s.stub, "hello", "there").wants(t, 0); r.out != "echo: hello there\n" || r.err != "" {
		t.Fatalf("printed %q and %q", r.out, r.err)
	}

	s.parley(t, "from a pipe\n", "chat", s.stub).wants(t, 0, "echo: from a pipe\n")
	s.parley(t, "", "chat", s.stub).wants(t, 80, "the message is missing")
	s.parley(t, "", "chat", "What is 12 * 34?").wants(t, 0, "408") // the demo agent
	s.parley(t, "", "chat", "--demo", "Hello").wants(t, 0, "Offline model")
	s.parley(t, "", "chat", "echo agent", "by", "its name").wants(t, 0, "echo: by its name\n")
	s.parley(t, "from a pipe", "chat", "Echo agent").wants(t, 0, "echo: from a pipe\n")
	for _, demo := range [][]string{nil, {"--demo"}} {
		args := append([]string{"chat", "--json"}, demo...)
		s.parley(t, "", append(args, "Customer support", "Hello")...).wants(t, 0, `"templateId":"tpl_support"`)
	}

	s.parley(t, "gr\xfcn", "chat", s.stub).wants(t, 80, "\"message\" is not UTF-8")
	s.parley(t, "", "chat", "ag_nope", "hi").wants(t, 3, `no agent "ag_nope"`, "404 not_found")
	s.parley(t, "", "chat", "tpl_nope", "hi").wants(t, 3, `no template "tpl_nope"`)
	session := "cli-" + s.stub[3:]
	first := s.parley(t, "", "chat", "--json", "--session", session, s.stub, "one").wants(t, 0).runs(t)
	second := s.parley(t, "", "chat", "--json", "--session", session, s.stub, "two").wants(t, 0).runs(t)
	if first[0].SessionID != session || second[0].SessionID != session || first[0].ID == second[0].ID {
		t.Fatalf("runs in session %s = %+v and %+v", session, first, second)
	}
	if r := s.parley(t, "", "chat", "--json", s.stub, "fault context: x").wants(t, 2, "context_too_long").runs(t); r[0].Status != "failed" {
		t.Fatalf("%+v", r)
	}
}

// cliChatStreams checks that the command chat prints the first words of an answer before the model
// has sent the last words.
func cliChatStreams(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	ctx, cancel := context.WithTimeout(t.Context(), api.Timeout)
	defer cancel()

	cmd := s.command(ctx, nil, "chat", s.stub, "fault stall: these are many words that are never told to their end")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	beginning := make([]byte, len("echo: "))
	if _, err := out.Read(beginning); err != nil || !strings.HasPrefix(string(beginning), "echo:") {
		t.Fatalf("%q: %v", beginning, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Fatalf("the answer was not interrupted: %v", err)
	}
}

func cliChatResumes(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	proxy := faultproxy.Start(t, s.BaseURL)
	cuts := proxy.CutStreams(4, 150, 7)
	text := strings.TrimSpace(strings.Repeat("wort für wort ", 40))
	r := s.in(t, []string{"PARLEY_API_KEY=" + s.APIKey}, "", "chat", "--url", cuts.URL, s.stub, text).wants(t, 0)
	if r.out != "echo: "+text+"\n" || cuts.Faults() != 4 {
		t.Fatalf("output after %d cuts = %q", cuts.Faults(), r.out)
	}
}

func cliTrigger(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	args := []string{"trigger", "stub agent", "--idempotency-key", "night-1", "--automation", "nightly", "--trigger-type", "schedule", "-i", "city=Oslo", "--json", "good night"}
	first := s.parley(t, "", args...).wants(t, 0).runs(t)
	second := s.parley(t, "", args...).wants(t, 0).runs(t)
	if first[0].ID != second[0].ID || first[0].Attempts != 1 {
		t.Fatalf("run = %+v, with the same key %+v", first, second)
	}

	asked := 0
	for _, r := range s.model.Requests() {
		if strings.Contains(fmt.Sprint(r.Messages), "Oslo") {
			asked++
		}
	}

	if asked != 1 {
		t.Fatalf("model calls = %d, want 1", asked)
	}
	if r := s.parley(t, "by a pipe", "trigger", s.stub).wants(t, 0, "idempotency key cli-", "run run_"); r.out != "echo: by a pipe\n" {
		t.Fatalf("standard output = %q", r.out)
	}

	s.parley(t, "gr\xfcn", "trigger", s.stub).wants(t, 80, "\"input.message\" is not UTF-8")
	left := s.parley(t, "", "trigger", s.stub, "--no-wait", "left alone").wants(t, 0)
	s.parley(t, "", "runs", "show", strings.TrimSpace(left.out)).wants(t, 0, "agent     "+s.stub)
	triggersWithAFile(t, s)
	triggersWithASchema(t, s)
}

// triggersWithAFile sends a file with the message. When the command is repeated with the same
// idempotency key, it prints the same run.
func triggersWithAFile(t *testing.T, s *terminal) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.md")
	if err := os.WriteFile(report, []byte("# Report\n\nIn May we sold 4711 lamps.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"trigger", s.stub, "--attach", report, "--idempotency-key", "attached", "--json", "How many lamps?"}
	first, second := s.parley(t, "", args...).wants(t, 0).runs(t), s.parley(t, "", args...).wants(t, 0).runs(t)
	if first[0].ID != second[0].ID || first[0].Attempts != 1 {
		t.Errorf("run = %+v, with the same key %+v", first, second)
	}
	read := 0
	for _, r := range s.model.Requests() {
		if strings.Contains(fmt.Sprint(r.Messages), "4711 lamps") {
			read++
		}
	}
	if read != 1 {
		t.Errorf("the model received the file %d times, want once", read)
	}
	s.parley(t, "", "trigger", s.stub, "--attach", report+".none", "x").wants(t, 80, "cannot read the file to attach")
}

// triggersWithASchema requests answers that match the schema in a file.
func triggersWithASchema(t *testing.T, s *terminal) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lamp.json")
	write := func(schema string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"type":"object","required":["watts"],"properties":{"watts":{"type":"integer"}}}`)
	s.parley(t, "", "trigger", "--schema", file, "Demo agent", "a lamp of 7 watts").wants(t, 0, `{"watts":7}`)
	s.parley(t, "", "trigger", "--schema", file, s.stub, "prose").wants(t, 2, "The answer does not match the output schema")
	write(`{"type":"sum"}`)
	s.parley(t, "", "trigger", "--schema", file, s.stub, "x").wants(t, 3, "output.schema")
	write(`{`)
	s.parley(t, "", "trigger", "--schema", file, s.stub, "x").wants(t, 80, "is not JSON")
}

// cliTriggerRetries runs the command trigger twice: the response of a service that has accepted the
// run is lost, and an overloaded service rejects the run. The command retries in both cases.
func cliTriggerRetries(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	proxy := faultproxy.Start(t, s.BaseURL)
	key := []string{"PARLEY_API_KEY=" + s.APIKey}
	dropped := proxy.DropFirst()
	s.in(t, key, "", "trigger", "--url", dropped.URL, s.stub, "dropped").wants(t, 0, "echo: dropped\n")
	if dropped.Faults() == 0 || s.model.Count("dropped") != 1 {
		t.Fatalf("after %d lost responses, model calls = %d", dropped.Faults(), s.model.Count("dropped"))
	}
	busy := proxy.Refuse(2, http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}}, `{"code":"overloaded","status":503}`)
	s.in(t, key, "", "trigger", "--url", busy.URL, s.stub, "busy").wants(t, 0, "echo: busy\n")
	if busy.Faults() != 2 {
		t.Fatalf("%d refusals", busy.Faults())
	}
}

func cliExitCodes(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"failed":          {[]string{"trigger", s.stub, "fault context: x"}, 2, "failed: context_too_long"},
		"timed out":       {[]string{"trigger", s.stub, "sleep 10m: x"}, 2, "timed out"},
		"refused":         {[]string{"trigger", s.users, "x"}, 3, "403 caller_not_allowed"},
		"no such agent":   {[]string{"trigger", "nobody", "x"}, 3, "no agent is named"},
		"no such run":     {[]string{"runs", "show", "run_01m7yq6d4gehatajbks6zzn8ya"}, 3, `no run "run_01m7yq6d4gehatajbks6zzn8ya" is visible to this key: 404 not_found`},
		"not finished":    {[]string{"trigger", s.stub, "--timeout", "1", "sleep 3s: late"}, 4, "The run continues: parley runs show run_"},
		"wrong key":       {[]string{"runs", "tail", "--key", "ak_wrong"}, 3, "401 unauthenticated"},
		"usage error":     {[]string{"trigger"}, 80, "Usage: parley trigger"},
		"no argument":     {[]string{"trigger"}, 80, "AGENT is missing"},
		"no such key":     {[]string{"keys", "revoke", "key_nope"}, 3, `no key "key_nope"`},
		"cancel unknown":  {[]string{"runs", "cancel", "run_nope"}, 3, `no run "run_nope"`},
		"trigger unknown": {[]string{"trigger", "ag_nope", "x"}, 3, "target"},
		"wrong value":     {[]string{"runs", "tail", "--status", "gone"}, 80, "--status"},
		"reset":           {[]string{"reset"}, 1, " is in use by process "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.parley(t, "", c.args...).wants(t, c.code, c.says)
		})
	}

	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		waiting := s.start(t, nil, "trigger", s.stub, "--session", "by-hand", "sleep 10m: cancelled by hand")
		id := ""
		eventually(t, api.Timeout, "the run is listed", func() bool {
			for _, r := range s.parley(t, "", "runs", "tail", "--agent", "Stub agent", "--lines", "100", "--json").wants(t, 0).runs(t) {
				if r.SessionID == "by-hand" {
					id = r.ID
				}
			}
			return id != ""
		})
		s.parley(t, "", "runs", "cancel", id).wants(t, 0, id+" cancelled")
		waiting.ended(t).wants(t, 2, "was cancelled")
	})
}

// started is a running command.
type started struct {
	*exec.Cmd

	args     []string
	mu       sync.Mutex
	out, err bytes.Buffer
}

// Write records standard output.
func (c *started) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

// printed returns the output so far.
func (c *started) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

func (s *terminal) start(t *testing.T, env []string, args ...string) *started {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), api.Timeout)
	c := &started{Cmd: s.command(ctx, env, args...), args: args}
	c.Stdout, c.Stderr = c, &c.err
	if err := c.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return c
}

// ended waits until the command ends.
func (c *started) ended(t *testing.T) commandResult {
	t.Helper()
	if err := c.Wait(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return commandResult{"parley " + strings.Join(c.args, " "), c.ProcessState.ExitCode(), c.printed(), c.err.String()}
}

func (c *started) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func cliKeys(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	made := s.parley(t, "", "keys", "create", "for a test", "--expires", "2d").wants(t, 0, "shown only once")
	key := []string{"PARLEY_API_KEY=" + strings.TrimSpace(made.out), "PARLEY_BASE_URL=" + s.BaseURL, "DATA_DIR=/nowhere"}
	s.in(t, key, "", "trigger", s.stub, "by a new key").wants(t, 0, "echo: by a new key\n")
	var listed []struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		ExpiresAt string `json:"expiresAt"`
	}
	if err := json.Unmarshal([]byte(s.parley(t, "", "keys", "list", "--json").wants(t, 0).out), &listed); err != nil {
		t.Fatal(err)
	}

	id := ""
	for _, k := range listed {
		if k.Name == "for a test" && k.ExpiresAt != "" {
			id = k.ID
		}
	}

	if table := s.parley(t, "", "keys", "list").wants(t, 0, id, "for a test"); strings.Contains(table.out, strings.TrimSpace(made.out)) {
		t.Fatalf("keys list printed a secret:\n%s", table.out)
	}

	s.parley(t, "", "keys", "revoke", id).wants(t, 0, "revoked "+id)
	s.in(t, key, "", "trigger", s.stub, "by a revoked key").wants(t, 3, "401 unauthenticated")
	s.parley(t, "", "keys", "create", "x", "--scope", "user").wants(t, 3, "permission_denied")
	s.parley(t, "", "keys", "create", "x", "--expires", "soon").wants(t, 80, "--expires")
}

// cliTail follows the runs of an agent with the command tail. Its output contains an earlier run,
// and a later run that is first running and then finished.
func cliTail(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	agent := s.agent(t, "Tailed agent", "user", "system")
	s.parley(t, "", "trigger", agent, "before").wants(t, 0)
	tail := s.start(t, nil, "runs", "tail", "--follow", "--agent", "Tailed agent", "--json")
	ended := func(n int) func() bool {
		return func() bool { return strings.Count(tail.printed(), `"status":"completed"`) >= n }
	}

	eventually(t, api.Timeout, "the earlier run is listed", ended(1))
	s.parley(t, "", "trigger", agent, "sleep 3s: later").wants(t, 0)
	eventually(t, api.Timeout, "the later run and its result are printed", ended(2))
	tail.signal(t, syscall.SIGINT)
	followed := tail.ended(t).wants(t, 130)
	if followed.err != "" {
		t.Fatalf("Ctrl-C printed an error: %s", followed.err)
	}

	list := followed.runs(t)
	first, later, end := list[0], list[1], list[len(list)-1]
	if first.Status != "completed" || later.ID == first.ID || later.Status == "completed" || end.ID != later.ID || end.Status != "completed" {
		t.Fatalf("%+v", list)
	}

	s.parley(t, "", "runs", "cancel", end.ID).wants(t, 0, "the run had already finished", end.ID+" completed")
	once := s.parley(t, "", "runs", "list", "--agent", agent).wants(t, 0, "echo: before", "echo: later")
	if strings.Count(once.out, "\n") != 2 || strings.Index(once.out, "before") > strings.Index(once.out, "later") {
		t.Fatalf("the newest run is not last:\n%s", once.out)
	}
}

// cliInterrupted interrupts commands with Ctrl-C and checks their messages about the run.
func cliInterrupted(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	for _, command := range []string{"chat", "trigger"} {
		var r commandResult
		message := "sleep 4s: left by " + command
		eventually(t, api.Timeout, "the command knows its run and is interrupted", func() bool {
			message += " again"
			r = s.interrupted(t, command, s.stub, message)
			return strings.Contains(r.err, "The run continues") // otherwise the model was called before the response arrived: try again
		})
		r.wants(t, 130, "interrupted\nThe run continues: parley runs show run_")
		_, id, _ := strings.Cut(r.err, "parley runs show ")
		id = strings.Fields(id)[0]
		eventually(t, api.Timeout, "the run finishes", func() bool {
			return strings.Contains(s.parley(t, "", "runs", "show", id).wants(t, 0).out, "echo: left by "+command)
		})
	}
}

// interrupted runs a command and interrupts it with Ctrl-C as soon as the model receives the
// message, which is the command's last argument.
func (s *terminal) interrupted(t *testing.T, words ...string) commandResult {
	t.Helper()
	waiting := s.start(t, nil, words...)
	eventually(t, api.Timeout, "the model is called", func() bool { return s.model.Count(words[len(words)-1]) > 0 })
	waiting.signal(t, syscall.SIGINT)
	r := waiting.ended(t).wants(t, 130, "interrupted\n")
	if strings.Contains(r.err, "error") {
		t.Fatalf("Ctrl-C printed an error: %s", r.err)
	}
	return r
}

func cliServiceAway(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	dir := t.TempDir()
	creds := fmt.Sprintf(`{"baseUrl":"http://127.0.0.1:%d","apiKey":%q,"agentId":%q}`, testkit.FreePort(t), s.APIKey, s.AgentID)
	if err := os.WriteFile(filepath.Join(dir, "credentials.json"), []byte(creds), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"chat", "x"}, {"runs", "tail"}, {"agents", "list"}, {"trigger", s.stub, "--retries", "2", "x"}} {
		s.parley(t, "", append(args, "--data-dir", dir)...).wants(t, 1, "service unreachable at", "Start it with: parley up --data-dir "+dir)
	}
	s.parley(t, "", "chat", "--data-dir", filepath.Join(dir, "none"), "x").wants(t, 1, "no Parley service has used", "parley up")
}

// cliCompletion tests completion in real shells.
func cliCompletion(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	for shell, test := range map[string]func(t *testing.T, path string){
		"bash": s.completesInBash,
		"zsh":  func(t *testing.T, path string) { t.Helper(); s.reads(t, path, "zsh", "-n") },
		"fish": func(t *testing.T, path string) { t.Helper(); s.reads(t, path, "fish", "--no-execute") },
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("NOT TESTED: completion in %s: %v (install the package %[1]s)", shell, err)
			}
			test(t, path)
		})
	}
}

// completesInBash makes bash complete words.
func (s *terminal) completesInBash(t *testing.T, path string) {
	t.Helper()
	const asked = `eval "$(parley completion bash)"
complete -p parley >/dev/null || exit 1
words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); for _ in {1..10}; do _parley; [ ${#COMPREPLY[@]} -gt 0 ] && break; done; } # the program waits up to a second for the service
try() { words "$@"; echo "${COMPREPLY[*]}"; }
try parley ke
try parley keys ""
try parley runs tail --sta
try parley runs tail --status can
try parley runs tail --status = ti
try parley trigger x --no
try parley chat tpl_su
try parley trigger "" --json
words parley trigger ag_; printf '%s\n' "${COMPREPLY[@]}" | grep -c '^ag_'
`

	const want = "keys\ncreate list revoke\n--status=\ncancelled\ntimed_out\n--no-wait\ntpl_support\n--json\n"
	cmd := exec.CommandContext(t.Context(), path, "--norc", "-c", asked)
	cmd.Env = []string{"PATH=" + filepath.Dir(s.program) + ":" + os.Getenv("PATH"), "DATA_DIR=" + s.data}
	out, err := cmd.CombinedOutput()
	counted, whole := strings.CutPrefix(strings.ReplaceAll(string(out), "\r", ""), want)
	if err != nil || !whole || strings.TrimSpace(counted) == "0" {
		t.Errorf("completions in bash: %v\n%s\nwant\n%s", err, out, want)
	}
}

// reads checks that a shell can parse parley's completion script, without executing it.
func (s *terminal) reads(t *testing.T, path, shell string, args ...string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "parley."+shell)
	if err := os.WriteFile(script, []byte(s.parley(t, "", "completion", shell).wants(t, 0).out), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, append(args, script)...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", shell, err, out)
	}
}

// cliDocs executes every block in docs/cli.md in a shell.
func cliDocs(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	const document = "docs/cli.md"
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), document))
	if err != nil {
		t.Fatal(err)
	}

	blocks, err := fenced.Read(document, string(page))
	if err != nil {
		t.Fatal(err)
	}

	executed, dir := 0, t.TempDir()
	for _, b := range blocks {
		switch b.Language {
		case "sh", "bash":
			executed++
			// Each block has its own shell, so all of them use the same folder for the examples' files.
			text := strings.ReplaceAll(b.Text, "$(mktemp -d)", dir)
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + filepath.Dir(s.program) + ":" + os.Getenv("PATH"), "DATA_DIR=" + s.data}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s\n%s\n%v\n%s", b, b.Text, err, out)
			}
		case "json":
			if !json.Valid([]byte(b.Text)) {
				t.Errorf("%s is not JSON", b)
			}
		case "text":
			if command := fenced.Command(b.Text); command != "" {
				t.Errorf("%s: %q looks like a command, but the block is not run", b, command)
			}
		default:
			t.Errorf("%s: no test runs blocks of the language %q", b, b.Language)
		}
	}

	if executed < 8 {
		t.Fatalf("ran %d blocks in %s, want more", executed, document)
	}
}

// cliJSON checks the output of every command that can print JSON.
func cliJSON(t *testing.T, s *terminal) { //nolint:thelper // a subtest, not a helper
	made := s.parley(t, "", "trigger", s.stub, "--json", "--no-wait", "hello").wants(t, 0)
	id := made.runs(t)[0].ID
	for _, args := range [][]string{
		{"agents", "list"},
		{"agents", "list", "--templates"},
		{"keys", "list"},
		{"keys", "create", "as JSON"},
		{"runs", "show", id},
		{"runs", "cancel", id},
		{"runs", "tail", "-n", "1"},
		{"config"},
		{"version"},
		{"--version"},
		{"doctor"},
		{"chat", s.stub, "x"},
		{"reset-password", "owner@parley.local"},
	} {
		r := s.parley(t, "", append(args, "--json")...).wants(t, 0)
		if !json.Valid([]byte(r.out)) || strings.Count(r.out, "\n") != 1 || r.err != "" {
			t.Errorf("%s printed %q and %q", r.args, r.out, r.err)
		}
	}
}
