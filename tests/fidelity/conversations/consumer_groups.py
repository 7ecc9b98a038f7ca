"""Heartbeats of consumer groups (KIP-848), most of them wrong in one way.

Members have one-letter ids: Kafka's hash maps go through those in the order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk

CLIENT_ID = "fidelity"
"""The client id of every request on the wire."""

Beat = Callable[..., m.ConsumerGroupHeartbeatRequest]


def _beats(talk: Talk, group: str, topic: str) -> tuple[Beat, Beat]:
    """Return what makes a member's first heartbeat, and any other; owned are partitions."""

    def beat(member: str, epoch: int, *owned: int, **fields: Any) -> Any:
        if owned == (-1,):
            fields["topic_partitions"] = ()
        elif owned:
            fields["topic_partitions"] = ((talk.ids[topic], owned),)
        return m.ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)

    def join(member: str, **fields: Any) -> Any:
        first = {
            "rebalance_timeout_ms": 60_000, "subscribed_topic_names": (topic,),
            "topic_partitions": (),
        }  # fmt: skip
        return m.ConsumerGroupHeartbeatRequest(group, member, 0, **{**first, **fields})

    return join, beat


def refusals(talk: Talk) -> None:
    talk.create("docks", (1, 2, 3), (2, 3, 1))
    node = talk.coordinator("wharf")
    join, beat = _beats(talk, "wharf", "docks")
    empty, _ = _beats(talk, "", "docks")
    talk.ask("join elsewhere", join("a"), node % 3 + 1)
    talk.ask("join an empty group id", empty("a"), node)
    talk.ask("join without a member id", join(""), node)
    talk.ask("join with a blank member id", join(" "), node)
    talk.ask("join with an empty instance id", join("a", instance_id=""), node)
    talk.ask("join with an empty rack", join("a", rack_id=""), node)
    talk.ask("join without a timeout", join("a", rebalance_timeout_ms=-1), node)
    talk.ask("join without a subscription", join("a", subscribed_topic_names=None), node)
    talk.ask("join without partitions", join("a", topic_partitions=None), node)
    owned = ((talk.ids["docks"], (0,)),)
    talk.ask("join with partitions", join("a", topic_partitions=owned), node)
    talk.ask("join with an unknown assignor", join("a", server_assignor="sticky"), node)
    bad = join("a", server_assignor="sticky", rack_id="")
    talk.ask("join with an unknown assignor and an empty rack", bad, node)
    for regex in ("(", "a**", "(a)\\1", "a(?=b)", "(?<n>a)\\k<n>", "a++", "[z-a]"):
        wrong = join("a", subscribed_topic_names=None, subscribed_topic_regex=regex)
        talk.ask(f"join with the expression {regex}", wrong, node)
    talk.ask("heartbeat of an unknown group", beat("a", 1), node)
    talk.ask("leave an unknown group", beat("a", -1), node)
    talk.ask("leave for a while without an instance id", beat("a", -2), node)
    talk.ask("heartbeat with epoch -3", beat("a", -3), node)
    talk.ask("describe an unknown group", m.ConsumerGroupDescribeRequest(("wharf",)), node)
    talk.ask("describe elsewhere", m.ConsumerGroupDescribeRequest(("wharf",)), node % 3 + 1)
    talk.ask("describe no group", m.ConsumerGroupDescribeRequest(()), node)
    talk.ask("describe an empty group id", m.ConsumerGroupDescribeRequest(("",)), node)
    two = m.ConsumerGroupDescribeRequest(("wharf", "strangers"))
    talk.ask("describe two unknown groups", two, node)
    talk.ask("join without topics", join("a", subscribed_topic_names=()), node)
    talk.ask("heartbeat of an unknown member", beat("x", 1), node)
    talk.ask("leave as an unknown member", beat("x", -1), node)
    talk.ask("heartbeat of an unknown instance", beat("a", 1, instance_id="i"), node)
    talk.ask("leave", beat("a", -1), node)
    talk.ask("leave again", beat("a", -1), node)


def reconciliation(talk: Talk) -> None:
    first = talk.create("ships", (1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 3, 1))
    node = talk.coordinator("fleet")
    join, beat = _beats(talk, "fleet", "ships")

    def commit(offset: int, member: str, epoch: int) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest("fleet", epoch, member, None, ((first, offset, 0, ""),))

    def describe(when: str) -> None:
        talk.ask(f"describe {when}", m.ConsumerGroupDescribeRequest(("fleet",)), node)

    talk.ask("a joins", join("a"), node)
    talk.ask("a joins again", join("a"), node)
    talk.ask("a heartbeat", beat("a", 1), node)
    talk.ask("a full heartbeat", beat("a", 1, 0, 1, rebalance_timeout_ms=60_000,
                                      subscribed_topic_names=("ships",)), node)  # fmt: skip
    talk.ask("b joins", join("b"), node)
    describe("while b waits")
    talk.ask("a has to revoke", beat("a", 1), node)
    talk.ask("a still owns all", beat("a", 1, 0, 1, 2, 3, 4), node)
    talk.ask("b still waits", beat("b", 2), node)
    talk.ask("c joins", join("c"), node)
    talk.ask("a has revoked", beat("a", 1, 0, 1, 2), node)
    talk.ask("a of the epoch before, owning less", beat("a", 1, 0), node)
    talk.ask("a has revoked again", beat("a", 2, 0, 1), node)
    talk.ask("b gets its part", beat("b", 2), node)
    talk.ask("c gets its part", beat("c", 3), node)
    talk.ask("b goes on", beat("b", 3), node)
    talk.ask("a goes on", beat("a", 3), node)
    describe("when all are stable")
    talk.ask("a of a newer epoch", beat("a", 9), node)
    talk.ask("a of an old epoch", beat("a", 1, 0), node)
    talk.ask("a of the epoch before, owning more", beat("a", 2, 0, 1, 2, 3), node)
    talk.ask("a of the epoch before, owning nothing said", beat("a", 2), node)
    talk.ask("commit", commit(5, "a", 3), node)
    talk.ask("commit of an older epoch", commit(6, "a", 2), node)
    talk.ask("commit of a newer epoch", commit(6, "a", 4), node)
    talk.ask("commit of an unknown member", commit(6, "x", 3), node)
    talk.ask("commit without an epoch while there are members", commit(6, "", -1), node)
    talk.ask("fetch offsets", m.OffsetFetchRequest("fleet", (first,)), node)
    talk.ask("a heartbeat of the classic protocol", m.HeartbeatRequest("fleet", 3, "a", None), node)
    talk.ask("c leaves", beat("c", -1), node)
    talk.ask("a after c", beat("a", 3), node)
    talk.ask("b after c", beat("b", 3), node)
    talk.ask("b changes the assignor", beat("b", 4, server_assignor="range"), node)
    describe("with one for range")
    talk.ask("b unsubscribes", beat("b", 4, subscribed_topic_names=()), node)
    talk.ask("b has revoked", beat("b", 4, -1), node)
    talk.ask("a has everything", beat("a", 4), node)
    talk.ask("a joins anew", join("a"), node)
    talk.ask("a leaves", beat("a", -1), node)
    talk.ask("b leaves", beat("b", -1), node)
    describe("when all have left")
    talk.ask("commit without an epoch, group empty", commit(7, "", -1), node)
    talk.ask("d joins", join("d"), node)


def static_members(talk: Talk) -> None:
    talk.create("lighters", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    node = talk.coordinator("pier")
    join, beat = _beats(talk, "pier", "lighters")
    talk.ask("a joins", join("a", instance_id="i"), node)
    talk.ask("a joins again", join("a", instance_id="i"), node)
    talk.ask("another takes its place", join("b", instance_id="i"), node)
    talk.ask("another heartbeats in its place", beat("b", 1, instance_id="i"), node)
    talk.ask("another leaves in its place", beat("b", -1, instance_id="i"), node)
    talk.ask("a without its instance id", beat("a", 1), node)
    talk.ask("c joins", join("c", instance_id="j"), node)
    talk.ask("a has to revoke", beat("a", 1, instance_id="i"), node)
    talk.ask("a leaves for a while", beat("a", -2, instance_id="i"), node)
    talk.ask("c meanwhile", beat("c", 2, instance_id="j"), node)
    talk.ask("b takes its place", join("b", instance_id="i"), node)
    talk.ask("a comes too late", beat("a", 1, instance_id="i"), node)
    talk.ask("c gets its part", beat("c", 2, instance_id="j"), node)
    talk.ask("c leaves for a while", beat("c", -2, instance_id="j"), node)
    talk.ask("d takes its place with other topics",
             join("d", instance_id="j", subscribed_topic_names=("nothing",)), node)  # fmt: skip
    talk.ask("b gets the rest", beat("b", 2, instance_id="i"), node)
    talk.ask("b leaves for good", beat("b", -1, instance_id="i"), node)
    talk.ask("describe", m.ConsumerGroupDescribeRequest(("pier",)), node)


def topics(talk: Talk) -> None:
    """Topics that come, grow and go; expressions."""
    talk.create("barge", (1, 2, 3), (2, 3, 1))
    node = talk.coordinator("canal")
    join, beat = _beats(talk, "canal", "barge")
    later = join("a", subscribed_topic_names=("barge", "barge-2"))
    talk.ask("a joins, one topic is missing", later, node)
    talk.create("barge-2", (1, 2, 3))
    talk.ask("a once the topic is there", beat("a", 1), node)
    grown = (m.CreatePartitionsTopic("barge", 3, ((3, 1, 2),)),)
    talk.ask("barge grows", m.CreatePartitionsRequest(grown))
    talk.side.settle(3)
    talk.ask("a once barge has grown", beat("a", 2), node)
    gone = m.DeleteTopicsRequest((("barge-2", ""),))
    talk.ask("barge-2 is deleted", gone)
    talk.side.settle(3)
    talk.ask("a once barge-2 is gone", beat("a", 3), node)
    talk.ask("a has revoked", beat("a", 3, 0, 1, 2), node)
    regex = join("b", subscribed_topic_names=None, subscribed_topic_regex="bar.*")
    talk.ask("b joins by an expression", regex, node)
    talk.side.settle(3)
    talk.ask("b once it is resolved", beat("b", 5), node)
    talk.ask("a has to revoke", beat("a", 4), node)
    talk.ask("describe", m.ConsumerGroupDescribeRequest(("canal",)), node)
    talk.ask("b changes to names", beat("b", 6, subscribed_topic_regex="",
                                        subscribed_topic_names=("barge",)), node)  # fmt: skip
    talk.ask("b leaves", beat("b", -1), node)


def classic_groups(talk: Talk) -> None:
    """What the two protocols make of each other's groups, while nobody is in them."""
    tp = talk.create("tugs", (1, 2, 3))
    node = talk.coordinator("basin")
    join, beat = _beats(talk, "basin", "tugs")
    simple = m.OffsetCommitRequest("basin", -1, "", None, ((tp, 5, 0, ""),))
    talk.ask("commit without a group", simple, node)
    talk.ask("describe a simple group", m.ConsumerGroupDescribeRequest(("basin",)), node)
    talk.ask("a joins", join("a"), node)
    fetched = m.OffsetFetchRequest("basin", (TopicPartition("tugs", 0),))
    talk.ask("fetch the offset", fetched, node)
    talk.ask("sync as a stranger",
             m.SyncGroupRequest("basin", 1, "x", None, "consumer", "range", ()), node)  # fmt: skip
    talk.ask("heartbeat as a stranger", m.HeartbeatRequest("basin", 1, "x", None), node)
    talk.ask("leave as a stranger", m.LeaveGroupRequest("basin", (("x", None, ""),)), node)
    talk.ask("a leaves", beat("a", -1), node)
    subscription = m.Subscription(("tugs",))
    classic = m.JoinGroupRequest(
        "basin", 10_000, 30_000, "", None, "consumer", (("range", subscription),), "c"
    )
    answer = talk.side.ask(node, classic)
    talk.lines.append(f"{talk.name} / a classic member asks for its id: {answer.error.name}")
    talk.ask("describe", m.ConsumerGroupDescribeRequest(("basin",)), node)


def migration(talk: Talk) -> None:
    """A classic group with a member becomes a consumer group, and goes back."""
    tp = talk.create("haul", *[(1, 2, 3)] * 6)
    node = talk.coordinator("carriers")
    consumer_join, beat = _beats(talk, "carriers", "haul")
    all_six = tuple(TopicPartition("haul", i) for i in range(6))

    def join(member: str, *owned: int, **fields: Any) -> m.JoinGroupRequest:
        told = m.Subscription(("haul",), tuple(all_six[i] for i in owned))
        names = fields.get("names", ("range",))
        return m.JoinGroupRequest(
            "carriers", fields.get("session", 10_000), 30_000, member, fields.get("instance"),
            fields.get("kind", "consumer"), tuple((name, told) for name in names), CLIENT_ID,
        )  # fmt: skip

    def sync(member: str, epoch: int, *mine: TopicPartition, **fields: Any) -> m.SyncGroupRequest:
        given = ((member, mine),) if mine else ()
        kind, name = fields.get("kind", "consumer"), fields.get("name", "range")
        instance = fields.get("instance")
        return m.SyncGroupRequest("carriers", epoch, member, instance, kind, name, given)

    def heartbeat(member: str, epoch: int, instance: str | None = None) -> m.HeartbeatRequest:
        return m.HeartbeatRequest("carriers", epoch, member, instance)

    def commit(member: str, epoch: int) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest("carriers", epoch, member, None, ((tp, 5, 0, ""),))

    def describe(when: str) -> None:
        talk.ask(f"describe {when}", m.ConsumerGroupDescribeRequest(("carriers",)), node)
        talk.ask(f"classic describe {when}", m.DescribeGroupsRequest(("carriers",)), node)

    def first_classic_member(name: str) -> str:
        given = talk.side.ask(node, join(""))
        talk.names.members[given.member_id] = name
        return str(given.member_id)

    a = first_classic_member("a")
    now = talk.ask("a joins a classic group", join(a), node).generation_id
    talk.ask("a syncs", sync(a, now, *all_six), node)
    talk.ask("b heartbeats before it joins", beat("b", 1), node)
    talk.ask("b joins by the consumer protocol", consumer_join("b"), node)
    describe("after the upgrade")
    talk.ask("a commits", commit(a, now), node)
    talk.ask("a commits of another generation", commit(a, now + 1), node)
    talk.ask("a heartbeats", heartbeat(a, now), node)
    talk.ask("a heartbeats of another generation", heartbeat(a, now + 1), node)
    talk.ask("a syncs again", sync(a, now), node)
    talk.ask("b heartbeats by the classic protocol", heartbeat("b", now + 1), node)
    talk.ask("b syncs by the classic protocol", sync("b", now + 1), node)
    talk.ask("a joins with a short session", join(a, session=10), node)
    talk.ask("a joins with another protocol", join(a, names=("roundrobin",)), node)
    talk.ask("a joins with another protocol type", join(a, kind="connect"), node)
    talk.ask("a joins owning all", join(a, 0, 1, 2, 3, 4, 5), node)
    talk.ask("a syncs while it has to revoke", sync(a, now), node)
    talk.ask("a heartbeats while it has to revoke", heartbeat(a, now), node)
    talk.ask("b meanwhile", beat("b", now + 1), node)
    talk.ask("a heartbeats still", heartbeat(a, now), node)
    talk.ask("a joins with what is left", join(a, 0, 1, 2), node)
    talk.ask("a syncs with another protocol", sync(a, now + 1, name="sticky"), node)
    talk.ask("a syncs with another protocol type", sync(a, now + 1, kind="connect"), node)
    talk.ask("a syncs in its new epoch", sync(a, now + 1), node)
    talk.ask("a heartbeats in its new epoch", heartbeat(a, now + 1), node)
    talk.ask("b gets its part", beat("b", now + 1), node)
    asked = talk.side.ask(node, join(""))
    talk.lines.append(f"{talk.name} / a third member asks for its id: {asked.error.name}")
    talk.ask("c joins by the classic protocol", join("c", names=("range", "sticky")), node)
    talk.ask("c syncs", sync("c", now + 2), node)
    talk.ask("d joins by another protocol", join("d", names=("sticky",)), node)
    talk.ask("a leaves", m.LeaveGroupRequest("carriers", ((a, None, ""), ("x", None, ""))), node)
    talk.ask("c heartbeats after a", heartbeat("c", now + 2), node)
    talk.ask("b makes room", beat("b", now + 1, 3, 4), node)
    talk.ask("c joins again", join("c", names=("range", "sticky")), node)
    talk.ask("c syncs again", sync("c", now + 3), node)
    describe("before the downgrade")
    talk.ask("b leaves", beat("b", -1), node)
    describe("after the downgrade")
    talk.ask("c heartbeats as a classic member", heartbeat("c", now + 3), node)
    talk.ask("c heartbeats of another generation", heartbeat("c", now + 2), node)
    leads = talk.ask("c joins the classic group", join("c", names=("range", "sticky")), node)
    talk.ask("c syncs in the classic group", sync("c", leads.generation_id, *all_six), node)
    talk.ask("c leaves", m.LeaveGroupRequest("carriers", (("c", None, ""),)), node)

    talk.ask("s joins by the consumer protocol", consumer_join("s", instance_id="i"), node)
    talk.ask("s syncs as a classic member", sync("s", 1, instance="i"), node)
    talk.ask("t joins by the consumer protocol", consumer_join("t", instance_id="j"), node)
    talk.ask("s goes on", beat("s", 1, 0, 1, 2, instance_id="i"), node)
    talk.ask("t goes on", beat("t", 2, instance_id="j"), node)
    for member, instance in (("s", "i"), ("t", "j")):
        answer = talk.side.ask(node, join("", instance=instance))
        talk.names.members[answer.member_id] = f"the second {member}"
        talk.lines.append(
            f"{talk.name} / {member} comes back as a classic member: {answer.error.name} "
            f"{answer.generation_id} {answer.protocol_name}"
        )
        describe(f"after {member} came back")
    talk.ask("the first s", beat("s", 2, instance_id="i"), node)
    talk.ask("u takes a classic member's place", consumer_join("u", instance_id="i"), node)
    describe("after u came")
    both = (("", "i", ""), ("", "j", ""))
    talk.ask("an operator removes both", m.LeaveGroupRequest("carriers", both), node)
    describe("at the end")


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "refusals": refusals,
    "reconciliation": reconciliation,
    "static members": static_members,
    "topics": topics,
    "classic groups": classic_groups,
    "migration": migration,
}
