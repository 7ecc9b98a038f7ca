"""The journal of a live session, and its replay in simulated time.

A journal is a file of JSON lines. The first has all that decides a session besides its inputs: the
scenario as data, the seed, the wall clock at simulated time 0, the ports. Then comes an input a
line, with its simulated time in µs. The last line has the digest of the trace. A file without it
is of a session that was killed; its replay ends with the file.

    {"kafkasim-journal": 1, "seed": 1, "epoch_us": …, "spec": {…}, "ports": {"broker-1": […]}, …}
    [2130000, "open", 1, "broker-1", "payment-service"]
    [2130500, "data", 1, "AAAAIg…"]
    [9000000, "fault", {"kind": "gc-pause", "node": "broker-1", "for": "15s"}]
    [12000000, "end", "51cc…", 48211]
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.verdict import Result
from kafkasim.model import facts
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.cluster_run import ClusterRun
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.wire.failures import JournalError, SessionError
from kafkasim.scenarios.wire.session import Session
from kafkasim.sim.apps.loop import generator_hooks
from kafkasim.sim.trace.store import code_version

FORMAT = 1
BYTES_MAX = 4 * 1024**3
"""How long a journal may get; then it ends, and the session goes on without."""


class Head(NamedTuple):
    """The first line of a journal."""

    scenario: Scenario
    seed: int
    variants: list[str]
    epoch_us: int
    ports: dict[str, tuple[str, int]]
    workloads: bool
    faults: bool
    code_version: str

    def line(self) -> str:
        """Return the line."""
        spec = self.scenario.model_dump(mode="json", by_alias=True)
        rest = {name: each for name, each in self._asdict().items() if name != "scenario"}
        return json.dumps({"kafkasim-journal": FORMAT, **rest, "spec": spec})


class Journal:
    """Writes a journal."""

    def __init__(self, path: Path, head: Head) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._size = 0
        self.full = False
        self._line(head.line())

    def write(self, t_us: int, *what: Any) -> None:
        """Append an input; bytes are written in base 64."""
        row = [
            base64.b64encode(each).decode() if isinstance(each, bytes) else each for each in what
        ]
        self._line(json.dumps([t_us, *row], separators=(",", ":")))

    def flush(self) -> None:
        """Write what is buffered, so that a killed session can be replayed."""
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _line(self, text: str) -> None:
        if self.full:
            return
        self._size += len(text) + 1
        self.full = self._size > BYTES_MAX
        if not self.full:
            self._file.write(text + "\n")


def read_head(path: Path) -> Head:
    """Return the first line of a journal.

    Raises:
        JournalError: the file cannot be read, or is no journal of this format.
    """
    try:
        with path.open(encoding="utf-8") as file:
            data = json.loads(file.readline(1 << 24))
        if data["kafkasim-journal"] != FORMAT:
            raise JournalError(f"{path}:1: format {data['kafkasim-journal']}; this reads {FORMAT}")
        return Head(
            parse(data["spec"], f"{path}:1"),
            int(data["seed"]),
            [str(each) for each in data["variants"]],
            int(data["epoch_us"]),
            {str(node): (str(host), int(port)) for node, (host, port) in data["ports"].items()},
            bool(data["workloads"]),
            bool(data["faults"]),
            str(data["code_version"]),
        )
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
    except ScenarioError as error:
        raise JournalError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{path}:1: not a journal of kafkasim serve: {error!r}") from None


def read_inputs(path: Path) -> Iterator[list[Any]]:
    """Yield the inputs of a journal; a last line that was cut off is left out.

    Raises:
        JournalError: a line is no input, or goes back in time.
    """
    last_us = 0
    with path.open(encoding="utf-8") as file:
        file.readline()
        for number, text in enumerate(file, 2):
            try:
                row = json.loads(text)
                t_us, what = int(row[0]), row[1]
                if t_us < last_us or what not in _SHAPES or len(row) != _SHAPES[what]:
                    raise ValueError(f"{text[:60]!r}")
                if what == "data":
                    row[3] = base64.b64decode(row[3], validate=True)
                last_us = t_us
            except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
                if not text.endswith("\n"):
                    return
                raise JournalError(f"{path}:{number}: not an input: {error}") from None
            yield row


_SHAPES = {"open": 5, "data": 4, "close": 3, "fault": 3, "answer": 3, "heal": 2, "end": 4}
"""How many items a line of each kind has."""


class _Nobody:
    """The client of a replayed connection: nobody reads the responses."""

    def send(self, data: bytes | bytearray) -> None:
        pass

    def ended(self, reason: str) -> None:
        pass


class ServedCluster(ClusterRun):
    """The cluster of a live session again, with judges."""

    def follow(self, settings: Settings) -> Budget:
        """Have the cluster judged.

        What clients did is theirs: the scenario's own expectations are of its workloads.
        """
        self.trace.subscribe(facts.TopicCreated, self._on_topic_created)
        return super().follow(dataclasses.replace(settings, must_see=(), in_time=(), never=()))

    def _on_topic_created(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.cluster.clients.control.created[fact.topic] = None


class JournalRun(ScenarioRun):
    """A live session again, in simulated time, with judges."""

    cluster_run = ServedCluster

    def __init__(self, path: Path, head: Head, directory: Path | None) -> None:
        self.path, self.head = path, head
        self.live_digest = ""  # what the journal says; "" if it was cut off
        self.same_digest: bool | None = None
        self._end_us = 0
        super().__init__(head.scenario, head.seed, directory, head.variants, head.epoch_us)

    def _safety(self) -> None:
        self._phase("safety", "")
        if self.head.workloads:
            self.cluster.clients.start_workloads()
        if self.head.faults:
            self.faults.arm(self.ready_us)
        session = Session(self, self.head.ports)
        with generator_hooks():
            for t_us, what, *rest in read_inputs(self.path):
                if t_us < self.world.now:
                    raise SessionError(f"an input at {t_us} µs, before the cluster is ready")
                self.world.kernel.run_until(t_us)
                if what == "end":
                    self.live_digest = rest[0]
                    self.same_digest = self.trace.digest == rest[0]
                    break
                _apply(session, what, rest)
        settings = self.court.settings
        self.court.settings = dataclasses.replace(
            settings, faults_us=max(0, self.world.now - self.ready_us)
        )
        for number in list(session.links):  # the clients are gone
            session.close(number)

    def _manifest(self, result: Result, judged_by: dict[str, Any]) -> dict[str, Any]:
        return {**super()._manifest(result, judged_by), "journal": self.path.name}


def _apply(session: Session, what: str, rest: list[Any]) -> None:
    if what == "open":
        session.open(rest[0], rest[1], rest[2], _Nobody())
    elif what == "data":
        session.data(rest[0], rest[1])
    elif what == "close":
        session.close(rest[0])
    elif what == "fault":
        session.inject(rest[0])
    elif what == "answer":
        session.answer(rest[0])
    else:
        session.heal()


class Replayed(NamedTuple):
    """A replayed session: the verdict, whether the trace is the live one (None: unknown)."""

    result: Result
    same_digest: bool | None
    same_code: bool


def replay_journal(path: Path, directory: Path | None) -> Replayed:
    """Replay a journal with judges; with a directory, leave trace and manifest there.

    Raises:
        JournalError: the journal cannot be read.
    """
    head = read_head(path)
    run = JournalRun(path, head, directory)
    try:
        result = run.execute()
    except SessionError as error:
        raise JournalError(f"{path}: {error}") from None
    return Replayed(result, run.same_digest, head.code_version == code_version())
