"""Heartbeats of consumer groups (KIP-848), most of them wrong in one way.

Members have one-letter ids: Kafka's hash maps go through those in the order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk

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


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "refusals": refusals,
    "reconciliation": reconciliation,
    "static members": static_members,
    "topics": topics,
    "classic groups": classic_groups,
}
