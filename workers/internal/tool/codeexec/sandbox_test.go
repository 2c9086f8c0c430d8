package codeexec_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/workers/internal/sandbox/bubblewrap"
	"parley/workers/internal/sandbox/python"
)

// interpreter returns a real interpreter in bubblewrap.
func interpreter(t *testing.T) *python.Interpreter {
	t.Helper()
	if path, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("NOT TESTED: programs in a sandbox: there is no bwrap on this machine (install the package bubblewrap)", path)
	}
	backend, err := bubblewrap.Open(bubblewrap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	l := limits()
	l.CPU = 2 * time.Second
	i, err := python.Open(backend, python.Config{Limits: l, Warm: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	return i
}

func TestInASandbox(t *testing.T) {
	t.Parallel()
	i, l := interpreter(t), limits()
	l.CPU = 2 * time.Second
	files := (&fakeFiles{}).add("data.csv", "1\n2\n3\n").add("old.txt", "old")
	run := func(keeps bool, arguments string) (shown, string) {
		t.Helper()
		return callWithin(t, i, files, keeps, arguments, l)
	}
	got, message := run(false, `{"code":"n = sum(int(x) for x in open('data.csv'))\nprint(n)\nopen('out.json', 'w').write('{}')\nn * 7","files":["data.csv"]}`)
	if message != "" || got.Stdout != "6\n" || got.Value != "42" || got.names() != "out.json" || got.Files[0].MIMEType != "application/json" || string(files.made[0].Content) != "{}" {
		t.Errorf("%+v, %s", got, message)
	}
	got, message = run(true, `{"code":"import os\nos.remove('old.txt')\nopen('data.csv', 'a').write('4\\n')\nprint(sorted(os.listdir()))"}`)
	if message != "" || got.Stdout != "['data.csv']\n" || got.names() != "data.csv" || string(files.made[0].Content) != "1\n2\n3\n4\n" || strings.Join(files.removed, " ") != "old.txt" {
		t.Errorf("%+v, %s; removed %q", got, message, files.removed)
	}
	got, message = run(false, `{"code":"print(1)\nprint("}`)
	if message != "SyntaxError: '(' was never closed" || !strings.Contains(got.Error, "main.py") || !strings.Contains(got.Error, "line 2") || got.Stdout != "" {
		t.Errorf("%+v, %s", got, message)
	}
	got, message = run(false, `{"code":"def f(x):\n    return 1 / x\nprint('before')\nf(0)"}`)
	if message != "ZeroDivisionError: division by zero" || got.Stdout != "before\n" || !strings.Contains(got.Error, "line 2, in f") || strings.Contains(got.Error, "parley") {
		t.Errorf("%+v, %s", got, message)
	}
	got, message = run(false, `{"code":"open('kept', 'w').write('x')\nprint('busy', flush=True)\nwhile True: pass"}`)
	if message != "The program used more than 2 s of CPU time." || got.Limit != "cpu" || got.Stdout != "busy\n" || got.names() != "kept" {
		t.Errorf("%+v, %s", got, message)
	}
	got, message = run(false, `{"code":"print('ü 12345\\n' * 200_000)"}`)
	if message != "" || got.Limit != "output" || got.names() != "stdout.txt" || len(files.made[0].Content) > 1<<20 || len(files.made[0].Content) < 1<<19 || !strings.Contains(got.Note, "Only the first 1 MiB") {
		t.Errorf("%s; %s, %s: %s", message, got.Limit, got.names(), got.Note)
	}
	got, message = run(false, `{"code":"try:\n  import matplotlib.pyplot as plt\nexcept ImportError:\n  open('plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\nelse:\n  plt.bar([1], [2])\n  plt.savefig('plot.png')"}`)
	if message != "" || got.names() != "plot.png" || got.Files[0].MIMEType != "image/png" { // a saved plot is not stored a second time
		t.Errorf("%+v, %s", got, message)
	}
	got, message = run(false, `{"code":"import sys\nsys.exit(3)"}`)
	if message != "The program exited with code 3." {
		t.Errorf("%+v, %s", got, message)
	}
	for code, note := range map[string]string{
		`import socket\nsocket.create_connection(('1.1.1.1', 53))`:        noNetwork,
		`import urllib.request as r\nr.urlopen('https://example.com')`:    noNetwork,
		`int(input('how many? '))`:                                        "Programs have no input.",
		`full = bytearray(425 * 2**20)\nwhile True: pass`:                 "Most of the memory was in use (4",
		`for n in range(150): open(f'{n:03}.csv', 'w').write('x')\n1 / 0`: "Files are omitted if they are too many or too large, are not regular files, or have invalid names. 30 more files were omitted.",
	} {
		if got, message = run(false, `{"code":"`+code+`"}`); got.Error == "" || !strings.HasPrefix(got.Note, note) {
			t.Errorf("%s: %+v, %s", code, got, message)
		}
		if strings.Contains(code, "150") && (len(got.Files) != 100 || len(files.made) != 100) {
			t.Errorf("%d files are kept, %d are listed", len(files.made), len(got.Files))
		}
	}
}
