"""Runs the program in the child process, as __main__. Tracebacks show the program's lines. The value of its last
expression is printed."""

import builtins
import faulthandler
import gc
import sys

import _ast  # the C module under ast, because importing ast takes longer
import _sitebuiltins
import _thread
import posix as os  # imported for the same reason as in parley_runner

HOME = __file__.rpartition("/")[0]
NAME = "main.py"
FOLDER = "/tmp/.main"  # contains a copy of the program, for processes that import it and for code that displays its lines
PATH = f"{FOLDER}/{NAME}"
VALUE = 32 << 10
TRACEBACK = 64 << 10
SPARE = 32 << 20  # bytes of memory beyond the limit, which are needed to report that the limit was exceeded
ASYNC = 0x80  # inspect.CO_COROUTINE


_packages = []


def prepare():
    """Does ahead what would be done for the program, and imports what most programs come to need."""
    _packages[:] = packages()
    import linecache  # noqa: F401
    import resource  # noqa: F401
    import threading  # noqa: F401
    import traceback  # noqa: F401


def packages():
    """Folders that the interpreter would find packages in, if it were to look; that takes it longer than all of our start."""
    version = "python%d.%d" % sys.version_info[:2]
    folders = [
        f"/usr/local/lib/{version}/dist-packages",
        f"/usr/lib/{version}/dist-packages",
        "/usr/lib/python3/dist-packages",
        f"{sys.prefix}/lib/{version}/site-packages",
    ]
    return [folder for folder in folders if os.access(folder, os.X_OK)]


def run(source, limits, output, errors, report):
    """Runs the program, and ends the process."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDONLY)
    for number, descriptor in enumerate((null, output, errors)):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    sys.stdout.reconfigure(line_buffering=True)  # printed lines are not lost when a limit ends the program
    paths = sys.path + (_packages or packages())
    confine(limits)
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    main = become_main(source, paths)
    program = Program(source, main, report, paths)
    program.finish(program.execute())


def confine(limits):
    """Sets the limits that the kernel enforces for each process. Limits on all processes are enforced from outside."""
    import resource

    memory = limits["memory"]
    cpu = -(-limits["cpu"] // 1_000_000)
    for name, soft, hard in (
        ("RLIMIT_CORE", 1, 1),  # with 0, the kernel would still pipe a dump to the host's core dump handler
        ("RLIMIT_CPU", cpu, cpu + 1),
        ("RLIMIT_FSIZE", limits["files"], limits["files"]),
        ("RLIMIT_NOFILE", 128, 128),
        ("RLIMIT_NPROC", limits["processes"], limits["processes"]),
        ("RLIMIT_DATA", memory, memory + SPARE),
        ("RLIMIT_AS", memory + limits["files"] + (4 << 30), memory + limits["files"] + (4 << 30)),
    ):
        number = getattr(resource, name)
        most = resource.getrlimit(number)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(number, (soft, hard))


def become_main(source, paths):
    """Makes the module that the program is, and what a program expects to find around it."""
    faulthandler.enable()
    _thread.stack_size(2 << 20)  # with 8 MiB for each thread, threads would use up the memory limit
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    main.__file__ = PATH
    main.__loader__ = Loader(source)
    sys.modules["__main__"] = main
    sys.argv = [NAME]
    sys.path[:] = ["/work", *paths, FOLDER]
    sys.meta_path.insert(0, WhenPlotted())
    os.mkdir(FOLDER, 0o700)
    with open(PATH, "wb", buffering=0) as file:
        file.write(source.encode("utf-8", "replace"))
    os.mkdir("/tmp/.matplotlib", 0o700)
    for name in os.listdir(HOME):
        if name.startswith("fontlist-"):
            os.symlink(f"{HOME}/{name}", f"/tmp/.matplotlib/{name}")
    return main


class Loader:
    """Provides the program's source for tracebacks."""

    def __init__(self, source):
        self.source = source

    def get_source(self, name):
        return self.source


class WhenPlotted:
    """An import hook that attaches our figures to matplotlib.pyplot."""

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        sys.path.insert(0, HOME)
        import parley_figures

        sys.path.remove(HOME)
        return parley_figures.spec()


class Program:
    """The program while it is run."""

    def __init__(self, source, main, report, paths):
        self.source, self.main, self.report, self.paths = source, main, report, paths
        self.pid = os.getpid()

    def execute(self):
        """Runs the code and reports value or exception; returns the exit status."""
        try:
            value = self.evaluate()
            if value is not None and not is_plot(value):
                self.report.value = cut(repr(value), VALUE)
            status = 0
        except SystemExit as end:
            status = exit_status(end.code)
        except BaseException as exception:
            self.explain(exception)
            status = 1
        if os.getpid() == self.pid:  # otherwise, this process is a fork of the program
            self.report.write()
        elif self.report.traceback:
            print(self.report.traceback, file=sys.stderr)
        return status

    def evaluate(self):
        """Returns the value of the last statement, if it is an expression."""
        flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(self.source, NAME, "exec", flags | _ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = _ast.Expression(tree.body.pop().value)
        codes = [compile(tree, NAME, "exec", flags, dont_inherit=True)]
        if last:
            codes.append(compile(last, NAME, "eval", flags, dont_inherit=True))
        if any(code.co_flags & ASYNC for code in codes):
            import asyncio

            return asyncio.run(self.evaluate_async(codes))
        value = None
        for code in codes:
            value = eval(code, self.main.__dict__)
        return value

    async def evaluate_async(self, codes):
        value = None
        for code in codes:
            value = eval(code, self.main.__dict__)
            if code.co_flags & ASYNC:
                value = await value
        return value

    def explain(self, exception):
        """Puts the traceback into the report, and the limit that was behind the exception."""
        spare_memory()
        ours, sys.path[:] = sys.path[:], self.paths  # a file traceback.py of the program must not be imported
        try:
            self.report.limit = limit_behind(exception)
            self.report.traceback = cut(self.traceback(exception), TRACEBACK)
        except BaseException:
            self.report.traceback = f"{type(exception).__name__}: (no more can be said)"
        finally:
            sys.path[:] = ours
        hook = sys.excepthook
        if hook is not sys.__excepthook__:
            try:
                hook(type(exception), exception, exception.__traceback__)
            except BaseException:
                pass

    def traceback(self, exception):
        import linecache
        import traceback

        # Without this entry, tracebacks would show the lines of any file main.py in the program's folder.
        lines = [line + "\n" for line in self.source.split("\n")]
        linecache.cache[NAME] = (len(self.source), None, lines, NAME)
        whole = traceback.TracebackException.from_exception(exception)
        theirs_only(whole, set())
        if whole.stack or whole.__cause__ or whole.__context__ or getattr(whole, "exceptions", None):
            return "".join(whole.format()).rstrip("\n")
        return "".join(whole.format_exception_only()).rstrip("\n")

    def finish(self, status):
        """Does the same visible work as the interpreter at its end, and ends the process.

        The interpreter also takes itself apart, module by module, which takes longer than most programs do.
        """
        if "threading" in sys.modules:
            attempt(sys.modules["threading"]._shutdown)
        figures = sys.modules.get("parley_figures")
        if figures and status == 0 and os.getpid() == self.pid:
            attempt(figures.save_open)
        if "atexit" in sys.modules:
            attempt(sys.modules["atexit"]._run_exitfuncs)
        modules = [m for m in list(sys.modules.values()) if str(getattr(m, "__file__", "")).startswith("/work/")]
        for module in (*modules, self.main):
            attempt(vars(module).clear)  # closes the files that the program has left open
        attempt(gc.collect)
        for stream in (sys.stdout, sys.stderr):
            attempt(getattr(stream, "flush", None))
        if "ctypes" in sys.modules:
            attempt(lambda: sys.modules["ctypes"].CDLL(None).fflush(None))
        os._exit(status)


def is_plot(value):
    """Reports whether value is the result of a function like plt.plot, whose text is not useful."""
    parts = value if isinstance(value, list) and value else [value]
    return all(type(part).__module__.startswith("matplotlib.") for part in parts)


def attempt(what):
    """Calls what may be anything by now; an exception is the program's own affair, and none of its result."""
    try:
        what()
    except BaseException:
        pass


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def spare_memory():
    import resource

    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def theirs_only(part, seen):
    """Keeps only the lines of the program and of modules in its folder, in a traceback and its causes."""
    if part is None or id(part) in seen:
        return
    seen.add(id(part))
    kept = [frame for frame in part.stack if frame.filename in (NAME, PATH) or frame.filename.startswith("/work/")]
    part.stack[:] = kept
    for other in (part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())):
        theirs_only(other, seen)


def limit_behind(exception):
    """Names the limit that an exception, or what led to it, comes from."""
    from errno import EAGAIN, EDQUOT, EFBIG, ENOMEM, ENOSPC

    waiting, seen = [exception], set()
    while waiting and len(seen) < 100:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, MemoryError) or isinstance(one, OSError) and one.errno == ENOMEM:
            return "memory"
        if isinstance(one, OSError) and one.errno in (ENOSPC, EDQUOT, EFBIG):
            return "files"
        if isinstance(one, RuntimeError) and "can't start new thread" in str(one):
            return "processes"
        if isinstance(one, OSError) and one.errno == EAGAIN and not can_fork():
            return "processes"
        waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
    return ""


def can_fork():
    """Reports whether os.fork works. EAGAIN has many causes, so a second attempt decides."""
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def cut(text, most):
    """Shortens a text to so many bytes, in its middle."""
    if len(text) <= most // 4:
        return text
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return data.decode()
    half = most // 2 - 40
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{head}\n… {len(data) - 2 * half} bytes left out …\n{tail}"
