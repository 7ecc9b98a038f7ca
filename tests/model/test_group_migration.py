"""Online migration of a group (KIP-848): a classic group becomes a consumer group, and goes back.

What Kafka 4.0.0 answers to each of these requests is in tests/fidelity/consumer_groups/.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import (
    AssignedPartitions,
    JoinGroupRequest,
    JoinGroupResponse,
    Subscription,
    user_data_of,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Group41
from tests.model.consumer_group_harness import GROUP, ConsumerBench, beat, joining, leaving
from tests.model.group_harness import commit, heartbeat, join, leave, sync

ORDERS = tuple(TopicPartition("orders", i) for i in range(3))


def rejoin(member_id: str, *owned: int, **options: Any) -> JoinGroupRequest:
    """A join of a cooperative member that keeps partitions."""
    told = Subscription(("orders",), tuple(ORDERS[i] for i in owned))
    return JoinGroupRequest(
        GROUP, options.get("session_ms", 10_000), options.get("rebalance_ms", 60_000), member_id,
        options.get("instance"), "consumer", (("range", told),), "c",
    )  # fmt: skip


def migrated(**options: Any) -> tuple[ConsumerBench, str]:
    """A classic group with one member that owns all; then b joins by the consumer protocol."""
    bench = ConsumerBench(**options)
    bench.elect()
    a = bench.member_id("a")
    asked = bench.ask(join(a, client="a"))
    bench.wait(5)
    generation = bench.answers[asked].generation_id
    bench.ask(sync(a, generation, ((a, ORDERS),)))
    assert bench.get(joining("b")).error is Errors.NONE
    return bench, a


def converted(bench: ConsumerBench) -> list[str]:
    return [fact.protocol for fact in bench.seen(facts.GroupConverted)]


def test_a_classic_member_keeps_what_it_owns_until_it_has_joined_again() -> None:
    bench, a = migrated()
    group = bench.consumer_group()
    assert converted(bench) == ["consumer"]
    assert (group.group_epoch, group.members[a].member_epoch) == (2, 1)
    assert bench.owned(a) == (("id-orders", (0, 1, 2)),)
    assert bench.owned("b") == ()
    assert bench.get(heartbeat(a, 1)).error is Errors.REBALANCE_IN_PROGRESS
    assert bench.get(commit(5, a, 1, ORDERS[0])).results == ((ORDERS[0], Errors.NONE),)
    stale = bench.get(commit(5, a, 2, ORDERS[0]))
    assert stale.results == ((ORDERS[0], Errors.ILLEGAL_GENERATION),)
    assert bench.get(rejoin(a)) == JoinGroupResponse(
        Errors.NONE, 2, "consumer", "range", "", False, a, ()
    )
    kept = bench.get(sync(a, 2)).assignment
    assert set(kept) < set(ORDERS)
    bench.get(beat("b", 2))
    freed = [TopicPartition("orders", i) for _, numbers in bench.owned("b") for i in numbers]
    assert sorted([*kept, *freed]) == list(ORDERS)


def test_a_cooperative_member_revokes_in_two_joins() -> None:
    bench, a = migrated()
    first = bench.get(rejoin(a, 0, 1, 2))
    assert first.generation_id == 1  # it stays in its epoch until it has revoked
    kept = bench.get(sync(a, 1)).assignment
    assert bench.get(heartbeat(a, 1)).error is Errors.REBALANCE_IN_PROGRESS
    assert bench.get(beat("b", 2)).assignment is None
    second = bench.get(rejoin(a, *[tp.partition for tp in kept]))
    assert second.generation_id == 2
    assert bench.get(beat("b", 2)).assignment is not None
    assert bench.consumer_group().state.value == "Stable"


def test_the_last_member_of_the_new_protocol_takes_the_group_back() -> None:
    bench, a = migrated()
    bench.get(rejoin(a))
    bench.get(sync(a, 2))
    bench.get(leaving("b"))
    assert converted(bench) == ["consumer", "classic"]
    shard = bench.group.shards[0]
    assert shard.consumer_groups == {}
    assert shard.groups[GROUP].state.value == "PreparingRebalance"
    assert bench.get(heartbeat(a, 2)).error is Errors.REBALANCE_IN_PROGRESS
    again = bench.get(join(a, client="a"))
    assert (again.generation_id, again.leader) == (3, a)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_without_downgrade_the_classic_members_stay_in_a_consumer_group(policy: str) -> None:
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    bench.elect()
    bench.get(joining("b"))
    bench.get(rejoin("c"))
    bench.get(leaving("b"))
    assert converted(bench) == []
    assert list(bench.consumer_group().members) == ["c"]
    assert bench.get(rejoin("c")).generation_id == 3


@pytest.mark.parametrize(("rules", "epoch"), [(GroupRules(), 2), (Group41(), 1)])
def test_4_1_knows_the_topics_of_a_classic_group_at_once(rules: GroupRules, epoch: int) -> None:
    """So nothing changes for a static member in its own place (ConsumerGroup.fromClassicGroup)."""
    bench = ConsumerBench(rules=rules).elect()
    asked = bench.ask(join(instance="i"))
    bench.wait(5)
    old_id = bench.answers[asked].member_id
    bench.ask(sync(old_id, 1, ((old_id, ORDERS),), instance="i"))
    answer = bench.get(joining("u", instance_id="i"))
    assert (answer.error, answer.member_epoch) == (Errors.NONE, epoch)
    assert bench.consumer_group().group_epoch == epoch


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_without_upgrade_the_consumer_protocol_is_refused(policy: str) -> None:
    bench = ConsumerBench(group_consumer_migration_policy=policy)
    bench.elect()
    bench.form("a")
    assert bench.get(joining("b")).error is Errors.GROUP_ID_NOT_FOUND
    assert converted(bench) == []


@pytest.mark.parametrize(
    ("data", "error"), [(b"", Errors.NONE), (b"warm", Errors.GROUP_ID_NOT_FOUND)]
)
def test_user_data_of_an_assignor_is_not_lost_in_an_upgrade(data: bytes, error: Errors) -> None:
    """ConsumerGroup.fromClassicGroup refuses it; convertToConsumerGroup names another error."""
    bench = ConsumerBench()
    bench.elect()
    a = bench.member_id("a")
    asked = bench.ask(join(a, client="a"))
    bench.wait(5)
    generation = bench.answers[asked].generation_id
    given = bench.get(sync(a, generation, ((a, AssignedPartitions(ORDERS, data)),))).assignment
    assert (given, user_data_of(given)) == (ORDERS, data)
    assert bench.get(joining("b")).error is error
    assert converted(bench) == ([] if error else ["consumer"])


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    bench = ConsumerBench(group_consumer_max_size=1)
    bench.elect()
    bench.form("a", "c")
    assert bench.get(joining("b")).error is Errors.GROUP_ID_NOT_FOUND


def test_parked_requests_of_a_rebalance_are_told_to_join_again() -> None:
    bench = ConsumerBench().elect()
    generation, ids = bench.form("a", "c")
    parked = bench.ask(join(ids["a"], client="a", topics=("orders", "bills")))
    assert parked not in bench.answers
    bench.get(joining("b"))
    assert bench.answers[parked].error is Errors.REBALANCE_IN_PROGRESS
    assert bench.get(heartbeat(ids["c"], generation)).error is Errors.REBALANCE_IN_PROGRESS


def test_a_group_in_its_first_join_phase_cannot_be_upgraded() -> None:
    """ConsumerGroup.fromClassicGroup takes a protocol name that is not there yet."""
    bench = ConsumerBench().elect()
    parked = bench.ask(join(bench.member_id("a"), client="a"))
    assert bench.get(joining("b")).error is Errors.UNKNOWN_SERVER_ERROR
    assert bench.answers[parked].error is Errors.REBALANCE_IN_PROGRESS
    assert list(bench.group.shards[0].groups) == [GROUP]


def test_a_classic_member_that_does_not_join_again_is_fenced() -> None:
    bench, a = migrated()
    assert bench.get(heartbeat(a, 1)).error is Errors.REBALANCE_IN_PROGRESS
    for _ in range(7):
        bench.wait(9)
        bench.ask(heartbeat(a, 1))
        bench.ask(beat("b", 2))
    assert list(bench.consumer_group().members) == ["b"]
    assert bench.get(heartbeat(a, 1)).error is Errors.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_sync_is_fenced() -> None:
    bench, a = migrated()
    bench.get(rejoin(a))
    for _ in range(7):
        bench.wait(9)
        bench.ask(heartbeat(a, 2))
        bench.ask(beat("b", 2))
    assert list(bench.consumer_group().members) == ["b"]


def test_a_classic_member_has_its_own_session_timeout() -> None:
    bench, a = migrated()
    bench.wait(11)
    assert list(bench.consumer_group().members) == ["b"]
    assert bench.get(beat("b", 2)).member_epoch == 3
    assert bench.seen(facts.GroupState)[-2].reason == f"session of {a} expired"


def test_a_static_member_changes_its_protocol_without_a_rebalance() -> None:
    bench = ConsumerBench().elect()
    bench.get(joining("s", instance_id="i"))
    answer = bench.get(rejoin("", instance="i"))
    assert (answer.error, answer.generation_id) == (Errors.NONE, 1)
    assert converted(bench) == ["classic"]
    group = bench.group.shards[0].groups[GROUP]
    assert (group.state.value, group.members[answer.member_id].assignment) == ("Stable", ORDERS)
    assert bench.get(sync(answer.member_id, 1, instance="i")).assignment == ORDERS
    assert bench.get(joining("t", instance_id="i")).error is Errors.NONE
    assert converted(bench) == ["classic", "consumer"]
    assert list(bench.consumer_group().members) == ["t"]


def test_members_of_both_protocols_survive_a_failover() -> None:
    bench, a = migrated()
    bench.get(rejoin(a, 0, 1, 2))
    after = ConsumerBench(log=bench.log)
    after.elect(2)
    assert after.snapshot() == bench.snapshot()
    kept = after.get(sync(a, 1)).assignment
    assert after.get(rejoin(a, *[tp.partition for tp in kept])).generation_id == 2


def test_a_failed_upgrade_leaves_the_classic_group_as_it_was() -> None:
    bench = ConsumerBench().elect()
    generation, ids = bench.form("a")
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.get(joining("b")).error is Errors.COORDINATOR_NOT_AVAILABLE
    bench.log.error = Errors.NONE
    assert bench.get(heartbeat(ids["a"], generation)).error is Errors.NONE
    assert converted(bench) == []


def test_an_operator_removes_members_of_both_protocols() -> None:
    bench, a = migrated()
    bench.get(leave("b"))  # the last of the new protocol
    assert converted(bench) == ["consumer", "classic"]
    assert list(bench.group.shards[0].groups[GROUP].members) == [a]


def test_an_empty_classic_group_is_deleted_before_a_consumer_group_takes_its_place() -> None:
    """The generations begin anew, so the facts tell that the former group is dead."""
    bench = ConsumerBench().elect()
    generation, ids = bench.form("a")
    bench.get(leave(ids["a"]))
    assert bench.get(joining("b")).error is Errors.NONE
    states = [(fact.state, fact.generation) for fact in bench.seen(facts.GroupState)]
    assert states[-3:] == [("Empty", generation + 1), ("Dead", generation + 1), ("Stable", 1)]


def test_an_assignment_that_is_stored_after_the_upgrade_is_void() -> None:
    """The upgrade has answered the parked SyncGroup; the classic group is no more."""
    bench = ConsumerBench().elect()
    a = bench.member_id("a")
    asked = bench.ask(join(a, client="a"))
    bench.wait(5)
    generation = bench.answers[asked].generation_id
    bench.auto_replicate = False
    parked = bench.ask(sync(a, generation, ((a, ORDERS),)))
    bench.ask(joining("b"))
    assert bench.answers[parked].error is Errors.REBALANCE_IN_PROGRESS
    bench.replicate()
    assert "Stable" not in [fact.state for fact in bench.seen(facts.GroupState)]
    owned = [fact.assignment for fact in bench.seen(facts.GroupAssigned) if fact.member_id == a]
    assert owned in ([], [()])


def replaced_then_upgraded() -> tuple[ConsumerBench, list[str]]:
    """A static member comes back; before its record is committed, b joins by the new protocol."""
    bench = ConsumerBench().elect()
    asked = bench.ask(join(instance="i"))
    bench.wait(5)
    old_id = bench.answers[asked].member_id
    bench.ask(sync(old_id, 1, ((old_id, ORDERS),), instance="i"))
    bench.auto_replicate = False
    parked = bench.ask(join(instance="i"))
    bench.ask(joining("b"))
    assert bench.answers[parked].error is Errors.REBALANCE_IN_PROGRESS
    new_id = bench.seen(facts.GroupState)[-1].member_ids[0]
    return bench, [old_id, new_id]


def test_a_static_replacement_that_is_stored_after_the_upgrade_tells_of_no_classic_group() -> None:
    """The upgrade has answered the parked JoinGroup; the classic group is no more."""
    bench, (old_id, new_id) = replaced_then_upgraded()
    bench.replicate()
    assert bench.seen(facts.GroupState)[-1].member_ids == (new_id, "b")
    names = tuple(str(tp) for tp in ORDERS)
    owned = {fact.member_id: fact.assignment for fact in bench.seen(facts.GroupAssigned)}
    assert (owned[old_id], owned[new_id]) == ((), names)


def test_a_static_replacement_that_is_not_stored_is_not_taken_back_after_the_upgrade() -> None:
    """The old id would come back to a classic group that is no more, with a session of its own."""
    bench, (_, new_id) = replaced_then_upgraded()
    for _ in range(4):  # the write times out; the old id's session would expire
        bench.wait(4)
        bench.ask(heartbeat(new_id, 1))
        bench.ask(beat("b", 2))
    assert bench.seen(facts.MemberIdReverted) == []
    assert list(bench.group.shards[0].groups) == []
    assert bench.seen(facts.GroupState)[-1].member_ids == (new_id, "b")


def test_what_was_owned_is_told_when_it_is_committed_whatever_the_group_is_by_then() -> None:
    bench, a = migrated()
    bench.get(rejoin(a))
    bench.auto_replicate = False
    bench.ask(beat("b", 2))
    bench.ask(leaving("b"))
    assert converted(bench)[-1] == "classic"
    told = len(bench.seen(facts.GroupAssigned))
    bench.replicate()
    owned = {fact.member_id: fact.assignment for fact in bench.seen(facts.GroupAssigned)[told:]}
    assert owned["b"] == ()  # the group has gone on as a classic one without it


def test_the_upgrade_tells_that_the_static_member_it_replaces_owns_nothing() -> None:
    """What its group was loaded with may be told only after that: the record is committed late."""
    bench = ConsumerBench().elect()
    asked = bench.ask(join(instance="i"))
    bench.wait(5)
    old_id = bench.answers[asked].member_id
    bench.auto_replicate = False
    bench.ask(sync(old_id, 1, ((old_id, ORDERS),), instance="i"))
    after = ConsumerBench(log=bench.log)
    after.auto_replicate = False
    after.elect(2)
    after.ask(joining("t", instance_id="i"))
    assert converted(after) == ["consumer"]
    after.replicate()
    names = tuple(str(tp) for tp in ORDERS)
    owned = [(fact.member_id, fact.assignment) for fact in after.seen(facts.GroupAssigned)]
    assert owned == [(old_id, names), (old_id, ()), ("t", names)]


def test_nobody_owns_what_was_not_committed_when_an_empty_consumer_group_was_deleted() -> None:
    """The group that takes its name, of either protocol, begins with generation 1 again."""
    bench = ConsumerBench().elect()
    bench.auto_replicate = False
    asked = bench.ask(joining("b"))
    bench.ask(leaving("b"))
    bench.member_id("a")
    assert [fact.state for fact in bench.seen(facts.GroupState)] == ["Stable", "Empty", "Dead"]
    bench.replicate()
    assert bench.answers[asked].error is Errors.NONE
    owned = [(fact.member_id, fact.assignment) for fact in bench.seen(facts.GroupAssigned)]
    assert owned == [("b", ())]
