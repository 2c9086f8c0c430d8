//go:build linux

package extract

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/document"
)

// surroundings describes which parts of the machine a reader can see.
type surroundings struct {
	Environment []string `json:"environment"`
	Interfaces  []string `json:"interfaces"` // interfaces with addresses, except loopback
	Files       []string `json:"files"`      // files of the host that the reader can open
	Folders     []string `json:"folders"`    // folders to which the reader can write
	Reached     bool     `json:"reached"`    // true if the reader can connect to a listener on the host
}

var namespaceKinds = []string{"net", "mnt", "pid", "ipc", "user"}

func namespaces(pid string) map[string]string {
	out := map[string]string{}
	for _, kind := range namespaceKinds {
		out[kind], _ = os.Readlink("/proc/" + pid + "/ns/" + kind)
	}
	return out
}

// readersHere returns the namespaces of all readers that are running on the machine.
func readersHere() (out []map[string]string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		if name, _, _ := strings.Cut(string(line), "\x00"); name == programPath {
			out = append(out, namespaces(filepath.Base(filepath.Dir(path))))
		}
	}
	return out
}

const looksAround = "looks around: "

// lookAround describes the reader's surroundings. It tries to open the given paths, and to connect
// to an address on the host.
func lookAround(paths []string, address string) surroundings {
	a := surroundings{Environment: os.Environ()}
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			a.Interfaces = append(a.Interfaces, i.Name)
		}
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			a.Files = append(a.Files, path)
		}
	}
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/opt", "/var"} {
		if os.WriteFile(filepath.Join(dir, "parley-walls-test"), nil, 0o600) == nil {
			_ = os.Remove(filepath.Join(dir, "parley-walls-test"))
			a.Folders = append(a.Folders, dir)
		}
	}
	if c, err := net.DialTimeout("tcp", address, time.Second); err == nil { //nolint:noctx // a reader has no context
		a.Reached = c.Close() == nil
	}
	return a
}

// reportAround reports the reader's surroundings if the document begins with looksAround. Otherwise
// reportAround does nothing.
func reportAround(content string) {
	order, is := strings.CutPrefix(content, spell+looksAround)
	if !is {
		return
	}
	parts := strings.Fields(order)
	seen, err := json.Marshal(lookAround(parts[1:], parts[0]))
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(string(seen))
	if err != nil {
		panic(err)
	}
	respond(`{"block":{"k":"item","t":` + string(text) + `}}`)
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) //nolint:revive // acts as a main function
	select {}                                          // wait, so that the test can examine this process from outside
}

// reportAround must run before misbehave. Otherwise misbehave would panic, because the map spells
// does not contain the behavior that these documents name.
func init() { //nolint:gochecknoinits // readers begin before any test
	if os.Args[0] != programPath {
		return
	}
	if content, err := os.ReadFile(documentPath); err == nil {
		reportAround(string(content))
	}
}

// A reader is isolated from the machine: it has its own namespaces and no network. It can access
// only the files and variables that are meant for it.
func TestReadersAreWalledOff(t *testing.T) {
	t.Setenv("PARLEY_WALLS_SECRET", "xanthic")
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	mark := filepath.Join(t.TempDir(), "mark")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := []string{mark, "/etc/shadow", "/root", "/home", "/proc/1/environ"}
	own := lookAround(hidden, listener.Addr().String())
	if !own.Reached || !slices.Contains(own.Files, mark) || !slices.Contains(own.Files, "/etc/shadow") || len(own.Environment) == 0 {
		t.Fatalf("this process sees %+v, so the test proves nothing", own)
	}
	var seen surroundings
	var inside []map[string]string
	enough := errors.New("enough was seen")
	order := spell + looksAround + listener.Addr().String() + " " + strings.Join(hidden, " ")
	_, err = open(t, Config{}).Read(t.Context(), Document{Content: []byte(order)}, Limits{}, func(e document.Event) error {
		inside = readersHere()
		return cmp.Or(json.Unmarshal([]byte(e.Block.Text), &seen), enough)
	})
	if !errors.Is(err, enough) || len(inside) == 0 {
		t.Fatalf("%v, with %d readers", err, len(inside))
	}
	mine := namespaces("self")
	for _, reader := range inside {
		for _, kind := range namespaceKinds {
			if reader[kind] == "" || reader[kind] == mine[kind] {
				t.Errorf("the reader is in the namespace %q, and this process in %q", reader[kind], mine[kind])
			}
		}
	}
	if len(seen.Interfaces) > 0 || seen.Reached || len(seen.Files) > 0 || len(seen.Folders) > 0 {
		t.Errorf("the reader sees interfaces %v, files %v, writes to %v, and reaches the host: %t", seen.Interfaces, seen.Files, seen.Folders, seen.Reached)
	}
	for _, e := range seen.Environment {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "GOTRACEBACK", "PWD"}, name) {
			t.Errorf("the reader's environment has %s", name)
		}
	}
}
