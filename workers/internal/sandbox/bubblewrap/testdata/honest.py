"""What honest programs do; each part prints its name when it worked."""
import sys

sys.path.append("/usr/lib/python3/dist-packages")


def square(n):
    return n * n


def part_files():
    import mmap, os, pathlib, shutil, sqlite3, stat, tempfile, zipfile
    p = pathlib.Path("a/b")
    p.mkdir(parents=True)
    (p / "f.txt").write_text("hello")
    os.symlink("f.txt", p / "link")
    os.link(p / "f.txt", p / "hard")
    os.chmod(p / "f.txt", 0o600)
    os.utime(p / "f.txt", (10**9, 10**9 + 1))
    shutil.copy2(p / "f.txt", "copy.txt")
    shutil.copytree("a", "tree")
    os.rename("copy.txt", "moved.txt")
    assert os.stat("moved.txt").st_mtime == 10**9 + 1
    os.mkfifo("fifo")
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    with tempfile.TemporaryFile() as f, tempfile.NamedTemporaryFile() as g, tempfile.TemporaryDirectory() as d:
        f.write(b"x" * 8192)
        f.flush()
        with mmap.mmap(f.fileno(), 0) as m:
            m[0:1] = b"y"
            m.flush()
            m.madvise(mmap.MADV_DONTNEED)
        os.truncate(g.name, 100)
        open(os.path.join(d, "z"), "w").close()
        os.fsync(f.fileno())
    with mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        m.write(b"private")
    if os.path.exists("/dev/zero"):  # where the kernel counts memory, whoever has it
        assert open("/dev/zero", "rb").read(2) == b"\0\0"
        with mmap.mmap(-1, 1 << 20) as m:
            m.write(b"shared")
    db = sqlite3.connect("x.db")
    db.execute("pragma journal_mode=wal")
    db.execute("create table t(a)")
    db.execute("insert into t values(1)")
    db.commit()
    assert list(db.execute("select * from t")) == [(1,)]
    with zipfile.ZipFile("x.zip", "w") as z:
        z.write("moved.txt")
    shutil.rmtree("tree")
    assert "a" in os.listdir(".") and [e.name for e in os.scandir("a")] == ["b"]
    open("/dev/null", "w").write("x")
    assert len(open("/dev/urandom", "rb").read(8)) == 8 and open("/dev/full", "rb").read(2) == b"\0\0"
    assert os.statvfs("/work").f_blocks > 0


def part_processes():
    import os, signal, subprocess
    assert subprocess.run(["/bin/sh", "-c", "echo a | tr a b; exit 3"], capture_output=True).stdout == b"b\n"
    assert subprocess.run("seq 10 | sort -rn | head -1 > out; cat out", shell=True, capture_output=True, text=True).stdout == "10\n"
    p = subprocess.Popen(["sleep", "100"], start_new_session=True)
    p.send_signal(signal.SIGTERM)
    assert p.wait() == -15
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    pid = os.posix_spawn("/bin/true", ["true"], {})
    fd = os.pidfd_open(pid)
    os.waitid(os.P_PIDFD, fd, os.WEXITED)
    os.nice(1)
    os.getpgid(0), os.umask(0o22), os.getgroups(), os.cpu_count(), os.sched_getaffinity(0), os.getloadavg, os.times(), os.uname()
    assert subprocess.run([sys.executable, "-c", "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print(resource.getrlimit(resource.RLIMIT_NOFILE))"], capture_output=True, text=True).stdout == "(64, 64)\n"


def part_threads():
    import queue, threading
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(square, range(100))) == 328350
    q = queue.Queue()
    t = threading.Thread(target=lambda: q.put(threading.get_native_id()))
    t.start()
    t.join()
    assert q.get() and not threading.Event().wait(0.01)


def part_multiprocessing():
    import multiprocessing
    from multiprocessing import shared_memory
    for method in "fork", "spawn", "forkserver":
        ctx = multiprocessing.get_context(method)
        with ctx.Pool(2) as pool:
            assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
        lock, value, q = ctx.Lock(), ctx.Value("i", 0), ctx.Queue()
        with lock, value:
            value.value += 1
        p = ctx.Process(target=q.put, args=(5,))
        p.start()
        assert q.get() == 5
        p.join()
    m = shared_memory.SharedMemory(create=True, size=4096)
    m.buf[0] = 1
    m.close()
    m.unlink()
    with multiprocessing.Manager() as manager:
        d = manager.dict()
        d["a"] = 1
        assert d["a"] == 1


def part_asyncio():
    import asyncio, selectors, socket
    async def main():
        p = await asyncio.create_subprocess_exec("/bin/echo", "x", stdout=asyncio.subprocess.PIPE)
        out, _ = await p.communicate()
        assert out == b"x\n"
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(10)))
        server = await asyncio.start_unix_server(lambda r, w: (w.write(b"hi"), w.close()), path="/tmp/s")
        r, w = await asyncio.open_unix_connection("/tmp/s")
        assert await r.read() == b"hi"
        w.close()
        server.close()
        assert await asyncio.get_running_loop().run_in_executor(None, square, 4) == 16
    asyncio.run(main())
    a, b = socket.socketpair()
    a.settimeout(1)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for kind in selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector:
        with kind() as s:
            s.register(a, selectors.EVENT_READ)
            b.send(b"x")
            assert s.select(1)
            a.recv(1)


def part_time():
    import datetime, random, secrets, signal, time, uuid, zoneinfo
    time.sleep(0.001), time.time(), time.monotonic(), time.process_time(), time.thread_time(), time.localtime()
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    assert hits
    random.seed(1)
    assert random.random() and secrets.token_hex() and uuid.uuid4() and uuid.uuid1()
    assert datetime.datetime.now(zoneinfo.ZoneInfo("Europe/Berlin")).tzinfo


def part_library():
    import ctypes, decimal, getpass, hashlib, locale, platform, socket, ssl, sysconfig
    assert ctypes.CDLL(None).getpid() > 0
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0") and decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")
    assert platform.platform() and socket.gethostname() == "sandbox" and getpass.getuser() == "sandbox" and ssl.OPENSSL_VERSION
    assert sys.stdin.read() == "" and not sys.stdout.isatty() and locale.getpreferredencoding() and sysconfig.get_paths()


def part_numpy():
    import numpy
    a = numpy.random.default_rng(1).random((200, 200))
    assert numpy.allclose(a @ numpy.linalg.inv(a), numpy.eye(200))
    numpy.save("a.npy", a)
    assert (numpy.load("a.npy", mmap_mode="r") == a).all()


def part_pandas():
    import pandas
    d = pandas.DataFrame({"a": [1, 2, 2], "b": [1.0, 2.0, 3.0]})
    d.to_csv("d.csv")
    assert pandas.read_csv("d.csv").groupby("a").b.sum().to_dict() == {1: 1.0, 2: 5.0}


def part_matplotlib():
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 2, 3])
    plt.title("a title, $x^2$")
    plt.savefig("x.png")
    assert open("x.png", "rb").read(4) == b"\x89PNG"


if __name__ == "__main__":
    import traceback
    for name, part in list(globals().items()):
        if name.startswith("part_"):
            try:
                part()
                print(name.removeprefix("part_"))
            except ModuleNotFoundError as e:
                print(name.removeprefix("part_"), "absent" if e.name in ("numpy", "pandas", "matplotlib") else e)
            except BaseException:
                traceback.print_exc()
