"""Consumer: where positions come from, what of them may be committed, errors that only wait."""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Polled, Positioned
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


def test_the_epoch_of_an_offset_that_committed_returns_refuses_older_metadata() -> None:
    """KafkaConsumer.committed: updateLastSeenEpochIfNewer for each offset."""
    h, group = start(records=4)
    fetch = h.cluster.handlers[FetchRequest]
    h.cluster.handlers[FetchRequest] = lambda n, m: fetch(n, m) or FetchResponse(NONE, ())
    polled(h)
    h.run(100)  # until no fetch is under way
    found = OffsetFetchResponse(NONE, (OffsetFetchPartitionResponse(T0, 3, 1, "", NONE),))
    h.cluster.handlers[OffsetFetchRequest] = lambda _n, _m: found
    assert h.result("committed", (T0,)) == {T0: 3}
    h.result("seek", T0, 3)
    seen = len(h.cluster.seen)
    polled(h, 500)
    assert fetches(h, seen) == []  # the leader of epoch 0 is not asked
    new_leader(h, group)
    assert [r[0] for r in polled(h, 500)[1][T0]] == [3]


def test_a_position_has_the_leader_epoch_of_the_record_before_it() -> None:
    """ConsumerRecords.nextOffsets (KIP-1094)."""
    h, group = start(records=3)
    group.epoch = 4
    h.cluster.leaders[T0] = (0, 4)
    polled(h, 500)
    assert h.result("position", T0) == 3
    assert h.result("next_offset", T0) == (3, 4)
    h.call("seek", T0, 1)
    assert h.result("next_offset", T0) == (1, -1)  # no record of it is known


def fetches(h: Harness, since: int = 0) -> list[tuple[str, int]]:
    """Return (node, current leader epoch) of the fetches that name the partition."""
    return [
        (node, part.current_leader_epoch)
        for node, message in h.cluster.seen[since:]
        if type(message) is FetchRequest
        for part in message.partitions
    ]


def test_a_position_stays_with_its_leader_while_metadata_names_none() -> None:
    """maybeValidatePosition: without a leader the position is not validated, but fetched on."""
    h, group = start(records=3)
    polled(h)
    fetch = h.cluster.handlers[FetchRequest]
    h.cluster.handlers[FetchRequest] = lambda _n, _m: FetchResponse(NONE, ())  # nothing new
    h.cluster.leaders[T0] = (-1, 1)
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    h.run(300)
    seen = len(h.cluster.seen)
    group.logs[T0] = 5
    h.cluster.handlers[FetchRequest] = fetch
    assert [r[0] for r in polled(h, 1000)[1][T0]] == [3, 4]
    assert {*fetches(h, seen)} <= {("broker-0", 0)}
    assert h.cluster.requests(OffsetsForLeaderEpochRequest) == []
    new_leader(h, group, epoch=2)
    seen = len(h.cluster.seen)
    group.logs[T0] = 6
    assert [r[0] for r in polled(h, 1000)[1][T0]] == [5]
    assert {*fetches(h, seen)} == {("broker-1", 2)}
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 1


def test_a_position_is_fetched_with_its_own_epoch_until_metadata_has_the_newer_one() -> None:
    """AbstractFetch.prepareFetchRequests: the answer's epoch is news, not yet the position's."""
    h, group = start(records=0)
    group.epoch = 1  # the answer to ListOffsets tells of it
    polled(h, 500)  # metadata names epoch 0 all the time
    assert fetches(h) == [("broker-0", 0)]
    new_leader(h, group)
    polled(h, 500)
    assert fetches(h) == [("broker-0", 0), ("broker-1", 1)]


def test_a_newer_leader_validates_at_once_what_a_deposed_one_does_not_answer() -> None:
    h, group = start(records=3)
    polled(h)
    answer = h.cluster.handlers[OffsetsForLeaderEpochRequest]
    h.cluster.handlers[OffsetsForLeaderEpochRequest] = lambda node, m: (
        None if m.partitions[0].current_leader_epoch == 1 else answer(node, m)
    )
    new_leader(h, group)
    polled(h, 200)
    h.cluster.leaders[T0], group.epoch, group.logs[T0] = (1, 2), 2, 4
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    assert [r[0] for r in polled(h, 1000)[1][T0]] == [3]
    asked = h.cluster.requests(OffsetsForLeaderEpochRequest)
    assert [m.partitions[0].current_leader_epoch for m in asked] == [1, 2]


def test_a_position_is_validated_when_the_throttle_time_of_its_leader_is_over() -> None:
    h, group = start(records=3)
    fetch = h.cluster.handlers[FetchRequest]

    def answer(node: str, m: FetchRequest) -> object:
        found = fetch(node, m)
        return None if found is None else replace(found, throttle_time_ms=900)

    h.cluster.handlers[FetchRequest] = answer
    polled(h)
    h.cluster.leaders[T0], group.epoch = (0, 1), 1
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    polled(h, 800)
    assert h.cluster.requests(OffsetsForLeaderEpochRequest) == []
    polled(h, 200)
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 1


def test_a_topic_created_again_validates_a_position_of_a_higher_epoch() -> None:
    """The new topic's leader and epoch differ from the position's, which is all that counts."""
    h, group = start(records=3)
    h.cluster.leaders[T0], group.epoch = (0, 7), 7
    polled(h)
    group.epoch_answer = (-1, -1)
    metadata = h.cluster.metadata

    def again(node: str, m: MetadataRequest) -> object:
        known = metadata(node, m)
        return replace(known, topics=tuple([replace(t, topic_id="id-2") for t in known.topics]))

    h.cluster.handlers[MetadataRequest] = again
    new_leader(h, group, epoch=0)
    polled(h, 500)
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 1
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(0, "earliest"), (0, "earliest")]


def test_a_leader_that_a_refusal_names_validates_the_position_without_new_metadata() -> None:
    """handleFetchSuccess: the refused fetch of a position that is validated asks for nothing."""
    h, group = start(records=3)
    polled(h)
    h.run(200)
    asked = len(h.cluster.requests(MetadataRequest))
    fetch = h.cluster.handlers[FetchRequest]

    def refuse(node: str, m: FetchRequest) -> object:
        if node == "broker-1":
            return fetch(node, m)
        named = (1, 1)
        part = FetchPartitionResponse(
            T0, Errors.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, (), current_leader=named
        )
        return FetchResponse(NONE, (part,))

    h.cluster.handlers[FetchRequest] = refuse
    group.logs[T0], group.epoch = 4, 1
    seen = len(h.cluster.seen)
    for connection, correlation, message in h.withheld:
        if type(message) is FetchRequest:
            h.respond(connection, correlation, refuse("broker-0", message))
    assert [r[0] for r in polled(h, 1000)[1][T0]] == [3]
    assert fetches(h, seen) == [("broker-1", 1)]
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 1
    assert len(h.cluster.requests(MetadataRequest)) == asked


def test_records_are_told_of_the_topic_that_was_asked_for_them() -> None:
    """The topic was created again, and is fetched from another node, before the answer comes.

    Its records are returned all the same: FetchCollector.fetchRecords asks for the position alone.
    """
    h, group = start(records=0)
    polled(h, 500)
    fetch, metadata = h.cluster.handlers[FetchRequest], h.cluster.metadata
    asked = h.withheld[-1]

    def again(node: str, m: MetadataRequest) -> object:
        known = metadata(node, m)
        return replace(known, topics=tuple([replace(t, topic_id="id-2") for t in known.topics]))

    h.cluster.handlers[MetadataRequest] = again
    new_leader(h, group, epoch=0)
    polled(h, 500)
    now = h.withheld[-1]
    assert [m.partitions[0].topic_id for _, _, m in (asked, now)] == ["id-t", "id-2"]
    group.logs[T0] = 1
    h.respond(*asked[:2], fetch("broker-0", asked[2]))
    polled(h, 500)
    assert [(p.topic_id, p.offsets) for p in h.of(Polled)] == [("id-t", (0,))]
