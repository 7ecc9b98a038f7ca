"""A share consumer as its application sees it: what poll() raises, and what it may call (KIP-932).

Sources: ShareFetchCollector.handleInitializeErrors and ShareConsumerImpl of Kafka 4.1.0. No broker
answers here; the test puts what was fetched into the consumer's hands.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.client.consumer.share.consumer import KafkaShareConsumer
from kafkasim.model.client.consumer.share.fetched import ShareCompletedFetch
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import ShareConsumerConfig
from kafkasim.model.effects import Process, Reply
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    ACCEPT,
    REJECT,
    RELEASE,
    AcquiredRecords,
    SharePartitionResponse,
)
from kafkasim.model.records import Record, TopicPartition, assigned, batch_of
from kafkasim.model.storage.files import MemoryFiles

NONE = Errors.NONE
TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
KEY = ("T", TP)


class Host(Process):
    """A client host with one share consumer that reads a topic."""

    def __init__(self, **config: Any) -> None:
        super().__init__("consumer-1", MemoryFiles(), random.Random(1), 0)
        self.now = 0
        settings = ShareConsumerConfig(group_id="g", **config)
        self.consumer = KafkaShareConsumer(self, "c", settings, ("broker-1",), ClientRules())
        self.consumer.metadata.last_topic_ids["t"] = "T"
        self.updates: list[int] = []
        self.last = 0
        self.call("subscribe", ["t"])
        updates: Any = self.updates.append
        self.consumer.metadata.request_update = updates  # type: ignore[method-assign]

    def call(self, method: str, *args: Any) -> Any:
        """Return what a call replies at once, None if it waits."""
        self.last += 1
        self.consumer.methods[method](self.last, args, self.now)
        return self.reply(self.last)

    def reply(self, call: int) -> Any:
        """Return what a call has replied: the name of its error, or its result."""
        replies = [each for each in self.out if isinstance(each, Reply) and each.call == call]
        return replies[0].error.error if replies and replies[0].error else _result(replies)

    def give(self, tp: TopicPartition = TP, error: Errors = NONE, records: int = 2) -> None:
        """Put the response of a leader for one partition into the consumer's hands."""
        batch = assigned(batch_of((Record(None, 1, 10, 0),) * records), 0, 0)
        held = (AcquiredRecords(0, records - 1, 1),) if error is NONE else ()
        answer = SharePartitionResponse(tp, "T", error, batches=(batch,), acquired=held)
        self.consumer._requests.completed.append(ShareCompletedFetch(1, answer))

    def polled(self) -> Any:
        """Poll without waiting; return the offsets by partition, or the name of the error."""
        found = self.call("poll", 0)
        if isinstance(found, str):
            return found
        kind, what = found
        if kind != "records":
            return found
        return {tp: [record[0] for record in records] for tp, records in what.items()}


def _result(replies: list[Reply]) -> Any:
    return replies[0].result if replies else None


UPDATES = (
    "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
)  # fmt: skip


@pytest.mark.parametrize("error", UPDATES)
def test_poll_asks_for_metadata_after_an_error_that_it_may_explain(error: str) -> None:
    host = Host()
    host.give(error=Errors[error])
    assert (host.polled(), host.updates) == ({}, [0])


@pytest.mark.parametrize("error", ["UNKNOWN_LEADER_EPOCH", "UNKNOWN_SERVER_ERROR"])
def test_poll_only_logs_two_errors(error: str) -> None:
    host = Host()
    host.give(error=Errors[error])
    host.give(OTHER)
    assert (host.polled(), host.updates) == ({OTHER: [0, 1]}, [])


def test_poll_tells_of_a_corrupt_batch_when_it_has_returned_what_was_before() -> None:
    host = Host()
    host.give()
    host.give(OTHER, Errors.CORRUPT_MESSAGE)
    assert [host.polled() for _ in range(3)] == [{TP: [0, 1]}, "CORRUPT_MESSAGE", {}]


@pytest.mark.parametrize(
    "error", ["COORDINATOR_NOT_AVAILABLE", "GROUP_ID_NOT_FOUND", "LEADER_NOT_AVAILABLE"]
)
def test_any_other_error_takes_with_it_what_was_before_and_is_raised_twice(error: str) -> None:
    """An IllegalStateException, which ShareFetchCollector.collect does not catch."""
    host = Host()
    host.give()
    host.give(OTHER, Errors[error])
    assert [host.polled() for _ in range(3)] == [error, error, {}]
    assert not [each for each in host.out if isinstance(each, facts.SharePolled)]
    assert host.updates == []


def test_an_error_that_is_not_raised_does_not_hold_up_what_is_behind_it() -> None:
    host = Host()
    host.give()
    host.give(OTHER, Errors.NOT_LEADER_OR_FOLLOWER)
    host.give(OTHER)
    assert (host.polled(), host.updates) == ({TP: [0, 1], OTHER: [0, 1]}, [0])


def test_poll_returns_about_max_poll_records() -> None:
    host = Host(max_poll_records=2)
    host.give()
    host.give(OTHER)
    assert (host.polled(), host.polled()) == ({TP: [0, 1]}, {OTHER: [0, 1]})
    told = [each for each in host.out if isinstance(each, facts.SharePolled)]
    assert [(each.partition, each.offsets) for each in told] == [(0, (0, 1)), (1, (0, 1))]


# ------------------------------------------------------------------------------ acknowledgements


def test_an_implicit_consumer_must_not_acknowledge() -> None:
    host = Host()
    host.give()
    host.polled()
    assert host.call("acknowledge", TP, 0) == "ILLEGAL_STATE"


def test_an_explicit_consumer_acknowledges_what_it_holds_before_the_next_poll() -> None:
    host = Host(share_acknowledgement_mode="explicit")
    host.give()
    assert host.polled() == {TP: [0, 1]}
    assert host.call("acknowledge", TP, 2) == "ILLEGAL_STATE"
    assert host.call("acknowledge", OTHER, 0) == "ILLEGAL_STATE"
    assert host.call("acknowledge", TP, 0, REJECT) is None
    assert host.polled() == "ILLEGAL_STATE"  # offset 1 is not acknowledged
    assert host.call("acknowledge", TP, 0) == "ILLEGAL_STATE"  # it is on its way
    assert host.call("acknowledge", TP, 1, RELEASE) is None
    assert host.polled() == {}


def test_a_commit_of_nothing_is_over_at_once() -> None:
    host = Host()
    assert host.call("commit_sync") == {}
    assert host.call("commit_async") is None


def test_a_poll_ends_with_the_results_of_acknowledgements_if_the_application_wants_them() -> None:
    host = Host()
    heard = host.consumer._on_acknowledged
    heard(KEY, {0: ACCEPT}, NONE, 0)  # nobody asked
    host.call("report_acknowledgements", True)
    heard(KEY, {1: ACCEPT, 2: REJECT}, Errors.INVALID_RECORD_STATE, 0)
    assert host.polled() == ("acknowledged", {TP: "INVALID_RECORD_STATE"})
    assert host.call("continue") == ("records", {})  # its time is over
    told = [each for each in host.out if isinstance(each, facts.ShareAcknowledged)]
    assert [(each.offsets, each.types, each.error) for each in told] == [
        ((0,), (ACCEPT,), "NONE"),
        ((1, 2), (ACCEPT, REJECT), "INVALID_RECORD_STATE"),
    ]


# ------------------------------------------------------------------------------------- its end


def test_a_wakeup_ends_the_outstanding_poll_or_the_next_one() -> None:
    host = Host()
    assert host.call("poll", 5000) is None
    waiting = host.last
    host.call("wakeup")
    assert host.reply(waiting) == "WAKEUP"
    host.call("wakeup")
    assert host.polled() == "WAKEUP"


def test_a_second_close_is_over_at_once() -> None:
    host = Host()
    host.give()
    host.polled()
    host.call("close")
    closed: list[int] = []
    host.consumer.shut(7, lambda: closed.append(7))
    replies = [each for each in host.out if isinstance(each, Reply) and each.call == host.last]
    assert ([(each.result, each.error) for each in replies], closed) == ([(None, None)], [7])
    assert not host.timers.armed(("close", "c"))


def test_a_stop_waits_until_the_application_has_handled_its_records() -> None:
    host = Host()
    host.give()
    host.polled()
    told: list[str] = []
    host.consumer.stop(0, lambda: told.append("begins"), lambda: told.append("over"))
    assert told == []
    assert host.call("poll", 1000) is None  # it begins in place of this poll(), which never ends
    assert told == ["begins", "over"]
    assert host.consumer.ground_truth() == []
