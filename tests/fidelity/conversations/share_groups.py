"""Members and operators of share groups (KIP-932), most of them wrong in one way.

Members have one-letter ids: Kafka's hash maps go through those in the order of the alphabet.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.messages import share as s
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import NOBODY, Talk

SHARE = 2
"""The type of a coordinator's key."""

SECONDS = 2.0
"""In which share partitions are initialized."""


def turned_off(talk: Talk) -> None:
    """Every request while share.version is 0, then turn it on."""
    member = "AAAAAAAAAAAAAAAAAAAAAw"
    partition = s.SharePartitionRequest(TopicPartition("none", 0), NOBODY)
    talk.ask("heartbeat", s.ShareGroupHeartbeatRequest("g", "a", 0, None, ("none",)))
    talk.ask("describe", s.ShareGroupDescribeRequest(("g",)))
    talk.ask("fetch", s.ShareFetchRequest("g", member, 0, 100, 1, 1000, 10, 10, (partition,)))
    talk.ask("acknowledge", s.ShareAcknowledgeRequest("g", member, 1, (partition,)))
    asked = (s.DescribeShareGroupOffsetsGroup("g", None),)
    talk.ask("describe offsets", s.DescribeShareGroupOffsetsRequest(asked))
    talk.ask("alter offsets", s.AlterShareGroupOffsetsRequest("g", (("none", ((0, 1),)),)))
    talk.ask("delete offsets", s.DeleteShareGroupOffsetsRequest("g", ("none",)))
    talk.ask("find the coordinator", m.FindCoordinatorRequest(f"g:{NOBODY}:0", SHARE))
    talk.ask("level 2", m.UpdateFeaturesRequest((("share.version", 2),)))
    talk.ask("level 1", m.UpdateFeaturesRequest((("share.version", 1),)))
    _await_feature(talk)
    talk.ask("key without a topic", m.FindCoordinatorRequest("g", SHARE))
    talk.ask("key without a partition", m.FindCoordinatorRequest(f"g:{NOBODY}", SHARE))
    talk.ask("key with a topic's name", m.FindCoordinatorRequest("g:none:0", SHARE))
    talk.ask("key with partition x", m.FindCoordinatorRequest(f"g:{NOBODY}:x", SHARE))
    talk.ask("key of an empty group", m.FindCoordinatorRequest(f":{NOBODY}:0", SHARE))


def _await_feature(talk: Talk) -> None:
    """Wait until every broker has share groups."""
    for node in (1, 2, 3):
        for _ in range(20):
            answer = talk.side.ask(node, s.ShareGroupDescribeRequest(("g",)))
            if answer.groups[0].error is not Errors.UNSUPPORTED_VERSION:
                break
            talk.side.settle(0.5)


def crowded(talk: Talk) -> None:
    """Members and sessions where groups have one member, and brokers one share session."""
    talk.side.ask(1, m.UpdateFeaturesRequest((("share.version", 1),)))
    _await_feature(talk)
    tp = talk.create("narrows", (1, 2, 3))
    node = talk.coordinator("pilots")

    def beat(member: str, epoch: int = 0) -> s.ShareGroupHeartbeatRequest:
        topics = (tp.topic,) if epoch == 0 else None
        return s.ShareGroupHeartbeatRequest("pilots", member, epoch, None, topics)

    talk.ask("the first member", beat("a"), node)
    talk.ask("a second one", beat("b"), node)
    talk.ask("the first one again", beat("a"), node)
    talk.ask("it leaves", beat("a", -1), node)
    talk.ask("the second one then", beat("b"), node)
    ann, bob = ("AAAAAAAAAAAAAAAAAAAAA" + end for end in "Qg")

    def fetch(
        member: str, epoch: int, group: str = "pilots", *rows: s.AcknowledgementBatch,
        of: tuple[TopicPartition, ...] = (tp,),
    ) -> s.ShareFetchRequest:  # fmt: skip
        asked = tuple(s.SharePartitionRequest(each, talk.ids[each.topic], rows) for each in of)
        return s.ShareFetchRequest(group, member, epoch, 200, 1, 1 << 20, 500, 500, asked)

    talk.ask("ann opens a session", fetch(ann, 0))
    talk.ask("bob opens one", fetch(bob, 0))
    talk.ask("bob opens one of another group", fetch(bob, 0, "crews"))
    talk.ask("ann opens one of another group", fetch(ann, 0, "crews"))
    talk.ask("bob opens one without partitions", fetch(bob, 0, of=()))
    accepted = s.AcknowledgementBatch(0, 0, (1,))
    talk.ask("bob opens one with acknowledgements", fetch(bob, 0, "pilots", accepted))
    talk.ask("bob goes on", fetch(bob, 1))
    talk.ask("bob closes what he has not", fetch(bob, -1, of=()))
    talk.ask("bob opens one elsewhere", fetch(bob, 0), 2)
    talk.ask("ann goes on", fetch(ann, 1))
    talk.ask("ann opens again", fetch(ann, 0))
    talk.ask("ann closes", fetch(ann, -1, of=()))
    talk.side.settle(1.0)
    talk.ask("bob opens one then", fetch(bob, 0))
    talk.ask("ann goes on then", fetch(ann, 1))
    talk.ask("ann opens one then", fetch(ann, 0))


def refusals(talk: Talk) -> None:
    """Heartbeats and descriptions that are refused, and groups of other kinds."""
    topic = talk.create("quays", (1, 2, 3), (2, 3, 1)).topic
    node = talk.coordinator("dockers")

    def beat(member: str, epoch: int, group: str = "dockers", **fields: Any) -> Any:
        if epoch == 0:
            fields = {"subscribed_topic_names": (topic,), **fields}
        return s.ShareGroupHeartbeatRequest(group, member, epoch, **fields)

    def describe(*groups: str) -> s.ShareGroupDescribeRequest:
        return s.ShareGroupDescribeRequest(groups)

    talk.ask("join elsewhere", beat("a", 0), node % 3 + 1)
    talk.ask("join an empty group id", beat("a", 0, ""), node)
    talk.ask("join a blank group id", beat("a", 0, " "), node)
    talk.ask("join without a member id", beat("", 0), node)
    talk.ask("join with a blank member id", beat(" ", 0), node)
    talk.ask("join with an empty rack", beat("a", 0, rack_id=""), node)
    talk.ask("join with a blank rack", beat("a", 0, rack_id=" "), node)
    talk.ask("join without a subscription", beat("a", 0, subscribed_topic_names=None), node)
    talk.ask("join without topics", beat("a", 0, subscribed_topic_names=()), node)
    talk.ask("heartbeat of an unknown group", beat("a", 1), node)
    talk.ask("heartbeat with epoch -2", beat("a", -2), node)
    talk.ask("heartbeat with epoch -3", beat("a", -3), node)
    talk.ask("leave an unknown group", beat("a", -1), node)
    talk.ask("describe an unknown group", describe("dockers"), node)
    talk.ask("describe elsewhere", describe("dockers"), node % 3 + 1)
    talk.ask("describe no group", describe(), node)
    talk.ask("describe an empty group id", describe(""), node)
    talk.ask("describe two unknown groups", describe("dockers", "strangers"), node)
    talk.ask("join an unknown topic", beat("a", 0, subscribed_topic_names=("nowhere",)), node)
    talk.ask("heartbeat of an unknown member", beat("x", 1), node)
    talk.ask("leave as an unknown member", beat("x", -1), node)
    talk.ask("heartbeat of a newer epoch", beat("a", 7), node)
    talk.ask("describe with a member without partitions", describe("dockers"), node)
    consumer = m.ConsumerGroupHeartbeatRequest(
        "dockers", "c", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(topic,),
        topic_partitions=(),
    )  # fmt: skip
    talk.ask("a consumer joins the share group", consumer, node)
    classic = (("range", m.Subscription((topic,))),)
    join = m.JoinGroupRequest("dockers", 30_000, 60_000, "", None, "consumer", classic)
    talk.ask("a classic consumer joins the share group", join, node)
    talk.ask("a classic heartbeat", m.HeartbeatRequest("dockers", 1, "a", None), node)
    commit = m.OffsetCommitRequest("dockers", -1, "", None, ((TopicPartition(topic, 0), 1, 0, ""),))
    talk.ask("commit to the share group", commit, node)
    talk.ask(
        "fetch its offsets", m.OffsetFetchRequest("dockers", (TopicPartition(topic, 0),)), node
    )
    talk.ask("describe it as a classic group", m.DescribeGroupsRequest(("dockers",)), node)
    talk.ask("describe it as a consumer group", m.ConsumerGroupDescribeRequest(("dockers",)), node)
    talk.ask("list groups", m.ListGroupsRequest(), node)
    talk.ask("delete it with a member", m.DeleteGroupsRequest(("dockers",)), node)
    talk.ask("leave", beat("a", -1), node)
    talk.ask("leave again", beat("a", -1), node)
    talk.ask("describe it without members", describe("dockers"), node)
    talk.ask("a consumer joins the empty share group", consumer, node)
    talk.ask("delete it", m.DeleteGroupsRequest(("dockers",)), node)
    talk.ask("describe the deleted one", describe("dockers"), node)
    other = m.ConsumerGroupHeartbeatRequest(
        "crew", "c", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(topic,),
        topic_partitions=(),
    )  # fmt: skip
    talk.ask("a consumer joins a group of its own", other, node)
    talk.ask("a share member joins the consumer group", beat("a", 0, "crew"), node)
    talk.ask("describe the consumer group", describe("crew"), node)


def assignment(talk: Talk) -> None:
    """Members come and go; what was initialized is assigned with the next heartbeat."""
    topic = talk.create("cranes", (1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3)).topic
    node = talk.coordinator("lifters")

    def beat(member: str, epoch: int, *topics: str) -> Any:
        names = topics or ((topic,) if epoch == 0 else None)
        return s.ShareGroupHeartbeatRequest("lifters", member, epoch, None, names)

    def describe(when: str) -> None:
        talk.ask(f"describe {when}", s.ShareGroupDescribeRequest(("lifters",)), node)

    talk.ask("a joins", beat("a", 0), node)
    talk.side.settle(SECONDS)
    describe("when nothing is assigned yet")
    talk.ask("a gets all", beat("a", 1), node)
    talk.ask("a heartbeat", beat("a", 2), node)
    talk.ask("a full heartbeat", beat("a", 2, topic), node)
    talk.ask("a of the epoch before", beat("a", 1), node)
    talk.ask("a of an older epoch", beat("a", 0), node)
    talk.ask("b joins", beat("b", 0), node)
    talk.ask("a keeps some", beat("a", 2), node)
    talk.ask("b joins again", beat("b", 0), node)
    describe("with two")
    for name in "cdef":
        talk.ask(f"{name} joins", beat(name, 0), node)
    talk.ask("a of six", beat("a", 3), node)
    describe("with six members for four partitions")
    talk.ask("b subscribes to nothing known", beat("b", 4, "nowhere"), node)
    talk.ask("b joins late", beat("b", 3, "nowhere"), node)
    talk.ask("a after b", beat("a", 7), node)
    for name in "cdef":
        talk.ask(f"{name} leaves", beat(name, -1), node)
    describe("with a and b")
    talk.ask("a alone", beat("a", 8), node)
    described = s.DescribeShareGroupOffsetsGroup
    everything = s.DescribeShareGroupOffsetsRequest((described("lifters", None),))
    talk.ask("offsets", everything, node)
    wanted = ((topic, (0, 3, 9)), ("nowhere", (0,)))
    some = s.DescribeShareGroupOffsetsRequest((described("lifters", wanted),))
    talk.ask("offsets of some", some, node)
    none = s.DescribeShareGroupOffsetsRequest((described("lifters", ()),))
    talk.ask("offsets of no topic", none, node)
    unknown = (described("strangers", None), described("strangers", wanted), described("", None))
    talk.ask("offsets of unknown groups", s.DescribeShareGroupOffsetsRequest(unknown), node)
    talk.ask("offsets elsewhere", everything, node % 3 + 1)

    def alter(*rows: tuple[int, int], of: str = topic, group: str = "lifters") -> Any:
        return s.AlterShareGroupOffsetsRequest(group, ((of, rows),))

    talk.ask("alter with members", alter((0, 5)), node)
    talk.ask("delete with members", s.DeleteShareGroupOffsetsRequest("lifters", (topic,)), node)
    talk.ask("a leaves", beat("a", -1), node)
    talk.ask("b leaves", beat("b", -1), node)
    describe("when all have left")
    talk.ask("alter", alter((0, 5), (3, 7)), node)
    talk.ask("alter an unknown partition", alter((0, 6), (9, 7)), node)
    talk.ask("alter an unknown topic", alter((0, 6), of="nowhere"), node)
    talk.ask("alter of an unknown group", alter((0, 6), group="strangers"), node)
    talk.ask("alter of an empty group id", alter((0, 6), group=""), node)
    talk.ask("alter elsewhere", alter((0, 6)), node % 3 + 1)
    talk.ask("alter to -1", alter((1, -1)), node)
    talk.ask("alter to -2", alter((1, -2)), node)
    talk.ask("offsets after", everything, node)
    talk.ask("delete", s.DeleteShareGroupOffsetsRequest("lifters", (topic, "nowhere")), node)
    talk.ask("delete again", s.DeleteShareGroupOffsetsRequest("lifters", (topic,)), node)
    talk.ask("delete no topic", s.DeleteShareGroupOffsetsRequest("lifters", ()), node)
    talk.ask("delete of strangers", s.DeleteShareGroupOffsetsRequest("strangers", (topic,)), node)
    talk.ask("delete of an empty id", s.DeleteShareGroupOffsetsRequest("", (topic,)), node)
    talk.ask("offsets at the end", everything, node)
    talk.ask("delete the group", m.DeleteGroupsRequest(("lifters",)), node)
