"""A member of a cooperative group (KIP-429): what it keeps, revokes, loses, commits and says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.config import ConsumerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import CommitResult, ConsumerAssigned, ConsumerRevoked
from kafkasim.model.group.assignors import Assignment, Assignor, Members, RebalanceProtocol, Topics
from kafkasim.model.messages import (
    JoinGroupMember,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    Subscription,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.test_consumer_group import Group, polled

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REBALANCE = Errors.REBALANCE_IN_PROGRESS


class Cooperative(Group):
    """A coordinator that gives the member what ``given`` says, or else what it asks for."""

    protocol = "cooperative-sticky"
    given: tuple[TopicPartition, ...] | None = None
    other: Subscription | None = None  # of a second member

    def join(self, node: str, m: JoinGroupRequest) -> JoinGroupResponse:
        answer = super().join(node, m)
        members = answer.members
        if self.other is not None and members:
            members = (*members, JoinGroupMember("m-2", None, self.other))
        return replace(answer, protocol_name=self.protocol, members=members)

    def sync(self, node: str, m: SyncGroupRequest) -> SyncGroupResponse:
        given = dict(m.assignments)[m.member_id] if self.given is None else self.given
        return SyncGroupResponse(NONE, "consumer", self.protocol, given)


def start(strategy: str = "cooperative-sticky", **changes: Any) -> tuple[Harness, Cooperative]:
    cluster = Cluster(2, brokers=1)
    group = Cooperative(cluster, 3)
    group.protocol = strategy.rpartition(":")[2]
    config = ConsumerConfig(
        group_id="g", auto_offset_reset="earliest", partition_assignment_strategy=(strategy,)
    )
    h = Harness(replace(config, **changes), cluster)
    h.call("subscribe", ("t",))
    return h, group


def rebalance(h: Harness, group: Cooperative, *given: TopicPartition) -> None:
    """Have the group rebalance, and give the member these partitions."""
    group.given = given
    group.heartbeat_error = REBALANCE
    h.run(3500)


def subscriptions(h: Harness) -> list[Subscription]:
    return [m.protocols[0][1] for m in h.cluster.requests(JoinGroupRequest)]


def test_a_member_keeps_its_partitions_and_takes_only_new_ones() -> None:
    h, group = start()
    group.given = (T0,)
    polled(h)
    rebalance(h, group, T0, T1)
    assert h.result("poll", 1000) == ("assigned", (T1,))
    assert h.of(ConsumerRevoked) == []
    assert [a.assignment for a in h.of(ConsumerAssigned)] == [("t-0",), ("t-1",)]
    assert [(s.owned_partitions, s.generation_id) for s in subscriptions(h)] == [
        ((), -1), ((), -1), ((T0,), 1),
    ]  # fmt: skip


def test_a_member_revokes_what_the_assignment_lacks_and_joins_again() -> None:
    h, group = start()
    polled(h)
    rebalance(h, group, T1)
    assert h.result("poll", 1000) == ("revoked", (T0,))
    assert h.result("committed", (T0,)) == {T0: 3}
    assert h.result("continue") == ("assigned", ())
    assert h.result("continue") == ("assigned", ())
    assert h.of(ConsumerRevoked) == [ConsumerRevoked("g", "m-1", 2, ("t-0",), False)]
    last = h.cluster.requests(JoinGroupRequest)[-1]
    assert last.reason == "need to revoke partitions and re-join"
    assert last.protocols[0][1].owned_partitions == (T1,)
    assert (group.generation, h.result("position", T1)) == (3, 3)


def test_the_listener_commits_a_revoked_partition_in_the_new_generation() -> None:
    h, group = start(enable_auto_commit=False)
    polled(h)
    rebalance(h, group, T1)
    assert h.result("poll", 1000) == ("revoked", (T0,))
    assert h.result("commit_sync", {T0: 2}) is None
    assert [m.generation_id for m in h.cluster.requests(OffsetCommitRequest)] == [2]
    assert group.committed == {T0: 2}


def test_records_go_on_while_the_group_rebalances() -> None:
    h, group = start(enable_auto_commit=False)
    polled(h)
    group.heartbeat_error = REBALANCE
    h.cluster.handlers[JoinGroupRequest] = lambda _n, _m: None  # others are slow
    h.run(3500)
    assert polled(h, 10) == ("records", {})
    group.logs[T0] = 5
    for connection, correlation, message in h.withheld:
        if type(message).__name__ == "FetchRequest":
            h.respond(connection, correlation, group.fetch("", message))
    assert [r[0] for r in polled(h, 100)[1][T0]] == [3, 4]


def test_a_commit_while_the_group_rebalances_fails_and_the_position_stays() -> None:
    h, group = start(enable_auto_commit=False)
    polled(h)
    group.heartbeat_error = REBALANCE
    h.cluster.handlers[JoinGroupRequest] = lambda _n, _m: None
    h.run(3500)
    polled(h, 10)
    assert h.result("commit_sync", None).error == "REBALANCE_IN_PROGRESS"
    assert {c.error for c in h.of(CommitResult)} == {"REBALANCE_IN_PROGRESS"}
    assert h.result("position", T0) == 3


def test_auto_commit_comes_before_the_join_and_pauses_no_partition() -> None:
    h, group = start()
    polled(h)
    rebalance(h, group, T0, T1)
    assert h.result("poll", 1000) == ("assigned", ())
    assert group.committed == {T0: 3, T1: 3}
    kinds = [type(m) for _, m in h.cluster.seen]
    assert kinds.index(OffsetCommitRequest) < len(kinds) - 1 - kinds[::-1].index(JoinGroupRequest)
    assert not any(s.pending_revocation for s in consumer(h).subscription.assignment.values())


def consumer(h: Harness) -> Any:
    return h.process.clients["c"]


@pytest.mark.parametrize("error", [Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION])
def test_a_member_that_the_group_dropped_loses_everything(error: Errors) -> None:
    h, group = start()
    polled(h)
    group.heartbeat_error = error
    h.run(3500)
    assert h.result("poll", 1000) == ("lost", (T0, T1))
    assert h.result("continue") == ("assigned", (T0, T1))
    assert subscriptions(h)[-1].owned_partitions == ()
    assert [r.lost for r in h.of(ConsumerRevoked)] == [True]


def test_a_member_dropped_in_the_join_loses_what_it_kept() -> None:
    h, group = start()
    polled(h)
    group.heartbeat_error = REBALANCE
    group.join_errors = [Errors.UNKNOWN_MEMBER_ID]
    h.run(3500)
    assert h.result("poll", 1000) == ("lost", (T0, T1))
    assert h.result("continue") == ("assigned", (T0, T1))
    reasons = [m.reason for m in h.cluster.requests(JoinGroupRequest)]
    assert reasons == [
        "",
        "need to re-join with the given member-id: m-1",
        "group is already rebalancing",
        "rebalance failed due to UnknownMemberIdException",
        "need to re-join with the given member-id: m-1",
    ]


def test_a_member_revokes_the_topics_that_it_does_not_subscribe_to_any_more() -> None:
    h, group = start()
    h.cluster.topics["u"] = 1
    group.logs[TopicPartition("u", 0)] = 0
    polled(h)
    h.call("subscribe", ("u",))
    assert h.result("poll", 1000) == ("revoked", (T0, T1))
    assert h.result("continue") == ("assigned", (TopicPartition("u", 0),))
    assert h.cluster.requests(JoinGroupRequest)[-1].reason == "subscription has changed"


def test_the_leader_leaves_out_what_another_member_still_owns() -> None:
    h, group = start()
    polled(h)
    group.other = Subscription(("t",), (), -1)
    group.heartbeat_error = REBALANCE
    h.run(3500)
    h.result("poll", 1000)
    sync = h.cluster.requests(SyncGroupRequest)[1]
    assert dict(sync.assignments) == {"m-1": (T0,), "m-2": ()}
    assert h.result("continue") == ("assigned", ())
    group.other = Subscription(("t",), (), 2)
    assert h.result("continue") == ("assigned", ())
    assert dict(h.cluster.requests(SyncGroupRequest)[2].assignments) == {"m-1": (T0,), "m-2": (T1,)}


class Careless(Assignor):
    """Claims to be cooperative and moves partitions at once."""

    name = "Careless"
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, topics: Topics, members: Members) -> Assignment:
        last = max(m.member_id for m in members)
        return {m.member_id: (T0, T1) if m.member_id == last else () for m in members}


def test_the_leader_refuses_an_assignment_that_breaks_the_cooperative_protocol() -> None:
    h, group = start(f"{__name__}:Careless")
    polled(h)
    group.other = Subscription(("t",), (), -1)
    group.heartbeat_error = REBALANCE
    h.run(3500)
    error = h.result("poll", 1000)
    assert str(error) == (
        "ILLEGAL_STATE: Assignor supporting the COOPERATIVE protocol violates its requirements:"
        " t-0, t-1 are still owned"
    )


def fails(_topics: Topics, _members: Members) -> Assignment:
    raise KeyError("user's mistake")


def test_an_assignor_that_fails_fails_the_poll_and_the_member_joins_again() -> None:
    h, _ = start(f"{__name__}:fails")
    assert str(h.result("poll", 1000)) == 'KeyError: fails: "user\'s mistake"'
    assert h.result("poll", 1000).error == "KeyError"
    assert h.cluster.requests(JoinGroupRequest)[-1].reason == "rebalance failed due to KeyError"


def test_a_sticky_member_says_what_it_was_assigned_and_gives_it_up_first() -> None:
    h, group = start("sticky")
    polled(h)
    group.heartbeat_error = REBALANCE
    h.run(3500)
    assert h.result("poll", 1000) == ("revoked", (T0, T1))
    h.result("continue")
    last = subscriptions(h)[-1]
    assert last.owned_partitions == ()
    assert (last.user_data.partitions, last.user_data.generation) == ((T0, T1), 1)


def test_closing_in_a_rebalance_loses_the_partitions() -> None:
    h, group = start(enable_auto_commit=False)
    polled(h)
    group.heartbeat_error = REBALANCE
    h.cluster.handlers[JoinGroupRequest] = lambda _n, _m: None
    h.run(3500)
    polled(h, 10)
    h.result("close")
    assert [r.lost for r in h.of(ConsumerRevoked)] == [True]
