"""Runs one untrusted program, and reports on it.

This is the first thing that is started in a sandbox. It says that it is ready, waits for a program on its standard
input, places the program's files, forks, and lets the program run in the child, while here its output is passed on and
its limits are watched. When the program has ended, so does everything that it started; then the files that it made are
sent, and that is all: a sandbox is used once.

Both directions speak in frames: one byte for the kind, four for the length, then the payload.

    to us     P limits (lines of "name value")   F name of a file   D some of its bytes   C the code: begin   S stop: a limit
    from us   Y ready   B begun   O output   E errors   W bytes written so far, when not all are kept   X ended (see ended)
              F name of a file   D some of its bytes   L name of a file left out   G name of a file that is gone   Z the end

The other side trusts none of this. What is here serves the program: its output, its files and good messages.
"""

import gc
import mmap
import select
import sys
import time

# Import the C modules under os and signal. Importing os and signal themselves, which define classes and enums, would take most of the time.
import _signal as signal
import _stat as stat
import posix as os

import parley_program

WORK = "/work"
CHUNK = 1 << 16
PART = 1 << 18
MOST_FILES = 100
MOST_LEFT_OUT = 100
MOST_ENTRIES = 200_000
TICK = 0.05  # seconds between checks of the number of files
LONG = 0.25  # seconds after which a program gets a lower priority
NICE = 10
DRAIN = 1.0  # seconds to read the rest of the output after all processes were killed


def main():
    """Serves one program; returns the exit status of this process."""
    sys.path.remove(parley_program.HOME)
    send(b"Y")
    if not waiting(0):
        parley_program.prepare()
    report = Report()
    order = Order()
    order.receive()
    if order.failed:
        report.limit, report.traceback = "files", order.failed
        ended(report, 1, 0, 0)
        send(b"Z")
        return 0
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    output, errors = os.pipe(), os.pipe()
    gc.freeze()  # the garbage collector need not visit these objects again, in this process or in its fork
    # A program that sends signals to its parent must not kill this process, which reports the outcome. Only SIGKILL cannot be blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGCHLD})
    send(b"B")
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        parley_program.run(order.code, order.limits, output[1], errors[1], report)
    os.close(output[1])
    os.close(errors[1])
    watch = Watch(child, output[0], errors[0], wake, order.limits, order.inodes)
    watch.until_ended()
    report.read()
    if watch.limit:
        report.limit = watch.limit
    ended(report, watch.exit_code, watch.written, watch.cpu)
    Collection(order).send_all()
    send(b"Z")
    return 0


def waiting(descriptor):
    """Whether something can be read without waiting for it."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def send(kind, payload=b""):
    data = memoryview(kind + len(payload).to_bytes(4, "big") + payload)
    while data:
        data = data[os.write(1, data) :]


def read_exactly(size):
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            os._exit(0)  # the worker has closed its end of the pipe
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_frame():
    head = read_exactly(5)
    return head[:1], read_exactly(int.from_bytes(head[1:], "big"))


def ended(report, exit_code, written, cpu):
    """Says how the program ended: numbers and the limit on one line, then value and traceback with their lengths."""
    value, text = report.value.encode(), report.traceback.encode()
    head = f"{exit_code} {written} {cpu} {len(value)} {len(text)} {report.limit}\n"
    send(b"X", head.encode() + value + text)


def inodes_used():
    """Files and folders in the folders that may be written to, as far as the kernel says."""
    used = 0
    for folder in (WORK, "/tmp"):
        space = os.statvfs(folder)
        used += space.f_files - space.f_ffree
    return used


def mark(entry):
    """Returns values that change when the file is written to."""
    return entry.st_ino, entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns


class Order:
    """What is to be run: limits, files and code."""

    def __init__(self):
        self.limits = {}
        self.code = ""
        self.placed = {}  # the mark of each file, by the file's name in bytes
        self.failed = ""  # why the files cannot be placed
        self.inodes = inodes_used()
        self._file = -1
        self._name = b""
        # Files get distinct times in the past, so that a write is detected even within one tick of the clock.
        self._time = int(time.time()) * 1_000_000_000

    def receive(self):
        while True:
            kind, payload = read_frame()
            if kind == b"P":
                pairs = (line.split() for line in payload.decode().splitlines())
                self.limits = {name: int(value) for name, value in pairs}
            elif kind == b"C":
                self._close()
                self.code = payload.decode("utf-8-sig", "replace")
                return
            elif not self.failed:
                self._place(kind, payload)

    def _place(self, kind, payload):
        try:
            if kind == b"F":
                self._close()
                make_folders(payload)
                self._file = os.open(payload, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                self._name = payload
            elif kind == b"D":
                data = memoryview(payload)
                while data:
                    data = data[os.write(self._file, data) :]
        except OSError as error:
            name = payload if kind == b"F" else self._name
            self.failed = f"The file {name.decode('utf-8', 'replace')} cannot be placed: {error.strerror}."

    def _close(self):
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        self._time += 1
        os.utime(self._name, ns=(self._time, self._time))
        self.placed[self._name] = mark(os.lstat(self._name))


def make_folders(name):
    """Makes the folders that a file of that name lies in."""
    at = name.find(b"/")
    while at >= 0:
        try:
            os.mkdir(name[:at])
        except FileExistsError:
            pass
        at = name.find(b"/", at + 1)


class Report:
    """What the child says about the program: a file without a name, which the child has as memory and we as a file.

    So there is no descriptor that the program could close or write to, and whatever it does with its memory cannot harm who reads.
    """

    SIZE = 1 << 18

    def __init__(self):
        self.value = self.traceback = self.limit = ""
        self._file = os.open("/tmp/.report", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink("/tmp/.report")
        os.write(self._file, bytes(self.SIZE))  # reserve the space now, because the folder may become full
        self._shared = mmap.mmap(self._file, self.SIZE)

    def write(self):
        """In the child: makes what is set so far known."""
        texts = [text.encode("utf-8", "backslashreplace") for text in (self.value, self.traceback, self.limit)]
        body = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
        self._shared[1 : 1 + len(body)] = body
        self._shared[0:1] = b"\1"

    def read(self):
        said = os.pread(self._file, self.SIZE, 0)
        if said[0:1] != b"\1":
            return
        texts, at = [], 1
        for _ in range(3):
            size = int.from_bytes(said[at : at + 4], "big")
            texts.append(said[at + 4 : at + 4 + size].decode("utf-8", "replace"))
            at += 4 + size
        self.value, self.traceback, self.limit = texts


class Watch:
    """Looks after the program while it runs."""

    def __init__(self, child, output, errors, wake, limits, inodes):
        self.child, self.limits, self.inodes = child, limits, inodes
        self.pipes = {output: b"O", errors: b"E"}
        self.wake = wake
        self.kept = self.written = 0
        self.limit = ""
        self.exit_code = None
        self.cpu = 0  # processor time in microseconds
        self.poll = select.poll()
        for descriptor in (0, wake, output, errors):
            self.poll.register(descriptor, select.POLLIN)

    def until_ended(self):
        began = time.monotonic()
        deadline = began + self.limits["wall"] / 1e6
        nice = False
        while self.exit_code is None:
            left = deadline - time.monotonic()
            if not nice and time.monotonic() - began > LONG:
                nice = True
                self.give_way()
            if left <= 0:
                self.stop("wall")
            elif self.too_many_files():
                self.stop("files")
            self.turn(TICK if self.limit else min(left, TICK))
        kill_all(self.child)
        deadline = time.monotonic() + DRAIN
        while self.pipes and time.monotonic() < deadline:
            self.turn(TICK)
        self.reap()
        if not self.limit and self.too_many_files():
            self.limit = "files"

    def give_way(self):
        try:
            os.setpriority(os.PRIO_PGRP, self.child, NICE)
        except OSError:
            pass  # the process has ended or has changed its group

    def too_many_files(self):
        return inodes_used() - self.inodes > self.limits["filecount"]

    def turn(self, seconds):
        """Waits at most the given seconds for an event, and handles it."""
        for descriptor, _ in self.poll.poll(seconds * 1000):
            if descriptor in self.pipes:
                self.relay(descriptor)
            elif descriptor == self.wake:
                os.read(self.wake, CHUNK)
                self.reap()
            elif descriptor == 0:
                kind, payload = read_frame()
                if kind == b"S":
                    self.stop(payload.decode())

    def relay(self, descriptor):
        data = os.read(descriptor, CHUNK)
        if not data:
            self.poll.unregister(descriptor)
            os.close(descriptor)
            del self.pipes[descriptor]
            return
        room = self.limits["output"] - self.kept
        before, self.written = self.written, self.written + len(data)
        if room > 0:
            self.kept += min(room, len(data))
            send(self.pipes[descriptor], data[:room])
        if self.written > self.limits["output"] >= before:
            send(b"W", str(self.written).encode())

    def stop(self, limit):
        if self.exit_code is None and not self.limit:
            self.limit = limit
            kill_all(self.child)

    def reap(self):
        """Takes note of the child's end; orphans are ours too, when there is no one else to be their parent."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.exit_code = os.waitstatus_to_exitcode(status)
                self.cpu = int((usage.ru_utime + usage.ru_stime) * 1e6)
                self.why_killed()

    def why_killed(self):
        # The time includes the program's children. The kernel may have killed a child at the limit, so that the program failed.
        late = self.exit_code != 0 and self.cpu >= self.limits["cpu"]
        if not self.limit and (late or self.exit_code == -signal.SIGXCPU):
            self.limit = "cpu"
        if not self.limit and self.exit_code == -signal.SIGXFSZ:
            self.limit = "files"


def kill_all(child):
    """Kills the program and all that it started: in a namespace of our own all that there is, except for us.

    Elsewhere that would be everything on the machine. Only in a new namespace have processes such low numbers.
    """
    if os.getpid() > 9:
        raise SystemExit("this belongs into a sandbox")
    for _ in range(10):  # repeat, because processes may fork faster than they are killed
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return


class Collection:
    """The files that the program made or changed."""

    def __init__(self, order):
        self.order = order
        self.room = order.limits["files"]
        self.sent = self.left_out = 0

    def send_all(self):
        for name in sorted(self.entries()):
            self.send_one(name)
        for name in self.order.placed:
            if not is_plain(name):
                send(b"G", name)

    def entries(self):
        """Names of all that is no folder. Links are not followed."""
        folders, seen = [b""], 0
        while folders:
            folder = folders.pop()
            try:
                listed = list(scan(folder))
            except OSError:
                self.leave_out(folder)
                continue
            for entry in listed:
                seen += 1
                if seen > MOST_ENTRIES:
                    return
                name = folder + b"/" + entry.name if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                else:
                    yield name

    def send_one(self, name):
        try:
            entry = os.lstat(name)
            if stat.S_ISREG(entry.st_mode) and mark(entry) == self.order.placed.get(name):
                return
            if not stat.S_ISREG(entry.st_mode) or self.sent >= MOST_FILES or entry.st_size > self.room:
                self.leave_out(name)
                return
            file = open_file(name)
        except OSError:
            self.leave_out(name)
            return
        self.sent += 1
        self.room -= entry.st_size
        send(b"F", name)
        while part := os.read(file, PART):
            send(b"D", part)
        os.close(file)

    def leave_out(self, name):
        self.left_out += 1
        if self.left_out <= MOST_LEFT_OUT:
            send(b"L", name)


def scan(folder):
    path = b"./" + folder
    try:
        return os.scandir(path)
    except PermissionError:  # the program has removed the permissions of its own folder
        os.chmod(path, 0o700)
        return os.scandir(path)


def open_file(name):
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(name, flags)
    except PermissionError:
        os.chmod(name, 0o600)
        return os.open(name, flags)


def is_plain(name):
    try:
        return stat.S_ISREG(os.lstat(name).st_mode)
    except OSError:
        return False


if __name__ == "__main__":
    os.chdir(WORK)
    sys.exit(main())
