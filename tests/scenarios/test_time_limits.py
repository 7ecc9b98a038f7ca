"""The time that groups get to read on once a healed cluster lacks nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkasim.model.messages.base import HEADER, PER_PARTITION
from kafkasim.model.records import BATCH_OVERHEAD
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.time_limits import (
    RECORD_OVERHEAD,
    ROUND_US,
    limit_us,
    reading_us,
)
from kafkasim.scenarios.running.runner import run

QUOTA_WINDOW_MS = 11_000
"""quota.window.num samples of quota.window.size.seconds."""

SEED = Path(__file__).parent.parent / "bugs/seeds/slow-group-reads-on.json"


def _slow_group(group: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    """A producer of records of 100 bytes, one partition, and a group that takes 100 ms for each."""
    data: dict[str, Any] = json.loads(SEED.read_text(encoding="utf-8"))["scenario"]
    table = data["workload"][1]
    table.update(group)
    table["config"] |= {"fetch.max.wait.ms": 0} | properties
    data["topics"] = [{"name": "orders", "partitions": 1, "replication-factor": 1}]
    return data


@pytest.mark.parametrize(
    ("properties", "polls"),
    [
        pytest.param({}, 3, id="max.poll.records = 5"),
        pytest.param({"max.poll.records": 1}, 12, id="one record a poll"),
        pytest.param({"max.partition.fetch.bytes": 600}, 6, id="two batches a partition"),
        pytest.param({"fetch.max.bytes": 1}, 12, id="one batch a fetch, however large"),
    ],
)
def test_what_a_poll_returns_says_how_many_polls_it_takes(
    properties: dict[str, Any], polls: int
) -> None:
    scenario = parse(_slow_group({}, properties), "a test")
    processing_us = 12 * 100_000
    assert reading_us(scenario, {"group": 12}) == polls * ROUND_US + processing_us


@pytest.mark.parametrize("place", ["topic", "broker", "operation"])
def test_a_poll_gets_no_more_than_a_segment_holds(place: str) -> None:
    """LocalLog.read ends with the segment of its first batch."""
    data = _slow_group({}, {})
    if place == "topic":
        data["topics"][0].setdefault("config", {})["segment.bytes"] = 900
    elif place == "broker":
        data.setdefault("cluster", {}).setdefault("config", {})["log.segment.bytes"] = 900
        data["cluster"]["kafka-version"] = "3.9"  # 4.0 does not start with it
    else:
        change = {"kind": "alter-config", "at": "1s", "topic": data["topics"][0]["name"]}
        data["operations"] = [change | {"config": {"segment.bytes": 900}}]
    scenario = parse(data, "a test")
    assert reading_us(scenario, {"group": 12}) == 4 * ROUND_US + 12 * 100_000


def test_what_a_processor_aborts_counts_again_for_the_quota_of_consumers() -> None:
    data = _slow_group({}, {})
    processor = {"kind": "processor", "output": "outputs", "abort-share": 0.5}
    data["workload"].append(processor | {"config": {"max.poll.records": 1}})
    data["topics"].append({"name": "outputs", "partitions": 1, "replication-factor": 1})
    free = parse(data, "a test")
    rate = {"kind": "alter-client-quotas", "at": "1s", "client-id": "<default>"}
    data["operations"] = [rate | {"config": {"consumer_byte_rate": 1000}}]
    behind = {"processors": 12}
    more_us = reading_us(parse(data, "a test"), behind) - reading_us(free, behind)
    batch = BATCH_OVERHEAD + RECORD_OVERHEAD + 100
    assert more_us == QUOTA_WINDOW_MS * 1000 + 4 * 12 * batch * 1000


@pytest.mark.parametrize(
    ("share", "linger_ms", "deliveries"),
    [(0.0, 5, 1), (0.0, 439, 1), (0.5, 439, 4), (0.1, 5, 3), (0.9, 5, 6), (1.0, 5, 6)],
)
def test_a_share_group_waits_for_its_coordinator_and_gets_again_what_it_releases(
    share: float, linger_ms: int, deliveries: int
) -> None:
    data = _slow_group({}, {})
    group = {"kind": "share-group", "group": "workers", "count": 1, "processing": ["1ms", "100ms"]}
    group |= {
        "acknowledge": "explicit",
        "release-share": share,
        "config": {"max.poll.records": 1, "fetch.max.wait.ms": 0},
    }
    data["workload"].append(group)
    cluster = data.setdefault("cluster", {})
    cluster |= {"kafka-version": "4.1", "features": {"share.version": 1}}
    cluster.setdefault("config", {}).update(
        {
            "group.share.delivery.count.limit": 6,
            "share.coordinator.append.linger.ms": linger_ms,
        }
    )
    poll_us = ROUND_US + linger_ms * 1000 + 100_000
    assert reading_us(parse(data, "a test"), {"workers": 12}) == 12 * deliveries * poll_us


def _workers(brokers: int, lock_ms: int, batch_size: int = 16_384) -> dict[str, Any]:
    """A share group beside the slow one, which gets a batch of each broker at once."""
    data = _slow_group({}, {})
    group = {"kind": "share-group", "group": "workers", "count": 1, "processing": ["1ms", "100ms"]}
    group |= {
        "config": {"max.poll.records": 1, "fetch.max.wait.ms": 0, "request.timeout.ms": 7_000},
        "group-config": {"share.record.lock.duration.ms": lock_ms},
    }
    data["workload"][0].setdefault("config", {})["batch.size"] = batch_size
    data["workload"].append(group)
    cluster = data.setdefault("cluster", {})
    cluster |= {"kafka-version": "4.1", "features": {"share.version": 1}, "brokers": brokers}
    config = {"group.share.delivery.count.limit": 6, "share.coordinator.append.linger.ms": 5}
    config["group.share.min.record.lock.duration.ms"] = 1_000
    cluster.setdefault("config", {}).update(config)
    return data


WORKERS_POLL_US = ROUND_US + 5_000 + 100_000


@pytest.mark.parametrize(
    ("unread", "brokers", "batch_size", "lock_ms", "deliveries"),
    [
        pytest.param(24, 1, 16_384, 2_504, 6, id="a batch and its request outlast its lock"),
        pytest.param(24, 1, 16_384, 2_505, 1, id="a batch and its request take no longer"),
        pytest.param(23, 1, 16_384, 2_504, 1, id="there are fewer records"),
        pytest.param(24, 1, 2_300, 2_504, 1, id="batches are smaller"),
        pytest.param(2_400, 1, 2_400, 2_504, 6, id="there are more batches"),
        pytest.param(24, 2, 1_200, 2_504, 6, id="two brokers answer at once"),
        pytest.param(24, 2, 1_100, 2_504, 1, id="two brokers answer with less"),
    ],
)
def test_a_share_group_that_outlasts_its_locks_gets_each_record_as_often_as_it_may(
    unread: int, brokers: int, batch_size: int, lock_ms: int, deliveries: int
) -> None:
    """Seed 10020506: a consumer is given whole batches, whatever max.poll.records is."""
    data = _workers(brokers, lock_ms, batch_size)
    given = unread * deliveries
    assert reading_us(parse(data, "a test"), {"workers": unread}) == given * WORKERS_POLL_US


def test_a_share_group_whose_leader_answers_nothing_waits_for_each_acknowledgement() -> None:
    scenario = parse(_workers(3, 30_000), "a test")
    unread = {"group": 12, "workers": 12}
    answered_us = reading_us(scenario, unread)
    waits_us = 12 * (7_000_000 + 30_000_000)
    assert reading_us(scenario, unread, ["group"]) == answered_us
    assert reading_us(scenario, unread, ["workers"]) == 12 * 6 * WORKERS_POLL_US + waits_us
    assert reading_us(scenario, {"group": 12}, ["workers"]) <= answered_us


def test_a_share_member_finds_lost_connections_one_after_the_other() -> None:
    """It fetches from no broker while an acknowledgement to another one is unanswered."""
    limits = []
    for faults in ([], [{"kind": "half-open", "node": "consumer-2", "at": "1s"}]):
        data = _workers(3, 15_000)
        data["workload"][-1]["config"]["request.timeout.ms"] = 100_000
        data["faults"] = faults
        limits.append(limit_us(parse(data, "a test")))
    assert limits[0] < limits[1] == 2 * (3 * 100_000 + 15_000) * 1000 + 30_000_000


def test_only_producers_with_a_transactional_id_have_transactions_to_wait_for() -> None:
    """transaction.timeout.ms is sent with InitProducerId for such an id, and for no other."""
    patient = {"transaction.timeout.ms": 400_000}
    idle_us = 2 * 300_000 * 1000 + 30_000_000  # metadata.max.age.ms
    config: dict[str, Any] = _slow_group({}, {})["cluster"]["config"]
    period_ms = config["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
    waiting_us = 2 * (400_000 + period_ms) * 1000 + 30_000_000
    for own, limit in (({}, idle_us), ({"transactional-id": "writer"}, waiting_us)):
        data = _slow_group({}, {})
        data["workload"][0] = {"kind": "producer", "config": patient, "topic": "orders", **own}
        assert limit_us(parse(data, "a test")) == limit
    for guarantee, limit in (("at-least-once", idle_us), ("exactly-once", waiting_us)):
        data = _slow_group({}, {})
        data["topics"].append({"name": "out", "partitions": 1, "replication-factor": 1})
        processor = {"kind": "processor", "topics": ["orders"], "output": "out"}
        data["workload"].append({
            **processor, "guarantee": guarantee, "producer-config": patient
        })  # fmt: skip
        assert limit_us(parse(data, "a test")) == limit


def test_a_fetch_that_waits_for_other_partitions_holds_up_each_poll() -> None:
    alone, held = [
        parse(_slow_group({}, {"max.poll.records": 1, "fetch.max.wait.ms": wait_ms}), "a test")
        for wait_ms in (0, 700)
    ]
    held_us = reading_us(alone, {"group": 12}) + 12 * 700_000
    assert reading_us(held, {"group": 12}) == held_us


def test_a_group_that_has_read_everything_gets_no_more_time() -> None:
    scenario = parse(_slow_group({}, {}), "a test")
    assert reading_us(scenario, {}) == reading_us(scenario, {"other": 12}) == 0


def test_clients_with_quotas_get_the_time_that_brokers_throttle_them() -> None:
    quota = {"kind": "alter-client-quotas", "at": "1s", "client-id": "<default>"}
    rates = {"producer_byte_rate": 1000, "consumer_byte_rate": 500}
    plain, data = _slow_group({}, {}), _slow_group({}, {})
    plain["topics"][0]["partitions"] = data["topics"][0]["partitions"] = 3
    data["workload"][0].setdefault("config", {})["batch.size"] = 100_000
    before = parse(data, "a test")
    data["operations"] = [{**quota, "config": rates}, {**quota, "remove": list(rates)}]
    scenario, free = parse(data, "a test"), parse(plain, "a test")
    throttled_ms = QUOTA_WINDOW_MS + 300_000  # a batch of each partition, at 1000 bytes a second
    assert limit_us(scenario) == 2 * throttled_ms * 1000 + 30_000_000 > limit_us(before)
    more_us = reading_us(scenario, {"group": 12}) - reading_us(free, {"group": 12})
    batch = BATCH_OVERHEAD + RECORD_OVERHEAD + before.workload[0].value_size  # type: ignore[union-attr]
    assert more_us == QUOTA_WINDOW_MS * 1000 + 12 * batch * 1_000_000 // 500
    assert reading_us(scenario, {}) == 0


@pytest.mark.parametrize(("share", "attempts"), [(0.0, 1), (0.1, 3), (0.5, 4), (1.0, 1)])
def test_a_processor_waits_for_the_quota_of_producers_and_writes_again_what_it_aborts(
    share: float, attempts: int
) -> None:
    data = _slow_group({}, {})
    processor = {"kind": "processor", "output": "outputs", "abort-share": share}
    data["workload"].append(processor | {"config": {"max.poll.records": 1, "fetch.max.wait.ms": 0}})
    data["topics"].append({"name": "outputs", "partitions": 1, "replication-factor": 1})
    free = parse(data, "a test")
    rate = {"kind": "alter-client-quotas", "at": "1s", "client-id": "<default>"}
    data["operations"] = [rate | {"config": {"producer_byte_rate": 1000}}]
    scenario, behind = parse(data, "a test"), {"processors": 12}
    assert reading_us(free, behind) == 12 * attempts * ROUND_US
    request = HEADER + PER_PARTITION + BATCH_OVERHEAD + RECORD_OVERHEAD + 100
    throttled_us = QUOTA_WINDOW_MS * 1000 + 12 * attempts * request * 1000
    assert reading_us(scenario, behind) == reading_us(free, behind) + throttled_us
    assert reading_us(scenario, {"group": 12}) == reading_us(free, {"group": 12})


def test_a_group_that_stands_still_makes_no_progress() -> None:
    """Its member stays away from poll() for longer than it could take to read all."""
    group = {"stuck-at": "5s", "processing": "1ms"}
    result = run(parse(_slow_group(group, {"max.poll.interval.ms": 5000}), "a test"), 1)
    assert (result.verdict, result.anomalies) == ("fail", ["no-progress", "unseen"])


def test_the_only_replica_on_a_new_disk_waits_for_the_check_of_preferred_leaders() -> None:
    data: dict[str, Any] = {
        "name": "n", "claim": "C.", "duration": "1s", "topics": [{"name": "t"}],
        "operations": [{"kind": "replace-disk", "node": "broker-1", "at": "0s"}],
    }  # fmt: skip
    other = data | {"cluster": {"config": {"auto.leader.rebalance.enable": False}}}
    limits = [limit_us(parse(each, "test")) for each in (data, other)]
    assert limits == [2 * 300_000_000 + 30_000_000, 2 * 45_000_000 + 30_000_000]
