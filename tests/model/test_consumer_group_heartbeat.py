"""ConsumerGroupHeartbeat at the coordinator (KIP-848; GroupMetadataManagerTest)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Group39, Group41
from tests.model.consumer_group_harness import (
    GROUP,
    ConsumerBench,
    beat,
    joining,
    leaving,
)
from tests.model.group_harness import commit, fetch, heartbeat, join, leave, offsets, sync

ORDERS = (("id-orders", (0, 1, 2)),)


def answered(epoch: int, assignment: Any = None, member: str = "a") -> Any:
    return ConsumerGroupHeartbeatResponse(Errors.NONE, member, epoch, 5000, assignment)


def refused(error: Errors) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error)


# Joining and reconciling.


def test_the_first_member_is_given_everything_at_epoch_one() -> None:
    bench = ConsumerBench().elect()
    assert bench.get(joining("a")) == answered(1, ORDERS)
    assert bench.get(beat("a", 1)) == answered(1)
    assert bench.states() == [("Stable", 1)]


def test_a_second_member_waits_for_what_the_first_revokes() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    assert bench.get(joining("b")) == answered(2, (), "b")
    # The first stays at its epoch until it no longer reports partition 2.
    assert bench.get(beat("a", 1)) == answered(1, (("id-orders", (0, 1)),))
    assert bench.get(beat("b", 2)) == answered(2, None, "b")
    assert bench.get(beat("a", 1, ORDERS)) == answered(1)
    assert bench.get(beat("a", 1, (("id-orders", (0, 1)),))) == answered(2)
    assert bench.get(beat("b", 2)) == answered(2, (("id-orders", (2,)),), "b")
    assert bench.states() == [("Stable", 1), ("Reconciling", 2), ("Stable", 2)]


def test_a_lost_answer_is_given_again_to_the_previous_epoch() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.get(joining("b"))
    kept = (("id-orders", (0, 1)),)
    bench.get(beat("a", 1))
    assert bench.get(beat("a", 1, kept)) == answered(2)
    assert bench.get(beat("a", 1, kept)) == answered(2)
    assert bench.get(beat("a", 1, ORDERS)) == refused(Errors.FENCED_MEMBER_EPOCH)
    assert bench.get(beat("a", 1)) == refused(Errors.FENCED_MEMBER_EPOCH)
    assert bench.get(beat("a", 3, kept)) == refused(Errors.FENCED_MEMBER_EPOCH)


def test_a_member_that_leaves_releases_at_once() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    assert bench.get(leaving("a")) == ConsumerGroupHeartbeatResponse(Errors.NONE, "a", -1, 0, None)
    assert bench.get(beat("a", 1)) == refused(Errors.UNKNOWN_MEMBER_ID)
    assert bench.get(joining("b")) == answered(3, ORDERS, "b")
    assert bench.states() == [("Stable", 1), ("Empty", 2), ("Stable", 3)]


def test_a_silent_member_is_fenced_after_its_session() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.wait(44)
    bench.get(beat("a", 1))
    bench.wait(44)
    assert bench.states() == [("Stable", 1)]
    bench.wait(2)
    assert bench.states() == [("Stable", 1), ("Empty", 2)]


def test_a_member_that_does_not_revoke_in_time_is_fenced() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", rebalance_timeout_ms=10_000))
    bench.get(joining("b"))
    bench.get(beat("a", 1))
    bench.wait(9)
    assert bench.get(beat("a", 1, ORDERS)) == answered(1)
    bench.wait(2)
    assert bench.get(beat("a", 1, ORDERS)) == refused(Errors.UNKNOWN_MEMBER_ID)
    assert bench.get(beat("b", 2)) == answered(3, ORDERS, "b")


def test_a_slow_member_holds_only_its_own_partitions_back() -> None:
    """The third member gets at once what the second one has released."""
    bench = ConsumerBench(orders=6).elect()
    bench.converge("a", "b")
    bench.get(joining("c"))
    a, b = bench.owned("a"), bench.owned("b")
    bench.get(beat("a", 2, a))
    told = bench.get(beat("b", 2, b)).assignment
    assert bench.get(beat("b", 2, told)).member_epoch == 3
    assert bench.get(beat("c", 3)) == answered(3, (("id-orders", (5,)),), "c")


# Refusals, in Kafka's order.


def wrong(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    known: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ("orders",),
        "topic_partitions": (),
    }
    return ConsumerGroupHeartbeatRequest(**{**known, **fields})


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, Errors.INVALID_REQUEST),
        ({"member_id": " "}, Errors.INVALID_REQUEST),
        ({"instance_id": ""}, Errors.INVALID_REQUEST),
        ({"rack_id": ""}, Errors.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Errors.INVALID_REQUEST),
        ({"topic_partitions": None}, Errors.INVALID_REQUEST),
        ({"topic_partitions": ORDERS}, Errors.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Errors.INVALID_REQUEST),
        ({"member_epoch": -2}, Errors.INVALID_REQUEST),
        ({"member_epoch": -3}, Errors.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, Errors.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "sticky", "rack_id": ""}, Errors.INVALID_REQUEST),
        ({"member_epoch": 1}, Errors.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, Errors.GROUP_ID_NOT_FOUND),
        ({"subscribed_topic_regex": "("}, Errors.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(a)\\1"}, Errors.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a(?=b)"}, Errors.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_a_heartbeat_is_refused_for(fields: dict[str, Any], error: Errors) -> None:
    bench = ConsumerBench().elect()
    assert bench.get(wrong(**fields)) == refused(error)
    assert bench.log.end(bench.tp) == 0


def test_a_full_group_takes_no_new_member() -> None:
    bench = ConsumerBench(group_consumer_max_size=1).elect()
    bench.get(joining("a"))
    assert bench.get(joining("b")) == refused(Errors.GROUP_MAX_SIZE_REACHED)
    assert bench.get(joining("a")) == answered(1, ORDERS)


def test_another_coordinator_serves_or_loads() -> None:
    bench = ConsumerBench()
    assert bench.get(joining("a")) == refused(Errors.NOT_COORDINATOR)
    bench.group.on_elected(0, 1, 0)
    assert bench.group.shards[0].context.is_active is False
    bench.ask_only(joining("a"))
    assert bench.answers[bench.last] == refused(Errors.COORDINATOR_LOAD_IN_PROGRESS)


def test_the_protocol_needs_its_feature_and_its_setting() -> None:
    old = ConsumerBench()
    old.image.features["metadata.version"] = 21
    off = ConsumerBench(group_coordinator_rebalance_protocols=("classic",))
    scala = ConsumerBench(new_coordinator=False)
    without = ConsumerBench()
    without.image.features["group.version"] = 0
    for bench in (old, off, scala, without):
        assert bench.elect().get(joining("a")) == refused(Errors.UNSUPPORTED_VERSION)


def test_the_preview_of_3_9_needs_its_setting_alone() -> None:
    """KafkaApis.isConsumerGroupProtocolEnabled looks at group.version since 4.0."""
    bench = ConsumerBench(rules=Group39())
    bench.image.features["metadata.version"] = 21
    assert bench.elect().get(joining("a")).error is Errors.NONE


# Static members.


def test_a_static_member_comes_back_to_its_partitions() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", instance_id="i"))
    assert bench.get(joining("a2", instance_id="i")) == refused(Errors.UNRELEASED_INSTANCE_ID)
    bench.get(leaving("a", epoch=-2, instance_id="i"))
    assert bench.get(joining("b")) == answered(2, (), "b")
    back = bench.get(joining("a2", instance_id="i"))
    assert (back.member_epoch, back.assignment) == (2, (("id-orders", (0, 1)),))
    assert bench.get(beat("a", 1, instance_id="i")) == refused(Errors.FENCED_INSTANCE_ID)
    assert bench.get(beat("x", 1, instance_id="j")) == refused(Errors.UNKNOWN_MEMBER_ID)


def test_a_static_member_whose_join_had_no_answer_is_refused_until_its_session_ends() -> None:
    """A weak point of Kafka 4.0 and 4.1: it is refused in favour of itself."""
    bench = ConsumerBench().elect()
    assert bench.get(joining("a", instance_id="i")) == answered(1, ORDERS)
    assert bench.get(joining("a", instance_id="i")) == refused(Errors.UNRELEASED_INSTANCE_ID)
    bench.wait(46)
    assert bench.get(joining("a", instance_id="i")) == answered(3, ORDERS)


def test_a_leave_that_cannot_be_written_leaves_a_member_without_a_session() -> None:
    """A weak point of Kafka 4.0 and 4.1: its timers are cancelled before the write."""
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.get(leaving("a")) == refused(Errors.COORDINATOR_NOT_AVAILABLE)
    bench.log.error = Errors.NONE
    bench.wait(600)
    assert list(bench.consumer_group().members) == ["a"]
    after = ConsumerBench(log=bench.log, now=bench.now).elect(2)
    after.wait(46)
    assert list(after.consumer_group().members) == []


def test_a_static_restart_alone_changes_nothing() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", instance_id="i"))
    bench.get(leaving("a", epoch=-2, instance_id="i"))
    assert bench.get(joining("a2", instance_id="i")) == answered(1, ORDERS, "a2")
    assert [g for s, g in bench.states() if s == "Stable"] == [1, 1]


def test_a_static_member_that_stays_away_is_fenced_after_its_session() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", instance_id="i"))
    bench.get(leaving("a", epoch=-2, instance_id="i"))
    bench.wait(46)
    assert bench.get(joining("b")) == answered(3, ORDERS, "b")


# Topics and expressions.


def test_new_partitions_are_assigned_with_the_next_heartbeat() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.set_topic("orders", 4)
    assert bench.get(beat("a", 1)) == answered(2, (("id-orders", (0, 1, 2, 3)),))


def test_a_deleted_topic_is_taken_away_and_need_not_be_revoked_twice() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.delete_topic("orders")
    assert bench.get(beat("a", 1)) == answered(1, ())
    assert bench.get(beat("a", 1, ())) == answered(2)


def test_an_expression_is_resolved_beside_the_lane_and_again_for_new_topics() -> None:
    bench = ConsumerBench().elect()
    bench.set_topic("other", 1)
    regex = joining("a", topics=None, subscribed_topic_regex="or.*")
    assert bench.get(regex) == answered(1, ())
    assert bench.get(beat("a", 1)) == answered(2, ORDERS)
    bench.set_topic("oranges", 1)
    assert bench.get(beat("a", 2)) == answered(2)  # not within ten seconds
    bench.wait(11)
    bench.get(beat("a", 2))
    assert bench.get(beat("a", 2)) == answered(3, (("id-oranges", (0,)), *ORDERS))


def test_an_expression_matches_no_topic_that_its_member_may_not_describe() -> None:
    """GroupMetadataManager.filterTopicDescribeAuthorizedTopics."""
    bench = ConsumerBench().elect()
    bench.set_topic("oranges", 1)
    regexes = bench.group.consumer_groups.regexes
    regexes.may_describe = lambda _connection: lambda topic: topic != "oranges"
    bench.get(joining("a", topics=None, subscribed_topic_regex="or.*"))
    assert bench.get(beat("a", 1)) == answered(2, ORDERS)


def test_the_last_subscriber_takes_its_expression_along() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", topics=None, subscribed_topic_regex="or.*"))
    bench.get(beat("a", 1))
    group = bench.consumer_group()
    assert list(group.regexes) == ["or.*"]
    bench.get(leaving("a"))
    assert (group.regexes, group.metadata) == ({}, {})


def test_most_members_choose_the_assignor() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", server_assignor="range"))
    described = bench.get(ConsumerGroupDescribeRequest((GROUP, "nobody")))
    assert [(g.error, g.assignor_name, g.group_state) for g in described.groups] == [
        (Errors.NONE, "range", "Stable"),
        (Errors.GROUP_ID_NOT_FOUND, "", ""),
    ]
    assert described.groups[0].members[0].assignment == ORDERS


# Offsets.


def test_commits_and_fetches_need_the_members_epoch() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    tp = TopicPartition("orders", 0)

    def result(member: str, epoch: int) -> Errors:
        return bench.get(commit(5, member, epoch, tp)).results[0][1]

    assert result("a", 1) is Errors.NONE
    assert result("a", 0) is Errors.STALE_MEMBER_EPOCH
    assert result("b", 1) is Errors.UNKNOWN_MEMBER_ID
    assert result("", -1) is Errors.UNKNOWN_MEMBER_ID  # not while there are members
    asked = fetch(tp)
    assert offsets(bench.get(asked)) == {tp: 5}
    stale = type(asked)(GROUP, (tp,), True, "a", 7)
    unknown = type(asked)(GROUP, (tp,), True, "b", 1)
    assert bench.get(stale).error is Errors.STALE_MEMBER_EPOCH
    assert bench.get(unknown).error is Errors.UNKNOWN_MEMBER_ID
    bench.get(leaving("a"))
    assert result("", -1) is Errors.NONE


def test_offsets_of_an_empty_group_expire_and_take_the_group_along() -> None:
    bench = ConsumerBench(offsets_retention_minutes=10).elect()
    bench.get(joining("a"))
    bench.get(commit(5, "a", 1, TopicPartition("orders", 0)))
    bench.wait(1)
    bench.get(leaving("a"))
    bench.wait(1201)
    assert bench.group.shards[0].consumer_groups == {}
    assert bench.group.shards[0].offsets == {}


# Classic groups.


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    bench = ConsumerBench().elect()
    bench.get(commit(5, tp=TopicPartition("orders", 0)))
    assert bench.get(joining("a")) == answered(1, ORDERS)
    assert bench.get(heartbeat("a", 1)).error is Errors.UNKNOWN_MEMBER_ID
    assert bench.get(sync("a", 1)).error is Errors.UNKNOWN_MEMBER_ID
    bench.get(leaving("a"))
    assert bench.get(leave("a")).members == (("a", None, Errors.UNKNOWN_MEMBER_ID),)
    assert bench.get(join(client="c")).error is Errors.MEMBER_ID_REQUIRED
    assert bench.get(joining("a")) == answered(1, ORDERS)


def test_a_classic_group_with_members_is_no_consumer_group_if_migration_is_disabled() -> None:
    bench = ConsumerBench(group_consumer_migration_policy="disabled").elect()
    bench.form("c")
    assert bench.get(joining("a")) == refused(Errors.GROUP_ID_NOT_FOUND)


# The log.


def test_a_new_coordinator_goes_on_in_the_middle_of_a_reconciliation() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.get(joining("b"))
    bench.get(beat("a", 1))
    after = ConsumerBench(log=bench.log).elect(2)
    assert after.snapshot() == bench.snapshot()
    assert after.get(beat("a", 1, (("id-orders", (0, 1)),))) == answered(2)
    assert after.get(beat("b", 2)) == answered(2, (("id-orders", (2,)),), "b")


def test_a_new_coordinator_waits_for_revocations_too() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a", rebalance_timeout_ms=10_000))
    bench.get(joining("b"))
    bench.get(beat("a", 1))
    after = ConsumerBench(log=bench.log).elect(2)
    after.wait(11)
    assert after.get(beat("a", 1)) == refused(Errors.UNKNOWN_MEMBER_ID)


def test_a_failed_append_changes_nothing() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    before = bench.snapshot()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.get(joining("b")) == refused(Errors.COORDINATOR_NOT_AVAILABLE)
    assert bench.get(leaving("a")) == refused(Errors.COORDINATOR_NOT_AVAILABLE)
    assert bench.snapshot() == before
    bench.log.error = Errors.NONE
    assert bench.get(joining("b")) == answered(2, (), "b")


def test_a_session_that_cannot_be_ended_is_ended_later() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.wait(46)
    assert bench.states() == [("Stable", 1)]
    bench.log.error = Errors.NONE
    bench.wait(1)
    assert bench.states() == [("Stable", 1), ("Empty", 2)]


def test_the_answer_waits_for_the_commit() -> None:
    bench = ConsumerBench().elect()
    bench.auto_replicate = False
    asked = bench.ask(joining("a"))
    assert asked not in bench.answers
    bench.replicate()
    assert bench.answers[asked] == answered(1, ORDERS)


def test_what_the_trace_holds() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("a"))
    bench.get(leaving("a"))
    owned = [(f.generation, f.member_id, f.assignment) for f in bench.seen(facts.GroupAssigned)]
    assert owned == [(1, "a", ("orders-0", "orders-1", "orders-2")), (2, "a", ())]
    asked = bench.seen(facts.MemberRequest)
    assert [(f.api, f.generation) for f in asked] == [
        ("ConsumerGroupHeartbeat", e) for e in (0, -1)
    ]


def test_the_rule_of_epochs_can_be_overridden() -> None:
    class Lax(GroupRules):
        def check_member_epoch(self, received: int, expected: int) -> Errors:
            return Errors.NONE

    bench = ConsumerBench(rules=Lax()).elect()
    bench.get(joining("a"))
    tp = TopicPartition("orders", 0)
    assert bench.get(commit(5, "a", 7, tp)).results == ((tp, Errors.NONE),)


@pytest.mark.parametrize(
    ("rules", "epochs"), [(GroupRules(), [1, 1, 1, 1]), (Group41(), [1, 2, 2, 3])]
)
def test_replicas_in_other_racks_raise_the_epoch_since_4_1(
    rules: GroupRules, epochs: list[int]
) -> None:
    """Utils.computeTopicHash: a sorted list for each partition, of registered brokers only."""
    bench = ConsumerBench(rules=rules).elect()
    for broker, rack in ((1, "rack-a"), (2, "rack-b"), (3, "rack-b"), (4, None)):
        bench.set_rack(broker, rack)
    seen = [bench.get(joining("a")).member_epoch]
    for replicas in ((1, 2), (3, 4, 1), (2, 3, 1)):
        bench.move_replicas("orders", *replicas)
        seen.append(bench.get(beat("a", seen[-1])).member_epoch)
    assert seen == epochs


def test_racks_are_compared_when_a_member_leaves() -> None:
    bench = ConsumerBench(rules=Group41()).elect()
    bench.set_rack(1, "rack-a")
    bench.converge("a", "b")
    before = bench.consumer_group().metadata
    bench.set_rack(1, "rack-b")
    bench.get(leaving("b"))
    bench.settle()
    assert before["orders"].racks == (("rack-a",),) * 3
    assert bench.consumer_group().metadata["orders"].racks == (("rack-b",),) * 3


def kinds(bench: ConsumerBench) -> list[str]:
    """Return the records of the coordinator's log, those that remove something with a minus."""
    (batches,) = bench.log.batches.values()
    return [
        "-" * (record.value is None) + type(record.key).__name__.removeprefix("ConsumerGroup")
        for batch in batches
        for record in batch.records
    ]


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (GroupRules(), ["PartitionMetadataKey", "MetadataKey"]),
        (Group41(), ["MetadataKey"]),  # with a hash (KAFKA-17747)
    ],
)
def test_the_topics_of_a_group_have_a_record_of_their_own_until_4_1(
    rules: GroupRules, written: list[str]
) -> None:
    bench = ConsumerBench(rules=rules).elect()
    bench.get(joining("a"))
    assert kinds(bench)[1 : 1 + len(written)] == written
    assert bench.consumer_group().metadata["orders"].partitions == 3


def test_a_coordinator_of_4_1_removes_the_record_that_one_of_4_0_has_written() -> None:
    """The old group has no hash, so its epoch rises once (updateSubscriptionMetadata)."""
    old = ConsumerBench().elect()
    old.get(joining("a"))
    before = len(kinds(old))
    new = ConsumerBench(old.log, rules=Group41()).elect()
    assert new.get(beat("a", 1)).member_epoch == 2
    assert kinds(new)[before : before + 2] == ["MetadataKey", "-PartitionMetadataKey"]
    assert new.consumer_group().metadata["orders"].partitions == 3
    assert not new.consumer_group().has_metadata_record
