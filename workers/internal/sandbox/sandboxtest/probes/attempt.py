# What a hostile program would try. It is told what to try (GIVEN, put in front of it), tries each in a process of its own,
# and prints what came of each: that it succeeded, or how it was refused. The tests run it in sandboxes, and without one:
# an attempt that does not succeed there proves nothing here.
import ctypes
import errno
import fcntl
import hashlib
import json
import mmap
import os
import select
import signal
import socket
import stat
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
ARM = os.uname().machine == "aarch64"
FAILED = ctypes.c_long(-1).value

# Numbers of system calls: x86_64, aarch64.
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "capget": (125, 90), "capset": (126, 91), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "fdatasync": (75, 83), "fsync": (74, 82), "sync_file_range": (277, 84), "getpid": (39, 172), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "mbind": (237, 235),
    "memfd_secret": (447, 447), "migrate_pages": (256, 238), "mknodat": (259, 33), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "prctl": (157, 167), "prlimit64": (302, 261), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218), "set_mempolicy": (238, 237),
    "preadv2": (327, 286), "pwritev2": (328, 287), "recvfrom": (45, 207), "recvmmsg": (299, 243), "recvmsg": (47, 212),
    "sendfile": (40, 71), "sendmmsg": (307, 269), "sendmsg": (46, 211), "sendto": (44, 206), "setdomainname": (171, 162), "setgroups": (116, 159), "sethostname": (170, 161), "setns": (308, 268),
    "setresgid": (119, 149), "setresuid": (117, 147), "settimeofday": (164, 170), "shmget": (29, 194),
    "socket": (41, 198), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282),
}


class Refused(Exception):
    """Nothing was reached, without the kernel having said so."""


def call(name, *arguments):
    """Makes a system call, past all libraries."""
    number = NUMBERS[name][ARM]
    if number is None:
        raise Refused("there is no such call on this processor")
    words = [a if isinstance(a, (bytes, ctypes.Array, ctypes._Pointer)) else ctypes.c_long(a) for a in arguments]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result == FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def found(things, none="nothing was found"):
    """The things, when there are any."""
    things = list(things)
    if not things:
        raise Refused(none)
    return things[:8]


# ---- files


def read(path, canary=""):
    with open(path, "rb") as file:
        content = file.read(1 << 16)
    if canary and canary.encode() not in content:
        raise Refused("the file holds something else")
    return len(content)


def upwards(path, canary):
    return read("../" * 40 + path, canary)


def by_link(path, canary):
    os.symlink(path, "link")
    return read("link", canary)


def by_descriptor(path, canary):
    """Follows directories that somebody left open."""
    for descriptor in range(1024):
        try:
            file = os.open("../" * 40 + path, os.O_RDONLY, dir_fd=descriptor)
        except OSError:
            continue
        if canary.encode() in os.read(file, 1 << 16):
            return descriptor
    raise Refused("no descriptor leads there")


def by_handle(path, canary):
    """Opens files by their numbers, wherever they are: the way out of containers that are allowed to."""
    try:
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        number = ctypes.c_int()
        call("name_to_handle_at", -100, path.encode(), handle, ctypes.addressof(number), 0)
    except OSError:
        handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))  # the root of a disk
    code = None
    for place in (os.path.dirname(path), "/usr", "/etc/ld.so.cache", "/work"):
        try:
            descriptor = os.open(place, os.O_RDONLY)
            return call("open_by_handle_at", descriptor, handle, os.O_RDONLY)
        except OSError as error:
            code = code if code == errno.EPERM else error.errno
    raise OSError(code, os.strerror(code))


def listing(path):
    return found(os.listdir(path))


def same(path, digest):
    with open(path, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != digest:
            raise Refused("it is another file")
    return path


def walk(roots, depth, skip):
    for root in roots:
        base = root.rstrip("/").count("/")
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if os.path.join(folder, f) not in skip]
            if folder.count("/") - base >= depth:
                folders[:] = []
            yield folder, folders, files


def search(roots, canary):
    """Everything that can be reached below roots and has the canary in its name or content."""
    hits = []
    for folder, folders, files in walk(roots, 5, ["/usr", "/proc", "/sys"]):
        hits += [os.path.join(folder, name) for name in folders + files if canary in name]
        if len(hits) > 8:
            break
        for name in files[:256]:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode) and read(path, canary):
                    hits.append(path)
            except (OSError, Refused):
                pass
    return found(hits)


def sockets(roots):
    hits = []
    for folder, _, files in walk(roots, 6, ["/usr", "/proc", "/sys"]):
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                hits.append(path)
    return found(hits)


def beyond(path, names):
    """What a folder has beside the names."""
    return found(set(os.listdir(path)) - set(names))


def writable(roots, skip):
    """Folders in which a file can be made, and files that can be opened for writing."""
    hits = []
    for folder, _, files in walk(roots, 4, skip):
        made = os.path.join(folder, "parley-attempt")
        try:
            os.close(os.open(made, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
            os.unlink(made)
            hits.append(folder)
        except OSError:
            pass
        for name in files[:64]:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.close(os.open(path, os.O_WRONLY))
                    hits.append(path)
            except OSError:
                pass
    return found(hits)


def writes(path):
    """Opens for writing, and writes nothing."""
    os.close(os.open(path, os.O_WRONLY))
    return path


def descriptors(known):
    """Open descriptors beside the known."""
    hits = []
    for descriptor in range(4096):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if descriptor not in known:
            hits.append([descriptor, stat.filemode(mode)])
    return found(hits)


def locks(path):
    """A lock on a file that can only be read, which another who opens the file meets."""
    first, second = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return path
    raise Refused("nobody else meets it")


def syncs(name):
    """Whether the kernel is asked: it knows no descriptor -1."""
    try:
        call(name, -1, 0, 1, 2)
    except OSError as error:
        if error.errno == errno.EBADF:
            return name
        raise
    raise Refused("it is only said to be done")


def out_of_band(sends):
    first, second = socket.socketpair()
    with first, second:
        if sends:
            return first.send(b"x", socket.MSG_OOB)
        first.send(b"x")
        return second.recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT)


def device(kind, major, minor):
    os.mknod("device", (stat.S_IFBLK if kind == "block" else stat.S_IFCHR) | 0o600, os.makedev(major, minor))
    os.unlink("device")
    return kind


# ---- processes


def everybody(pids):
    listed = [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else []
    return sorted(set(listed) | set(pids) | set(range(1, 64)))


def listed(pids):
    """Processes that /proc tells of."""
    return found(pid for pid in pids if os.path.exists(f"/proc/{pid}"))


def environ(pids, canary):
    hits = []
    for pid in everybody(pids):
        try:
            hits.append(read(f"/proc/{pid}/environ", canary) and pid)
        except (OSError, Refused):
            pass
    return found(hits)


def through(pids, path, canary):
    """Reads a file through what /proc says of processes: their roots, folders and open files."""
    hits = []
    for pid in everybody(pids):
        base = f"/proc/{pid}"
        try:
            opened = [f"{base}/fd/{name}" for name in os.listdir(f"{base}/fd")]
        except OSError:
            opened = []
        for way in [f"{base}/root{path}", f"{base}/cwd/{os.path.basename(path)}", *opened]:
            try:
                if os.path.isfile(way) and read(way, canary):
                    hits.append(way)
            except (OSError, Refused):
                pass
    return found(hits)


def memory(pids, canary):
    for pid in everybody(pids):
        try:
            with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as content:
                for line in maps:
                    first, last = (int(part, 16) for part in line.split()[0].split("-"))
                    if line.split()[-1] in ("[heap]", "[stack]"):
                        content.seek(first)
                        if canary.encode() in content.read(min(last - first, 8 << 20)):
                            return pid
        except OSError:
            pass
    raise Refused("no memory was read")


def reach(pids):
    """Processes that a signal would reach."""
    hits = []
    for pid in pids:
        try:
            os.kill(pid, 0)
            hits.append(pid)
        except OSError:
            pass
    return found(hits)


def child(do):
    """A child that waits to be attacked, and is ended by its reader's death."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(0)
    try:
        return do(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def other_memory(way):
    """Reads or writes a child's memory past the child."""
    there, here = ctypes.create_string_buffer(b"parley"), ctypes.create_string_buffer(6)

    def attack(pid):
        local = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(here), 6))
        remote = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(there), 6))
        return call(way, pid, local, 1, remote, 1, 0)

    return child(attack)


def traced(request):
    if request == 0:
        return call("ptrace", 0, 0, 0, 0) == 0
    return child(lambda pid: call("ptrace", request, pid, 0, 0) == 0)


def cloned(flags):
    pid = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid > 0


def cloned3(flags):
    arguments = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
    pid = call("clone3", arguments, 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid > 0


def machine(code):
    """Runs machine code: system calls of other conventions than this processor's own."""
    if ARM:
        raise Refused("the code is for x86_64")
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex(code))
    function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = function()
    if -4096 < result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def ioctl(request, on):
    if on == "terminal":
        os.setsid()
        _, descriptor = os.openpty()
        call("ioctl", descriptor, 0x540E, 1)  # becomes the controlling terminal
    else:
        descriptor = os.open("/dev/null", os.O_RDWR) if on == "null" else os.pipe()[0]
    character = ctypes.create_string_buffer(b"x")
    return call("ioctl", descriptor, request, ctypes.addressof(character)) == 0


# ---- privileges


def becomes(name, *arguments):
    call(name, *arguments)
    return os.getresuid()


def may_gain():
    """A program with the set-user-ID bit would be obeyed."""
    if call("prctl", 39, 0, 0, 0, 0) == 1:
        raise Refused("no_new_privs is set")
    return True


def capabilities():
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    sets = ctypes.create_string_buffer(24)
    call("capget", header, sets)
    held = [word for word in struct.unpack("6I", sets.raw[:24]) if word]
    for number in range(64):
        try:
            held += [f"bounding {number}"] if call("prctl", 24, number, 0, 0, 0) else []
        except OSError:
            break
    return found(held, "no capability")


def raised(resources, lowered):
    """Raises hard limits on what processes use, of itself. Where there are none, they are lowered first."""
    hits = []
    for number in resources:
        if lowered:
            call("prlimit64", 0, number, struct.pack("QQ", lowered, lowered), 0)
        old = ctypes.create_string_buffer(16)
        call("prlimit64", 0, number, 0, ctypes.addressof(old))
        hard = struct.unpack("QQ", old.raw)[1]
        more = (1 << 64) - 1 if hard < (1 << 63) else 0
        if more:
            try:
                call("prlimit64", 0, number, struct.pack("QQ", hard, more), 0)
                hits.append(number)
            except OSError:
                pass
    return found(hits, "no limit was raised")


def unlimited(resources):
    """Limits that nobody set."""
    hits = []
    for number in resources:
        old = ctypes.create_string_buffer(16)
        call("prlimit64", 0, number, 0, ctypes.addressof(old))
        if struct.unpack("QQ", old.raw)[1] >= (1 << 63):
            hits.append(number)
    return found(hits, "all are set")


def key():
    return call("add_key", b"user", b"parley", b"x", 1, -1)  # into this process's own ring


def variables(known):
    """Variables of the environment that came from the host."""
    return found(name for name, value in os.environ.items() if known.get(name) == hashlib.sha256(value.encode()).hexdigest())


def named(name):
    if os.uname().nodename != name:
        raise Refused("another name")
    return name


# ---- network


def greeting(connection, canary):
    ready, _, _ = select.select([connection], [], [], 2)
    if not ready or canary.encode() not in connection.recv(256):
        raise Refused("nobody answered")
    return "was answered"


def connects(family, address, canary):
    address = "\0" + address[1:] if isinstance(address, str) and address.startswith("@") else address
    with socket.socket(getattr(socket, family), socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect(address if isinstance(address, str) else tuple(address))
        return greeting(connection, canary)


def sends(family, address, canary):
    with socket.socket(getattr(socket, family), socket.SOCK_DGRAM) as connection:
        connection.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06parley\x00\x00\x01\x00\x01", tuple(address))
        return greeting(connection, canary)


def resolves(names):
    hits = []
    for name in names:
        try:
            hits += [entry[4][0] for entry in socket.getaddrinfo(name, 80)]
        except OSError:
            pass
    return found(hits)


def opens(family, kind, protocol):
    socket.socket(family, kind, protocol).close()
    return family


def paired(family):
    first, second = socket.socketpair(family)
    return first.fileno() >= 0 and second.fileno() >= 0


def shared_memory(key):
    return call("shmget", key, 0, 0) >= 0


def queue(name):
    return call("mq_open", name.encode(), 0, 0, 0) >= 0


# ---- the attempts


def outcome(case):
    """What comes of a case, as the tests read it."""
    number = case.get("call")
    try:
        got = call(number, *case["args"]) if number else globals()[case["probe"]](*case["args"])
        return {"ok": True, "detail": repr(got)[:300]}
    except OSError as error:
        return {"errno": errno.errorcode.get(error.errno, str(error.errno or error))}
    except Refused as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"errno": "ENOMEM"}
    except Exception as error:
        return {"broken": repr(error)[:300]}


def apart(case):
    """The case in a process of its own, which may be killed for it."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        os.write(theirs, json.dumps(outcome(case)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as told:
        said = told.read()
    _, status = os.waitpid(pid, 0)
    if said:
        return json.loads(said)
    return {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


for attempt in GIVEN:
    print(json.dumps({"name": attempt["name"], **(outcome(attempt) if attempt.get("here") else apart(attempt))}), flush=True)
