"""DeleteRecords (KIP-107; KAFKA.md, 1.7): the leader, the low watermark, the admin client."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.config import ClientConfig
from kafkasim.model.controller.common.image import BrokerImage
from kafkasim.model.effects import Request
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskFull, MemoryFiles
from tests.model.client_harness import Cluster, Harness
from tests.model.replica_harness import TP, Trio, registration


def three_records(**settings: Any) -> Trio:
    trio = Trio(**settings)
    trio.tell()
    trio.settle()
    for record in range(3):
        trio.produce(1, record)
    trio.settle()
    trio.advance(500_000)
    trio.settle()  # followers know the high watermark
    return trio


def delete(trio: Trio, offset: int, node: int = 1, tp: TopicPartition = TP) -> int:
    trio.calls += 1
    request = DeleteRecordsRequest(((tp, offset),), 30_000)
    item = Request(900_000 + trio.calls, 1, request, trio.now)
    trio.nodes[node].replicas.deletion.serve(item, trio.now)
    trio.drain(node)
    return trio.calls


def refused(error: Errors) -> DeleteRecordsResponse:
    return DeleteRecordsResponse((DeleteRecordsPartitionResult(TP, error, -1),))


def starts(trio: Trio) -> list[int]:
    return [node.partition.log.log_start_offset for node in trio.nodes.values()]


def test_done_when_every_live_replica_has_followed() -> None:
    trio = three_records()
    call = delete(trio, 2)
    assert (starts(trio), call in trio.answers) == ([2, 0, 0], False)
    for _ in range(3):  # one long poll to hear of it, the next fetch to tell
        trio.advance(500_000)
        trio.settle()
    assert starts(trio) == [2, 2, 2]
    assert trio.answers[call] == DeleteRecordsResponse((DeleteRecordsPartitionResult(TP, NONE, 2),))


def test_a_dead_replica_is_not_waited_for() -> None:
    trio = three_records()
    trio.nodes[1].replicas.fetchers.stop(trio.now)
    for broker in (2, 3):
        trio.nodes[1].image.brokers[broker] = BrokerImage(broker, broker, "", "", None, True, False)
    assert trio.answers[delete(trio, -1)].partitions[0].low_watermark == 3


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trio = three_records()

    def full(_files: MemoryFiles, path: str, _item: Any, _size: int) -> None:
        raise DiskFull(path, "No space left on device")

    monkeypatch.setattr(MemoryFiles, "append", full)
    assert trio.answers[delete(trio, 2)] == refused(Errors.KAFKA_STORAGE_ERROR)
    failed = [error.path for error in trio.nodes[1].failures]
    assert failed == [f"{TP}/leader-epoch-checkpoint"]


def test_what_is_refused() -> None:
    trio = three_records()
    assert trio.answers[delete(trio, 4)] == refused(Errors.OFFSET_OUT_OF_RANGE)
    assert trio.answers[delete(trio, -2)] == refused(Errors.OFFSET_OUT_OF_RANGE)
    assert trio.answers[delete(trio, 1, node=2)] == refused(Errors.NOT_LEADER_OR_FOLLOWER)
    found = []
    for name in ("__consumer_offsets", "__transaction_state", "__of-a-user"):
        other = TopicPartition(name, 0)
        if name != "__transaction_state":
            trio.nodes[1].known[other] = None
        found.append(trio.answers[delete(trio, 1, tp=other)].partitions[0].error)
    assert found == [
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
    ]
    trio.nodes[1].image.configs["t"] = {"cleanup.policy": "compact"}
    trio.nodes[1].replicas.config_changed("t")
    assert trio.answers[delete(trio, 1)] == refused(Errors.POLICY_VIOLATION)
    assert starts(trio) == [0, 0, 0]


def test_the_time_ends_or_leadership_does() -> None:
    trio = three_records()
    late = delete(trio, 1)
    trio.advance(30_000_000)
    assert trio.answers[late] == refused(Errors.REQUEST_TIMED_OUT)
    lost = delete(trio, 2)
    trio.registration = registration(2, 2, 1)
    trio.tell(1)
    assert trio.answers[lost] == refused(Errors.NOT_LEADER_OR_FOLLOWER)
    assert trio.nodes[1].partition.delayed.deletes == {}


def test_the_admin_asks_each_leader_and_repeats_what_may_be_repeated() -> None:
    cluster = Cluster(partitions=2)
    errors = [Errors.NOT_LEADER_OR_FOLLOWER]
    asked: list[tuple[str, Any]] = []

    def serve(node: str, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        asked.append((node, request.partitions))
        results = []
        for tp, offset in request.partitions:
            error = errors.pop() if tp.partition == 1 and errors else NONE
            results.append(DeleteRecordsPartitionResult(tp, error, offset))
        return DeleteRecordsResponse(tuple(results))

    cluster.handlers[DeleteRecordsRequest] = serve
    harness = Harness(ClientConfig(), cluster)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    result = harness.result("delete_records", ((("t", 0), 5), (("t", 1), 7)))
    assert result == ((t0, 5, NONE), (t1, 7, NONE))
    assert sorted(asked) == [
        ("broker-0", ((t0, 5),)),
        ("broker-1", ((t1, 7),)),
        ("broker-1", ((t1, 7),)),
    ]
