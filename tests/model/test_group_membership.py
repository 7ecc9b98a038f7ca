"""Classic groups (KAFKA.md, 3.1): joins, syncs, heartbeats, leaves, sessions. KIP-394, KIP-345."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import PREDECESSORS, ClassicGroup, ClassicGroupState
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import HeartbeatResponse, LeaveGroupRequest
from kafkasim.scenarios.variants.releases import Group28
from tests.model.group_harness import GROUP, T0, T1, Bench, heartbeat, join, leave, sync


@pytest.fixture
def bench() -> Bench:
    return Bench().elect()


def test_the_first_join_is_told_its_member_id(bench: Bench) -> None:
    answer = bench.get(join(client="app"))
    assert (answer.error, answer.member_id[:4]) == (Errors.MEMBER_ID_REQUIRED, "app-")


def test_a_group_forms_after_the_initial_delay(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    assert generation == 1
    assert bench.states() == [
        ("PreparingRebalance", 0),
        ("CompletingRebalance", 1),
        ("Stable", 1),
    ]
    assert bench.seen(facts.GroupAssigned) == [
        facts.GroupAssigned(GROUP, 1, ids["a"], ("orders-0",)),
        facts.GroupAssigned(GROUP, 1, ids["b"], ("orders-1",)),
    ]


def test_the_initial_delay_is_extended_while_members_come(bench: Bench) -> None:
    a = bench.member_id("a")
    first = bench.ask(join(a))
    bench.wait(2)
    second = bench.ask(join(bench.member_id("b")))
    bench.wait(2)
    assert first not in bench.answers
    bench.wait(2.1)
    assert [bench.answers[n].error for n in (first, second)] == [Errors.NONE] * 2
    assert len(bench.answers[first].members) == 2
    assert bench.answers[second].members == ()


def test_the_initial_delay_ends_with_the_rebalance_timeout(bench: Bench) -> None:
    first = bench.ask(join(bench.member_id("a"), rebalance_ms=5000))
    for i in range(4):
        bench.wait(1.5)
        bench.ask(join(bench.member_id(f"b{i}"), rebalance_ms=5000))
    assert bench.answers[first].generation_id == 1


def test_a_rebalance_waits_for_members_then_drops_those_that_do_not_rejoin(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    third = bench.ask(join(bench.member_id("c")))
    for _ in range(12):
        bench.wait(5)
        bench.ask(heartbeat(ids["b"], generation))
        bench.ask(heartbeat(ids["a"], generation))
    answer = bench.answers[third]
    assert (answer.generation_id, len(answer.members)) == (2, 1)
    assert answer.leader == answer.member_id


def test_the_joined_leader_is_kept(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    joins = [bench.ask(join(ids["a"])), bench.ask(join(ids["b"]))]
    answers = [bench.answers[n] for n in joins]
    assert [a.leader for a in answers] == [ids["a"]] * 2
    assert [a.generation_id for a in answers] == [generation + 1] * 2


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    answer = bench.get(join(ids["b"]))
    assert (answer.error, answer.generation_id, answer.members) == (Errors.NONE, generation, ())
    assert bench.states()[-1] == ("Stable", generation)


def test_a_follower_with_another_subscription_starts_a_rebalance(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    bench.ask(join(ids["b"], topics=("orders", "payments")))
    assert bench.states()[-1] == ("PreparingRebalance", generation)


def test_the_assignor_with_most_votes_is_chosen(bench: Bench) -> None:
    asked = [
        bench.ask(join(bench.member_id(c), protocols=p))
        for c, p in (
            ("a", ("range", "roundrobin")),
            ("b", ("roundrobin", "range")),
            ("c", ("sticky", "roundrobin")),
        )
    ]
    bench.wait(10)
    assert [bench.answers[n].protocol_name for n in asked] == ["roundrobin"] * 3


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (join(session_ms=5999), Errors.INVALID_SESSION_TIMEOUT),
        (join(session_ms=1_800_001), Errors.INVALID_SESSION_TIMEOUT),
        (join(group=""), Errors.INVALID_GROUP_ID),
        (join("unknown"), Errors.UNKNOWN_MEMBER_ID),
        (join(protocols=()), Errors.INCONSISTENT_GROUP_PROTOCOL),
        (sync("unknown", 1), Errors.UNKNOWN_MEMBER_ID),
        (heartbeat("unknown", 1), Errors.UNKNOWN_MEMBER_ID),
    ],
)
def test_refusals_without_a_group(bench: Bench, request_: object, error: Errors) -> None:
    assert bench.get(request_).error is error


def test_who_leaves_an_unknown_group_is_told_so_member_by_member(bench: Bench) -> None:
    """GroupCoordinatorService.leaveGroup; the Scala coordinator answered the same."""
    answer = bench.get(LeaveGroupRequest(GROUP, (("x", None, ""), ("", "i1", ""))))
    unknown = Errors.UNKNOWN_MEMBER_ID
    members = (("x", None, unknown), ("", "i1", unknown))
    assert (answer.error, answer.members) == (Errors.NONE, members)


def test_refusals_in_a_stable_group(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    a = ids["a"]
    refused = {
        "foreign assignor": join(protocols=("sticky",)),
        "stranger joins": join("x"),
        "stranger syncs": sync("x", generation),
        "old sync": sync(a, generation - 1),
        "stranger beats": heartbeat("x", generation),
        "old beat": heartbeat(a, generation - 1),
        "unknown instance": heartbeat(a, generation, "i"),
    }
    assert {name: bench.get(r).error.name for name, r in refused.items()} == {
        "foreign assignor": "INCONSISTENT_GROUP_PROTOCOL",
        "stranger joins": "UNKNOWN_MEMBER_ID",
        "stranger syncs": "UNKNOWN_MEMBER_ID",
        "old sync": "ILLEGAL_GENERATION",
        "stranger beats": "UNKNOWN_MEMBER_ID",
        "old beat": "ILLEGAL_GENERATION",
        "unknown instance": "UNKNOWN_MEMBER_ID",
    }


def test_a_full_group_takes_no_more() -> None:
    bench = Bench(group_max_size=1).elect()
    bench.form("a")
    assert bench.get(join()).error is Errors.GROUP_MAX_SIZE_REACHED


def test_a_silent_member_is_removed_when_its_session_ends(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    for _ in range(4):
        bench.wait(2.6)
        bench.ask(heartbeat(ids["a"], generation))
    assert bench.states()[-1] == ("PreparingRebalance", generation)
    assert bench.get(heartbeat(ids["a"], generation)).error is Errors.REBALANCE_IN_PROGRESS
    assert bench.get(heartbeat(ids["b"], generation)).error is Errors.UNKNOWN_MEMBER_ID
    assert bench.get(join(ids["a"])).generation_id == generation + 1


def test_a_handed_out_id_expires_and_lets_the_rebalance_go_on(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.member_id("never-returns")
    again = bench.ask(join(ids["a"]))
    assert again not in bench.answers
    bench.wait(10)
    assert bench.answers[again].generation_id == generation + 1


def test_a_member_that_never_syncs_is_removed(bench: Bench) -> None:
    a, b = bench.member_id("a"), bench.member_id("b")
    joins = [bench.ask(join(m, rebalance_ms=20_000)) for m in (a, b)]
    bench.wait(6)
    assert bench.answers[joins[1]].generation_id == 1
    parked = bench.ask(sync(a, 1, ((a, (T0,)), (b, (T1,)))))
    assert bench.answers[parked].assignment == (T0,)
    for _ in range(5):
        bench.wait(5)
        bench.ask(heartbeat(a, 1))
        bench.ask(heartbeat(b, 1))
    assert bench.states()[-1] == ("PreparingRebalance", 1)
    assert bench.get(heartbeat(b, 1)).error is Errors.UNKNOWN_MEMBER_ID


def test_the_last_leave_empties_the_group_and_is_answered_when_replicated(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.auto_replicate = False
    asked = bench.ask(leave(ids["a"]))
    assert bench.states()[-1] == ("Empty", generation + 1)
    assert asked not in bench.answers
    bench.replicate()
    assert bench.answers[asked].members == ((ids["a"], None, Errors.NONE),)


def test_the_sync_is_answered_when_the_group_record_is_committed(bench: Bench) -> None:
    a = bench.member_id("a")
    bench.ask(join(a))
    bench.wait(3)
    bench.auto_replicate = False
    asked = bench.ask(sync(a, 1, ((a, (T0,)),)))
    assert asked not in bench.answers
    assert bench.states()[-1] == ("CompletingRebalance", 1)
    bench.replicate()
    assert bench.answers[asked].assignment == (T0,)
    assert bench.states()[-1] == ("Stable", 1)


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_COORDINATOR),
        (Errors.KAFKA_STORAGE_ERROR, Errors.NOT_COORDINATOR),
        (Errors.RECORD_LIST_TOO_LARGE, Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_group_record_starts_a_rebalance(
    bench: Bench, failure: Errors, told: Errors
) -> None:
    a, b = bench.member_id("a"), bench.member_id("b")
    bench.ask(join(a))
    bench.ask(join(b))
    bench.wait(6)
    parked = bench.ask(sync(b, 1))
    bench.log.error = failure
    asked = bench.ask(sync(a, 1, ((a, (T0,)), (b, (T1,)))))
    assert [bench.answers[n].error for n in (parked, asked)] == [told, told]
    assert bench.states()[-1] == ("PreparingRebalance", 1)


@pytest.mark.parametrize(
    ("new", "told"),
    [(True, Errors.COORDINATOR_NOT_AVAILABLE), (False, Errors.REBALANCE_IN_PROGRESS)],
)
def test_a_group_record_that_is_not_replicated_in_time_starts_a_rebalance(
    new: bool, told: Errors
) -> None:
    """The Scala coordinator of ZooKeeper mode has another error for its members."""
    bench = Bench(new_coordinator=new).elect()
    a = bench.member_id("a")
    bench.ask(join(a))
    bench.wait(3)
    bench.auto_replicate = False
    asked = bench.ask(sync(a, 1, ((a, (T0,)),)))
    bench.wait(5)
    assert bench.answers[asked].error is told
    assert bench.states()[-1] == ("PreparingRebalance", 1)


def test_a_rebalance_voids_an_assignment_under_way(bench: Bench) -> None:
    a = bench.member_id("a")
    bench.ask(join(a))
    bench.wait(3)
    bench.auto_replicate = False
    parked = bench.ask(sync(a, 1, ((a, (T0,)),)))
    bench.ask(join(bench.member_id("b")))
    assert bench.answers[parked].error is Errors.REBALANCE_IN_PROGRESS
    bench.replicate()
    assert bench.states()[-1] == ("PreparingRebalance", 1)
    assert bench.seen(facts.GroupAssigned) == []


# Static members


def static_group(bench: Bench) -> str:
    asked = bench.ask(join(instance="i1"))
    bench.wait(3)
    member_id = bench.answers[asked].member_id
    bench.ask(sync(member_id, 1, ((member_id, (T0,)),), instance="i1"))
    return str(member_id)


def test_a_static_member_comes_back_without_a_rebalance(bench: Bench) -> None:
    old = static_group(bench)
    answer = bench.get(join(instance="i1"))
    assert (answer.error, answer.generation_id, answer.skip_assignment) == (Errors.NONE, 1, True)
    assert answer.member_id != old
    assert bench.get(heartbeat(old, 1, "i1")).error is Errors.FENCED_INSTANCE_ID
    again = bench.get(sync(answer.member_id, 1, instance="i1"))
    assert again.assignment == (T0,)


def test_before_kip_814_a_returning_leader_is_told_its_old_id() -> None:
    bench = Bench(rules=Group28()).elect()
    old = static_group(bench)
    answer = bench.get(join(instance="i1"))
    assert (answer.leader, answer.skip_assignment, answer.members) == (old, False, ())
    assert bench.get(sync(answer.member_id, 1, instance="i1")).assignment == (T0,)


@pytest.mark.parametrize(("rules", "stays_s"), [(Group28(), 10), (GroupRules(), 30)])
def test_before_kafka_14009_a_member_keeps_its_first_timeouts(
    rules: GroupRules, stays_s: int
) -> None:
    bench = Bench(rules=rules).elect()
    static_group(bench)
    new = bench.get(join(instance="i1", session_ms=30_000)).member_id
    bench.ask(sync(new, 1, instance="i1"))
    assert bench.get(heartbeat(new, 1, "i1")).error is Errors.NONE
    told = [each for each in bench.seen(facts.MemberRequest) if each.api == "JoinGroup"][-1]
    assert (told.member_id, told.session_timeout_ms) == ("", stays_s * 1000)
    bench.wait(stays_s - 1)
    assert bench.states()[-1] == ("Stable", 1)
    bench.wait(2)
    assert bench.states()[-1] == ("Empty", 2)


def test_a_dynamic_member_keeps_its_first_timeouts_before_kafka_14009() -> None:
    bench = Bench(rules=Group28()).elect()
    _, ids = bench.form("a")
    bench.ask(join(ids["a"], session_ms=30_000, rebalance_ms=90_000))
    group = bench.group.shards[0].groups[GROUP]
    member = group.members[ids["a"]]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)


def test_the_scala_coordinator_takes_the_protocols_of_a_static_member_not_back() -> None:
    protocols = []
    for new_coordinator in (True, False):
        bench = Bench(new_coordinator=new_coordinator).elect()
        old = static_group(bench)
        bench.log.error = Errors.NOT_ENOUGH_REPLICAS
        bench.get(join(instance="i1", protocols=("range", "sticky")))
        (group,) = bench.group.shards[0].groups.values()
        protocols.append([name for name, _ in group.members[old].protocols])
    assert protocols == [["range"], ["range", "sticky"]]


def test_a_static_replacement_survives_a_failover(bench: Bench) -> None:
    """B70, KAFKA-10284."""
    old = static_group(bench)
    new = bench.get(join(instance="i1")).member_id
    other = Bench(bench.log, seed=2).elect(2)
    answers = [other.get(heartbeat(m, 1, "i1")).error for m in (old, new)]
    assert answers == [Errors.FENCED_INSTANCE_ID, Errors.NONE]


def test_a_static_replacement_that_cannot_be_stored_is_undone(bench: Bench) -> None:
    old = static_group(bench)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.get(join(instance="i1")).error is Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.get(heartbeat(old, 1, "i1")).error is Errors.NONE
    (told,) = bench.seen(facts.MemberIdReverted)
    assert (told.member_id, told.instance_id, told.error) == (old, "i1", "NOT_ENOUGH_REPLICAS")


def test_a_static_replacement_is_undone_in_a_later_generation(bench: Bench) -> None:
    """The old id is back whatever the group has been through since, and the new one is fenced."""
    old = static_group(bench)
    bench.auto_replicate = False
    asked = bench.ask(join(instance="i1"))
    bench.ask(join(bench.member_id("two")))
    new = bench.answers[asked].member_id
    assert new != old
    bench.wait(5)
    (told,) = bench.seen(facts.MemberIdReverted)
    assert (told.member_id, told.new_member_id, told.error) == (old, new, "REQUEST_TIMED_OUT")
    assert bench.seen(facts.GroupState)[-1].member_ids[-1] == old
    assert bench.get(heartbeat(new, 2, "i1")).error is Errors.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_back_before_the_sync_rebalances(bench: Bench) -> None:
    """B69, KAFKA-9801."""
    asked = bench.ask(join(instance="i1"))
    bench.wait(3)
    old = bench.answers[asked].member_id
    again = bench.ask(join(instance="i1"))
    answer = bench.answers[again]
    assert (answer.error, answer.generation_id) == (Errors.NONE, 2)
    assert bench.get(sync(old, 1, instance="i1")).error is Errors.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_back_in_the_join_phase_completes_it_at_once(
    bench: Bench,
) -> None:
    """GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin."""
    first = static_group(bench)
    second = bench.ask(join(instance="i2"))  # the group waits for i1, whose process died
    assert (bench.states()[-1][0], second in bench.answers) == ("PreparingRebalance", False)
    back = bench.ask(join(instance="i1"))
    assert [bench.answers[asked].generation_id for asked in (second, back)] == [2, 2]
    assert bench.answers[back].member_id != first


def test_a_second_process_with_the_same_instance_fences_the_first(bench: Bench) -> None:
    """B68, KAFKA-8500: in the join phase too."""
    first = bench.ask(join(instance="i1"))
    second = bench.ask(join(instance="i1"))
    assert bench.answers[first].error is Errors.FENCED_INSTANCE_ID
    bench.wait(6)
    assert len(bench.answers[second].members) == 1


def test_an_operator_removes_a_static_member_by_its_instance(bench: Bench) -> None:
    static_group(bench)
    answer = bench.get(leave("", "i1"))
    assert answer.members == (("", "i1", Errors.NONE),)
    assert bench.states()[-1] == ("Empty", 2)


def test_leave_answers_each_member(bench: Bench) -> None:
    static_group(bench)
    request = LeaveGroupRequest(GROUP, (("", "i2", ""), ("x", "i1", ""), ("x", None, "")))
    assert [result[2].name for result in bench.get(request).members] == [
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
    ]


# Failover


@pytest.mark.parametrize(
    ("new_coordinator", "synced"),
    [(True, "COORDINATOR_LOAD_IN_PROGRESS"), (False, "REBALANCE_IN_PROGRESS")],
)
def test_loading_is_observable_and_kind_to_members(new_coordinator: bool, synced: str) -> None:
    """Only the Scala coordinator has an answer to SyncGroup that consumers expect."""
    bench = Bench(new_coordinator=new_coordinator)
    requests = (join(), sync("m", 1), heartbeat("m", 1), leave("m"))
    assert [bench.get(r).error.name for r in requests] == ["NOT_COORDINATOR"] * 4
    bench.group.on_elected(0, 1, 0)
    for number, r in enumerate(requests):
        bench.group.on_request(Request(1, number, r, 0), 0)
    posts = [e for e in bench.out if type(e).__name__ == "Post"]
    answers = [e.message.error.name for e in bench.out if type(e).__name__ == "Respond"]
    assert len(posts) == 1
    assert answers == [
        "COORDINATOR_LOAD_IN_PROGRESS",
        synced,
        "NONE",
        "COORDINATOR_LOAD_IN_PROGRESS",
    ]


def test_a_failover_keeps_members_and_forgets_a_rebalance(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    bench.ask(join(bench.member_id("c")))  # a rebalance in progress, lost
    other = Bench(bench.log, seed=2).elect(2)
    assert other.states() == [("Stable", generation)]
    assert other.get(heartbeat(ids["b"], generation)) == HeartbeatResponse(Errors.NONE)
    other.wait(10)
    assert other.states()[-1] == ("Empty", generation + 1)


def test_a_resignation_answers_what_is_parked(bench: Bench) -> None:
    _, ids = bench.form("a", "b")
    parked = bench.ask(join(ids["a"]))
    bench.group.on_resigned(0, 2, bench.now)
    bench.drain()
    assert bench.answers[parked].error is Errors.NOT_COORDINATOR
    assert bench.timers.next_deadline() is None
    assert bench.seen(facts.CoordinatorLoaded)[-1] == facts.CoordinatorLoaded(0, 2, False)


def test_a_resignation_answers_a_sync_once(bench: Bench) -> None:
    a = bench.member_id("a")
    bench.ask(join(a))
    bench.wait(3)
    bench.auto_replicate = False
    parked = bench.ask(sync(a, 1, ((a, (T0,)),)))
    bench.group.on_resigned(0, None, bench.now)
    bench.drain()
    assert bench.answers[parked].error is Errors.NOT_COORDINATOR


def test_stale_elections_and_resignations_are_ignored(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.group.on_resigned(0, 1, bench.now)
    bench.group.on_elected(0, 0, bench.now)
    bench.settle()
    assert bench.get(heartbeat(ids["a"], generation)).error is Errors.NONE
    bench.group.on_resigned(0, 2, bench.now)
    bench.drain()
    assert bench.get(heartbeat(ids["a"], generation)).error is Errors.NOT_COORDINATOR


def test_a_load_that_was_given_up_does_nothing() -> None:
    bench = Bench()
    bench.group.on_elected(0, 1, 0)
    bench.group.on_resigned(0, 2, 0)
    bench.settle()
    assert (bench.group.shards, bench.facts) == ({}, [])


# The automaton


def test_every_illegal_transition_is_a_bug() -> None:
    refused = []
    for old in ClassicGroupState:
        for new in ClassicGroupState:
            group = ClassicGroup(GROUP, 0)
            group.state = old
            try:
                group.transition_to(new, 0)
            except AssertionError:
                refused.append((old, new))
    legal = [(old, new) for new in ClassicGroupState for old in PREDECESSORS[new]]
    assert sorted(refused, key=str) == sorted(
        [(o, n) for o in ClassicGroupState for n in ClassicGroupState if (o, n) not in legal],
        key=str,
    )
