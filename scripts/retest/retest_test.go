package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReruns tests modules whose tests pass, fail, crash, or fail only in their first runs.
func TestReruns(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body string
		red        bool
		flaky      []string // expected content of the file that -flaky names; nil: the file must not exist
		says       string   // expected in the output
	}{
		{name: "all pass", body: `func TestA(t *testing.T) {}`},
		{name: "fails each time", body: `func TestA(t *testing.T) { t.Error("broken") }`, red: true},
		{
			name: "passes on the second run", body: `func TestA(t *testing.T) { once(t) }`,
			flaky: []string{"FLAKY example/p: TestA", "failing on run 1"},
		},
		{
			name: "passes on the third run", body: `func TestA(t *testing.T) { failing(t, 2) }`,
			flaky: []string{"failing on run 1", "failing on run 2"},
		},
		{name: "passes on the fourth run", body: `func TestA(t *testing.T) { failing(t, 3) }`, red: true},
		{
			name: "a flaky test and a failing one", red: true,
			body: "func TestA(t *testing.T) { once(t) }\nfunc TestB(t *testing.T) { t.Error() }",
		},
		{
			name: "a crash prevents later tests", red: true,
			body: "func TestA(t *testing.T) { if first() { panic(1) } }\nfunc TestB(t *testing.T) { t.Error() }",
		},
		{
			name: "a crash once", body: "func TestA(t *testing.T) { if first() { panic(\"crashed\") } }\nfunc TestB(t *testing.T) {}",
			flaky: []string{"panic: crashed"},
		},
		{
			name: "passed tests are not run again", body: "func TestA(t *testing.T) { if !first() { t.Error() } }\nfunc TestB(t *testing.T) { failing(t, 2) }",
			flaky: []string{"FLAKY example/p: TestB"},
		},
		{
			name: "a subtest", body: `func TestA(t *testing.T) { t.Run("sub", func(t *testing.T) { once(t) }) }`,
			flaky: []string{"FLAKY example/p: TestA", "failing on run 1"},
		},
		{
			name: "the package fails after its tests", red: true, says: "no rerun of example/p",
			body: "func TestA(t *testing.T) {}\nfunc TestMain(m *testing.M) { if m.Run(); first() { os.Exit(1) } }",
		},
		{
			name: "the rerun of a flaky test fails after its tests", red: true, says: "no rerun of example/p",
			body: "func TestA(t *testing.T) { once(t) }\nfunc TestMain(m *testing.M) { if code := m.Run(); code != 0 || run(\"main\") == 1 { os.Exit(1) } }",
		},
		{name: "does not compile", body: `func TestA(t *testing.T) { undefined() }`, red: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, report, out := rerun(t, c.body)
			if (code != 0) != c.red {
				t.Errorf("exit code %d\n%s", code, out)
			}
			if !strings.Contains(out, c.says) {
				t.Errorf("output lacks %q:\n%s", c.says, out)
			}
			for _, part := range c.flaky {
				if !strings.Contains(report, part) {
					t.Errorf("report lacks %q:\n%s", part, report)
				}
			}
			if c.flaky == nil && !c.red && report != "" {
				t.Errorf("report after a passing run = %s, want none", report)
			}
		})
	}
}

// helpers is Go source that is added to each module under test. Its functions count the runs of a
// test. The count is stored in a file in the module's directory.
const helpers = `package p

import (
	"os"
	"testing"
)

func run(name string) int {
	f, _ := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.WriteString("x")
	f.Close()
	b, _ := os.ReadFile(name)
	return len(b)
}

func first() bool { return run("first") == 1 }
func once(t *testing.T) { failing(t, 1) }
func failing(t *testing.T, times int) {
	if n := run("failing"); n <= times {
		t.Errorf("failing on run %d", n)
	}
}

var _ = os.Exit
`

func rerun(t *testing.T, body string) (code int, report, out string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example/p\n\ngo 1.26\n",
		"run.go":         helpers,
		"p_test.go":      "package p\n\nimport (\n\"os\"\n\"testing\"\n)\n\nvar _ = os.Exit\n\n" + body + "\n",
		"test-events.sh": "#!/bin/sh\ncd " + dir + " && GOWORK=off exec go test -json \"$@\" >\"$GOTESTSUM_JSONFILE\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	var log bytes.Buffer
	r := rerunner{command: []string{filepath.Join(dir, "test-events.sh"), "-count=1", "-vet=off"}, out: &log}
	code, report, err := r.run(t.Context(), []string{"example/p"})
	if err != nil {
		fmt.Fprintln(&log, err)
	}
	return code, report, log.String()
}

// TestReportIsAppended checks that several runs of retest can write their reports to one file.
func TestReportIsAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "flaky")
	for _, text := range []string{"one\n", "two\n"} {
		if err := appendTo(path, text); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSlowestArePrinted(t *testing.T) {
	t.Parallel()
	var events strings.Builder
	for p := range 5 {
		for n := range 20 {
			fmt.Fprintf(&events, `{"Action":"pass","Package":"p%d","Test":"Test%d","Elapsed":%d.5}`+"\n", p, n, 100*p+n)
		}
		fmt.Fprintf(&events, `{"Action":"pass","Package":"p%d","Test":"Test1/sub","Elapsed":9000}`+"\n", p)
		fmt.Fprintf(&events, `{"Action":"pass","Package":"p%d","Elapsed":%d}`+"\n", p, 1000+p)
	}

	res, err := readResults(strings.NewReader(events.String()))
	if err != nil {
		t.Fatal(err)
	}

	lines := strings.Split(strings.TrimSpace(res.slowest()), "\n")
	if len(lines) != 5+slowTests || lines[0] != "slow 1004.0 s  p4" || lines[5] != "slow  419.5 s  p4 Test19" || lines[29] != "slow  315.5 s  p3 Test15" {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}

	delete(res.packages, "p0")
	delete(res.packages, "p1")
	if text := res.slowest(); text != "" {
		t.Errorf("list for three packages = %s, want none", text)
	}
}
