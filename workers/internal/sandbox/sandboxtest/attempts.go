//go:build linux

package sandboxtest

import (
	"bufio"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
)

// Source code of the Python program that makes the attempts, in two parts.
var (
	//go:embed probes/attempt_files.py
	attemptFiles string
	//go:embed probes/attempt.py
	attemptRest string
)

// attempt is an action that must be refused in a sandbox. Either probe or call is set.
type attempt struct {
	name string
	// The field probe is the name of a function in the program. The field call is the name of a
	// system call. args contains the arguments of the function or of the system call.
	probe, call string
	args        []any
	// The field must is the required refusal: the name of an error number, or "SIGSYS". If it is
	// "", any refusal is accepted.
	must string
	// control contains the arguments for the same attempt without a sandbox, if they differ from
	// args.
	control []any
	// needs is the requirement for the attempt to succeed without a sandbox: nothing, all
	// privileges of the host, or a feature that some hosts lack.
	needs need
	// inline means that the program makes the attempt in its own process instead of a child.
	inline bool
	// fatal means that the attempt also counts as refused if a signal ends it.
	fatal bool
	// ownKernel, if not empty, is the reason why the attempt may succeed in a sandbox with a kernel
	// of its own. The attempt then does not reach the host.
	ownKernel string
}

// need is a requirement for an attempt to succeed without isolation.
type need int

const (
	nothingNeeded need = iota
	privileges
	optional // the host may lack the feature or have it disabled; a failure without a sandbox is only logged
)

// result is the outcome of an attempt as the program prints it.
type result struct {
	Name    string `json:"name"`
	Ok      bool   `json:"ok"`
	Detail  string `json:"detail"`
	Errno   string `json:"errno"`
	Refused string `json:"refused"`
	Broken  string `json:"broken"`
	Signal  int    `json:"signal"`
}

func (r result) String() string {
	switch {
	case r.Ok:
		return "succeeded: " + r.Detail
	case r.Errno != "":
		return r.Errno
	case r.Broken != "":
		return "broken: " + r.Broken
	case r.Signal != 0:
		return fmt.Sprintf("ended by signal %d", r.Signal)
	default:
		return r.Refused
	}
}

const sigsys = int(syscall.SIGSYS)

// escaped returns an error if an attempt was not refused in the required way.
func (a attempt) escaped(r result) error {
	switch {
	case r.Broken != "":
		return fmt.Errorf("the program made the attempt incorrectly: %s", r.Broken)
	case r.Ok:
		return fmt.Errorf("succeeded: %s", r.Detail)
	case a.must == "" && a.fatal && r.Signal != 0 && r.Signal != int(syscall.SIGALRM):
		return nil
	case r.Errno == "" && r.Refused == "" && r.Signal != sigsys:
		return fmt.Errorf("the attempt did not finish, so it proves nothing: %s", r)
	case a.must == "":
		return nil
	case a.must == "SIGSYS" && r.Signal == sigsys:
		return nil
	case a.must == r.Errno:
		return nil
	default:
		return fmt.Errorf("refused with %s, but the filter must refuse it with %s", r, a.must)
	}
}

// attemptCode returns the source code of a program that makes the attempts.
func attemptCode(attempts []attempt) string {
	type given struct {
		Name  string `json:"name"`
		Probe string `json:"probe,omitempty"`
		Call  string `json:"call,omitempty"`
		Args  []any  `json:"args"`
		Here  bool   `json:"here,omitempty"`
	}
	all := make([]given, 0, len(attempts))
	for _, a := range attempts {
		all = append(all, given{Name: a.name, Probe: a.probe, Call: a.call, Args: append([]any{}, a.args...), Here: a.inline})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(err) // cannot happen: the arguments are numbers, texts, and lists of numbers and texts
	}
	// The text is encoded, so that the program does not find the canary in its own source code.
	text := base64.StdEncoding.EncodeToString(encoded)
	return "import base64, json\nGIVEN = json.loads(base64.b64decode('" + text + "'))\n" + attemptFiles + "\n\n" + attemptRest
}

// results parses the output of the program.
func results(stdout string) (map[string]result, error) {
	found := map[string]result{}
	lines := bufio.NewScanner(strings.NewReader(stdout))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("reading %.200q: %w", lines.Text(), err)
		}
		found[r.Name] = r
	}
	return found, lines.Err()
}
