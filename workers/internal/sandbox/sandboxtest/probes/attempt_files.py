# Attempts of a hostile program. GIVEN, which the tests put before this file, lists the attempts.
# Each attempt runs in a separate process, and the program prints whether the attempt succeeded or
# how it was refused. The tests run the program in sandboxes and without a sandbox: an attempt that
# fails without a sandbox proves nothing.
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
    raise Refused("no other process opens it")


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
