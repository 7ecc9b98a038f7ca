"""Lookup mode: OffsetsForLeaderEpoch before the first fetch (KAFKA.md, 1.4 and 8.1)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.facts import ReplicaFailed, Truncated
from kafkasim.model.messages import FetchRequest, OffsetsForLeaderEpochRequest
from kafkasim.model.replication.rules import ReplicationRules
from tests.model.replica_harness import TP, Trio, registration


def lookup_trio(rules: ReplicationRules | None = None) -> Trio:
    """Three nodes in lookup mode with one record everywhere, under leader 1 and epoch 1."""
    trio = Trio(rules, inter_broker_protocol_version="2.6")
    trio.tell()
    trio.settle()
    trio.produce(1, 10)
    trio.settle()
    return trio


def values(trio: Trio, node: int) -> list[Any]:
    return [(epoch, value) for _, epoch, value in trio.log(node)]


def sent_by(trio: Trio, node: int) -> list[Any]:
    """Requests of a node that are on their way."""
    return [sent.message for key in trio.requests if key[0] == node for sent in trio.requests[key]]


def diverge(trio: Trio) -> None:
    """1 has x@1/e1, 2 has y@1/e2, then 1 has z@2/e3; node 2 has not heard of epoch 3."""
    trio.produce(1, 11, acks=1)
    trio.elect(2)
    trio.tell(2)
    trio.produce(2, 20, acks=1)
    trio.elect(1)
    trio.tell(1)
    trio.produce(1, 30, acks=1)


def test_a_follower_asks_for_its_last_epoch_then_fetches_without_it() -> None:
    trio = lookup_trio()
    diverge(trio)
    trio.tell(2)
    requests = [m for m in sent_by(trio, 2) if type(m) is OffsetsForLeaderEpochRequest]
    assert [(p.current_leader_epoch, p.leader_epoch) for r in requests for p in r.partitions] == [
        (3, 2)
    ]
    while not any(type(m) is FetchRequest for m in sent_by(trio, 2)):
        key = next(k for k in trio.links() if k[0] == 2 and trio.targets[k] == 1)
        trio.deliver(key)
    (fetch,) = [m for m in sent_by(trio, 2) if type(m) is FetchRequest]
    asked = fetch.partitions[0]
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (1, 3, -1)
    trio.settle()
    assert values(trio, 2) == [(1, 10), (1, 11), (3, 30)]


def test_without_the_epoch_in_the_reply_the_follower_keeps_its_own() -> None:  # B03, KIP-279
    class B03(ReplicationRules):
        def lookup_reply(self, epoch: int, end_offset: int) -> tuple[int, int]:
            return -1, end_offset

    trio = lookup_trio(B03())
    diverge(trio)
    trio.tell(2)
    trio.settle()
    assert values(trio, 2) == [(1, 10), (2, 20), (3, 30)]


def test_truncation_to_the_high_watermark_drops_what_was_acknowledged() -> None:  # B01, KIP-101
    class B01(ReplicationRules):
        def looks_up_epochs(self, log: Any) -> bool:
            return False

    kept: dict[bool, list[Any]] = {}
    for broken in (False, True):
        trio = lookup_trio(B01() if broken else None)
        trio.produce(1, 11)
        for key in list(trio.links()):  # both fetch record 1 and acknowledge it
            trio.deliver(key)
        for key in list(trio.links()):
            trio.deliver(key)
        for key in list(trio.links()):
            trio.deliver(key)
        assert trio.nodes[1].partition.log.high_watermark == 2
        assert trio.nodes[3].partition.log.high_watermark == 1
        trio.elect(2)
        trio.tell(2, 3)
        kept[broken] = values(trio, 3)
    assert kept == {False: [(1, 10), (1, 11)], True: [(1, 10)]}


def test_a_reply_for_another_leader_epoch_is_dropped() -> None:  # KIP-320
    trio = lookup_trio()
    diverge(trio)
    trio.tell(2)
    key = next(k for k in trio.links() if k[0] == 2 and trio.targets[k] == 1)
    trio.deliver(key)  # the leader answers under epoch 3
    trio.elect(1)
    trio.tell(2)
    trio.deliver(key)
    assert values(trio, 2) == [(1, 10), (2, 20)]
    trio.tell(1)
    trio.settle()
    trio.advance(1_000_000)
    trio.settle()
    assert values(trio, 2) == [(1, 10), (1, 11), (3, 30)]


def test_fenced_lookups_fail_and_others_wait() -> None:
    trio = lookup_trio()
    diverge(trio)
    trio.registration = registration(1, 2, 2)
    trio.nodes[1].leader.leader_epoch = 9
    trio.tell(3)
    trio.settle()
    failed = [f for n, f in trio.facts if type(f) is ReplicaFailed and n == 3]
    assert [f.reason for f in failed] == [Errors.FENCED_LEADER_EPOCH.name]


def test_an_empty_epoch_cache_means_the_high_watermark_in_either_mode() -> None:  # B77's path
    trio = Trio()
    trio.tell()
    trio.settle()
    for record in (10, 11):
        trio.produce(1, record, acks=1)
    trio.settle()
    partition = trio.nodes[3].partition
    partition.log.epochs.clear()
    partition.log.high_watermark = 1
    trio.elect(2)
    trio.tell(3)
    assert [(f.log_end_offset, f.offset) for n, f in trio.facts if type(f) is Truncated] == [(2, 1)]
    fetcher = trio.nodes[3].replicas.fetchers.threads[(2, 0)]
    assert (list(fetcher.states.fetching), list(fetcher.states.truncating)) == ([TP], [])
