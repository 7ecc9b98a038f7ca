"""FindCoordinator, and the requests of classic groups and of their offsets."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import shown


def groups(talk: Talk) -> None:
    tp = talk.create("grouped", (1, 2, 3), (2, 3, 1))
    second = TopicPartition("grouped", 1)
    node = talk.coordinator("readers")
    elsewhere = node % 3 + 1

    def join(member: str = "", **fields: Any) -> m.JoinGroupRequest:
        asked = {"session": 10_000, "group": "readers", "protocols": ("range",), "kind": "consumer"}
        asked |= fields
        subscription = m.Subscription(("grouped",))
        return m.JoinGroupRequest(
            asked["group"], asked["session"], 30_000, member, asked.get("instance"), asked["kind"],
            tuple((name, subscription) for name in asked["protocols"]), "c",
        )  # fmt: skip

    def heartbeat(member: str, generation: int, group: str = "readers") -> m.HeartbeatRequest:
        return m.HeartbeatRequest(group, generation, member, None)

    def sync(member: str, generation: int, *mine: TopicPartition, name: str = "range") -> Any:
        given = ((member, mine),) if mine else ()
        return m.SyncGroupRequest("readers", generation, member, None, "consumer", name, given)

    def commit(
        offset: int, member: str = "", generation: int = -1, group: str = "readers",
        to: TopicPartition = tp, metadata: str = "",
    ) -> m.OffsetCommitRequest:  # fmt: skip
        return m.OffsetCommitRequest(group, generation, member, None, ((to, offset, 0, metadata),))

    talk.ask("FindCoordinator of type 7", m.FindCoordinatorRequest("readers", 7))
    talk.ask("FindCoordinator of an empty group", m.FindCoordinatorRequest(""))
    talk.ask("FindCoordinator of type -1", m.FindCoordinatorRequest("readers", -1))
    talk.ask("FindCoordinator of a share group", m.FindCoordinatorRequest("readers", 2))
    talk.ask("join elsewhere", join(), elsewhere)
    talk.ask("join with an empty group id", join(group=""), node)
    talk.ask("join with a session of 100 ms", join(session=100), node)
    talk.ask("join with a session of an hour", join(session=3_600_000), node)
    talk.ask("join without a protocol", join(protocols=()), node)
    talk.ask("join without a protocol type", join(kind=""), node)
    talk.ask("join as an unknown member", join("nobody"), node)
    talk.ask("heartbeat of an unknown group", heartbeat("nobody", 1, "strangers"), node)
    talk.ask("heartbeat elsewhere", heartbeat("nobody", 1), elsewhere)
    talk.ask("leave an unknown group", m.LeaveGroupRequest("strangers", (("x", None, ""),)), node)
    talk.ask("sync an unknown group", sync("nobody", 1), node)
    talk.ask("commit with a generation to an unknown group", commit(1, "x", 3, "strangers"), node)
    talk.ask("commit without a group", commit(1, group="loners"), node)
    given = talk.side.ask(node, join())
    talk.names.members[given.member_id] = "a"
    talk.lines.append(f"groups / the first join: {shown(given, talk.names)}")
    joined = talk.ask("join with the member id", join(given.member_id), node)
    me, now = joined.member_id, joined.generation_id
    talk.ask("heartbeat before the sync", heartbeat(me, now), node)
    talk.ask("commit before the sync", commit(5, me, now), node)
    talk.ask("sync with an older generation", sync(me, now - 1, tp), node)
    talk.ask("sync with another protocol", sync(me, now, tp, name="sticky"), node)
    talk.ask("sync", sync(me, now, tp, second), node)
    talk.ask("sync again", sync(me, now, tp), node)
    talk.ask("heartbeat", heartbeat(me, now), node)
    talk.ask("heartbeat of an older generation", heartbeat(me, now - 1), node)
    talk.ask("heartbeat of a newer generation", heartbeat(me, now + 1), node)
    talk.ask("heartbeat of an unknown member", heartbeat("nobody", now), node)
    talk.ask("join with no common protocol", join(protocols=("sticky",)), node)
    talk.ask("join with another protocol type", join(kind="connect"), node)
    talk.ask("commit", commit(5, me, now), node)
    talk.ask("commit with metadata", commit(6, me, now, to=second, metadata="noted"), node)
    talk.ask("commit with 5000 characters", commit(7, me, now, metadata="x" * 5000), node)
    talk.ask("commit of an older generation", commit(7, me, now - 1), node)
    talk.ask("commit of an unknown member", commit(7, "nobody", now), node)
    talk.ask("commit without a generation while there are members", commit(7), node)
    talk.ask("commit elsewhere", commit(7, me, now), elsewhere)
    unknown = TopicPartition("nowhere", 0)
    talk.ask("commit for an unknown topic", commit(7, me, now, to=unknown), node)
    away = TopicPartition("grouped", 9)
    talk.ask("commit for an unknown partition", commit(7, me, now, to=away), node)
    talk.ask("fetch offsets", m.OffsetFetchRequest("readers", (tp, second)), node)
    talk.ask("fetch an offset nobody committed", m.OffsetFetchRequest("readers", (away,)), node)
    talk.ask("fetch all offsets", m.OffsetFetchRequest("readers", None), node)
    talk.ask("fetch offsets elsewhere", m.OffsetFetchRequest("readers", (tp,)), elsewhere)
    talk.ask("fetch offsets of an unknown group", m.OffsetFetchRequest("nobody", (tp,)), node)
    talk.ask("leave as a stranger", m.LeaveGroupRequest("readers", (("x", None, ""),)), node)
    talk.ask("leave", m.LeaveGroupRequest("readers", ((me, None, "done"),)), node)
    talk.ask("leave again", m.LeaveGroupRequest("readers", ((me, None, "done"),)), node)
    talk.ask("heartbeat after leaving", heartbeat(me, now), node)
    talk.ask("commit without a generation, group empty", commit(9), node)
    talk.ask("fetch the offset", m.OffsetFetchRequest("readers", (tp,)), node)


def members(talk: Talk) -> None:
    """A group while nobody or one member is in it, and requests of the wrong members."""
    tp = talk.create("joined")
    node = talk.coordinator("joiners")
    subscription = m.Subscription(("joined",))

    def join(member: str = "", **fields: Any) -> m.JoinGroupRequest:
        names = fields.get("protocols", ("range", "roundrobin"))
        return m.JoinGroupRequest(
            fields.get("group", "joiners"), 10_000, fields.get("rebalance", 30_000), member,
            fields.get("instance"), "consumer", tuple((name, subscription) for name in names), "c",
        )  # fmt: skip

    def beat(member: str, generation: int, group: str = "joiners") -> m.HeartbeatRequest:
        return m.HeartbeatRequest(group, generation, member, None)

    def sync(member: str, generation: int, kind: str = "consumer", group: str = "joiners") -> Any:
        return m.SyncGroupRequest(group, generation, member, None, kind, "range", ())

    def leave(*who: tuple[str, str | None], group: str = "joiners") -> m.LeaveGroupRequest:
        return m.LeaveGroupRequest(group, tuple((member, i, "") for member, i in who))

    def commit(member: str, generation: int, group: str = "joiners") -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest(group, generation, member, None, ((tp, 1, 0, ""),))

    talk.ask("heartbeat without a group id", beat("x", 1, ""), node)
    talk.ask("sync without a group id", sync("x", 1, group=""), node)
    talk.ask("leave without a group id", leave(("x", None), group=""), node)
    talk.ask("commit without a group id", commit("", -1, ""), node)
    talk.ask("fetch offsets without a group id", m.OffsetFetchRequest("", (tp,)), node)
    talk.ask("leave elsewhere", leave(("x", None)), node % 3 + 1)
    talk.ask("sync elsewhere", sync("x", 1), node % 3 + 1)
    talk.ask("leave an unknown group by instance", leave(("", "i1"), group="strangers"), node)
    talk.ask("leave an unknown group, nobody", leave(group="strangers"), node)
    talk.ask("leave an unknown group, two", leave(("x", None), ("y", "i1"), group="no"), node)
    given = talk.side.ask(node, join())
    talk.names.members[given.member_id] = "pending"
    pending = given.member_id
    talk.ask("heartbeat of a pending member", beat(pending, 0), node)
    talk.ask("sync of a pending member", sync(pending, 0), node)
    talk.ask("commit of a pending member", commit(pending, 0), node)
    talk.ask("leave of a pending member", leave((pending, None)), node)
    talk.ask("join of the pending member that left", join(pending), node)
    given = talk.side.ask(node, join())
    me = given.member_id
    talk.names.members[me] = "me"
    talk.ask("join with a session of another's", join("x"), node)
    joined = talk.ask("join", join(me), node)
    now = joined.generation_id
    talk.ask("sync with another protocol type", sync(me, now, "connect"), node)
    talk.ask("sync of a newer generation", sync(me, now + 1), node)
    talk.ask("sync of an unknown member", sync("nobody", now), node)
    talk.ask("sync", sync(me, now), node)
    talk.ask("join again, nothing changed", join(me), node)
    talk.ask("sync after that", sync(me, now + 1), node)
    talk.ask("heartbeat of the generation before", beat(me, now), node)
    talk.ask("join of an instance unknown with a member id", join(me, instance="i9"), node)
    talk.ask("leave of a stranger and me", leave(("x", None), (me, None)), node)
    talk.ask("join after leaving", join(me), node)
    talk.ask("leave, nobody", leave(), node)
    talk.ask("commit with a generation, group empty", commit(me, now + 1), node)
    talk.ask("commit with a member id alone, group empty", commit("x", -1), node)


def committed_offsets(talk: Talk) -> None:
    tp = talk.create("kept", (1, 2, 3), (2, 3, 1))
    second, away = TopicPartition("kept", 1), TopicPartition("kept", 9)
    unknown = TopicPartition("nowhere", 0)
    node = talk.coordinator("keepers")
    elsewhere = node % 3 + 1

    def commit(*rows: tuple[TopicPartition, int, str], **fields: Any) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest(
            fields.get("group", "keepers"), fields.get("generation", -1), fields.get("member", ""),
            fields.get("instance"), tuple((at, offset, -1, text) for at, offset, text in rows),
        )  # fmt: skip

    def fetch(*wanted: TopicPartition, **fields: Any) -> m.OffsetFetchRequest:
        stable = fields.get("stable", False)
        return m.OffsetFetchRequest(fields.get("group", "keepers"), wanted, stable)

    talk.ask("fetch before a commit", fetch(tp, second), node)
    talk.ask("fetch all before a commit", m.OffsetFetchRequest("keepers", None), node)
    talk.ask("commit nothing", commit(), node)
    talk.ask("commit two", commit((tp, 3, ""), (second, 4, "x")), node)
    talk.ask("commit one of two unknown", commit((tp, 5, ""), (away, 6, "")), node)
    talk.ask("commit, one metadata too large", commit((tp, 7, "x" * 5000), (second, 8, "")), node)
    talk.ask("commit for an unknown topic alone", commit((unknown, 1, "")), node)
    talk.ask("commit for an unknown topic elsewhere", commit((unknown, 1, "")), elsewhere)
    mixed = commit((unknown, 1, ""), (tp, 9, ""))
    talk.ask("commit one of two unknown elsewhere", mixed, elsewhere)
    unknown_group = commit((unknown, 1, ""), (tp, 9, ""), group="no", generation=3, member="x")
    talk.ask("commit one of two unknown to an unknown group", unknown_group, node)
    talk.ask("commit offset -1", commit((second, -1, "")), node)
    talk.ask("fetch after offset -1", fetch(second), node)
    talk.ask("commit offset -5", commit((second, -5, "")), node)
    talk.ask("fetch after offset -5", fetch(second), node)
    talk.ask("commit with an instance alone", commit((tp, 1, ""), instance="i1"), node)
    talk.ask("commit of generation 0", commit((tp, 2, ""), generation=0, member="x"), node)
    talk.ask("commit of generation -2", commit((tp, 2, ""), generation=-2), node)
    talk.ask("fetch nothing", fetch(), node)
    talk.ask("fetch one of each", fetch(tp, away, unknown), node)
    talk.ask("fetch stable", fetch(tp, second, stable=True), node)
    talk.ask("fetch one twice", fetch(tp, tp), node)
    talk.ask("fetch all", m.OffsetFetchRequest("keepers", None), node)
    talk.ask("fetch all of an unknown group", m.OffsetFetchRequest("no", None), node)
    talk.ask("fetch stable of an unknown group", fetch(tp, group="no", stable=True), node)
    talk.ask("fetch all elsewhere", m.OffsetFetchRequest("keepers", None), elsewhere)


def static_members(talk: Talk) -> None:
    tp = talk.create("statics")
    node = talk.coordinator("fixed")
    subscription = (("range", m.Subscription(("statics",))),)

    def join(member: str, instance: str) -> m.JoinGroupRequest:
        return m.JoinGroupRequest(
            "fixed", 10_000, 30_000, member, instance, "consumer", subscription, "c"
        )

    def sync(member: str, generation: int, *mine: TopicPartition) -> m.SyncGroupRequest:
        given = ((member, mine),) if mine else ()
        return m.SyncGroupRequest("fixed", generation, member, "i1", "consumer", "range", given)

    first = talk.side.ask(node, join("", "i1"))
    talk.names.members[first.member_id] = "old"
    talk.lines.append(f"{talk.name} / join: {shown(first, talk.names)}")
    talk.ask("sync", sync(first.member_id, first.generation_id, tp), node)
    again = talk.side.ask(node, join("", "i1"))
    talk.names.members[again.member_id] = "new"
    talk.lines.append(f"{talk.name} / join after a restart: {shown(again, talk.names)}")
    talk.ask("sync after the restart", sync(again.member_id, again.generation_id), node)
    generation = again.generation_id

    def beat(member: str, instance: str) -> m.HeartbeatRequest:
        return m.HeartbeatRequest("fixed", generation, member, instance)

    talk.ask("heartbeat of the old process", beat(first.member_id, "i1"), node)
    talk.ask("heartbeat of the new process", beat(again.member_id, "i1"), node)
    talk.ask("heartbeat under an unknown instance", beat(again.member_id, "i2"), node)
    talk.ask("join with the old member id", join(first.member_id, "i1"), node)
    old = m.OffsetCommitRequest("fixed", generation, first.member_id, "i1", ((tp, 3, 0, ""),))
    talk.ask("commit of the old process", old, node)
    stale = m.SyncGroupRequest("fixed", generation, first.member_id, "i1", "consumer", "range", ())
    talk.ask("sync of the old process", stale, node)
    other = m.OffsetCommitRequest("fixed", generation, again.member_id, "i2", ((tp, 3, 0, ""),))
    talk.ask("commit under an unknown instance", other, node)
    alone = m.OffsetCommitRequest("fixed", generation, again.member_id, None, ((tp, 3, 0, ""),))
    talk.ask("commit of the new process, no instance", alone, node)
    bare = m.OffsetCommitRequest("fixed", -1, "", "i1", ((tp, 3, 0, ""),))
    talk.ask("commit without a generation under the instance", bare, node)
    gone = ((first.member_id, "i1", ""),)
    talk.ask("leave of the old process", m.LeaveGroupRequest("fixed", gone), node)
    astray = ((again.member_id, "i2", ""),)
    talk.ask(
        "leave under an unknown instance with a member id",
        m.LeaveGroupRequest("fixed", astray),
        node,
    )
    talk.ask("join with an unknown member id", join("nobody", "i1"), node)
    talk.ask("leave by instance", m.LeaveGroupRequest("fixed", (("", "i1", ""),)), node)
    talk.ask("leave by an unknown instance", m.LeaveGroupRequest("fixed", (("", "i7", ""),)), node)
