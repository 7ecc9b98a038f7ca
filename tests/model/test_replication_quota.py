"""Replication throttles (KIP-73): who is held back, who never is."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.replication.quotas.replication_quota import (
    ReplicationQuota,
    ReplicationQuotas,
    is_throttled,
)
from tests.model.replica_harness import TP, Trio, registration


def lagging(**settings: Any) -> Trio:
    """Replica 3 is outside the ISR and has to copy ten records of a throttled topic."""
    trio = Trio(**settings)
    trio.now += 60_000_000  # 3 has not been caught up for long, so it does not hold the HW
    throttled = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
    for node in trio.nodes.values():
        node.image.configs["t"] = throttled
    trio.registration = registration(1, 1, 0, isr=(1, 2))
    trio.tell(1, 2)
    trio.settle()
    for record in range(10):
        trio.produce(1, record)
        trio.settle()
    trio.tell(3)
    return trio


def test_a_setting_names_replicas() -> None:
    assert is_throttled("*", 3, 1)
    assert is_throttled("0:1,3:1", 3, 1)
    assert not is_throttled("0:1,3:12", 3, 1)
    assert not is_throttled("", 0, 1)


def test_the_rate_is_measured_over_eleven_seconds() -> None:
    quota = ReplicationQuota(100, 1)
    quota.record(300, 0)
    assert [quota.exceeded(at * 1_000_000) for at in (0, 2, 3, 11)] == [True, True, False, False]


def test_a_window_counts_until_its_last_bytes_are_eleven_seconds_old() -> None:
    """SampledStat.purgeObsoleteSamples, since 3.8."""
    quota = ReplicationQuota(99, 1)
    quota.record(1000, 0)
    quota.record(100, 900_000)  # the same window
    assert [quota.exceeded(at) for at in (11_000_000, 11_900_000)] == [True, False]


def test_a_new_rate_is_held_against_what_was_moved_before_it() -> None:
    """ReplicationQuotaManager.updateQuota replaces the bound of the metric, not its samples."""

    def limited(rate: int) -> BrokerConfig:
        return BrokerConfig(leader_replication_throttled_rate=rate)

    quotas = ReplicationQuotas(limited(1000), 1)
    assert quotas.follower is None
    quota = quotas.leader
    assert quota is not None
    quota.record(500, 0)
    assert not quota.exceeded(0)
    quotas.update(limited(100))
    assert (quotas.leader, quota.exceeded(0)) == (quota, True)


def test_a_leader_sends_nothing_above_the_rate_to_who_is_not_in_sync() -> None:
    trio = lagging(leader_replication_throttled_rate=10, replica_fetch_max_bytes=120)
    trio.advance(12_000_000)  # what went to 2, who is in sync, counts as well
    trio.settle(6)
    first = len(trio.log(3))
    assert 0 < first < 10
    assert len(trio.log(2)) == 10
    for _ in range(400):
        trio.advance(1_000_000)
        trio.settle(6)
    assert len(trio.log(3)) == 10


def test_a_follower_waits_until_its_rate_allows_more() -> None:
    trio = lagging(follower_replication_throttled_rate=10, replica_fetch_max_bytes=120)
    trio.settle(6)
    fetcher = trio.nodes[3].replicas.fetchers.threads[(1, 0)]
    assert (list(fetcher.states.delayed), 0 < len(trio.log(3)) < 10) == ([TP], True)
    for _ in range(400):
        trio.advance(1_000_000)
        trio.settle(6)
    assert len(trio.log(3)) == 10


def test_a_parked_fetch_is_neither_woken_nor_answered_with_throttled_records() -> None:
    trio = lagging(leader_replication_throttled_rate=10)
    trio.settle(6)
    assert len(trio.log(3)) == 0
    entries = trio.nodes[1].partition.delayed.session_entries  # of sessions and of those to be
    (session,) = [each.session for each in entries if each.session.replica_id == 3]
    parked = session.parked
    assert parked is not None
    trio.produce(1, 10)
    trio.settle(6)
    assert (session.parked is parked, len(trio.log(2)), len(trio.log(3))) == (True, 11, 0)
    trio.advance(500_000)  # its time is over: it is answered, still without records
    assert (parked.done, len(trio.log(3))) == (True, 0)


def test_a_follower_learns_from_an_answer_without_records_that_it_is_in_sync() -> None:
    trio = Trio(follower_replication_throttled_rate=10)
    trio.tell()
    trio.settle()
    state = trio.nodes[2].replicas.fetchers.threads[(1, 0)].states.fetching[TP]
    assert state.lag == 1
    trio.advance(500_000)
    trio.settle()
    assert state.lag == 0
