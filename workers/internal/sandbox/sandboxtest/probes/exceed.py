# Functions of programs that exceed their limits. A program stops by itself if a limit does not work.
import ctypes
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time


def unlimited():
    """Many times the limit was given: that must not happen."""
    os.write(1, b"UNLIMITED\n")
    os._exit(0)


class Count:
    """Counts in all processes together, roughly."""

    def __init__(self, most):
        with open(f"/tmp/.count-{os.getpid()}", "xb+") as file:
            os.unlink(file.name)
            file.write(bytes(4096))
            file.flush()
            self.page, self.most = mmap.mmap(file.fileno(), 4096), most

    def one(self):
        n = int.from_bytes(self.page[:8], "little") + 1
        self.page[:8] = n.to_bytes(8, "little")
        if n > self.most:
            unlimited()


def bomb(patient, daemon=False):
    count = Count(1500)
    while True:
        try:
            pid = os.fork()
        except OSError:
            if not patient:
                raise
            continue
        count.one()
        if pid == 0 and daemon:
            os.setsid()
        if not patient and pid == 0:
            time.sleep(60)


def threads(patient=False):
    for _ in range(2000):
        try:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except RuntimeError:
            if not patient:
                raise
    if not patient or threading.active_count() > 1000:
        unlimited()
    time.sleep(60)


def zombies():
    for _ in range(1500):
        if os.fork() == 0:
            os._exit(0)
    unlimited()


def chain(mark):
    """Each program starts two of its kind."""
    code = "import subprocess, sys\nn = int(sys.argv[2])\nfor _ in range(2):\n    n and subprocess.Popen([sys.executable, '-ISc', sys.argv[3], sys.argv[1], str(n - 1), sys.argv[3]])\nimport time; time.sleep(60)"
    children = [subprocess.Popen([sys.executable, "-ISc", code, mark, "8", code]) for _ in range(2)]
    for child in children:
        child.wait()


def pieces(size, patient=False):
    kept, total = [], 0
    while total < 3 << 30:
        try:
            kept.append(os.urandom(1) * size)
        except MemoryError:
            if not patient:
                raise
        total += size
    if not patient or len(kept) * size > 1 << 30:
        unlimited()
    time.sleep(60)


def mapped(shared):
    flags = mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
    kept = []
    for _ in range(300):
        kept.append(mmap.mmap(-1, 10 << 20, flags=flags))
        for offset in range(0, 10 << 20, 4096):
            kept[-1][offset] = 1
    unlimited()


def let_go(path=""):
    """Shared memory that remains after each page was unmapped: it is filled and unmapped page by page."""
    file = os.open(path, os.O_RDWR) if path else -1
    flags = mmap.MAP_SHARED | (0 if path else mmap.MAP_ANONYMOUS)
    kept = []
    for _ in range(300):
        kept.append(mmap.mmap(file, 10 << 20, flags=flags))
        for offset in range(0, 10 << 20, 4096):
            kept[-1][offset] = 1
        kept[-1].madvise(mmap.MADV_DONTNEED)
        if kept[-1][0] != 1:
            sys.exit("it does not stay")
    unlimited()


def memory_files():
    """Files that have no name, and that no process maps."""
    kept, total = [], 0
    for n in range(200):
        try:
            kept.append(os.memfd_create(str(n)))
        except OSError:
            sys.exit("memfd_create is refused")
        for _ in range(15):
            total += os.write(kept[-1], bytes(1 << 20))
    if total > 1 << 30:
        unlimited()
    sys.exit("little was given")


def many_children():
    for _ in range(25):
        if os.fork() == 0:
            kept = os.urandom(1) * (40 << 20)
            time.sleep(60)
            sys.exit(kept[0])
    time.sleep(2.5)
    unlimited()


def stacks():
    """Threads' stacks, all of each used."""
    threading.stack_size(64 << 20)

    def use():
        libc = ctypes.CDLL(None)
        libc.alloca = None
        sys.setrecursionlimit(1 << 30)
        deep(1)

    def deep(n):
        return deep(n + 1) + n if n < 200_000 else time.sleep(60)

    for _ in range(20):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(60)


def buffers():
    """What the kernel keeps for sockets, in many processes."""
    ours, theirs = os.pipe()
    for _ in range(25):
        if os.fork() == 0:
            kept = []
            try:
                while True:
                    kept.append(socket.socketpair())
                    for one in kept[-1]:
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                        one.setblocking(False)
                        try:
                            while True:
                                one.send(bytes(16384))
                        except BlockingIOError:
                            pass
            except OSError:
                pass  # there are no more descriptors
            os.write(theirs, b"x")
            time.sleep(60)
    for _ in range(25):
        os.read(ours, 1)
    sys.exit("enough")


def recursion():
    sys.setrecursionlimit(1 << 30)

    def down(n):
        return down(n + 1) + 1

    class Endless:
        def __repr__(self):
            return repr([self])

    repr(Endless())
    down(0)


def fill(*folders):
    for n in range(100):
        for folder in folders:
            with open(f"{folder}/part-{n}", "wb") as file:
                for _ in range(4):
                    file.write(os.urandom(1) * (1 << 20))
    unlimited()


def fill_by_children(folder):
    children = []
    for n in range(8):
        pid = os.fork()
        if pid == 0:
            with open(f"{folder}/{n}", "wb") as file:
                for _ in range(40):
                    file.write(bytes(1 << 20))
            os._exit(0)
        children.append(pid)
    full = [os.waitpid(pid, 0)[1] for pid in children]
    if not any(full):
        unlimited()
    fill(folder)


def fill_removed(folder):
    kept = []
    for _ in range(100):
        kept.append(open(f"{folder}/x", "wb", buffering=0))
        os.unlink(f"{folder}/x")
        kept[-1].write(bytes(4 << 20))
        if kept[-1].tell() < 4 << 20:
            kept[-1].write(bytes(1 << 20))
    unlimited()


def huge():
    with open("/work/huge", "wb") as file:
        file.truncate(100 << 30)
        file.seek(99 << 30)
        file.write(b"x")
    unlimited()


def million(folder, kind):
    os.chdir(folder)
    with open("first", "w"):
        pass
    for n in range(1_000_000):
        match kind:
            case "file":
                os.close(os.open(f"{n}", os.O_CREAT | os.O_WRONLY))
            case "folder":
                os.mkdir(f"{n}")
            case "link":
                os.symlink("first", f"{n}")
            case "name":
                os.link("first", f"{n}")
    unlimited()


def deep(folder):
    os.chdir(folder)
    for _ in range(1_000_000):
        os.mkdir("folder")
        os.chdir("folder")
    unlimited()


def talk_in_child():
    if os.fork() == 0:
        while True:
            os.write(1, b"x" * 4096)
    os.wait()


def both():
    for _ in range(1000):
        print("x" * 500)
        print("x" * 500, file=sys.stderr)


def spin():
    while True:
        pass


def busy(children):
    for _ in range(children):
        if os.fork() == 0:
            spin()
    os.wait()
    time.sleep(60)


def busy_threads():
    for _ in range(4):
        threading.Thread(target=spin, daemon=True).start()
    time.sleep(60)


def another(code, mark):
    sys.exit(subprocess.run([sys.executable, "-ISc", code, mark]).returncode != 0)


def short_processes(orphans):
    """None of them uses much time: all of them together do."""
    for _ in range(100):
        pid = os.fork()
        if pid == 0:
            if orphans and os.fork() > 0:
                os._exit(0)
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
            os._exit(0)
        os.waitpid(pid, 0)
        if orphans:
            time.sleep(0.1)
    unlimited()


def deaf():
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass


def daemon(mark, close=True, do=lambda: time.sleep(600)):
    if os.fork() > 0:
        return
    os.setsid()
    deaf()
    if os.fork() > 0:
        os._exit(0)
    os.chdir("/")
    if close:
        os.closerange(0, 1024)
    if os.fork() > 0:
        do()
    os.execv(sys.executable, ["python3", "-ISc", "import time; time.sleep(600)", mark])


def others(pid):
    if pid == -1 and os.fork() == 0:  # kill(-1) fails if there is no other process
        time.sleep(600)


def stop(pid):
    others(pid)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(600)


def kill(pid):
    others(pid)
    os.kill(pid, signal.SIGKILL)
    time.sleep(600)


