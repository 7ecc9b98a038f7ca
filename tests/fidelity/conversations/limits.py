"""Groups and logs of coordinators on brokers that allow one member, and small records.

The cluster has ``SETTINGS``: a group has one member, whatever its protocol.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.conversations.transactions import Transactions
from tests.fidelity.sides import SETTINGS as COMMON

IDS = m.InitProducerIdRequest(None, 60_000)

SETTINGS = {**COMMON, "group.max.size": "1", "group.consumer.max.size": "1"}


def full_groups(talk: Talk) -> None:
    talk.create("crowded")
    node = talk.coordinator("crowd")
    subscription = m.Subscription(("crowded",))

    def join(member: str = "", instance: str | None = None) -> m.JoinGroupRequest:
        return m.JoinGroupRequest(
            "crowd", 10_000, 30_000, member, instance, "consumer", (("range", subscription),), "c"
        )

    def name(answer: m.JoinGroupResponse, what: str) -> str:
        talk.names.members[answer.member_id] = what
        return answer.member_id

    first = name(talk.side.ask(node, join()), "first")
    second = name(talk.side.ask(node, join()), "second")
    joined = talk.ask("the first joins", join(first), node)
    sync = m.SyncGroupRequest("crowd", joined.generation_id, first, None, "consumer", "range", ())
    talk.ask("it syncs", sync, node)
    talk.ask("the second joins", join(second), node)
    third = talk.side.ask(node, join())
    talk.ask("a third joins", join(name(third, "third")), node)
    talk.ask("an instance joins", join(instance="i1"), node)
    beating = m.HeartbeatRequest("crowd", joined.generation_id, first, None)
    talk.ask("the first heartbeats", beating, node)
    talk.ask("it leaves", m.LeaveGroupRequest("crowd", ((first, None, ""),)), node)
    again = talk.side.ask(node, join())
    talk.ask("another joins then", join(name(again, "another")), node)
    if talk.side.zookeeper:
        return

    def beat(member: str, epoch: int = 0) -> m.ConsumerGroupHeartbeatRequest:
        return m.ConsumerGroupHeartbeatRequest(
            "modern-crowd", member, epoch, None, None, 30_000, ("crowded",), None, None, ()
        )

    talk.ask("a modern group's first member", beat("AAAAAAAAAAAAAAAAAAAAQg"), node)
    talk.ask("its second member", beat("BAAAAAAAAAAAAAAAAAAAQg"), node)
    talk.ask("its first member again", beat("AAAAAAAAAAAAAAAAAAAAQg"), node)


def _limit(talk: Talk, topic: str, bytes_: str | None) -> None:
    """Set the largest batch of an internal topic, or unset it."""
    resource = m.AlterableConfig("topic", topic, (("max.message.bytes", bytes_),))
    talk.side.ask(1, m.IncrementalAlterConfigsRequest((resource,)))
    talk.side.settle(2)


def small_offsets(talk: Talk) -> None:
    """Offsets and members that do not fit into a batch of their log."""
    tp = talk.create("offset")
    node = talk.coordinator("committers")

    def commit(to: TopicPartition = tp, metadata: str = "x" * 200) -> m.OffsetCommitRequest:
        return m.OffsetCommitRequest("committers", -1, "", None, ((to, 5, 0, metadata),))

    _limit(talk, "__consumer_offsets", "90")
    talk.ask("a commit that is too large", commit(), node)
    away = TopicPartition("offset", 9)
    talk.ask("a commit that is too large, of no partition", commit(away), node)
    talk.ask("its offset", m.OffsetFetchRequest("committers", (tp,)), node)
    _limit(talk, "__consumer_offsets", None)
    talk.ask("the commit where it fits", commit(), node)
    talk.ask("its offset then", m.OffsetFetchRequest("committers", (tp,)), node)


def small_transactions(talk: Talk) -> None:
    """Transactional ids whose records do not fit into a batch of their log."""
    told = Transactions(talk, 4, "sized")
    while talk.side.ask(told.node, IDS).error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
        talk.side.settle(0.2)  # the broker waits for its first block of ids
    told.init("a producer")
    _limit(talk, "__transaction_state", "40")
    talk.ask("another where it does not fit", m.InitProducerIdRequest("other", 60_000), told.node)
    told.init("the producer where it does not fit")
    told.init("again")
    _limit(talk, "__transaction_state", None)
    told.init("the producer where it fits")
    talk.ask("another where it fits", m.InitProducerIdRequest("other", 60_000), told.node)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "full groups": full_groups,
    "small offsets": small_offsets,
    "small transactions": small_transactions,
}
