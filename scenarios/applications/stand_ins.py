"""What a user's application gets for Python's modules of time, randomness and the outside world.

Time is the host's, which faults may pause, step or let drift; randomness is drawn from the run's
seed. What would leave the simulation raises NotSimulated, named with file and line. Modules of the
standard library that are not listed, and other packages, are Python's own: inside them only what
Python audits is refused (sockets, subprocesses, threads, real sleeps, files; sim/apps/refusals.py).
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import os
import random
import signal
import sys
import time
import uuid  # noqa: TID251 (what applications get of it is drawn from the seed)
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkasim.scenarios.applications.session import session
from kafkasim.sim.apps.refusals import NotSimulated

REFUSED_MODULES = (
    "concurrent", "ctypes", "ftplib", "http", "httpx", "multiprocessing", "requests", "sched",
    "select", "selectors", "shutil", "smtplib", "socket", "socketserver", "ssl",
    "subprocess", "tempfile", "threading", "urllib", "_thread",
)  # fmt: skip
"""Modules of threads, processes, files and the network: to import one is refused."""

PURE = {"http": ("http",), "urllib": ("urllib.parse",)}
"""Of those the modules that only compute."""


def where() -> str:
    """Return file and line of the application's code that is running: ``app.py:12``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "__kafkasim_application__" not in frame.f_globals:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def refused(what: str) -> Callable[..., Any]:
    """Return a function that refuses to leave the simulation."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotSimulated(f"{what} ({where()}): it would leave the simulation")

    return refuse


def wall_us() -> int:
    """Return the host's wall clock in microseconds since 1970."""
    return session().port.wall_us


def monotonic_us() -> int:
    """Return the host's monotonic clock in microseconds."""
    return session().port.now_us


def _module(name: str, base: ModuleType, replaced: dict[str, Any]) -> ModuleType:
    """Return a copy of a module with some names replaced."""
    made = ModuleType(name, base.__doc__)
    made.__dict__.update({key: value for key, value in vars(base).items() if key[:2] != "__"})
    made.__dict__.update(replaced)
    return made


class RunsItself(BaseException):
    """The file of an application gives ``main`` to asyncio.run() when it is run."""

    def __init__(self, main: Coroutine[Any, Any, Any]) -> None:
        super().__init__(main)
        self.main = main


def _asyncio() -> ModuleType:
    def run(main: Coroutine[Any, Any, Any], **_: Any) -> None:
        if sys._getframe(1).f_code.co_name == "<module>":
            raise RunsItself(main)
        main.close()
        raise RuntimeError(f"asyncio.run() ({where()}) cannot be called from a running event loop")

    return _module("asyncio", asyncio, {"run": run})


def _time() -> ModuleType:
    def at(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda seconds=None: function(wall_us() / 1e6 if seconds is None else seconds)

    def formatted(text: str, when: Any = None) -> str:
        return time.strftime(text, time.gmtime(wall_us() / 1e6) if when is None else when)

    seconds = {"time": wall_us, "monotonic": monotonic_us, "perf_counter": monotonic_us,
               "process_time": monotonic_us, "thread_time": monotonic_us}  # fmt: skip
    replaced: dict[str, Any] = {}
    for name, clock in seconds.items():
        replaced[name] = lambda clock=clock: clock() / 1e6
        replaced[f"{name}_ns"] = lambda clock=clock: clock() * 1000
    replaced |= {
        "sleep": refused("time.sleep()"), "gmtime": at(time.gmtime), "localtime": at(time.gmtime),
        "ctime": at(lambda s: time.asctime(time.gmtime(s))), "strftime": formatted,
    }  # fmt: skip
    return _module("time", time, replaced)


class _DateTime(datetime.datetime):
    """datetime.datetime with the host's clock; its local zone is UTC."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _DateTime:
        """Return the present time of the host."""
        at = cls.fromtimestamp(wall_us() / 1e6, tz or datetime.UTC)
        return at if tz is not None else at.replace(tzinfo=None)

    @classmethod
    def utcnow(cls) -> _DateTime:
        """Return the present time of the host, without a zone."""
        return cls.now()

    @classmethod
    def today(cls) -> _DateTime:
        """Return the present time of the host, without a zone."""
        return cls.now()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Callable[[Any], Any]) -> Any:
        """Have pydantic read a field of this type as it does datetime.datetime."""
        return handler(datetime.datetime)


class _Date(datetime.date):
    """datetime.date with the host's clock."""

    @classmethod
    def today(cls) -> _Date:
        """Return the present day of the host, in UTC."""
        at = _DateTime.now()
        return cls(at.year, at.month, at.day)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Callable[[Any], Any]) -> Any:
        """Have pydantic read a field of this type as it does datetime.date."""
        return handler(datetime.date)


class _Random(random.Random):
    """random.Random that takes its seed from the run where the application gives none."""

    def __init__(self, x: Any = None) -> None:
        super().__init__(session().rng.getrandbits(64) if x is None else x)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Seed the generator, from the run if no seed is given."""
        super().seed(session().rng.getrandbits(64) if a is None else a, version)


def _random() -> ModuleType:
    own = _Random()
    public = [name for name in random.__all__ if name not in ("Random", "SystemRandom")]
    replaced = {name: getattr(own, name) for name in public}
    return _module("random", random, replaced | {"Random": _Random,
                                                 "SystemRandom": _Random})  # fmt: skip


def _uuid() -> ModuleType:
    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=session().rng.getrandbits(128), version=4)

    return _module("uuid", uuid, {"uuid4": uuid4, "uuid1": lambda *_, **__: uuid4(),
                                  "getnode": lambda: session().number})  # fmt: skip


def _secrets() -> ModuleType:
    made = ModuleType("secrets")

    def token_bytes(nbytes: int | None = None) -> bytes:
        return session().rng.randbytes(32 if nbytes is None else nbytes)

    def token_urlsafe(nbytes: int | None = None) -> str:
        return base64.urlsafe_b64encode(token_bytes(nbytes)).rstrip(b"=").decode()

    def choice(sequence: Sequence[Any]) -> Any:
        return session().rng.choice(sequence)

    made.__dict__.update(
        token_bytes=token_bytes, token_hex=lambda n=None: token_bytes(n).hex(),
        token_urlsafe=token_urlsafe, choice=choice,
        randbelow=lambda bound: session().rng.randrange(bound),
        randbits=lambda bits: session().rng.getrandbits(bits), SystemRandom=_Random,
    )  # fmt: skip
    return made


def _signal() -> ModuleType:
    """Return signal with the handlers of the host's process; only SIGTERM is ever sent to it."""
    found: dict[int, Any] = {}

    def handle(number: int, handler: Any) -> Any:
        before, found[number] = found.get(number, signal.SIG_DFL), handler
        called = handler if callable(handler) else None
        if handler == signal.SIG_IGN:
            called = lambda *_: None  # noqa: E731
        catch = session().port.catch_signal
        catch(number, None if called is None else lambda: called(number, None))
        return before

    made = ModuleType("signal")
    for name in dir(signal):
        known = getattr(signal, name)
        kept = name.startswith(("SIG", "Sig", "Handlers")) or not callable(known)
        setattr(made, name, known if kept else refused(f"signal.{name}()"))
    made.__dict__.update(
        signal=handle, getsignal=lambda number: found.get(number, signal.SIG_DFL),
        strsignal=signal.strsignal,
    )  # fmt: skip
    return made


_OF_OS = (
    "PathLike",
    "fspath",
    "fsencode",
    "fsdecode",
    "linesep",
    "sep",
    "name",
    "path",
    "strerror",
)


def _os() -> ModuleType:
    """Return an os without files and processes; its environment names the host."""
    environment = {"HOSTNAME": session().node}
    made = ModuleType("os")
    for name in dir(os):
        if name[:2] != "__" and callable(getattr(os, name)):
            setattr(made, name, refused(f"os.{name}()"))
    for name in _OF_OS:
        setattr(made, name, getattr(os, name))
    made.__dict__.update(
        environ=environment, getenv=environment.get,
        urandom=lambda size: session().rng.randbytes(size), getpid=lambda: session().number,
        cpu_count=lambda: 1,
    )  # fmt: skip
    return made


def modules() -> dict[str, ModuleType]:
    """Return the stand-ins of one incarnation by the name of the module."""
    now = _module("datetime", datetime, {"datetime": _DateTime, "date": _Date})
    return {
        "time": _time(), "datetime": now, "random": _random(), "uuid": _uuid(),
        "asyncio": _asyncio(), "secrets": _secrets(), "os": _os(), "os.path": os.path,
        "signal": _signal(),
    }  # fmt: skip
