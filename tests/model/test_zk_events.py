"""The queue of the ZooKeeper controller's events, and the indexes of its context."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.zk.context import ControllerContext
from kafkasim.model.controller.zk.events import (
    ControllerMoved,
    EventQueue,
    Pause,
    Steps,
    ZkFailed,
)
from kafkasim.model.controller.zk.store.zk_data import ReplicaAssignment
from kafkasim.model.effects import Posted
from kafkasim.model.records import TopicPartition
from kafkasim.model.timers import Timers
from kafkasim.model.zookeeper.ops import GetData, ZkError, ZkResult

LANE = "zk-controller"
OK = ZkResult(ZkError.OK)
EXPIRED = ZkResult(ZkError.SESSIONEXPIRED)


class Thread:
    """A queue with a ZooKeeper that answers when told to, and a log of what its events did."""

    def __init__(self, on_moved: Any = None) -> None:
        self.out: list[Any] = []
        self.timers = Timers()
        self.log: list[Any] = []
        self.asked: list[tuple[tuple[Any, ...], Any]] = []
        process: Any = self
        self.queue = EventQueue(process, process, LANE, on_moved)

    def ask(self, ops: tuple[Any, ...], lane: str, done: Any) -> None:
        assert lane == LANE
        self.asked.append((ops, done))

    def run(self, now: int) -> None:
        while self.out:
            post = self.out.pop(0)
            Posted(post.handler, post.message).handler(post.message, now)

    def answer(self, now: int, result: ZkResult = OK) -> None:
        ops, done = self.asked.pop(0)
        done(tuple([result for _ in ops]), now)

    def event(self, name: str, failure: Exception | None = None) -> Any:
        def steps() -> Steps:
            self.log.append(f"{name} begins at {self.queue.now}")
            results = yield (GetData(f"/{name}"),)
            if failure is not None:
                raise failure
            self.log.append((name, results[0].error.name, self.queue.began, self.queue.now))

        return steps


def test_an_event_waits_for_the_one_before_it() -> None:
    thread = Thread()
    thread.queue.put("a", thread.event("a"))
    thread.queue.put("b", thread.event("b"))
    thread.run(5)
    assert (thread.log, len(thread.asked)) == (["a begins at 5"], 1)
    thread.answer(9)
    thread.answer(12)
    assert thread.log == ["a begins at 5", ("a", "OK", 5, 9), "b begins at 9", ("b", "OK", 9, 12)]


def test_a_pause_is_a_timer_of_the_thread() -> None:
    thread = Thread()

    def steps() -> Steps:
        yield Pause(100)
        thread.log.append(thread.queue.now)

    thread.queue.put("sleeper", steps)
    thread.run(5)
    assert thread.timers.next_deadline() == 105
    due = thread.timers.pop_due(105)
    assert due is not None
    thread.timers.fire(due[0], due[1], 105)
    assert thread.log == [105]


def test_an_expiry_drops_the_events_that_wait_and_answers_them() -> None:
    thread = Thread()
    thread.queue.put("a", thread.event("a"))
    thread.run(1)
    thread.queue.put("b", thread.event("b"), lambda now: thread.log.append(f"b refused at {now}"))
    thread.queue.put("c", thread.event("c"))
    thread.queue.clear_and_put("Expire", thread.event("Expire"), 3)
    assert thread.log == ["a begins at 1", "b refused at 3"]
    thread.answer(4, EXPIRED)  # ends the event that waited for ZooKeeper
    assert thread.log[2:] == ["Expire begins at 4"]


def test_a_controller_that_was_replaced_runs_the_steps_for_it_next() -> None:
    thread = Thread(lambda: thread.event("resign")())
    thread.queue.put("write", thread.event("write", ControllerMoved("/x")))
    thread.queue.put("next", thread.event("next"))
    thread.run(1)
    thread.answer(2)
    thread.answer(3)
    assert thread.log == [
        "write begins at 1", "resign begins at 2", ("resign", "OK", 2, 3), "next begins at 3",
    ]  # fmt: skip


@pytest.mark.parametrize("failure", [ZkFailed("no node"), ControllerMoved("/x")])
def test_a_failure_ends_its_event_alone(failure: Exception) -> None:
    thread = Thread()
    thread.queue.put("a", thread.event("a", failure))
    thread.queue.put("b", thread.event("b"))
    thread.run(1)
    thread.answer(2)
    assert thread.log == ["a begins at 1", "b begins at 2"]


def test_a_closed_queue_does_nothing_any_more() -> None:
    thread = Thread()
    thread.queue.put("a", thread.event("a"))
    thread.run(1)
    thread.queue.close()
    thread.queue.put("b", thread.event("b"))
    thread.answer(2)
    assert (thread.log, thread.out) == (["a begins at 1"], [])


def test_the_context_finds_partitions_by_topic_and_topics_by_id() -> None:
    context = ControllerContext()
    for topic in ("a", "b"):
        context.add_topic(topic, f"id-{topic}")
        for number in (0, 1):
            context.assign(TopicPartition(topic, number), ReplicaAssignment((1, 2)))
    context.assign(TopicPartition("a", 0), ReplicaAssignment((2, 3)))
    assert context.partitions_of("a") == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert context.replicas_of_topic("a")[:2] == [
        (TopicPartition("a", 0), 2),
        (TopicPartition("a", 0), 3),
    ]
    context.remove_topic("a")
    assert (context.partitions_of("a"), context.topic_names) == ([], {"id-b": "b"})
    assert list(context.assignments) == context.partitions_of("b")
