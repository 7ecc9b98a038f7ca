"""A transaction coordinator alone: its log is in memory, and the test answers its markers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.effects import Exit, Post, Process, Read
from kafkasim.model.errors import Errors
from kafkasim.model.facts import TransactionState
from kafkasim.model.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkasim.model.records import TRANSACTION_STATE_TOPIC, TopicPartition
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.transaction.coordinator import TransactionCoordinator
from kafkasim.model.transaction.requests.end_transaction import EndTxn
from kafkasim.model.transaction.rules import TransactionRules

SECOND = 1_000_000
ID = "payments"
TP0, TP1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOG = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
Answer = tuple[Errors, int, int]  # (error, producer id, epoch)
NOTHING: Mapping[str, int] = {}
Markers = tuple[str, WriteTxnMarkersRequest, Callable[[Any, int], None]]


class Bench(Process):
    """A broker that is nothing but a transaction coordinator of one partition.

    ``leaders`` maps a partition to the endpoint of its leader; "" is no leader, and a partition
    that is missing does not exist. ``sent`` are the marker requests that nobody has answered.
    """

    def __init__(
        self,
        version: int = 2,
        rules: TransactionRules | None = None,
        log: MemoryCoordinatorLog | None = None,
        epochs_used: Mapping[str, int] = NOTHING,
        **config: Any,
    ) -> None:
        super().__init__("broker-1", MemoryFiles(), random.Random(1), 0)
        self.now = 0
        self.version = version  # the finalized transaction.version
        self.log = log or MemoryCoordinatorLog()
        self.next_producer_id: int | None = 1000  # None: no block of ids is here
        self.leaders = {TP0: "broker-1", TP1: "broker-2"}
        self.sent: list[Markers] = []
        self.facts: list[Any] = []
        self.exits: list[str] = []
        self.replicates = True
        self.awake = False
        settings = {"transaction_state_log_num_partitions": 1, **config}
        self.coordinator = TransactionCoordinator(
            self,
            BrokerConfig(**settings),
            rules or TransactionRules(),
            self.log,
            self,
            self,
            lambda: self.version,
            epochs_used,
        )
        self.coordinator.markers.sender = self

    # What the coordinator asks of the broker.

    def generate(self, _: int) -> int | None:
        if self.next_producer_id is None:
            return None
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def leader_endpoint(self, tp: TopicPartition) -> str | None:
        return self.leaders.get(tp)

    def wakeup(self) -> None:
        self.awake = True

    def wakeup_by(self, deadline: int) -> None:
        self.timers.arm("poll", deadline, "txn-marker-sender", lambda _: self.wakeup())

    # What a test does.

    def elect(self, epoch: int = 1) -> Bench:
        self.coordinator.on_elected(0, epoch, self.now)
        self.settle()
        return self

    def resign(self, epoch: int | None) -> None:
        self.coordinator.on_resigned(0, epoch, self.now)
        self.settle()

    def init(
        self,
        expected: tuple[int, int] | None = None,
        transactional_id: str | None = ID,
        timeout_ms: int = 60_000,
    ) -> Answer | None:
        """Initialize a producer; None: the answer is not there yet, and comes to ``late``."""
        return self._ask(
            lambda done: self.coordinator.initialization.handle(
                transactional_id, timeout_ms, expected, done, self.now
            )
        )

    def add(
        self, producer_id: int, epoch: int, *tps: TopicPartition, transactional_id: str = ID
    ) -> Errors | None:
        """Add partitions as the version of the bench does."""
        answers: list[Errors] = []
        version = self.version if self.version >= 2 else 0
        self.coordinator.partitions.handle(
            transactional_id,
            producer_id,
            epoch,
            tps or (TP0,),
            version,
            lambda error, _: answers.append(error),
            self.now,
        )
        self.settle()
        return answers[0] if answers else None

    def verify(self, producer_id: int, epoch: int, *tps: TopicPartition) -> list[Errors]:
        results = self.coordinator.partitions.verify(ID, producer_id, epoch, tps or (TP0,))
        return [error for _, error in results]

    def end(
        self, producer_id: int, epoch: int, committing: bool, transactional_id: str = ID
    ) -> Answer | None:
        """End a transaction; None: the answer is not there yet."""
        version = self.version if self.version >= 2 else 0
        request = EndTxn(transactional_id, producer_id, epoch, committing, version)
        return self._ask(lambda done: self.coordinator.ending.handle(request, done, self.now))

    def _ask(self, ask: Callable[[Any], None]) -> Answer | None:
        answers: list[Answer] = []
        ask(lambda error, producer_id, epoch, _: answers.append((error, producer_id, epoch)))
        self.settle()
        self.late = answers
        return answers[0] if answers else None

    def answer(self, error: Errors = Errors.NONE, place: int = 0) -> None:
        """Answer a request of markers with one error for all its partitions."""
        _, request, done = self.sent.pop(place)
        results = tuple(
            [
                (marker.producer_id, tuple([(tp, error) for tp in marker.partitions]))
                for marker in request.markers
            ]
        )
        done(WriteTxnMarkersResponse(results), self.now)
        self.settle()

    def answer_all(self) -> None:
        while self.sent:
            self.answer()

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire at their deadlines."""
        until = self.now + int(seconds * SECOND)
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            due = self.timers.pop_due(self.now)
            assert due is not None
            self.timers.fire(due[0], due[1], self.now)
            self.settle()
        self.now = until

    def replicate(self) -> None:
        """Let the high watermark reach the end of the log."""
        end = self.log.end(LOG)
        self.log.high_watermarks[LOG] = end
        self.coordinator.on_high_watermark(0, end, self.now)

    def settle(self) -> None:
        """Run what the coordinator has caused, until nothing is left to do."""
        while True:
            self._drain()
            if self.replicates and self.log.end(LOG) > self.log.high_watermark(LOG):
                self.replicate()
            elif self.awake:
                self.awake = False
                self.sent += self.coordinator.markers.generate_requests(self.now)
            elif not self.out:
                return

    def _drain(self) -> None:
        effects = list(self.out)
        self.out.clear()
        for effect in effects:
            if isinstance(effect, Post):
                effect.handler(effect.message, self.now)
            elif isinstance(effect, Read):
                effect.handler(None, self.now)
            elif isinstance(effect, Exit):
                self.exits.append(effect.reason)
            else:
                self.facts.append(effect)

    # What a test looks at.

    @property
    def metadata(self) -> Any:
        """The metadata of the one id that most tests have."""
        return self.coordinator.owned.by_partition[0].transactions[ID]

    def state(self) -> tuple[str, int, int]:
        """Return state, producer id and epoch of that id."""
        return str(self.metadata.state), self.metadata.producer_id, self.metadata.producer_epoch

    def states(self) -> list[tuple[str, str]]:
        """Return the changes that were recorded: (state, reason)."""
        changes = [fact for fact in self.facts if isinstance(fact, TransactionState)]
        return [(fact.state, fact.reason) for fact in changes]
