//go:build linux

package sandboxtest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"parley/workers/internal/sandbox/python"
)

// honestProgram is a program that a sandbox must not hinder. At its end, it prints "good".
type honestProgram struct {
	name string
	code string
	// module is a Python module that the program needs and that may be missing on the machine.
	module string
	// If slow is true, the program is omitted for backends whose sandboxes start slowly.
	slow bool
	// If counted is true, the program is omitted where memory is measured per process and not
	// counted by a cgroup.
	counted bool
}

func (s *suite) honest(t *testing.T) {
	in := s.python(t, wideLimits())
	var cases []honestProgram
	for _, d := range honestPrograms() {
		if s.brief && d.slow || s.watched && d.counted {
			t.Logf("skipped with %s: %s", s.backend.Name(), d.name)
			continue
		}
		cases = append(cases, d)
	}

	outcomes := make([]python.Outcome, len(cases))
	errs := make([]error, len(cases))
	each(2, len(cases), func(i int) {
		outcomes[i], errs[i] = in.Run(t.Context(), python.Program{Code: cases[i].code + "\nprint('good')\n"})
	})

	for i, d := range cases {
		t.Run(d.name, func(t *testing.T) {
			o := outcomes[i]
			if d.module != "" && strings.Contains(o.Traceback, "No module named '"+d.module+"'") {
				t.Skipf("%s is not installed on this machine", d.module)
			}
			if errs[i] != nil || o.Failed() || !strings.HasSuffix(o.Stdout, "good\n") {
				t.Errorf("%v, limit %q, exit %d\n%s\n%s\n%s", errs[i], o.Limit, o.ExitCode, o.Stdout, o.Stderr, o.Traceback)
			}
		})
	}
	t.Run("files are passed in and out", func(t *testing.T) { comeAndGo(t, in) })
	t.Run("each call starts with empty folders", func(t *testing.T) { afresh(t, in) })
}

func comeAndGo(t *testing.T, in *python.Interpreter) {
	t.Helper()
	given := []python.File{
		{Name: "in/data.csv", Content: []byte("a,b\n1,2\n")}, {Name: "ünï.txt", Content: []byte("käse")}, {Name: "old", Content: []byte("x")},
	}
	o := run(t, in, python.Program{Files: given, Code: `import csv, os
rows = list(csv.DictReader(open("in/data.csv")))
os.makedirs("out/deep")
open("out/deep/sum.txt", "w").write(str(int(rows[0]["a"]) + int(rows[0]["b"])))
open("ünï.txt", "a").write(" und brot")
os.remove("old")
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")`})

	got := map[string]string{}
	for _, f := range o.Files {
		got[f.Name] = string(f.Content)
	}

	if o.Failed() || len(got) != 2 || got["out/deep/sum.txt"] != "3" || got["ünï.txt"] != "käse und brot" {
		t.Errorf("unexpected files %q; %+v", got, o)
	}
	if len(o.Removed) != 1 || o.Removed[0] != "old" || len(o.LeftOut) != 2 {
		t.Errorf("removed = %q, left out = %q", o.Removed, o.LeftOut)
	}
}

func afresh(t *testing.T, in *python.Interpreter) {
	t.Helper()
	const look = `import os
shown = lambda folder: [name for name in os.listdir(folder) if name[0] != "."] # the runner's are hidden
print(os.getcwd(), os.listdir("/work"), shown("/tmp"), os.listdir("/dev/shm"))
for folder in ("/work", "/tmp", "/dev/shm"):
    open(folder + "/left", "w").write("x")
import builtins; builtins.left = getattr(builtins, "left", 0) + 1; print(builtins.left)`
	for range 3 {
		if o := run(t, in, python.Program{Code: look}); o.Failed() || o.Stdout != "/work [] [] []\n1\n" {
			t.Errorf("unexpected output %q %s", o.Stdout, o.Traceback)
		}
	}
	large := python.File{Name: "large", Content: bytes.Repeat([]byte("0123456789abcdef"), 1<<20)}
	o := run(t, in, python.Program{Code: "import os; print(os.path.getsize('large'))", Files: []python.File{large}})
	if o.Failed() || o.Stdout != "16777216\n" || len(o.Files) != 0 {
		t.Errorf("large file: output %q %s, %d files returned", o.Stdout, o.Traceback, len(o.Files))
	}
}

func honestPrograms() []honestProgram {
	return slices.Concat(packagePrograms(), processPrograms(), filePrograms(), otherPrograms())
}

func packagePrograms() []honestProgram {
	return []honestProgram{
		{name: "arithmetic", code: "assert 3 ** 200 % 1009 == pow(3, 200, 1009) and abs(sum(0.1 for _ in range(10)) - 1) < 1e-9"},
		{name: "decimal and fractions", slow: true, code: `from decimal import Decimal, getcontext
from fractions import Fraction
getcontext().prec = 50
assert str(Decimal(1) / 7).startswith("0.142857142857") and Fraction(1, 3) + Fraction(1, 6) == Fraction(1, 2)`},
		{name: "numpy", module: "numpy", code: `import numpy
a = numpy.arange(250_000, dtype=float).reshape(500, 500)
assert abs(numpy.trace(a @ numpy.linalg.inv(a + numpy.eye(500) * 1e6) ) ) >= 0 and a.sum() == 250_000 * 249_999 / 2
assert numpy.random.default_rng(1).random() < 1`},
		{name: "pandas", module: "pandas", slow: true, code: `import pandas
frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
frame.to_csv("frame.csv", index=False)
assert pandas.read_csv("frame.csv").groupby("b")["a"].sum().to_dict() == {"x": 4, "y": 2}
assert str(pandas.Timestamp("2026-07-01", tz="Europe/Berlin").utcoffset()) == "2:00:00"`},
		{name: "matplotlib", module: "matplotlib", slow: true, code: `import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [2, 3, 5]); plt.title("Größe"); plt.savefig("plot.png")
assert open("plot.png", "rb").read(8) == b"\x89PNG\r\n\x1a\n"
plt.close()`},
	}
}

func processPrograms() []honestProgram {
	return []honestProgram{
		{name: "another program", code: `import subprocess, sys
done = subprocess.run([sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])"], input="abc", capture_output=True, text=True)
assert (done.returncode, done.stdout) == (0, "cba\n"), done
assert subprocess.check_output("echo $((6 * 7)) | cat", shell=True) == b"42\n"`},
		{name: "threads", code: `import threading, queue
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(lambda n: n * n, range(50))) == [n * n for n in range(50)]
event, answers = threading.Event(), queue.Queue()
threading.Thread(target=lambda: (event.wait(), answers.put(1))).start()
event.set()
assert answers.get(timeout=20) == 1`},
		{name: "processes", slow: true, code: `import multiprocessing
def square(n): return n * n
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(square, range(10)) == [n * n for n in range(10)]
lock, value = multiprocessing.Lock(), multiprocessing.Value("i", 0)
with lock: value.value += 1
assert value.value == 1
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size=1000); block.buf[0] = 7; block.close(); block.unlink()`},
		{name: "asyncio", code: `import asyncio
async def one(n):
    await asyncio.sleep(0.001)
    return n
async def all():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return sum(await asyncio.gather(*(one(n) for n in range(100)))), said
assert asyncio.run(all()) == (4950, b"hi\n")`},
	}
}

func filePrograms() []honestProgram {
	return []honestProgram{
		{name: "files and folders", code: `import os, pathlib, shutil
os.makedirs("a/b/c"); pathlib.Path("a/b/c/d.txt").write_text("d", "utf-8")
shutil.copytree("a", "copy"); os.rename("copy", "moved"); os.chmod("moved/b/c/d.txt", 0o600)
os.link("moved/b/c/d.txt", "hard"); os.symlink("hard", "soft")
assert sorted(str(p) for p in pathlib.Path(".").rglob("*.txt")) == ["a/b/c/d.txt", "moved/b/c/d.txt"] and open("soft").read() == "d"
assert os.stat("hard").st_nlink == 2 and shutil.disk_usage("/work").free > 0
shutil.rmtree("a"); os.utime("hard", (1, 1)); assert os.stat("hard").st_mtime == 1`},
		{name: "60 MiB of files", code: `import os
for n in range(6):
    with open(f"part-{n}", "wb") as file:
        file.write(os.urandom(1 << 20) * 10)
assert sum(os.path.getsize(f"part-{n}") for n in range(6)) == 60 << 20
for n in range(6): os.remove(f"part-{n}")`},
		{name: "unicode", code: `import os, unicodedata
text = "Grüße, 你好, 🎉, ﷽, e\u0301"
open("日本語 ü.txt", "w").write(text)
assert open("日本語 ü.txt", encoding="utf-8").read() == text and os.listdir() == ["日本語 ü.txt"]
print(text, unicodedata.normalize("NFC", "e\u0301"))`},
		{name: "sqlite", code: `import sqlite3
base = sqlite3.connect("base.db"); base.execute("create table t (a)")
base.executemany("insert into t values (?)", [(n,) for n in range(1000)]); base.commit()
assert sqlite3.connect("base.db").execute("select sum(a) from t").fetchone() == (499500,)
base.execute("pragma journal_mode=wal"); base.execute("delete from t"); base.commit()`},
		{name: "archives", slow: true, code: `import gzip, io, tarfile, zipfile, zlib, bz2, lzma
with zipfile.ZipFile("a.zip", "w", zipfile.ZIP_DEFLATED) as archive: archive.writestr("x/y", "z" * 10_000)
assert zipfile.ZipFile("a.zip").read("x/y") == b"z" * 10_000
with tarfile.open("a.tar.gz", "w:gz") as archive: archive.add("a.zip")
assert tarfile.open("a.tar.gz").getnames() == ["a.zip"] and lzma.decompress(lzma.compress(b"a")) == bz2.decompress(bz2.compress(b"a"))`},
		{name: "csv and json", slow: true, code: `import csv, io, json, xml.etree.ElementTree as tree
out = io.StringIO(); csv.writer(out).writerows([["a", "b;c"], [1, 'q"']])
assert list(csv.reader(io.StringIO(out.getvalue())))[1] == ["1", 'q"'] and json.loads(json.dumps({"ä": [1]})) == {"ä": [1]}
assert tree.fromstring("<a><b>1</b></a>").find("b").text == "1"`},
		{name: "temporary files", code: `import tempfile, os
with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as nameless:
    file.write(b"x"); nameless.write(b"x"); open(os.path.join(folder, "y"), "w").close()
assert not os.path.exists(folder)`},
	}
}

func otherPrograms() []honestProgram {
	return []honestProgram{
		{name: "random numbers and hashes", code: `import hashlib, hmac, random, secrets, uuid
assert random.Random(1).random() == 0.13436424411240122 and len(secrets.token_hex(8)) == 16 and uuid.uuid4() != uuid.uuid4()
assert hashlib.sha256(b"abc").hexdigest()[:8] == "ba7816bf" and hmac.new(b"k", b"m", "sha512").digest()
uuid.uuid1(); random.SystemRandom().random()`},
		{name: "times", code: `import datetime, time, zoneinfo
assert datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset() == datetime.timedelta(hours=2)
assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME)) < 60 and time.perf_counter() > 0 and time.strftime("%Y")
begin = time.monotonic(); time.sleep(0.01); assert time.monotonic() - begin >= 0.01`},
		{name: "regular expressions and text", slow: true, code: `import difflib, re, string, statistics, textwrap
assert re.sub(r"(\w+)@(\w+)", r"\2 at \1", "a@b") == "b at a" and statistics.median([3, 1, 2]) == 2 and textwrap.fill("a b", 1) == "a\nb"`},
		{name: "the machine and the user", code: `import getpass, os, platform, socket, sys, pathlib
assert os.cpu_count() and platform.python_version() and os.getuid() and getpass.getuser() and pathlib.Path.home()
assert os.getpid() and os.getcwd() == "/work" and socket.gethostname() and sys.executable and platform.platform()`},
		{name: "pairs of sockets and pipes", code: `import os, select, socket, selectors, signal
a, b = socket.socketpair(); a.sendall(b"x"); assert b.recv(1) == b"x"
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/own.sock"); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect("/tmp/own.sock"); server.accept()[0].sendall(b"y"); assert client.recv(1) == b"y"
r, w = os.pipe(); poll = select.epoll(); poll.register(r); os.write(w, b"z"); assert poll.poll(5)
signal.signal(signal.SIGALRM, lambda *_: os.write(w, b"s")); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()`},
		{name: "memory within the limit", code: `kept = bytearray(b"x") * (256 << 20); assert kept[-1] == 120
import mmap; page = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); page[:3] = b"abc"; assert page[:3] == b"abc"`},
		{name: "shared memory", counted: true, code: `import mmap, os
page = mmap.mmap(-1, 32 << 20)
if os.fork() == 0: page[:3] = b"abc"; os._exit(0)
os.wait(); assert page[:3] == b"abc"`},
		{name: "locks and syncs", slow: true, code: `import fcntl, os, shutil
with open("a", "wb") as file:
    fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(b"x" * 100_000); file.flush(); os.fsync(file.fileno()); os.fdatasync(file.fileno())
shutil.copyfile("a", "b"); assert os.path.getsize("b") == 100_000`},
		{name: "exceptions that are caught", code: `try:
    raise SystemError("x")
except SystemError as error:
    assert str(error) == "x"
try:
    open("/etc/shadow")
except OSError:
    pass`},
	}
}
