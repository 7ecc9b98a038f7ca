"""A controller over a fake quorum of one that commits when it is told to."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.acls import AuthorizerRules
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.effects import Post, Posted, Request, Respond
from kafkasim.model.facts import FACTS
from kafkasim.model.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkasim.model.records import Record as LogRecord
from kafkasim.model.records import RecordBatch, assigned, batch_of
from kafkasim.model.storage.files import MemoryFiles

SECOND = 1_000_000


class FakeRaft:
    """The log of a quorum; the test decides who leads it and when it commits."""

    def __init__(self, listener: Any, node_id: int) -> None:
        self.listener = listener
        self.node_id = node_id
        self.leader_id = -1
        self.epoch = 0
        self.high_watermark = 0
        self.log_end_offset = 0
        self.log: list[RecordBatch] = []
        self.calls: list[str] = []
        self.cause = ""

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.node_id

    def start(self, now: int) -> None:
        self.calls.append("start")

    def shutdown(self, now: int, done: Any) -> None:
        self.calls.append("shutdown")
        done(now)

    def on_request(self, item: Request, now: int) -> None:
        self.calls.append(type(item.message).__name__)

    def append(self, records: list[Any], control: bool = False) -> None:
        batch = batch_of(tuple([LogRecord(None, r, 50, 0) for r in records]), control=control)
        self.log.append(assigned(batch, self.log_end_offset, self.epoch))
        self.log_end_offset = self.log[-1].next_offset

    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None:
        if not self.is_leader or epoch != self.epoch:
            return None
        self.append(records)
        return self.log_end_offset - 1

    def lead(self, leader_id: int, now: int = 0) -> None:
        """Let ``leader_id`` win the next epoch; a loser drops what is not committed."""
        self.epoch += 1
        self.leader_id = leader_id
        if leader_id == self.node_id:
            self.append(["leader-change"], control=True)
        else:
            self.log = [b for b in self.log if b.next_offset <= self.high_watermark]
            self.log_end_offset = self.high_watermark
        self.listener.on_leader_change(leader_id, self.epoch, now)

    def commit(self, now: int = 0) -> None:
        """Let the high watermark reach the log's end."""
        fresh = tuple([b for b in self.log if b.base_offset >= self.high_watermark])
        self.high_watermark = self.log_end_offset
        if fresh:
            self.listener.on_commit(fresh, self.high_watermark, now)


class FakeRaftController(Controller):
    """A controller whose quorum is a :class:`FakeRaft`."""

    def new_raft(self, rules: Any, now: int) -> Any:
        return FakeRaft(self, self.node_id)


class Harness:
    """Drives one controller; time is ``now``, effects pile up in ``answers`` and ``facts``."""

    def __init__(
        self, rules: ControllerRules | None = None, node_id: int = 1, **settings: Any
    ) -> None:
        self.now = 0
        self.controller = FakeRaftController(
            f"controller-{node_id}",
            node_id,
            {1: "controller-1", 2: "controller-2", 3: "controller-3"},
            BrokerConfig.from_properties({k.replace("_", "."): v for k, v in settings.items()}),
            SimpleNamespace(controller=rules or ControllerRules(), authorizer=AuthorizerRules()),
            MemoryFiles(),
            random.Random(7),
            0,
        )
        self.raft: FakeRaft = self.controller.raft  # type: ignore[assignment]
        self.answers: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.correlation = 0

    def activate(self) -> Harness:
        """Elect this controller and commit its bootstrap records; drop the facts of it."""
        self.raft.lead(self.controller.node_id, self.now)
        self.commit()
        self.commit()
        self.facts.clear()
        return self

    def drain(self) -> None:
        """Perform effects until there are none."""
        out = self.controller.out
        while out:
            effect = out.pop(0)
            if isinstance(effect, Post):
                self.controller.handle(Posted(effect.handler, effect.message), self.now)
            elif isinstance(effect, Respond):
                assert effect.correlation not in self.answers, effect
                merge = self.controller.merges.pop((effect.connection, effect.correlation), None)
                self.answers[effect.correlation] = (merge or (lambda each: each))(effect.message)
            elif type(effect) in FACTS.values():
                self.facts.append(effect)
            else:
                self.answers[-1] = effect

    def commit(self) -> None:
        self.drain()
        self.raft.commit(self.now)
        self.drain()

    def send(self, message: Any) -> int:
        """Send a request without committing anything; return its correlation."""
        self.correlation += 1
        self.controller.handle(Request(1, self.correlation, message, self.now), self.now)
        self.drain()
        return self.correlation

    def ask(self, message: Any) -> Any:
        """Send a request, commit what it writes, and return its answer."""
        correlation = self.send(message)
        self.commit()
        return self.answers[correlation]

    def advance(self, microseconds: int) -> None:
        """Fire timers until ``microseconds`` later, committing after each."""
        end = self.now + microseconds
        timers = self.controller.timers
        while (deadline := timers.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            due = timers.pop_due(self.now)
            assert due is not None
            timers.fire(due[0], due[1], self.now)
            self.commit()
        self.now = end

    # Brokers and topics.

    def register(self, broker_id: int, incarnation: str = "a", rack: str | None = None) -> int:
        """Register a broker and return its epoch."""
        answer = self.ask(
            BrokerRegistrationRequest(
                broker_id, f"{broker_id}-{incarnation}", f"broker-{broker_id}", rack
            )
        )
        assert answer.error == 0, answer
        return int(answer.broker_epoch)

    def heartbeat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> Any:
        """Let a broker send a heartbeat; by default it has replayed everything."""
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id,
                self.controller.image.brokers[broker_id].epoch,
                self.controller.image.offset if offset is None else offset,
                want_fence,
                want_shut_down,
            )
        )

    def up(self, *broker_ids: int) -> Harness:
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            self.register(broker_id)
            self.heartbeat(broker_id)
        return self

    def create(self, name: str, *assignments: tuple[int, ...], **configs: str) -> str:
        """Create a topic with the given replicas and return its id."""
        settings = tuple([(key.replace("_", "."), text) for key, text in configs.items()])
        topic = CreatableTopic(name, -1, -1, assignments, settings)
        answer = self.ask(CreateTopicsRequest((topic,), 1000))
        assert answer.results[0][1] == 0, answer
        return self.controller.image.topic_names[name]

    def partition(self, topic_id: str, partition: int = 0) -> tuple[Any, ...]:
        """Return (leader, leader epoch, partition epoch, ISR)."""
        state = self.controller.image.partition(topic_id, partition)
        assert state is not None
        return state.leader, state.leader_epoch, state.partition_epoch, state.isr

    def facts_of(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if type(fact) is kind]
