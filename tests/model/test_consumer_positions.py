"""Consumer: where positions come from, what of them may be committed, errors that only wait."""

from __future__ import annotations

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Positioned
from kafkasim.model.messages import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetsForLeaderEpochRequest,
)
from tests.model.client_harness import Harness
from tests.model.test_consumer_group import T0, Group, polled, start


def new_leader(h: Harness, group: Group, epoch: int = 1) -> None:
    """Elect broker 1, and let the client hear of it."""
    h.cluster.leaders[T0] = (1, epoch)
    group.epoch = epoch
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    h.run(300)


def test_a_position_of_a_reset_is_not_validated() -> None:  # it has no epoch
    h, group = start(records=6, auto_offset_reset="latest")
    polled(h, 500)
    group.epoch_answer = (0, 4)
    new_leader(h, group)
    polled(h, 500)
    assert h.cluster.requests(OffsetsForLeaderEpochRequest) == []
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(6, "latest")]


def test_a_position_that_is_being_validated_is_not_committed() -> None:  # allConsumed
    h, group = start(records=3, auto_commit_interval_ms=100)
    polled(h)
    h.cluster.handlers[OffsetsForLeaderEpochRequest] = lambda _n, _m: None  # type: ignore[assignment]
    new_leader(h, group)
    polled(h, 1000)
    polled(h, 10)
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 1
    assert group.committed == {}


def test_an_unknown_leader_epoch_is_asked_again_without_new_metadata() -> None:
    h, group = start(records=3)
    asked = len(h.cluster.requests(MetadataRequest))
    errors = [Errors.UNKNOWN_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR]
    fetch = h.cluster.handlers[FetchRequest]

    def refuse(node: str, m: FetchRequest) -> object:
        if not errors:
            return fetch(node, m)
        part = FetchPartitionResponse(T0, errors.pop(0), -1, -1, -1, ())
        return FetchResponse(NONE, (part,))

    h.cluster.handlers[FetchRequest] = refuse
    assert [r[0] for r in polled(h, 2000)[1][T0]] == [0, 1, 2]
    assert errors == []
    assert len(h.cluster.requests(MetadataRequest)) - asked <= 1
    assert group.generation == 1


def test_a_committed_epoch_above_that_of_the_metadata_waits_for_newer_metadata() -> None:
    """Metadata.currentLeader: the deposed leader that stale metadata names is not asked."""
    h, group = start(records=4)
    found = OffsetFetchResponse(NONE, (OffsetFetchPartitionResponse(T0, 3, 1, "", NONE),))
    h.cluster.handlers[OffsetFetchRequest] = lambda _n, _m: found
    group.epoch_answer = (-1, -1)  # of a leader that knows no epoch 1
    polled(h, 500)
    asked = len(h.cluster.requests(MetadataRequest))
    polled(h, 2000)
    assert len(h.cluster.requests(MetadataRequest)) == asked == 2  # the second for the epoch
    assert (
        h.cluster.requests(OffsetsForLeaderEpochRequest) == h.cluster.requests(FetchRequest) == []
    )
    group.epoch_answer = (1, 4)
    new_leader(h, group)
    assert [r[0] for r in polled(h, 500)[1][T0]] == [3]
    (check,) = h.cluster.requests(OffsetsForLeaderEpochRequest)
    assert (check.partitions[0].current_leader_epoch, check.partitions[0].leader_epoch) == (1, 1)
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(3, "committed")]
