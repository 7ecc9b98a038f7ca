"""A schedule on real Kafka: its processes are paused, killed, stopped and cut off in real time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kafkasim.model.records import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkasim.scenarios.language.tables import FaultTable, OperationTable, ProducerTable, Scenario
from kafkasim.scenarios.language.units import Span
from tests.fidelity.playing.history import History
from tests.fidelity.playing.metadata_log import MetadataReader, end_of_log
from tests.fidelity.playing.nodes import Nodes
from tests.fidelity.playing.operator import Operator, ProducerThread

CONVERGE_SECONDS = 60.0
BOOT_SECONDS = 12.0
LATE_SECONDS = 1.0
"""By how much an action may be late before the schedule counts as disturbed."""

SETTLE_SECONDS = 2.0


class Disturbed(Exception):
    """This machine was too slow for the schedule's times; asking again may help."""


class RealPlay:
    """One schedule on a version of Kafka, with its files below a directory."""

    nodes_type = Nodes
    operator_type = Operator
    boot_seconds = BOOT_SECONDS

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        self.scenario = scenario
        self.nodes = self.nodes_type(scenario, version, directory)
        self.operator = self.operator_type(self.nodes)
        self._timeline: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._threads: list[threading.Thread] = []
        self._began = 0.0

    def play(self) -> list[str]:
        """Play the schedule and return its history; all processes are gone then.

        Raises:
            Disturbed: an action was late.
            NoKafka: Kafka cannot be run here.
        """
        try:
            self.nodes.start_all()
            self.operator.create_topics(self.scenario.topics)
            self.operator.wait_until_converged(CONVERGE_SECONDS)
            time.sleep(SETTLE_SECONDS)
            start = self._end_of_truth()
            self.nodes.starting.clear()
            self._play()
            self._heal()
            time.sleep(SETTLE_SECONDS)
            return self._history(start) + self.operator.answers
        finally:
            self.nodes.close()

    def _end_of_truth(self) -> int:
        """Return where the ground truth ends now."""
        return end_of_log(self.nodes.best_log())[1]

    def _history(self, start: int) -> list[str]:
        """Return the text of the ground truth from the start of the schedule on."""
        reader = MetadataReader(next(self.nodes.libs.glob("kafka-metadata-*.jar")))
        return History(start).lines(reader.entries(self.nodes.best_log()))

    # ---------------------------------------------------------------------------- the timeline

    def _play(self) -> None:
        producers = self._arm()
        self._began = time.monotonic()
        for producer in producers:
            producer.start()
        duration = self.scenario.duration / 1e6
        while self._timeline and min(self._timeline)[0] <= duration:
            at, _, action = due = min(self._timeline)
            self._timeline.remove(due)
            late = time.monotonic() - self._began - at
            if late > LATE_SECONDS:
                raise Disturbed(f"what was due at {at:.1f} s came {late:.1f} s late")
            time.sleep(max(0.0, -late))
            action()
            self._began += self._boot_seconds()
        time.sleep(max(0.0, self._began + duration - time.monotonic()))
        for producer in producers:
            producer.ended.set()
        for producer in producers:
            producer.join()

    def _arm(self) -> list[ProducerThread]:
        """Put all that happens on purpose on the timeline; return the producers to start."""
        for fault in self.scenario.faults:
            for repetition in range(fault.count):
                every = 0.0 if fault.every is None else _seconds(fault.every) * repetition
                at = every + (0.0 if fault.at is None else _seconds(fault.at))
                self._add(at, partial(self._start, fault, at))
        for operation in self.scenario.operations:
            self._add(_seconds(operation.at), partial(self._operate, operation))
        return [
            ProducerThread(self.operator, workload, self.scenario)
            for workload in self.scenario.workload
            if isinstance(workload, ProducerTable) and workload.transactional_id is None
        ]

    def _add(self, at: float, action: Callable[[], None]) -> None:
        self._timeline.append((at, next(self._order), action))

    def _boot_seconds(self) -> float:
        """Wait for the nodes that have just been started; return how long that took.

        The clock of the schedule stands still meanwhile: a JVM needs seconds for what the model's
        process does in a moment. A broker that finds no quorum serves nobody, hence the limit.
        """
        began = time.monotonic()
        while self.nodes.starting and time.monotonic() < began + self.boot_seconds:
            for name in sorted(self.nodes.starting):
                if self.operator.serves(name):
                    self.nodes.starting.discard(name)
            time.sleep(0.1)
        self.nodes.starting.clear()
        return time.monotonic() - began

    def _heal(self) -> None:
        """End all faults that still last, start what is down, and wait until all is well."""
        for _, _, action in sorted(self._timeline, key=lambda each: each[:2]):
            action()
        for name in self.nodes.ids:
            self.nodes.start(name)
        for thread in self._threads:
            thread.join()
        self.operator.wait_until_converged(CONVERGE_SECONDS)

    # ----------------------------------------------------------------------------------- faults

    def _start(self, fault: FaultTable, at: float) -> None:
        targets = [self._place(name) for name in (fault.node, *fault.nodes) if name is not None]
        ends = getattr(self, _FAULTS[fault.kind])(fault, targets)
        until = (
            self.scenario.duration / 1e6 + 1 if fault.for_ is None else at + _seconds(fault.for_)
        )
        for end in ends:
            self._add(until, end)

    def _place(self, name: str) -> str:
        if name == "active-controller":
            return self.nodes.active_controller()
        if name.startswith("coordinator:"):
            return f"broker-{self.operator.leader(f'{GROUP_METADATA_TOPIC}-0')}"
        if name.startswith("transaction-coordinator:"):
            return f"broker-{self.operator.leader(f'{TRANSACTION_STATE_TOPIC}-0')}"
        if name.startswith("leader:"):
            return f"broker-{self.operator.leader(name.partition(':')[2])}"
        return name

    def _pause(self, _: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        for name in targets:
            self.nodes.pause(name)
        return [partial(self.nodes.resume, name) for name in targets]

    def _crash(self, _: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        for name in targets:
            self.nodes.kill(name)
        return [partial(self.nodes.start, name) for name in targets]

    def _stop(self, _: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        for name in targets:
            self.nodes.stop(name)

        def start(name: str) -> None:
            if self.nodes.alive(name):
                self.nodes.kill(name)  # its clean stop took too long
            self.nodes.start(name)

        return [partial(start, name) for name in targets]

    def _fail_disk(self, fault: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        for name in targets:
            self.nodes.directories.fail(name, fault.dir)
        return [partial(self.nodes.directories.repair, name, fault.dir) for name in targets]

    def _partition(self, fault: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        others = [self._place(name) for name in fault.peers]
        others = others or [name for name in self.nodes.ids if name not in targets]
        ids = self.nodes.ids
        pairs = [(ids[a], ids[b]) for a in targets for b in others if a != b]
        if fault.kind != "partition-oneway":
            pairs += [(b, a) for a, b in pairs]
        for pair in pairs:
            self.nodes.proxies.cut(*pair)
        return [partial(self.nodes.proxies.heal, *pair) for pair in pairs]

    # ------------------------------------------------------------------------------- operations

    def _operate(self, operation: OperationTable) -> None:
        if operation.kind in _MACHINES:
            assert operation.node is not None, operation
            self._in_thread(_MACHINES[operation.kind], self, operation, operation.node)
        else:
            self._in_thread(self.operator.call, operation)

    def _in_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _stop_node(self, operation: OperationTable, name: str) -> None:
        if not self.nodes.alive(name):
            return
        if operation.kill:
            self.nodes.kill(name)
        else:
            self.nodes.stop(name)

    def _start_node(self, _: OperationTable, name: str) -> None:
        self.nodes.start(name)

    def _restart_node(self, operation: OperationTable, name: str) -> None:
        self._stop_node(operation, name)
        while self.nodes.alive(name):
            time.sleep(0.05)
        if operation.kind == "replace-disk":
            self.nodes.replace_disk(name)
        time.sleep(operation.pause / 1e6)
        self.nodes.start(name)


_FAULTS = {
    "gc-pause": "_pause",
    "crash": "_crash",
    "stop": "_stop",
    "disk-failure": "_fail_disk",
    "partition": "_partition",
    "partition-oneway": "_partition",
    "isolate": "_partition",
}
"""The method that a fault begins with; it returns what ends the fault."""

_MACHINES: dict[str, Callable[[RealPlay, OperationTable, str], None]] = {
    "stop": RealPlay._stop_node,
    "start": RealPlay._start_node,
    "restart": RealPlay._restart_node,
    "replace-disk": RealPlay._restart_node,
}


def _seconds(span: Span) -> float:
    assert span.low == span.high, "a schedule's times are fixed: there is no range to draw from"
    return span.low / 1e6
