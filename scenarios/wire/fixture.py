"""A served cluster for tests: a child process on free ports, faults by context managers, a verdict.

The fixture ``kafka_cluster`` of pytest is one of these (``kafkasim.pytest_plugin``).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkasim.scenarios.api import Outcome
from kafkasim.scenarios.wire import control
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.journal import replay_journal

LIMIT = "15m"
"""When a server ends by itself: nobody stops it if the process of the tests was killed."""

STOP_WITHIN_S = 20.0
POLL_S = 0.1


class KafkaCluster:
    """Serves a simulated cluster to the clients of one test; start() is called by the first use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = directory / "session.kafkasim"
        self.log = directory / "serve.log"
        self._process: subprocess.Popen[str] | None = None
        self._servers = ""

    def start(self, scenario: str | Path = "", *options: str) -> None:
        """Start the server, once: with a scenario's cluster, or with three brokers of Kafka 4.1.

        ``options`` are those of ``kafkasim serve``, for example ``--workloads``.

        Raises:
            SessionError: it does not start; the message is what it says.
        """
        if self._servers:
            raise SessionError("the cluster has started")
        command = [sys.executable, "-m", "kafkasim.scenarios.cli", "serve"]
        command += [str(scenario)] if scenario else []
        command += ["--port", "0", "--for", LIMIT, "--record", str(self.journal), *options]
        with self.log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        self._servers = line.removeprefix("bootstrap.servers=")
        if self._servers == line:
            self.stop()
            raise SessionError(self.log.read_text(encoding="utf-8").strip() or "no server")

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap.servers`` of clients, in any language."""
        if not self._servers:
            self.start()
        return self._servers

    @property
    def replay_command(self) -> str:
        """The command that runs the session again and judges it."""
        return f"kafkasim replay {self.journal} --out {self.directory / 'run'}"

    def inject(self, kind: str, *, duration: str = "", **keys: Any) -> None:
        """Start a fault; keys are those of ``[[faults]]``, and ``duration`` is its ``for``.

        Raises:
            SessionError: the fault is wrong.
        """
        table = {"kind": kind, **({"for": duration} if duration else {}), **keys}
        control.ask(self._port, "POST", "/fault", table)

    @contextmanager
    def fault(self, kind: str, *, duration: str = "", **keys: Any) -> Iterator[None]:
        """Start a fault; at the end of the block all faults end.

        Raises:
            SessionError: the fault is wrong.
        """
        self.inject(kind, duration=duration, **keys)
        try:
            yield
        finally:
            self.heal()

    def answer(self, api: str, *, count: int = 1, **keys: Any) -> None:
        """Answer the next requests of an API with ``error=NAME``, late (``delay="2s"``), or not.

        Other keys are those of ``answers.py``: ``lose=True``, ``reset=True``, ``client``, ``node``,
        ``topic``.

        Raises:
            SessionError: the answer is wrong.
        """
        control.ask(self._port, "POST", "/answer", {"api": api, "count": count, **keys})

    def asked(self) -> dict[str, dict[str, int]]:
        """Return how many requests of each API each client has sent, by ``outside/CLIENT-ID``."""
        found: dict[str, dict[str, int]] = control.ask(self._port, "GET", "/asked")
        return found

    def heal(self) -> None:
        """End all faults and answers, and start what is down."""
        control.ask(self._port, "POST", "/heal", {})

    def status(self) -> dict[str, Any]:
        """Return brokers, partitions, clients and faults, as ``kafkasim status --json``."""
        found: dict[str, Any] = control.ask(self._port, "GET", "/status")
        return found

    def wait_for(
        self, condition: Callable[[Mapping[str, Any]], bool], within_s: float = 60.0
    ) -> dict[str, Any]:
        """Wait until a condition on :meth:`status` holds; return that status.

        Raises:
            TimeoutError: it did not hold within so many seconds of the wall clock.
        """
        deadline = time.monotonic() + within_s
        while True:
            found = self.status()
            if condition(found):
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s:.0f} s; the status is {found}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the server; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def verdict(self) -> Outcome:
        """End the server, replay the session, and return what the judges say of it.

        Raises:
            SessionError: the cluster was never started.
        """
        if not self._servers:
            raise SessionError("the cluster was never started")
        self.stop()
        directory = self.directory / "run"
        return Outcome(replay_journal(self.journal, directory).result, directory)

    @property
    def _port(self) -> int:
        return int(self.bootstrap_servers.partition(",")[0].rpartition(":")[2])
