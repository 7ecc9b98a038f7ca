"""A coordinator in a process of its own on an in-memory log: requests in, answers and facts out."""

from __future__ import annotations

import random
from typing import Any, Self

from kafkasim.model import facts
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.effects import Post, Process, Read, Request, Respond
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import MemoryFiles

SECOND = 1_000_000
FACTS = tuple(facts.FACTS.values())


class CoordinatorBench(Process):
    """One broker with nothing but the ``coordinator`` of one partition.

    Its work goes to the lanes ``LANE/0`` and ``LANE-loader``. ``replicate`` moves the high
    watermark.
    """

    lane = ""
    tp: TopicPartition
    coordinator: Any

    def __init__(
        self, log: MemoryCoordinatorLog | None = None, seed: int = 1, now: int = 0
    ) -> None:
        super().__init__("broker-1", MemoryFiles(), random.Random(seed), now)
        self.now = now
        self.log = log or MemoryCoordinatorLog()
        self.answers: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.posts: list[Post] = []
        self.auto_replicate = True
        self.last = 0

    def elect(self, epoch: int = 1) -> Self:
        self.coordinator.on_elected(0, epoch, self.now)
        self.settle()
        return self

    def ask(self, message: Any) -> int:
        """Send a request; its number finds the answer in ``answers``, once there is one."""
        self.last += 1
        self.coordinator.on_request(Request(7, self.last, message, self.now), self.now)
        self.settle()
        return self.last

    def get(self, message: Any) -> Any:
        """Send a request that must be answered at once."""
        return self.answers[self.ask(message)]

    def replicate(self) -> None:
        self.log.high_watermarks[self.tp] = self.log.end(self.tp)
        self.coordinator.on_high_watermark(0, self.log.end(self.tp), self.now)
        self.drain()

    def settle(self) -> None:
        self.drain()
        while self.posts:
            post = self.posts.pop(0)
            post.handler(post.message, self.now)
            self.drain()
        while self.auto_replicate and self.log.end(self.tp) > self.log.high_watermark(self.tp):
            self.replicate()

    def drain(self) -> None:
        for effect in self.out:
            if isinstance(effect, Respond):
                assert effect.correlation not in self.answers, effect
                self.answers[effect.correlation] = effect.message
            elif isinstance(effect, Post):
                assert effect.lane in (f"{self.lane}/0", f"{self.lane}-loader"), effect
                self.posts.append(effect)
            elif isinstance(effect, Read):
                self.posts.append(Post(f"{self.lane}-loader", effect.handler, None))
            else:
                assert isinstance(effect, FACTS), effect
                self.facts.append(effect)
        self.out.clear()

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire at their deadlines."""
        until = self.now + int(seconds * SECOND)
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            due = self.timers.pop_due(self.now)
            assert due is not None
            assert due[2] in (self.lane, f"{self.lane}/0"), due
            self.timers.fire(due[0], due[1], self.now)
            self.settle()
        self.now = until
