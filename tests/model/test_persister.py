"""The persister: look-ups, batches, backoffs (PersisterStateManagerTest, KIP-932)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.broker.common.share.persister import LANE, DefaultStatePersister
from kafkasim.model.channel import Failed
from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.effects import Process
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FindCoordinatorRequest, FindCoordinatorResponse
from kafkasim.model.messages.share import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadStatePartition,
    ReadStateResult,
    StatePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStatePartition,
)
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC
from kafkasim.model.storage.files import MemoryFiles

NONE = Errors.NONE
LED_BY_1 = PartitionRegistration((1,), (1,), (), (), 1, 0, 0, 0, (), ())
LED_BY_2 = PartitionRegistration((2,), (2,), (), (), 2, 0, 0, 0, (), ())


class Thread:
    """Remembers that it was woken."""

    awake = False

    def wakeup(self) -> None:
        self.awake = True


class PersisterBench(Process):
    """A broker with nothing but a persister; the topic of states has two leaders."""

    def __init__(self, topic: bool = True) -> None:
        super().__init__("broker-9", MemoryFiles(), random.Random(1), 0)
        self.image = MetadataImage()
        for number in (1, 2):
            name = f"broker-{number}"
            broker = BrokerImage(number, 1, name, name, None, False, False)
            self.image.brokers[number] = broker
        self.states = TopicImage(SHARE_GROUP_STATE_TOPIC, "states")
        self.states.partitions.update({0: LED_BY_1, 1: LED_BY_2})
        if topic:
            self.create()
        self.persister = DefaultStatePersister(self, self.image, lambda key: int(key[-1]) % 2)
        self.thread = Thread()
        self.persister.thread = self.thread  # type: ignore[assignment]
        self.results: list[Any] = []

    def create(self) -> None:
        self.image.topics["states"] = self.states
        self.image.topic_names[SHARE_GROUP_STATE_TOPIC] = "states"

    def take(self, result: Any, _now: int) -> None:
        self.results.append(result)

    def read(self, partition: int, group: str = "g", topic: str = "t") -> None:
        self.persister.read_state(group, topic, partition, 5, self.take)

    def requests(self) -> list[Any]:
        """Return what the thread sends until it finds nothing more."""
        sent: list[Any] = []
        while self.thread.awake:
            self.thread.awake = False
            sent += self.persister.generate_requests(0)
        return sent

    def fire(self) -> int:
        """Let the next backoff end; return how long it was, in ms."""
        deadline = self.timers.next_deadline()
        assert deadline is not None
        due = self.timers.pop_due(deadline)
        assert due is not None
        assert due[2] == LANE
        self.timers.fire(due[0], due[1], deadline)
        return deadline // 1000


def reads(*partitions: int, group: str = "g") -> ReadShareGroupStateRequest:
    asked = tuple([ReadStatePartition(number, 5) for number in partitions])
    return ReadShareGroupStateRequest(group, (("t", asked),))


def answered(*results: ReadStateResult) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse((("t", results),))


def test_the_coordinator_is_known_from_the_metadata() -> None:
    bench = PersisterBench()
    bench.read(0)
    (sent,) = bench.requests()
    assert (sent.address, sent.message) == ("broker-1", reads(0))
    sent.done(answered(ReadStateResult(0, state_epoch=3)), 0)
    assert bench.results == [ReadStateResult(0, state_epoch=3)]


def test_share_partitions_gather_while_a_request_is_in_flight() -> None:
    bench = PersisterBench()
    for number in (0, 2, 1):
        bench.read(number)
    sent = bench.requests()
    # The first wakes the thread; what is queued meanwhile goes with it, if it is looked up in time.
    assert [(each.address, each.message) for each in sent] == [
        ("broker-1", reads(0)),
        ("broker-2", reads(1)),
    ]
    bench.read(4)
    assert bench.requests() == []
    sent[0].done(answered(ReadStateResult(0)), 0)
    (later,) = bench.requests()
    assert later.message == reads(2, 4)


def test_each_group_and_each_kind_has_its_request() -> None:
    bench = PersisterBench()
    persister = bench.persister
    bench.read(0)
    (first,) = bench.requests()
    bench.read(0, "h")
    bench.read(2, "i")
    persister.write_state("g", "t", 0, 1, 2, 3, (), bench.take)
    persister.delete_state("g", "t", 0, bench.take)
    persister.read_summary("g", "t", 0, 5, bench.take)
    persister.initialize_state("g", "t", 0, 1, -1, bench.take)
    others = [each.message for each in bench.requests()]
    assert others == [
        WriteShareGroupStateRequest("g", (("t", (WriteStatePartition(0, 1, 2, 3, ()),)),)),
        DeleteShareGroupStateRequest("g", (("t", (0,)),)),
        ReadShareGroupStateSummaryRequest("g", (("t", (ReadStatePartition(0, 5),)),)),
        InitializeShareGroupStateRequest("g", (("t", (InitializeStatePartition(0, 1, -1),)),)),
    ]
    first.done(answered(ReadStateResult(0)), 0)
    assert [each.message for each in bench.requests()] == [
        reads(0, group="h"), reads(2, group="i"),
    ]  # fmt: skip


def test_without_the_topic_any_broker_is_asked_for_the_coordinator() -> None:
    bench = PersisterBench(topic=False)
    bench.read(0)
    (find,) = bench.requests()
    assert find.message == FindCoordinatorRequest("g:t:0", 2)
    find.done(FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, ""), 0)
    assert bench.requests() == []
    assert 1600 <= bench.fire() <= 2400  # 1 s, doubled for one failure, varied by a fifth
    (find,) = bench.requests()
    find.done(FindCoordinatorResponse(NONE, 2, "broker-2"), 0)
    (sent,) = bench.requests()
    assert (sent.address, sent.message) == ("broker-2", reads(0))


def test_a_lookup_is_given_up_after_five_times_or_at_once() -> None:
    bench = PersisterBench(topic=False)
    bench.read(0)
    waits = []
    for attempt in range(5):
        (find,) = bench.requests()
        find.done(FindCoordinatorResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, -1, ""), 0)
        if attempt < 4:
            waits.append(bench.fire())
    assert [low <= wait <= low * 1.5 for low, wait in zip((1600, 3200, 6400, 12800), waits)] == [
        True
    ] * 4
    bench.read(1)
    (find,) = bench.requests()
    find.done(FindCoordinatorResponse(Errors.INVALID_REQUEST, -1, ""), 0)
    bench.read(2)
    (find,) = bench.requests()
    find.done(Failed("timeout"), 0)
    errors = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.INVALID_REQUEST, Errors.NETWORK_EXCEPTION)
    assert bench.results == [ReadStateResult(n, error) for n, error in enumerate(errors)]


def test_without_a_live_broker_nothing_is_found() -> None:
    bench = PersisterBench(topic=False)
    bench.image.brokers.clear()
    bench.read(0)
    bench.read(1)
    assert bench.requests() == []
    error = Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.results == [ReadStateResult(0, error), ReadStateResult(1, error)]


def test_a_partition_without_a_leader_is_looked_up_at_a_broker() -> None:
    bench = PersisterBench()
    del bench.image.brokers[1]
    bench.read(0)
    (find,) = bench.requests()
    assert (find.address, type(find.message)) == ("broker-2", FindCoordinatorRequest)


@pytest.mark.parametrize("error", [Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS])
def test_another_coordinator_is_looked_up_after_a_backoff(error: Errors) -> None:
    bench = PersisterBench()
    bench.read(0)
    (sent,) = bench.requests()
    sent.done(answered(ReadStateResult(0, error)), 0)
    bench.states.partitions[0] = LED_BY_2
    bench.fire()
    (again,) = bench.requests()
    assert again.address == "broker-2"
    again.done(answered(ReadStateResult(0)), 0)
    assert bench.results == [ReadStateResult(0)]


def test_a_request_is_given_up_after_five_times() -> None:
    bench = PersisterBench()
    bench.read(0)
    for attempt in range(5):
        (sent,) = bench.requests()
        sent.done(answered(ReadStateResult(0, Errors.NOT_COORDINATOR)), 0)
        if attempt < 4:
            bench.fire()
    assert bench.results == [ReadStateResult(0, Errors.NOT_COORDINATOR)]


def test_other_errors_and_lost_answers_are_final() -> None:
    bench = PersisterBench()
    bench.read(0)
    bench.read(1)
    first, second = bench.requests()
    first.done(answered(ReadStateResult(0, Errors.FENCED_LEADER_EPOCH)), 0)
    second.done(Failed("reset"), 0)
    bench.read(0)
    (third,) = bench.requests()
    third.done(ReadShareGroupStateResponse((("other", ()), ("t", (ReadStateResult(9),)))), 0)
    assert bench.results == [
        ReadStateResult(0, Errors.FENCED_LEADER_EPOCH),
        ReadStateResult(1, Errors.NETWORK_EXCEPTION),
        ReadStateResult(0, Errors.UNKNOWN_SERVER_ERROR),
    ]


def test_two_writes_to_a_share_partition_in_one_request_have_the_first_result() -> None:
    """RequestCoalescerHelper keeps both; each handler takes the first result of its partition."""
    bench = PersisterBench()
    write = bench.persister.write_state
    write("g", "t", 0, 1, 1, 1, (), bench.take)
    (first,) = bench.requests()
    write("g", "t", 0, 1, 1, 2, (), bench.take)
    write("g", "t", 0, 1, 1, 3, (), bench.take)
    assert bench.requests() == []
    first.done(WriteShareGroupStateResponse((("t", (StatePartitionResult(0),)),)), 0)
    (both,) = bench.requests()
    ((_, asked),) = both.message.topics
    assert [each.start_offset for each in asked] == [2, 3]
    fenced = StatePartitionResult(0, Errors.FENCED_STATE_EPOCH)
    both.done(WriteShareGroupStateResponse((("t", (fenced,)),)), 0)
    assert bench.results == [StatePartitionResult(0), fenced, fenced]
