"""Keeps a foreign module from doing more than computing.

Called in the helper's own process before any foreign text runs. The process has a deadline and
memory limits from outside (grove starts and kills it); here the network is taken away, output is
bounded, and what a problem file has no business doing raises Confined, whose text says what it was.
This is a fence against accidents and cheap tricks, not a jail for native code.
"""

import builtins
import ctypes
import os
import resource
import sys
import sysconfig


class Confined(RuntimeError):
    """The module tried something a problem file may not do."""


NOWHERE = "/nonexistent"  # of compiled modules: what lies beside a foreign file is not loaded

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

# Audit events (PEP 578) that start programs, open connections or change files.
_REFUSED = {
    "os.system": "run a program",
    "os.exec": "run a program",
    "os.posix_spawn": "run a program",
    "os.spawn": "run a program",
    "subprocess.Popen": "run a program",
    "os.fork": "fork",
    "os.forkpty": "fork",
    "socket.connect": "open a connection",
    "socket.bind": "open a connection",
    "socket.getaddrinfo": "open a connection",
    "os.remove": "delete a file",
    "os.rename": "rename a file",
    "os.rmdir": "delete a folder",
    "shutil.rmtree": "delete a folder",
    "os.mkdir": "make a folder",
    "os.chmod": "change a file",
    "os.link": "change a file",
    "os.symlink": "change a file",
    "os.truncate": "change a file",
    "os.putenv": "change the environment",
}


def end_with_parent():
    """This process is killed when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def drop_network():
    """A network namespace of its own; False where the kernel does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWNET) == 0


def limit_files(total_bytes):
    """No file of this process grows beyond `total_bytes`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (total_bytes, total_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class _BoundedText:
    """Standard output of the module: counted, its beginning kept, the rest dropped."""

    def __init__(self, limit):
        self.limit = limit
        self.size = 0

    def write(self, text):
        self.size += len(text)
        if self.size > self.limit:
            raise Confined(f"the module printed more than {self.limit // 1024} KiB")
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


class Fence:
    """`with Fence(problem_file):` around everything foreign."""

    def __init__(self, problem_file, output_limit=1 << 20, files=()):
        self._active = False
        self._output_limit = output_limit
        roots = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), "/usr/lib", "/usr/share",
                 "/usr/local/lib"}
        roots.update(p for p in sys.path if p and os.path.isdir(p))
        self._readable = tuple(os.path.realpath(r) + os.sep for r in roots)
        self._files = {os.path.realpath(f) for f in (problem_file, *files)}
        sys.addaudithook(self._audit)

    def allow(self, path):
        """One more file that may be read."""
        self._files.add(os.path.realpath(path))

    def __enter__(self):
        self._streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _BoundedText(self._output_limit)
        self._input = builtins.input
        self._active = True
        return self

    def __exit__(self, *_):
        self._active = False
        sys.stdout, sys.stderr = self._streams
        return False

    def _audit(self, event, arguments):
        if not self._active:
            return
        if event in _REFUSED:
            raise Confined(f"the module tried to {_REFUSED[event]} ({event})")
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        path, mode = os.path.realpath(os.fsdecode(arguments[0])), arguments[1]
        if mode and any(c in mode for c in "wax+"):
            raise Confined(f"the module tried to write the file {os.path.basename(path)}")
        if path.startswith(NOWHERE + os.sep):
            return  # it is not there
        if path in self._files or path.startswith(("/proc/", "/sys/", "/dev/null", "/dev/urandom")):
            return
        if not path.startswith(self._readable):
            raise Confined(f"the module tried to read the file {os.path.basename(path)}")
