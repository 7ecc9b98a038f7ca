"""The audit hook that refuses applications every call that would leave the simulation.

Python audits sockets, subprocesses and files; threads since 3.12, and ``time.sleep`` since 3.13.
"""

from __future__ import annotations

import contextlib
import sys
from _thread import get_ident
from collections.abc import Iterator
from typing import Any

_NEVER_SLEEPS = {
    "time.sleep": "time.sleep(): await asyncio.sleep() instead",
    "socket.__new__": "a socket: talk through the client port",
    "socket.getaddrinfo": "a name lookup: talk through the client port",
    "subprocess.Popen": "a subprocess",
    "os.system": "a subprocess",
    "os.fork": "a subprocess",
    "os.exec": "a subprocess",
    "os.posix_spawn": "a subprocess",
    "_thread.start_new_thread": "a thread: start a task instead",
    "_thread.start_joinable_thread": "a thread: start a task instead",
}


_FILES = (
    "open", "os.chmod", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.scandir", "os.truncate", "shutil.copyfile", "shutil.rmtree", "tempfile.mkstemp",
)  # fmt: skip
"""What Python audits of files; a user's application has none."""

_READERS = ("importlib", "kafkasim", "linecache", "zoneinfo")
"""Modules that read files for Python or for the simulator, whoever called them."""


class NotSimulated(RuntimeError):
    """An application asked for a real thread, socket, process or sleep."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"an application cannot use {self.what}"


INSIDE: list[int | None] = [None]
"""The thread that runs an application now."""
_hooked: list[bool] = []


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Refuse what leaves the simulation to code of an application that no loop runs."""
    outer, INSIDE[0] = INSIDE[0], get_ident()
    try:
        yield
    finally:
        INSIDE[0] = outer


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if INSIDE[0] is None:
        return
    if event in _NEVER_SLEEPS and get_ident() == INSIDE[0]:
        raise NotSimulated(_NEVER_SLEEPS[event])
    if event in _FILES and get_ident() == INSIDE[0]:
        place = _asked_by_application()
        if place:
            named = repr(arguments[0]) if arguments else ""
            raise NotSimulated(f"{event} {named} ({place}): it would leave the simulation")


def _asked_by_application() -> str:
    """Return file and line of a user's application that uses a file, "" if it does not.

    Python reads files for itself: modules, the lines of a traceback, time zones.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if "__kafkasim_application__" in frame.f_globals:
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _READERS:
            return ""
    return ""


def install_audit_hook() -> None:
    """Install the audit hook, once; Python cannot remove one."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_audit)
