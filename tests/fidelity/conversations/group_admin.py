"""What operators ask of groups: describe, list, delete; delete offsets."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.wire import CLIENT_ID


def administering_groups(talk: Talk) -> None:
    tp = talk.create("governed", (1, 2, 3), (2, 3, 1))
    second, other = TopicPartition("governed", 1), talk.create("left")
    node = talk.coordinator("subjects")
    elsewhere = node % 3 + 1

    def join(member: str = "", kind: str = "consumer", group: str = "subjects") -> Any:
        protocols = (("range", m.Subscription(("governed",))),)
        return m.JoinGroupRequest(group, 10_000, 30_000, member, None, kind, protocols, CLIENT_ID)

    def enter(kind: str = "consumer", group: str = "subjects") -> tuple[int, str, int]:
        """Join a group alone and sync; return its coordinator, the member and the generation."""
        at = talk.coordinator(group)
        member = talk.side.ask(at, join("", kind, group)).member_id
        talk.names.members[member] = "a"
        joined = talk.side.ask(at, join(member, kind, group))
        talk.side.settle(1)  # a new group is not seen before its first record is committed
        talk.ask(f"describe before the sync, {kind}", m.DescribeGroupsRequest((group,)), at)
        given = ((member, (tp,)),)
        generation = joined.generation_id
        talk.side.ask(at, m.SyncGroupRequest(group, generation, member, None, kind, "range", given))
        return at, member, generation

    def commit(member: str = "", generation: int = -1) -> m.OffsetCommitRequest:
        offsets = tuple((each, 5, 0, "") for each in (tp, second, other))
        return m.OffsetCommitRequest("subjects", generation, member, None, offsets)

    def drop(*partitions: TopicPartition, group: str = "subjects") -> m.OffsetDeleteRequest:
        return m.OffsetDeleteRequest(group, partitions)

    describe, delete = m.DescribeGroupsRequest, m.DeleteGroupsRequest
    fetch = m.OffsetFetchRequest("subjects", None)
    talk.ask("describe an unknown group", describe(("subjects",)), node)
    talk.ask("describe elsewhere", describe(("subjects",)), elsewhere)
    talk.ask("describe no group", describe(()), node)
    talk.ask("delete an unknown group", delete(("subjects",)), node)
    talk.ask("delete elsewhere", delete(("subjects",)), elsewhere)
    talk.ask("delete no group", delete(()), node)
    talk.ask("delete offsets of an unknown group", drop(tp), node)
    talk.ask("delete offsets elsewhere", drop(tp), elsewhere)
    talk.ask("delete offsets without a group id", drop(tp, group=""), node)
    talk.ask("list groups in no known state", m.ListGroupsRequest(("nonsense",)), node)
    talk.ask("list groups of no known type", m.ListGroupsRequest((), ("nonsense",)), node)
    talk.ask("a simple consumer commits", commit(), node)
    talk.ask("describe its group", describe(("subjects",)), node)
    talk.ask("delete an offset", drop(second), node)
    talk.ask("delete it again", drop(second), node)
    talk.ask("delete an offset of an unknown topic", drop(TopicPartition("nowhere", 0)), node)
    talk.ask("delete one of an unknown partition", drop(tp, TopicPartition("governed", 9)), node)
    talk.ask("what is left", fetch, node)
    _, member, generation = enter()
    talk.ask("describe a stable group", describe(("subjects", "nobody")), node)
    talk.ask("list stable groups", m.ListGroupsRequest(("STABLE ",)), node)
    talk.ask("list classic groups that are stable", m.ListGroupsRequest(("Stable",), ("Classic",)),
             node)  # fmt: skip
    talk.ask("list consumer groups", m.ListGroupsRequest((), ("consumer",)), node)
    talk.ask("a member commits", commit(member, generation), node)
    talk.ask("delete a stable group", delete(("subjects", "nobody", "subjects")), node)
    talk.ask("delete offsets, one of a subscribed topic", drop(tp, other), node)
    talk.ask("what the member has left", fetch, node)
    leave = m.LeaveGroupRequest("subjects", ((member, None, "done"),))
    talk.ask("leave", leave, node)
    talk.ask("describe the empty group", describe(("subjects",)), node)
    talk.ask("delete the empty group", delete(("subjects",)), node)
    talk.ask("describe the deleted group", describe(("subjects",)), node)
    talk.ask("fetch its offsets", fetch, node)
    talk.ask("delete it again, with its offsets", delete(("subjects",)), node)
    at, _, _ = enter("connect", "workers")
    talk.ask("describe a group of another type", describe(("workers",)), at)
    talk.ask("delete offsets of a group of another type", drop(tp, group="workers"), at)
