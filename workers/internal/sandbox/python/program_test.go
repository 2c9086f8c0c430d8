package python

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"parley/shared/truncate"
	"parley/workers/internal/sandbox"
)

// expected is the expected outcome of a program. A text that begins or ends with "…" matches any
// text in that place.
type expected struct {
	stdout, stderr, value, traceback string
	exitCode                         int
	limit                            sandbox.Limit
	files                            map[string]string
	removed, leftOut                 []string
}

func fits(got, want string) bool {
	head, headOpen := strings.CutPrefix(want, "…")
	body, tailOpen := strings.CutSuffix(head, "…")
	switch {
	case headOpen && tailOpen:
		return strings.Contains(got, body)
	case headOpen:
		return strings.HasSuffix(got, body)
	case tailOpen:
		return strings.HasPrefix(got, body)
	default:
		return got == want
	}
}

func (want expected) check(t *testing.T, o Outcome) {
	t.Helper()
	for _, text := range []struct{ name, got, want string }{
		{"stdout", o.Stdout, want.stdout},
		{"stderr", o.Stderr, want.stderr},
		{"value", o.Value, want.value},
		{"traceback", o.Traceback, want.traceback},
	} {
		if !fits(text.got, text.want) {
			t.Errorf("%s is\n%s\nnot\n%s", text.name, truncate.Bytes(text.got, 4000), text.want)
		}
	}
	if o.ExitCode != want.exitCode || o.Limit != want.limit {
		t.Errorf("exit code = %d, limit = %q; want %d, %q", o.ExitCode, o.Limit, want.exitCode, want.limit)
	}
	files := map[string]string{}
	for _, f := range o.Files {
		files[f.Name] = string(f.Content)
	}
	if !maps.Equal(files, want.files) {
		t.Errorf("files are %v, not %v", slices.Sorted(maps.Keys(files)), want.files)
	}
	if !slices.Equal(o.Removed, want.removed) || !slices.Equal(o.LeftOut, want.leftOut) {
		t.Errorf("removed = %q, left out = %q, want %q, %q", o.Removed, o.LeftOut, want.removed, want.leftOut)
	}
}

type programCase struct {
	name    string
	code    string
	initial []File
	want    expected
}

func runCases(t *testing.T, cases []programCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, run(t, Program{Code: c.code, Files: c.initial}))
		})
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	runCases(t, []programCase{
		{"expression", "x = 20\nx + 1", nil, expected{value: "21"}},
		{"text", "'ä' + '\"'", nil, expected{value: "'ä\"'"}},
		{"none", "print('a')", nil, expected{stdout: "a\n"}},
		{"statement last", "1\nx = 2", nil, expected{}},
		{"nothing", "", nil, expected{}},
		{"comment alone", "# nothing", nil, expected{}},
		{"both outputs", "import sys\nprint('o')\nprint('e', file=sys.stderr)\n3", nil, expected{stdout: "o\n", stderr: "e\n", value: "3"}},
		{"repr fails", "class A:\n    def __repr__(self): return 1/0\nA()", nil, expected{
			exitCode: 1, traceback: "Traceback (most recent call last):\n  File \"main.py\", line 2, in __repr__\n" +
				"    def __repr__(self): return 1/0\n                               ~^~\nZeroDivisionError: division by zero",
		}},
		{"long", "'a' * 100_000", nil, expected{value: "'aaaaaaaa…"}},
		{"huge integer", "10 ** 5000", nil, expected{exitCode: 1, traceback: "…ValueError: Exceeds the limit (4300 digits) for integer string conversion…"}},
		{"lone surrogate", "'\\ud800'", nil, expected{value: "'\\ud800'"}},
		{"object that is a lone surrogate", "class A:\n    def __repr__(self): return '\\ud800'\nA()", nil, expected{value: `\ud800`}},
		{"await", "import asyncio\nx = await asyncio.sleep(0.001, 7)\nx", nil, expected{value: "7"}},
		{"await last", "import asyncio\nawait asyncio.sleep(0.001, 8)", nil, expected{value: "8"}},
		{"byte order mark", "\ufeffprint('ä')", nil, expected{stdout: "ä\n"}},
		{"carriage returns", "x = '''a\r\nb'''\r\nif x:\r\n    print(repr(x))\r\n", nil, expected{stdout: "'a\\nb'\n"}},
		{"coding comment", "# -*- coding: latin-1 -*-\nprint('ä')", nil, expected{stdout: "ä\n"}},
		{"names in other letters", "größe = 3\nприве́т = 4\ngröße + прive if False else größe", nil, expected{value: "3"}},
		{"100,000 characters", strings.Repeat("x = 1 # äöü\n", 8300) + "x", nil, expected{value: "1"}},
		{"hashes are the same each time", "print(list({'a', 'b', 'c', 'd'}), hash('x'))", nil, expected{stdout: "…"}},
		{
			"main", "import sys\nprint(__name__, sys.argv, sys.modules['__main__'].x if 'x' in globals() else 0)\nif __name__ == '__main__': print(1)",
			nil,
			expected{stdout: "__main__ ['main.py'] 0\n1\n"},
		},
		{"own source", "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))", nil, expected{stdout: "def f():\n    return 1\n\n"}},
		{
			"environment", "import os\nprint(os.getcwd(), os.environ['HOME'], len([n for n in os.environ if 'TOKEN' in n or 'KEY' in n]))",
			nil,
			expected{stdout: "/work /tmp 0\n"},
		},
		{"pickle", "import pickle\nclass A: x = 1\nprint(pickle.loads(pickle.dumps(A())).x)", nil, expected{stdout: "1\n"}},
		{"dataclass and typing", "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)", nil, expected{value: "P(x=1)"}},
		{
			"subprocess", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import numpy; print(5)'], capture_output=True, text=True).stdout",
			nil,
			expected{value: `'5\n'`},
		},
	})
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	const began = "Traceback (most recent call last):\n"
	runCases(t, []programCase{
		{"in a function", "def f(x):\n    return x['a']['b']\n\nf({'a': None})", nil, expected{exitCode: 1, traceback: began +
			"  File \"main.py\", line 4, in <module>\n    f({'a': None})\n  File \"main.py\", line 2, in f\n    return x['a']['b']\n" +
			"           ~~~~~~^^^^^\nTypeError: 'NoneType' object is not subscriptable"}},
		{"in a comprehension", "x = [1 / y for y in (1, 0)]", nil, expected{exitCode: 1, traceback: "…    x = [1 / y for y in (1, 0)]\n         ~~^~~\nZeroDivisionError: division by zero"}},
		{"syntax", "x = 1\nprint('a'\ny = 2\n", nil, expected{exitCode: 1, traceback: "  File \"main.py\", line 2\n    print('a'\n         ^\n" +
			"SyntaxError: '(' was never closed"}},
		{"syntax, letters before it", "größe = 'ä' +* 3", nil, expected{exitCode: 1, traceback: "  File \"main.py\", line 1\n    größe = 'ä' +* 3\n" +
			"                 ^\nSyntaxError: invalid syntax"}},
		{"unfinished", "if 1:", nil, expected{exitCode: 1, traceback: "  File \"main.py\", line 1\n    if 1:\n         ^\n" +
			"IndentationError: expected an indented block after 'if' statement on line 1"}},
		{"indentation", "x = 1\n  y = 2", nil, expected{exitCode: 1, traceback: "  File \"main.py\", line 2\n    y = 2\nIndentationError: unexpected indent"}},
		{"return outside", "return 1", nil, expected{exitCode: 1, traceback: "…SyntaxError: 'return' outside function"}},
		{"null byte", "x = 1\x00", nil, expected{exitCode: 1, traceback: "…source code string cannot contain null bytes"}},
		{"no lines but the program's", "import json\njson.loads('{')", nil, expected{exitCode: 1, traceback: began +
			"  File \"main.py\", line 2, in <module>\n    json.loads('{')\njson.decoder.JSONDecodeError: Expecting property name enclosed in double " +
			"quotes: line 1 column 2 (char 1)"}},
		{"one led to the other", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e", nil, expected{
			exitCode: 1,
			traceback: began + "  File \"main.py\", line 2, in <module>\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n\n" +
				"The above exception was the direct cause of the following exception:\n\n" + began +
				"  File \"main.py\", line 4, in <module>\n    raise KeyError('k') from e\nKeyError: 'k'",
		}},
		{"group", "raise ExceptionGroup('g', [ValueError(1), OSError(2)])", nil, expected{exitCode: 1, traceback: "…| OSError: 2\n    +------------------------------------"}},
		{"recursion", "def again():\n    again()\nx = again()", nil, expected{exitCode: 1, traceback: "…[Previous line repeated 9…"}},
		{"module of the folder", "import mod.a", []File{{"mod/a.py", []byte("x = 1\nraise ValueError('in a')\n")}}, expected{exitCode: 1, traceback: began +
			"  File \"main.py\", line 1, in <module>\n    import mod.a\n  File \"/work/mod/a.py\", line 2, in <module>\n    raise ValueError('in a')\nValueError: in a"}},
		{
			"traceback.py in the folder", "import os\n1 / 0",
			[]File{{"traceback.py", []byte("raise SystemExit(7)")}, {"linecache.py", []byte("1/0")}},
			expected{exitCode: 1, traceback: "…ZeroDivisionError: division by zero"},
		},
		{"long message", "raise ValueError('x' * 1_000_000)", nil, expected{exitCode: 1, traceback: "…bytes left out…"}},
		{"own hook", "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0", nil, expected{
			exitCode: 1, stdout: "hook ZeroDivisionError\n", traceback: "…ZeroDivisionError: division by zero",
		}},
		{"hostile exception", "class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E()", nil, expected{exitCode: 1, traceback: "…E…"}},
		{"thread", "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()\nprint('on')", nil, expected{
			stdout: "on\n", stderr: "…line 2, in <lambda>\n    t = threading.Thread(target=lambda: 1 / 0)\n                                        ~~^~~\nZeroDivisionError: division by zero\n",
		}},
		{"await", "import asyncio\nasync def f():\n    1 / 0\nawait f()", nil, expected{exitCode: 1, traceback: began +
			"  File \"main.py\", line 4, in <module>\n    await f()\n  File \"main.py\", line 3, in f\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero"}},
		{"input", "input('name? ')", nil, expected{exitCode: 1, stdout: "name? ", traceback: "…EOFError: EOF when reading a line"}},
		{"interrupt", "raise KeyboardInterrupt", nil, expected{exitCode: 1, traceback: "…KeyboardInterrupt"}},
		{"standard error closed", "import sys\nsys.stderr.close()\nsys.stderr = None\n1 / 0", nil, expected{exitCode: 1, traceback: "…ZeroDivisionError: division by zero"}},
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	runCases(t, []programCase{
		{"exit 0", "import sys\nprint(1)\nsys.exit(0)\nprint(2)", nil, expected{stdout: "1\n"}},
		{"exit 3", "import sys\nsys.exit(3)", nil, expected{exitCode: 3}},
		{"exit with a text", "import sys\nsys.exit('bad')", nil, expected{exitCode: 1, stderr: "bad\n"}},
		{"exit()", "exit()", nil, expected{}},
		{"quit(4)", "quit(4)", nil, expected{exitCode: 4}},
		{"exit from a function, value before", "5\nraise SystemExit", nil, expected{}},
		{"os._exit", "import os\nprint('seen')\nos._exit(5)", nil, expected{stdout: "seen\n", exitCode: 5}},
		{"abort", "import os\nos.abort()", nil, expected{exitCode: -6, stderr: "Fatal Python error: Aborted\n…"}},
		{"segmentation fault", "import ctypes\nprint('a')\nctypes.string_at(0)", nil, expected{stdout: "a\n", exitCode: -11, stderr: "Fatal Python error: Segmentation fault\n…"}},
		{"deep recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return [f(y) for y in map(f, [x])]\nf(1)", nil, expected{exitCode: -11, stderr: "Fatal Python error: …"}},
		{"kills itself", "import os\nos.kill(os.getpid(), 9)", nil, expected{exitCode: -9}},
		{"kills its group", "import os\nos.killpg(0, 9)", nil, expected{exitCode: -9}},
		{"signals its parent", "import os, signal\nfor n in range(1, 65):\n    if n not in (9, 19):\n        try: os.kill(os.getppid(), n)\n        except OSError: pass\nprint('on')", nil, expected{stdout: "on\n"}},
		{"kills its parent", "import os\nos.kill(os.getppid(), 9)\nprint('on')", nil, expected{stdout: "on\n"}},
		{"stops its parent", "import os\nos.kill(os.getppid(), 19)\nprint('on')", nil, expected{stdout: "on\n"}},
		{"kills all that it can", "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nprint('on')", nil, expected{stdout: "on\n"}},
		{"output closed", "import sys\nprint(1)\nsys.stdout.close()", nil, expected{stdout: "1\n"}},
		{"all descriptors closed", "import os\nprint(1)\nos.closerange(0, 300)\n2", nil, expected{stdout: "1\n", value: "2"}},
		{"all descriptors written to", "import os\nfor n in range(3, 1024):\n    try: os.write(n, b'Z\\0\\0\\0\\0' * 9)\n    except OSError: pass\n3", nil, expected{value: "3"}},
		{"frames printed", "import os\nos.write(1, b'Z\\0\\0\\0\\0X\\xff\\xff\\xff\\xff')\n4", nil, expected{stdout: "Z\x00\x00\x00\x00X\uFFFD", value: "4"}},
		{"fork", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')\npid > 0", nil, expected{stdout: "child\nparent\n", value: "True"}},
		{"fork that fails", "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nelse:\n    1 / 0\n'fine'", nil, expected{
			value: "'fine'", stderr: "…ZeroDivisionError: division by zero\n",
		}},
		{"daemon", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(100)\n    os._exit(0)\nprint('left')", nil, expected{stdout: "left\n"}},
		{"child that goes on printing", "import subprocess\nsubprocess.Popen(['yes'])\nimport time\ntime.sleep(.5)\nprint('left')", nil, expected{stdout: "y\n…", limit: sandbox.LimitOutput}},
		{"threads are waited for", "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\nprint('early')", nil, expected{stdout: "early\nlate\n"}},
		{"atexit", "import atexit\natexit.register(print, 'bye')\nprint('hi')", nil, expected{stdout: "hi\nbye\n"}},
		{"file left open", "f = open('a.txt', 'w')\nf.write('kept')", nil, expected{value: "4", files: map[string]string{"a.txt": "kept"}}},
		{"printed from C", "import ctypes\nctypes.CDLL(None).puts(b'from c')\nNone", nil, expected{stdout: "from c\n"}},
		{"bad text", "import sys\nsys.stdout.buffer.write(b'a\\xffb\\n')\nNone", nil, expected{stdout: "a\uFFFDb\n"}},
		{"pool of processes", "from multiprocessing import Pool\ndef f(x): return x * x\nif __name__ == '__main__':\n    with Pool(2) as p: print(p.map(f, [1, 2, 3]))", nil, expected{stdout: "[1, 4, 9]\n"}},
		{"pool of spawned processes", "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as p: print(p.map(f, [1]))", nil, expected{stdout: "[2]\n"}},
		{"executor", "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x + 1\nwith P(2) as p: print(list(p.map(f, [1, 2])))", nil, expected{stdout: "[2, 3]\n"}},
		{"alarm", "import signal, time\nsignal.alarm(1)\ntime.sleep(5)", nil, expected{exitCode: -14}},
	})
}
