package clients

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/scripts/internal/fenced"
	"parley/shared/testkit"
)

// reader runs the code blocks of one document one by one, starting in a new directory. Shell
// variables and the working directory persist from block to block.
type reader struct {
	testEnv     *testEnv
	root        string
	dir         string
	address     string  // address of the running service; replaces the address in the documents
	port        int     // port of the service that a block starts with `make run`
	receiver    int     // port of a webhook receiver
	database    *sql.DB // for SQL blocks; nil until needed
	env         []string
	interpreter string            // path of a Python that has the SDK; empty until needed
	saved       map[string]string // the blocks that are files, by file name
	ran         string            // the text of all blocks that have run, to find saved files that no block uses
}

// documented is Parley's address in documents. repository is the documents' placeholder for the URL
// of the repository to clone.
const (
	documented = "127.0.0.1:8080"
	repository = "<this repository>"
)

// receivers matches the ports of webhook receivers in documents.
var receivers = regexp.MustCompile(`\b900[1-9]\b`)

// newReader creates a reader with its own organization and directory. The directory contains links
// to Parley's programs, and the organization's credentials.
func newReader(t *testing.T, root string) *reader {
	t.Helper()
	s := withTestEnv(t)
	r := &reader{
		testEnv: s, root: root, dir: t.TempDir(), address: strings.TrimPrefix(s.parley.BaseURL, "http://"), port: testkit.FreePort(t),
		receiver: testkit.FreePort(t),
		saved:    map[string]string{},
	}

	t.Cleanup(func() { r.endAll(t) }) // before the directory is removed
	own := s.tenant(t)
	r.save(t, ".data/credentials.json", encoded(t, own))
	for _, command := range []string{"deploy/standalone/cmd/parley", "ingress/cmd/ingress", "workers/cmd/worker"} {
		link := filepath.Join(r.dir, "bin", filepath.Base(command))
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(testkit.BuildBinary(t, command), link)); err != nil {
			t.Fatal(err)
		}
	}

	settings, err := goSettings()
	if err != nil {
		t.Fatal(err)
	}

	r.env = append(s.env(
		"PARLEY_API_KEY="+own.APIKey, "AGENT_ID="+own.AgentID, "ORGANIZATION_ID="+own.OrganizationID,
		"HOME="+r.dir, "READER="+r.dir, "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "REPOSITORY="+root,
		"UP_PORT="+strconv.Itoa(r.port), "PORT=", "DATA_DIR="), settings...)
	return r
}

// built is a script that replaces the command go. Instead of building Parley again from the same
// files, it copies programs that were built before. Go's build cache cannot avoid that build,
// because its entries depend on the source directory.
const built = `#!/bin/sh
case "$*" in "build "*" ./deploy/standalone/cmd/parley")
	while [ "$1" != -o ]; do shift; done
	exec cp "$READER/bin/parley" "$2" ;;
esac
exec %s "$@"
`

// builds adds the script of the constant built to the reader's PATH, so that commands do not build
// a clone of the repository. It adds the script only with -short, without the race detector, and if
// no file of the repository has changed.
func (r *reader) builds(t *testing.T) {
	t.Helper()
	changes, err := exec.CommandContext(t.Context(), "git", "-C", r.root, "status", "--porcelain").Output()
	if !testing.Short() || testkit.Race || err != nil || len(changes) > 0 {
		return
	}
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	t.Log("NOT TESTED with -short: building a clone. An existing build of the same files is used")
	r.save(t, "bin/go", fmt.Appendf(nil, built, quoted(program)))
}

func (r *reader) save(t *testing.T, name string, content []byte) {
	t.Helper()
	if !filepath.IsLocal(name) {
		t.Fatalf("%s is not a file name", name)
	}
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o700)); err != nil {
		t.Fatal(err)
	}
}

// text returns a block's text with the running service's URL in place of the documented one.
func (r *reader) text(b fenced.Block) string {
	text := strings.NewReplacer(documented, r.address, repository, r.root).Replace(b.Text)
	return receivers.ReplaceAllString(text, strconv.Itoa(r.receiver))
}

// keep saves a block as a file if the block's first line names a file. It returns false if the
// block is not a file.
func (r *reader) keep(t *testing.T, b fenced.Block) bool {
	t.Helper()
	if b.File == "" {
		return false
	}
	r.save(t, b.File, []byte(r.text(b)))
	r.saved[b.File] = b.String()
	return true
}

// checkUsed fails the test if the document has a file block that no later block uses. The content
// of such a file would be untested.
func (r *reader) checkUsed(t *testing.T) {
	t.Helper()
	for name, where := range r.saved {
		if !strings.Contains(r.ran, filepath.Base(name)) {
			t.Errorf("%s: no later block uses the file %s", where, name)
		}
	}
}

// prelude configures a shell so that it acts like a user who waits until servers have started, and
// interrupts commands that do not end.
const prelude = `
echo $$ >>"$READER/.groups"; exec >"$READER/.output" 2>&1
[ -n "$PORT" ] || unset PORT # an empty value is not a port
set -a; cd "$READER"; [ ! -e "$READER/.state" ] || . "$READER/.state"; cd "$PWD"; set +a
curl() {
	local patience=60 code=0 fail=--fail-with-body
	case "$*" in *'%{http_code}'*) fail=--no-fail-with-body ;; esac # the caller checks the status
	case " $* " in *" -N "*|*" -sN "*) patience=5 ;; esac # leave a stream that continues
	command curl $fail --max-time $patience "$@" || code=$?
	[ "$code.$patience" = 28.5 ] || return $code
}
starts() { # LOG LINE COMMAND...: a server that runs until the document has been read
	local log=$READER/$1 line=$2; shift 2
	: >"$log" # discard the output of an earlier server
	setsid "$@" >"$log" 2>&1 & echo $! >>"$READER/.started"
	for _ in $(seq 2400); do
		if grep -q "$line" "$log"; then return; fi
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	cat "$log"; return 1
}
ends() { # stops the servers that "starts" has started
	[ -e "$READER/.started" ] || return 0
	while read -r pid; do kill -TERM -- "-$pid" 2>/dev/null && while kill -0 -- "-$pid" 2>/dev/null; do sleep 0.05; done; done <"$READER/.started"
	rm "$READER/.started"
}
credential() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$DATA_DIR/credentials.json"; }
make() {
	local where=$PWD
	[ -e Makefile ] || where=$REPOSITORY
	if [ "$1" != run ]; then # check only that the target exists; other tests run it
		env make -C "$where" -n "$@" >/dev/null; return
	fi
	ends
	export DATA_DIR=$READER/up
	[ "$where" != "$PWD" ] || DATA_DIR=$PWD/.data
	PORT=$UP_PORT starts run.log 'Press Ctrl-C to stop' env make -C "$where" run
	export PARLEY_BASE_URL=$(credential baseUrl) PARLEY_API_KEY=$(credential apiKey) AGENT_ID=$(credential agentId)
}
ingress() { ends; PORT=$UP_PORT starts ingress.log 'ingress ready' env ingress "$@"; }
worker() { starts worker.log 'worker ready' env worker "$@"; }
set -euo pipefail
set -a
`

// shell runs a block's commands unchanged. Their variables and working directory persist for later
// blocks.
func (r *reader) shell(t *testing.T, where, commands string) {
	t.Helper()
	r.ran += commands
	if strings.Contains(commands, "git clone") {
		r.builds(t)
	}
	if strings.Contains(commands, "make run") { // later blocks use the service that `make run` starts
		commands = strings.ReplaceAll(commands, r.address, "127.0.0.1:"+strconv.Itoa(r.port))
		r.address = "127.0.0.1:" + strconv.Itoa(r.port)
	}
	if strings.Contains(commands, "parley migrate") { // commands that migrate a database get servers of their own
		postgres, nats := testkit.PostgresProcess(t), testkit.NATSProcess(t, "")
		commands = "export DATABASE_URL=" + quoted(postgres.DSN()) + " NATS_URL=" + nats.URL + "\n" + commands
	}

	got := execute(t, r.dir, r.env, "bash", "-c", prelude+commands+"\nexport -p >\"$READER/.state\"\n")
	output, err := os.ReadFile(filepath.Join(r.dir, ".output"))
	if err != nil {
		t.Fatal(err)
	}
	if got.code != 0 {
		started, _ := os.ReadFile(filepath.Join(r.dir, "run.log")) // output of `make run`, if it was used
		t.Fatalf("%s ended with %d\n%s%s%s\n%s", where, got.code, got.stdout, got.stderr, output, started)
	}

	if sabotages.MatchString(commands) && !strings.Contains(string(output), "failed with status 1,") {
		t.Errorf("%s: the proof did not fail\n%s", where, output)
	}
	t.Logf("%s\n%.2000s", where, output)
}

// run runs a program in the reader's directory. It must succeed.
func (r *reader) run(t *testing.T, where, name string, args ...string) string {
	t.Helper()
	got := execute(t, r.dir, r.env, name, args...)
	if got.code != 0 {
		t.Fatalf("%s ended with %d\n%s%s", where, got.code, got.stdout, got.stderr)
	}
	t.Logf("%s\n%.2000s", where, got.stdout+got.stderr)
	return got.stdout
}

// endAll stops everything that the document has started.
func (r *reader) endAll(t *testing.T) {
	t.Helper()
	var groups []string
	for _, name := range []string{".started", ".groups"} {
		raw, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		groups = append(groups, strings.Fields(string(raw))...)
	}

	for _, group := range groups {
		pid, err := strconv.Atoi(group)
		if err != nil || pid < 2 {
			t.Errorf("%q is not a process group", group)
			continue
		}
		_ = syscall.Kill(-pid, syscall.SIGTERM) // most process groups have already ended
		if !polled(t, 20*time.Second, func() bool { return syscall.Kill(-pid, 0) != nil }) {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}

func (r *reader) sh(t *testing.T, b fenced.Block) {
	t.Helper()
	if !r.keep(t, b) {
		r.shell(t, b.String(), r.text(b))
	}
}

// json parses a block. If the block is a configuration of n8n or of an assistant, it uses the
// configuration as that program would.
func (r *reader) json(t *testing.T, b fenced.Block) {
	t.Helper()
	var value struct {
		Nodes      []node            `json:"nodes"`      // of n8n
		MCPServers map[string]server `json:"mcpServers"` // the settings of assistants have this key
		Servers    map[string]server `json:"servers"`    // or another
	}
	if err := json.Unmarshal([]byte(r.text(b)), &value); err != nil {
		t.Errorf("%s: %v", b, err)
	}

	for _, n := range value.Nodes {
		r.node(t, b, n)
	}

	for _, servers := range []map[string]server{value.MCPServers, value.Servers} {
		for _, s := range servers {
			r.server(t, b, s)
		}
	}

	r.keep(t, b)
}

// shown handles blocks with the language text: output and drawings, which are not run. It fails the
// test if the block contains commands.
func (r *reader) shown(t *testing.T, b fenced.Block) {
	t.Helper()
	if command := fenced.Command(b.Text); command != "" {
		t.Errorf("%s: %q looks like a command, but the block is not run", b, command)
	}
}
