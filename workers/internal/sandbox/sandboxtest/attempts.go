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

// The program that makes attempts, in two parts.
var (
	//go:embed probes/attempt_files.py
	attemptFiles string
	//go:embed probes/attempt.py
	attemptRest string
)

// attempt is something that must fail in a sandbox.
type attempt struct {
	name string
	// probe is a function of that program, or call a system call, with their arguments.
	probe, call string
	args        []any
	// must is how it is refused: with this error number, or "SIGSYS"; "" is in any way.
	must string
	// control are the arguments for the control, where others are needed.
	control []any
	// needs says what the control needs: nothing, all privileges of the host, or something that not each host has.
	needs need
	// here is set for attempts that are not made in a process of their own.
	here bool
	// fatal is set where any signal that ends the attempt is a refusal.
	fatal bool
	// ownKernel says why it may succeed where the sandbox has a kernel of its own: it reaches nothing of the host.
	ownKernel string
}

// need is what it takes that an attempt succeeds where nothing isolates it.
type need int

const (
	nothing need = iota
	privileges
	luck // the host may have switched it off, or be without it: what the control finds is logged
)

// result is what came of an attempt, as the program says it.
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

// escaped says what is wrong with what came of an attempt; nil when it was refused as it must be.
func (a attempt) escaped(r result) error {
	switch {
	case r.Broken != "":
		return fmt.Errorf("the attempt is broken: %s", r.Broken)
	case r.Ok:
		return fmt.Errorf("succeeded: %s", r.Detail)
	case a.must == "" && a.fatal && r.Signal != 0 && r.Signal != int(syscall.SIGALRM):
		return nil
	case r.Errno == "" && r.Refused == "" && r.Signal != sigsys:
		return fmt.Errorf("it did not come to its end, so it proves nothing: %s", r)
	case a.must == "":
		return nil
	case a.must == "SIGSYS" && r.Signal == sigsys:
		return nil
	case a.must == r.Errno:
		return nil
	default:
		return fmt.Errorf("was refused by %s, not by the filter (%s)", r, a.must)
	}
}

// attemptCode is the program that makes the attempts.
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
		all = append(all, given{Name: a.name, Probe: a.probe, Call: a.call, Args: append([]any{}, a.args...), Here: a.here})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(err) // the arguments are numbers, texts and lists of them
	}
	// Encoded, lest the program finds the canary in its own text.
	text := base64.StdEncoding.EncodeToString(encoded)
	return "import base64, json\nGIVEN = json.loads(base64.b64decode('" + text + "'))\n" + attemptFiles + "\n\n" + attemptRest
}

// results reads what the program printed.
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
