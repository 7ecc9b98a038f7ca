"""What one broker sends to others, one request in flight to each (InterBrokerSendThread)."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.broker.common.transactions.inter_broker_send_thread import (
    InterBrokerSendThread,
    RequestAndCompletionHandler,
)
from kafkasim.model.channel import SERVER_BACKOFF_MS, Failed
from kafkasim.model.effects import Close, Closed, Open, Opened, Post, Process, Response, Send
from kafkasim.model.storage.files import MemoryFiles

LANE = "txn-marker-sender"


class Markers:
    """A source of requests, and what became of them."""

    def __init__(self) -> None:
        self.process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
        self.thread = InterBrokerSendThread(self.process, LANE, 1000, self)
        self.queue: list[RequestAndCompletionHandler] = []
        self.answers: list[tuple[str, Any]] = []

    def generate_requests(self, now: int) -> list[RequestAndCompletionHandler]:
        queue, self.queue = self.queue, []
        return queue

    def send(self, address: str, message: str, now: int = 0) -> list[Any]:
        def done(answer: Any, _: int) -> None:
            self.answers.append((message, answer))

        self.queue.append(RequestAndCompletionHandler(address, message, done))
        self.thread.wakeup()
        return self.effects(now)

    def effects(self, now: int) -> list[Any]:
        """Run what was posted; return the other effects."""
        effects = list(self.process.out)
        self.process.out.clear()
        for effect in effects:
            if isinstance(effect, Post):
                assert effect.lane == LANE, effect
                effect.handler(effect.message, now)
        rest = [effect for effect in effects if not isinstance(effect, Post)]
        return rest + (self.effects(now) if self.process.out else [])

    def fire(self, now: int) -> list[Any]:
        while (due := self.process.timers.pop_due(now)) is not None:
            self.process.timers.fire(due[0], due[1], now)
        return self.effects(now)


def test_one_request_is_in_flight_to_a_broker_and_the_next_waits_for_its_answer() -> None:
    markers = Markers()
    assert markers.send("broker-2", "a") == [Open(1, "broker-2", LANE, LANE)]
    markers.process.handle(Opened(1), 5)
    assert markers.effects(5) == [Send(1, 1, "a")]
    assert markers.send("broker-2", "b", 6) == []
    assert markers.send("broker-3", "c", 6) == [Open(2, "broker-3", LANE, LANE)]

    markers.process.handle(Response(1, 1, "A"), 9)
    assert markers.effects(9) == [Send(1, 2, "b")]
    assert markers.answers == [("a", "A")]


def test_several_wakeups_run_the_thread_once() -> None:
    markers = Markers()
    markers.thread.wakeup()
    markers.thread.wakeup()
    assert len(markers.process.out) == 1


def test_a_lost_connection_fails_all_requests_to_that_broker() -> None:
    markers = Markers()
    markers.send("broker-2", "a")
    markers.process.handle(Opened(1), 5)
    markers.send("broker-2", "b", 6)
    markers.process.handle(Closed(1, "reset"), 7)
    lost = Failed("reset")
    assert markers.answers == [("a", lost), ("b", lost)]


def test_nothing_is_sent_to_a_broker_during_the_reconnect_backoff() -> None:
    markers = Markers()
    markers.send("broker-2", "a")
    markers.process.handle(Opened(1), 5)
    markers.process.handle(Closed(1, "reset"), 7)
    markers.effects(7)
    assert markers.send("broker-2", "b", 8) == []
    over = SERVER_BACKOFF_MS[0] * 1000 + 8
    assert markers.fire(over) == [Open(2, "broker-2", LANE, LANE)]


def test_a_request_without_an_answer_closes_the_connection() -> None:
    markers = Markers()
    markers.send("broker-2", "a")
    markers.process.handle(Opened(1), 5)
    markers.effects(5)
    assert markers.fire(1_000_000) == [Close(1)]
    assert markers.answers == [("a", Failed("timeout"))]


def test_a_stopped_thread_sends_nothing_and_answers_nothing() -> None:
    markers = Markers()
    markers.send("broker-2", "a")
    markers.process.handle(Opened(1), 5)
    markers.effects(5)
    markers.thread.stop(6)
    assert markers.effects(6) == [Close(1)]
    assert markers.send("broker-2", "b", 7) == []
    assert markers.answers == []
