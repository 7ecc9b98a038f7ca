"""Request metrics: what a broker reports of the requests of a second."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from kafkasim.model.broker.common.statistics import RequestStatistics
from kafkasim.model.effects import Process, ThrottledResponse
from kafkasim.model.errors import Errors
from kafkasim.model.facts import RequestStats
from kafkasim.model.messages import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.messages.clients.data import ProducePartitionResponse
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import MemoryFiles

HEARTBEAT = HeartbeatRequest("g", 1, "m", None)


@dataclass
class Answered:
    """A request that was answered."""

    message: Any
    received_us: int = 1000
    dequeued_us: int = 1200
    handled_us: int = 1500


def reported(*answers: tuple[Any, ...]) -> list[RequestStats]:
    """Return the facts of the first second in which these were answered."""
    process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
    statistics = RequestStatistics(process)
    statistics.start(0)
    for answer in answers:
        statistics.count(*answer)
    due = process.timers.pop_due(1_000_000)
    assert due is not None
    process.timers.fire(due[0], due[1], 1_000_000)
    return process.out


def test_each_api_has_the_sums_of_its_times() -> None:
    response = HeartbeatResponse(Errors.NONE)
    assert reported(
        (Answered(HEARTBEAT), response, 1900, 2000, 0),
        (Answered(HEARTBEAT, 0, 0, 0), response, 50, 50, 7),
    ) == [RequestStats("Heartbeat", 2, 0, 1050, 200, 350, 400, 100, 7000, 1000)]


@pytest.mark.parametrize(("replica", "api"), [(-1, "FetchConsumer"), (2, "FetchFollower")])
def test_fetches_of_followers_are_apart(replica: int, api: str) -> None:
    fetch = FetchRequest(replica, -1, 500, 1, 1024, 0, ())
    [fact] = reported((Answered(fetch), FetchResponse(Errors.NONE, ()), 1500, 1500, 0))
    assert fact.api == api


@pytest.mark.parametrize(
    "response",
    [
        HeartbeatResponse(Errors.UNKNOWN_MEMBER_ID),
        ThrottledResponse(HeartbeatResponse(Errors.UNKNOWN_MEMBER_ID), 10),
        ProduceResponse(
            (
                ProducePartitionResponse(TopicPartition("t", 0), Errors.NONE, 0, -1, 0),
                ProducePartitionResponse(
                    TopicPartition("t", 1), Errors.NOT_LEADER_OR_FOLLOWER, -1, -1, -1
                ),
            )
        ),
    ],
)
def test_an_error_of_the_response_or_of_a_partition_is_counted(response: Any) -> None:
    [fact] = reported((Answered(HEARTBEAT), response, 1500, 1500, 0))
    assert (fact.count, fact.errors) == (1, 1)


def test_acks_0_is_answered_by_nothing() -> None:
    produce = ProduceRequest(0, 1000, (), None)
    [fact] = reported((Answered(produce), None, 1500, 1500, 0))
    assert (fact.api, fact.count, fact.errors, fact.total_us) == ("Produce", 1, 0, 500)
