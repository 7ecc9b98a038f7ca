"""Share groups in the group coordinator (GroupMetadataManagerTest, KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareGroupAssigned, ShareGroupState
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
    OffsetDeleteRequest,
)
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedShareGroup,
    DescribedShareGroupMember,
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupOffset,
)
from tests.model.consumer_group_harness import joining
from tests.model.group_harness import GROUP, T0, commit, fetch, heartbeat, join, leave, sync
from tests.model.share_group_harness import (
    NONE,
    ORDERS,
    ShareGroupBench,
    beats,
    joins,
    leaves,
    names,
)

BOTH = ((ORDERS, (0, 1)),)


@pytest.fixture
def bench() -> ShareGroupBench:
    bench = ShareGroupBench()
    bench.elect()
    return bench


# --------------------------------------------------------------------------- joining, assigning


def test_a_member_is_assigned_what_is_initialized(bench: ShareGroupBench) -> None:
    first = bench.get(joins("a"))
    assert first == ShareGroupHeartbeatResponse(NONE, "a", 1, 5000, ())
    assert bench.persister.asked == [
        ("initialize", GROUP, ORDERS, 0, 1, -1),
        ("initialize", GROUP, ORDERS, 1, 1, -1),
    ]
    assert bench.get(beats("a", 1)) == ShareGroupHeartbeatResponse(NONE, "a", 2, 5000, BOTH)
    assert bench.get(beats("a", 2)) == ShareGroupHeartbeatResponse(NONE, "a", 2, 5000, None)
    assert bench.get(beats("a", 2, "orders")).assignment == BOTH
    assert bench.seen(ShareGroupState) == [
        ShareGroupState(GROUP, "Stable", 1, ("a",), "heartbeat of a, epoch 0"),
        ShareGroupState(GROUP, "Stable", 2, ("a",), "heartbeat of a, epoch 1"),
    ]
    assert bench.seen(ShareGroupAssigned)[1] == ShareGroupAssigned(
        GROUP, 2, "a", ("orders-0", "orders-1")
    )


def test_more_members_than_partitions_share_them(bench: ShareGroupBench) -> None:
    bench.join("a")
    for member in ("b", "c"):
        bench.get(joins(member))
    epochs = {member: bench.share_group().members[member].member_epoch for member in "abc"}
    answers = {
        member: bench.get(beats(member, epoch, "orders")) for member, epoch in epochs.items()
    }
    assert {answer.member_epoch for answer in answers.values()} == {4}
    given = [number for a in answers.values() for _, some in a.assignment for number in some]
    assert sorted(set(given)) == [0, 1]
    assert len(given) >= 3


def test_the_epoch_before_is_good_once_and_others_are_fenced(bench: ShareGroupBench) -> None:
    bench.join("a")
    assert bench.get(beats("a", 1)).member_epoch == 2
    assert bench.get(beats("a", 3)).error is Errors.FENCED_MEMBER_EPOCH
    assert bench.get(joins("a")).error is Errors.FENCED_MEMBER_EPOCH
    bench.get(leaves("a"))
    assert bench.get(joins("a")).member_epoch == 4


def test_a_member_that_subscribes_otherwise_raises_the_epoch(bench: ShareGroupBench) -> None:
    bench.set_topic("more", 1)
    bench.join("a")
    assert bench.get(beats("a", 2, "more")).member_epoch == 3
    answer = bench.get(beats("a", 3))
    assert answer.assignment == (("id-more", (0,)),)
    rack = replace(beats("a", 4), rack_id="r1")
    assert bench.get(rack).member_epoch == 5  # the initialized orders are assigned to nobody
    assert bench.share_group().members["a"].rack_id == "r1"


def test_a_topic_with_more_partitions_is_initialized_further(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.set_topic("orders", 3)
    assert bench.get(beats("a", 2)).member_epoch == 3
    assert bench.persister.asked[2:] == [("initialize", GROUP, ORDERS, 2, 3, -1)]
    assert bench.get(beats("a", 3)).assignment == ((ORDERS, (0, 1, 2)),)


def test_a_subscribed_topic_may_come_later(bench: ShareGroupBench) -> None:
    assert bench.join("a", "later").assignment is None
    assert bench.persister.asked == []
    bench.set_topic("later", 1)
    bench.get(beats("a", 1))
    assert bench.get(beats("a", 2)).assignment == (("id-later", (0,)),)


def test_a_member_leaves_and_a_session_ends(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.get(joins("b"))
    assert bench.get(leaves("b")) == ShareGroupHeartbeatResponse(NONE, "b", -1)
    assert bench.get(leaves("b")).error is Errors.UNKNOWN_MEMBER_ID
    assert bench.get(beats("b", 3)).error is Errors.UNKNOWN_MEMBER_ID
    bench.wait(45)
    assert bench.share_group().members == {}
    assert bench.seen(ShareGroupState)[-1] == ShareGroupState(
        GROUP, "Empty", 5, (), "session of a expired"
    )
    assert bench.timers.next_deadline() is not None  # of the expiry of offsets only


def test_a_session_that_cannot_be_ended_is_tried_again(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.wait(45.2)
    assert list(bench.share_group().members) == ["a"]
    bench.log.error = NONE
    bench.wait(0.5)
    assert bench.share_group().members == {}


def test_settings_of_the_group_come_before_the_brokers(bench: ShareGroupBench) -> None:
    bench.image.group_configs[GROUP] = {
        "share.heartbeat.interval.ms": "7000",
        "share.session.timeout.ms": "50000",
    }
    assert bench.get(joins("a")).heartbeat_interval_ms == 7000
    bench.wait(49)
    assert list(bench.share_group().members) == ["a"]
    bench.wait(2)
    assert bench.share_group().members == {}


# ------------------------------------------------------------------------------ initialization


def test_partitions_that_are_initializing_are_not_begun_twice(bench: ShareGroupBench) -> None:
    """They are again after twice offsets.commit.timeout.ms: the coordinator may have died."""
    bench.persister.error = None
    bench.get(joins("a"))
    bench.get(beats("a", 1))
    assert len(bench.persister.asked) == 2
    bench.wait(9)
    bench.get(beats("a", 1))
    assert len(bench.persister.asked) == 2
    bench.wait(1)
    bench.get(beats("a", 1))
    assert len(bench.persister.asked) == 4


def test_a_failed_initialization_begins_anew(bench: ShareGroupBench) -> None:
    """One share partition has failed: all of the request do."""
    bench.persister.refused[ORDERS, 1] = Errors.COORDINATOR_NOT_AVAILABLE
    bench.get(joins("a"))
    info = bench.share_group().state_partitions
    assert info is not None
    assert (names(info.initializing), names(info.initialized)) == ({}, {})
    bench.persister.refused.clear()
    bench.get(beats("a", 1))
    assert len(bench.persister.asked) == 4
    assert bench.get(beats("a", 1)).assignment == BOTH


def test_an_initialization_that_cannot_be_written_is_undone(bench: ShareGroupBench) -> None:
    bench.persister.error = None
    bench.get(joins("a"))
    bench.auto_replicate = False
    bench.persister.answer()
    bench.settle()
    bench.wait(5.1)  # the record is not committed within offsets.commit.timeout.ms
    bench.auto_replicate = True
    bench.settle()
    info = bench.share_group().state_partitions
    assert info is not None
    assert names(info.initialized) == {ORDERS: (0, 1)}
    assert names(info.initializing) == {}


def test_an_answer_of_the_persister_may_come_too_late(bench: ShareGroupBench) -> None:
    bench.persister.error = None
    bench.get(joins("a"))
    bench.get(leaves("a"))
    bench.group.on_resigned(0, None, bench.now)
    bench.persister.answer()
    bench.settle()
    bench.persister.answer(Errors.UNKNOWN_SERVER_ERROR)
    assert bench.group.shards == {}


# ---------------------------------------------------------------------------- undo and failover


def test_what_a_lost_batch_has_changed_is_undone() -> None:
    bench = ShareGroupBench(group_coordinator_append_linger_ms=5)
    bench.elect()
    asked = bench.ask(joins("a"))
    bench.wait(0.01)
    assert bench.answers[asked].error is NONE
    before = bench.snapshot()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    lost = [bench.ask(joins("b")), bench.ask(leaves("a"))]
    bench.wait(0.01)
    assert [bench.answers[number].error for number in lost] == [
        Errors.COORDINATOR_NOT_AVAILABLE
    ] * 2
    assert bench.snapshot() == before
    assert bench.seen(ShareGroupState)[-1].reason == "reverted"
    new = ShareGroupBench(group_coordinator_append_linger_ms=5)
    new.elect()
    new.log.error = Errors.NOT_ENOUGH_REPLICAS
    new.ask(joins("a"))
    new.wait(0.01)
    assert new.group.shards[0].share_groups == {}
    assert new.seen(ShareGroupState)[-1] == ShareGroupState(GROUP, "Dead", 0, (), "reverted")


def test_a_group_survives_a_failover(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.get(joins("b"))
    before = bench.snapshot()
    after = ShareGroupBench(log=bench.log)
    after.elect(2)
    assert after.snapshot() == before
    assert after.get(beats("a", 2)).member_epoch == 3
    bench.group.on_resigned(0, 2, bench.now)
    bench.settle()
    bench.wait(60)
    assert bench.get(beats("a", 3)).error is Errors.NOT_COORDINATOR
    after.wait(46)
    assert after.share_group().members == {}


# ------------------------------------------------------------------------------- other requests


def test_a_group_is_described_and_listed(bench: ShareGroupBench) -> None:
    bench.join("a")
    member = DescribedShareGroupMember("a", None, 2, "c-a", ("orders",), BOTH)
    described = bench.get(ShareGroupDescribeRequest((GROUP, "nobody", ""))).groups
    assert described == (
        DescribedShareGroup(NONE, GROUP, "Stable", 2, 2, "simple", (member,)),
        DescribedShareGroup(Errors.GROUP_ID_NOT_FOUND, "nobody"),
        DescribedShareGroup(Errors.INVALID_GROUP_ID, ""),
    )
    listed = ListedGroup(GROUP, "share", "Stable", "share")
    assert bench.get(ListGroupsRequest()).groups == (listed,)
    assert bench.get(ListGroupsRequest(types=("share",), states=("stable",))).groups == (listed,)
    assert bench.get(ListGroupsRequest(types=("consumer",))).groups == ()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (join(), Errors.INCONSISTENT_GROUP_PROTOCOL),
        (sync("a", 1), Errors.UNKNOWN_MEMBER_ID),
        (heartbeat("a", 1), Errors.UNKNOWN_MEMBER_ID),
        (leave("a"), Errors.UNKNOWN_MEMBER_ID),
        (joining("z"), Errors.GROUP_ID_NOT_FOUND),
        (OffsetDeleteRequest(GROUP, (T0,)), Errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_other_protocols_do_not_know_a_share_group(
    bench: ShareGroupBench, request_: Any, error: Errors
) -> None:
    bench.join("a")
    assert bench.get(request_).error is error


def test_a_share_group_commits_no_offsets(bench: ShareGroupBench) -> None:
    bench.join("a")
    assert bench.get(commit(5)).results == ((T0, Errors.GROUP_ID_NOT_FOUND),)
    assert bench.get(fetch(T0)).error is NONE
    assert bench.get(DescribeGroupsRequest((GROUP,))).groups[0].error is Errors.GROUP_ID_NOT_FOUND
    modern = bench.get(ConsumerGroupDescribeRequest((GROUP,))).groups[0]
    assert modern.error is Errors.GROUP_ID_NOT_FOUND


def test_a_group_of_another_type_stays_what_it_is(bench: ShareGroupBench) -> None:
    bench.get(joining("a"))
    assert bench.get(joins("b")).error is Errors.GROUP_ID_NOT_FOUND
    assert bench.get(leaves("b")).error is Errors.GROUP_ID_NOT_FOUND


def offsets(*topics: tuple[str, tuple[int, ...]], all_: bool = False) -> Any:
    asked = DescribeShareGroupOffsetsGroup(GROUP, None if all_ else topics)
    return DescribeShareGroupOffsetsRequest((asked,))


def test_offsets_are_read_from_the_share_coordinators(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.persister.refused[ORDERS, 1] = Errors.NOT_COORDINATOR
    found = (ShareGroupOffset(0, 7, 2), ShareGroupOffset(1, -1, 0))
    everything = DescribedShareGroupOffsets(GROUP, topics=(("orders", ORDERS, found),))
    assert bench.get(offsets(all_=True)).groups == (everything,)
    none = ("none", "", (ShareGroupOffset(3, -1, 0),))
    some = bench.get(offsets(("orders", (0,)), ("none", (3,))))
    assert some.groups[0].topics == (none, ("orders", ORDERS, found[:1]))
    assert bench.get(offsets()).groups == (DescribedShareGroupOffsets(GROUP),)
    assert bench.get(DescribeShareGroupOffsetsRequest(())).groups == ()


def test_offsets_of_an_empty_group_are_altered(bench: ShareGroupBench) -> None:
    bench.join("a")
    wanted = (("orders", ((0, 5), (9, 5))), ("none", ((0, 1),)))
    alter = AlterShareGroupOffsetsRequest(GROUP, wanted)
    refused = (("none", "", ((0, Errors.UNKNOWN_TOPIC_OR_PARTITION),)),)
    assert bench.get(alter).error is Errors.NON_EMPTY_GROUP
    bench.get(leaves("a"))
    results = ((0, NONE), (9, Errors.UNKNOWN_TOPIC_OR_PARTITION))
    answer = AlterShareGroupOffsetsResponse(NONE, (*refused, ("orders", ORDERS, results)))
    assert bench.get(alter) == answer
    assert bench.persister.asked[-1] == ("initialize", GROUP, ORDERS, 0, 3, 5)
    info = bench.share_group().state_partitions
    assert info is not None
    assert (names(info.initializing), names(info.initialized)) == ({}, {ORDERS: (0, 1)})
    only = AlterShareGroupOffsetsRequest(GROUP, (("orders", ((9, 1),)),))
    assert bench.get(only).error is NONE
    unknown = AlterShareGroupOffsetsRequest("nobody", wanted[1:])
    assert bench.get(unknown) == AlterShareGroupOffsetsResponse(NONE, refused)


def test_altered_offsets_that_fail_stay_initializing(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.get(leaves("a"))
    bench.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
    alter = AlterShareGroupOffsetsRequest(GROUP, (("orders", ((0, 5),)),))
    assert bench.get(alter).error is NONE
    info = bench.share_group().state_partitions
    assert info is not None
    assert names(info.initializing) == {ORDERS: (0,)}


def test_offsets_of_an_empty_group_are_deleted(bench: ShareGroupBench) -> None:
    bench.set_topic("more", 1)
    bench.join("a")
    wanted = DeleteShareGroupOffsetsRequest(GROUP, ("orders", "more", "none"))
    assert bench.get(wanted).error is Errors.NON_EMPTY_GROUP
    bench.get(leaves("a"))
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    refused = (("more", "", unknown), ("none", "", unknown))
    bench.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
    failed = ("orders", ORDERS, Errors.COORDINATOR_NOT_AVAILABLE)
    assert bench.get(wanted) == DeleteShareGroupOffsetsResponse(NONE, (*refused, failed))
    bench.persister.error = NONE
    assert bench.share_group().state_partitions.deleting == (ORDERS,)  # type: ignore[union-attr]
    deleted = ("orders", ORDERS, NONE)
    assert bench.get(wanted) == DeleteShareGroupOffsetsResponse(NONE, (deleted, *refused))
    assert bench.share_group().state_partitions.deleting == ()  # type: ignore[union-attr]
    assert bench.get(wanted).responses[0] == ("orders", "", unknown)
    nothing = DeleteShareGroupOffsetsRequest(GROUP, ())
    assert bench.get(nothing) == DeleteShareGroupOffsetsResponse(NONE)


def test_a_group_without_share_partitions_has_no_offsets_to_delete(bench: ShareGroupBench) -> None:
    bench.join("a", "none")
    bench.get(leaves("a"))
    answer = bench.get(DeleteShareGroupOffsetsRequest(GROUP, ("orders",)))
    assert answer == DeleteShareGroupOffsetsResponse(NONE)
    assert bench.get(offsets(all_=True)).groups == (DescribedShareGroupOffsets(GROUP),)


def test_a_deleting_topic_that_is_subscribed_again_begins_again(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.get(leaves("a"))
    bench.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
    bench.get(DeleteShareGroupOffsetsRequest(GROUP, ("orders",)))
    bench.persister.error = None
    bench.get(joins("a"))
    info = bench.share_group().state_partitions
    assert info is not None
    assert (names(info.initializing), info.deleting) == ({ORDERS: (0, 1)}, ())


def test_a_group_is_deleted_after_its_states(bench: ShareGroupBench) -> None:
    bench.join("a")
    delete = DeleteGroupsRequest((GROUP, "nobody"))
    unknown = ("nobody", Errors.GROUP_ID_NOT_FOUND)
    assert bench.get(delete).results == ((GROUP, Errors.NON_EMPTY_GROUP), unknown)
    bench.get(leaves("a"))
    bench.persister.error = Errors.NOT_COORDINATOR
    assert bench.get(delete).results == ((GROUP, Errors.NOT_COORDINATOR), unknown)
    bench.persister.error = NONE
    asked = len(bench.persister.asked)
    assert bench.get(delete).results == ((GROUP, NONE), unknown)
    assert bench.persister.asked[asked:] == [
        ("delete", GROUP, ORDERS, 0), ("delete", GROUP, ORDERS, 1),
    ]  # fmt: skip
    assert bench.group.shards[0].share_groups == {}
    assert bench.seen(ShareGroupState)[-1] == ShareGroupState(GROUP, "Dead", 0, (), "group deleted")
    assert bench.get(delete).results == ((GROUP, Errors.GROUP_ID_NOT_FOUND), unknown)


def test_a_group_without_states_is_deleted_at_once(bench: ShareGroupBench) -> None:
    bench.join("a", "none")
    bench.get(leaves("a"))
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, NONE),)


def test_a_deleted_group_whose_topics_are_gone(bench: ShareGroupBench) -> None:
    bench.join("a")
    bench.get(leaves("a"))
    bench.persister.error = Errors.COORDINATOR_NOT_AVAILABLE
    bench.get(DeleteShareGroupOffsetsRequest(GROUP, ("orders",)))
    bench.delete_topic("orders")
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, NONE),)


def test_deleted_topics_are_forgotten(bench: ShareGroupBench) -> None:
    bench.set_topic("more", 1)
    bench.join("a", "orders", "more")
    bench.group.on_topics_deleted(("other",))
    bench.delete_topic("orders")
    bench.group.on_topics_deleted((ORDERS,))
    bench.settle()
    assert bench.share_group().initialized() == {"id-more": (0,)}
    answer = bench.get(beats("a", 2))
    assert (answer.member_epoch, answer.assignment) == (3, (("id-more", (0,)),))


def test_replicas_in_another_rack_raise_the_epoch(bench: ShareGroupBench) -> None:
    for broker in (1, 2):
        bench.set_rack(broker, f"rack-{broker}")
    epoch = bench.join("a").member_epoch
    bench.move_replicas("orders", 2)
    moved = bench.get(beats("a", epoch)).member_epoch
    bench.move_replicas("orders", 2, 3)
    assert (moved, bench.get(beats("a", moved)).member_epoch) == (epoch + 1, epoch + 1)
