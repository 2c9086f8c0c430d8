# The second part of the program that makes the attempts. The first part is attempt_files.py.

# ---- processes


def everybody(pids):
    listed = [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else []
    return sorted(set(listed) | set(pids) | set(range(1, 64)))


def listed(pids):
    """Returns the processes that /proc lists."""
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
    """Start a child process to attack. It waits, and ends when the process that reads its output has died."""
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
        call("ioctl", descriptor, 0x540E, 1)  # TIOCSCTTY: makes the terminal this process's controlling terminal
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
    """Limits that were not set."""
    hits = []
    for number in resources:
        old = ctypes.create_string_buffer(16)
        call("prlimit64", 0, number, 0, ctypes.addressof(old))
        if struct.unpack("QQ", old.raw)[1] >= (1 << 63):
            hits.append(number)
    return found(hits, "all are set")


def key():
    return call("add_key", b"user", b"parley", b"x", 1, -1)  # into this process's own keyring


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
        raise Refused("no server answered")
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
    """Return the outcome of a case, in the format that the tests read."""
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
