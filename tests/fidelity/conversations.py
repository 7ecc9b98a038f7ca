"""Raw requests, most of them wrong in one way, with all answers written down.

Each conversation has topics and groups of its own, so that one does not disturb the next. A line of
the result is ``conversation / what was asked: answer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, RecordBatch, TopicPartition, batch_of
from tests.fidelity.sides import Names, Side, shown

NOBODY = "AAAAAAAAAAAAAAAAAAAAAQ"
"""A topic id that no topic has."""


class Talk:
    """One conversation: asks, and writes down the answers."""

    def __init__(self, side: Side, name: str) -> None:
        self.side = side
        self.name = name
        self.names = Names()
        self.lines: list[str] = []
        self.ids: dict[str, str] = {}  # topic -> its id
        self.leaders: dict[TopicPartition, int] = {}

    def ask(self, what: str, message: m.Message, node: int = 1) -> Any:
        """Send a request to a broker and write its answer down under ``what``."""
        answer = self.side.ask(node, message)
        self.lines.append(f"{self.name} / {what}: {shown(answer, self.names)}")
        return answer

    def create(self, topic: str, *assignment: tuple[int, ...], **configs: str) -> TopicPartition:
        """Create a topic with these replicas, and wait until its leaders serve; return its
        first partition."""
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        wanted = m.CreatableTopic(topic, -1, -1, assignment or ((1, 2, 3),), settings)
        answer = self.side.ask(1, m.CreateTopicsRequest((wanted,), 10_000))
        assert answer.results[0][1] is Errors.NONE, answer
        for _ in range(40):
            self.side.settle(0.5)
            known = [self.side.ask(node, m.MetadataRequest((topic,), False)) for node in (1, 2, 3)]
            if all(answer.topics[0].error is Errors.NONE for answer in known):
                break
        found = known[0].topics[0]
        self.ids[topic] = found.topic_id
        self.names.topics[found.topic_id] = topic
        for partition in found.partitions:
            self.leaders[TopicPartition(topic, partition.partition)] = partition.leader
        return TopicPartition(topic, 0)

    def coordinator(self, group: str) -> int:
        """Return the group's coordinator, once it serves."""
        for _ in range(60):
            answer = self.side.ask(1, m.FindCoordinatorRequest(group))
            if answer.error is Errors.NONE:
                probe = self.side.ask(answer.node_id, m.OffsetFetchRequest(group, ()))
                if probe.error is Errors.NONE:
                    return int(answer.node_id)
            self.side.settle(0.5)
        raise AssertionError(f"no coordinator for {group}")


def batch(*values: int, **fields: Any) -> RecordBatch:
    """Return a client's batch of records with these values."""
    return batch_of(tuple(Record("key", value, 20, 0) for value in values), **fields)


def produce(tp: TopicPartition, made: RecordBatch, acks: int = -1) -> m.ProduceRequest:
    return m.ProduceRequest(acks, 5000, (m.ProducePartition(tp, made),))


def producing(talk: Talk) -> None:
    tp = talk.create("produced")
    away = TopicPartition("produced", 7)
    talk.ask("acks=all", produce(tp, batch(1, 2)))
    talk.ask("acks=1", produce(tp, batch(3), acks=1))
    talk.ask("acks=2", produce(tp, batch(4), acks=2))
    talk.ask("acks=-2", produce(tp, batch(4), acks=-2))
    talk.ask("to a follower", produce(tp, batch(4)), node=2)
    talk.ask("to an unknown topic", produce(TopicPartition("nowhere", 0), batch(4)))
    talk.ask("to an unknown partition", produce(away, batch(4)))
    two = (m.ProducePartition(tp, batch(5)), m.ProducePartition(away, batch(6)))
    talk.ask("one right, one unknown", m.ProduceRequest(-1, 5000, two))


def idempotence(talk: Talk) -> None:
    tp = talk.create("idempotent")
    init = m.InitProducerIdRequest(None, 60_000)
    while talk.side.ask(1, init).error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
        talk.side.settle(0.2)  # the broker waits for its first block of ids
    first = talk.ask("a producer id", init)
    second = talk.ask("another producer id", init)
    pid, other = first.producer_id, second.producer_id

    def send(what: str, sequence: int, *values: int, epoch: int = 0, producer: int = pid) -> None:
        made = batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        talk.ask(what, produce(tp, made))

    send("sequence 0", 0, 10, 11)
    send("sequence 0 again", 0, 10, 11)
    send("a gap", 5, 12)
    send("sequence 2", 2, 12)
    send("part of an old batch", 1, 11)
    for sequence in range(3, 8):
        send(f"sequence {sequence}", sequence, 10 + sequence)
    send("older than the five remembered", 0, 10, 11)
    send("the oldest remembered", 3, 13)
    send("another producer from sequence 3", 3, 20, producer=other)
    send("another producer from sequence 0", 0, 20, producer=other)
    send("a new epoch from sequence 4", 4, 30, epoch=1)
    send("a new epoch from sequence 0", 0, 30, epoch=1)
    send("the old epoch", 8, 31)
    talk.ask("InitProducerId with an empty id", m.InitProducerIdRequest("", 60_000))
    talk.ask("InitProducerId, no transaction, timeout 0", m.InitProducerIdRequest(None, 0))


def fetching(talk: Talk) -> None:
    tp = talk.create("fetched")
    talk.side.ask(1, produce(tp, batch(1, 2)))
    talk.side.ask(1, produce(tp, batch(3)))

    def fetch(
        offset: int, epoch: int = -1, last: int = -1, topic: str | None = None, **fields: Any
    ) -> m.FetchRequest:
        wanted = m.FetchPartition(
            tp, topic or talk.ids["fetched"], offset, -1, epoch, last, fields.pop("bytes", 1 << 20)
        )
        asked = {"replica_id": -1, "replica_epoch": -1, "session_epoch": -1} | fields
        return m.FetchRequest(
            asked["replica_id"], asked["replica_epoch"], 0, 1, 1 << 20, 0, (wanted,),
            session_epoch=asked["session_epoch"], session_id=asked.get("session_id", 0),
        )  # fmt: skip

    talk.ask("from 0", fetch(0))
    talk.ask("from 2", fetch(2))
    talk.ask("from the middle of a batch", fetch(1))
    talk.ask("from the end", fetch(3))
    talk.ask("beyond the end", fetch(4))
    talk.ask("below the start", fetch(-2))
    talk.ask("at most one byte", fetch(0, bytes=1))
    talk.ask("from a follower", fetch(0), node=2)
    talk.ask("with the present epoch", fetch(0, epoch=0))
    talk.ask("with a newer epoch", fetch(0, epoch=5))
    talk.ask("with last fetched epoch 0", fetch(3, epoch=0, last=0))
    talk.ask("with last fetched epoch 0 beyond the end", fetch(9, epoch=0, last=0))
    talk.ask("with last fetched epoch 3", fetch(3, epoch=0, last=3))
    talk.ask("of an unknown topic id", fetch(0, topic=NOBODY))
    talk.ask("as a replica that is none", fetch(0, epoch=0, replica_id=9))
    talk.ask("of a session that is not there", fetch(0, session_id=77, session_epoch=3))
    talk.ask("from a follower with a newer epoch", fetch(0, epoch=5), node=2)
    talk.ask("from a follower with the present epoch", fetch(0, epoch=0), node=2)


def offsets_and_epochs(talk: Talk) -> None:
    tp = talk.create("looked-up")
    away = TopicPartition("looked-up", 9)
    talk.side.ask(1, produce(tp, batch(1, 2, 3)))

    def at(timestamp: int, epoch: int = -1, to: TopicPartition = tp, replica: int = -1) -> Any:
        wanted = (m.ListOffsetsPartition(to, epoch, timestamp),)
        return m.ListOffsetsRequest(replica, 0, wanted)

    talk.ask("ListOffsets latest", at(-1))
    talk.ask("ListOffsets earliest", at(-2))
    talk.ask("ListOffsets by time 0", at(0))
    talk.ask("ListOffsets by a time to come", at(1 << 60))
    talk.ask("ListOffsets max timestamp", at(-3))
    talk.ask("ListOffsets earliest local", at(-4))
    talk.ask("ListOffsets with a newer epoch", at(-1, epoch=4))
    talk.ask("ListOffsets with the present epoch", at(-1, epoch=0))
    talk.ask("ListOffsets of a follower", at(-1), node=2)
    talk.ask("ListOffsets of an unknown partition", at(-1, to=away))
    talk.ask("ListOffsets of an unknown topic", at(-1, to=TopicPartition("nowhere", 0)))
    talk.ask("ListOffsets as debugging replica -2", at(-1, replica=-2), node=2)

    def ends(epoch: int, current: int = -1, to: TopicPartition = tp, replica: int = -1) -> Any:
        wanted = (m.OffsetForLeaderEpochPartition(to, current, epoch),)
        return m.OffsetsForLeaderEpochRequest(replica, wanted)

    talk.ask("epoch 0 ends", ends(0))
    talk.ask("epoch 3 ends", ends(3))
    talk.ask("epoch -1 ends", ends(-1))
    talk.ask("epoch 0 ends, current epoch 0", ends(0, current=0))
    talk.ask("epoch 0 ends, current epoch 4", ends(0, current=4))
    talk.ask("epoch 0 ends at a follower", ends(0), node=2)
    talk.ask("epoch 0 of an unknown partition ends", ends(0, to=away))
    talk.ask("epoch 0 ends, asked by replica 2", ends(0, replica=2, current=0))


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
    talk.ask("leave by instance", m.LeaveGroupRequest("fixed", (("", "i1", ""),)), node)
    talk.ask("leave by an unknown instance", m.LeaveGroupRequest("fixed", (("", "i7", ""),)), node)


def topics(talk: Talk) -> None:
    def create(name: str, partitions: int = 1, factor: int = 3, *rows: Any, **configs: str) -> Any:
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        wanted = m.CreatableTopic(name, partitions, factor, rows, settings)
        return m.CreateTopicsRequest((wanted,), 10_000)

    talk.ask("create", create("made", 2))
    talk.ask("create again", create("made"))
    talk.ask("create with defaults", create("made-by-default", -1, -1))
    talk.ask("create without a name", create(""))
    talk.ask("create '.'", create("."))
    talk.ask("create with a space", create("a b"))
    talk.ask("create with 250 characters", create("x" * 250))
    talk.ask("create with 0 partitions", create("zero", 0))
    talk.ask("create with -2 partitions", create("minus", -2))
    talk.ask("create with factor 0", create("zero", 1, 0))
    talk.ask("create with factor 4", create("four", 1, 4))
    talk.ask("create a.b", create("a.b"))
    talk.ask("create a_b beside a.b", create("a_b"))
    talk.ask("create on brokers 1, 1", create("twice", -1, -1, (1, 1)))
    talk.ask("create on broker 9", create("nine", -1, -1, (9,)))
    talk.ask("create on no broker", create("none", -1, -1, ()))
    talk.ask("create with uneven replicas", create("uneven", -1, -1, (1, 2), (3,)))
    talk.ask("create with partitions and replicas", create("both", 1, 1, (1,)))
    talk.ask("create with an unknown config", create("odd", 1, 3, no_such_key="1"))
    talk.ask("create with a bad config", create("bad", 1, 3, min_insync_replicas="0"))
    talk.ask("create with a config", create("good", 1, 3, min_insync_replicas="1"))
    pair = tuple(m.CreatableTopic("twin", 1, 3) for _ in range(2))
    talk.ask("create one name twice", m.CreateTopicsRequest(pair, 10_000))
    talk.side.settle(1)

    def grow(name: str, count: int, *rows: tuple[int, ...]) -> m.CreatePartitionsRequest:
        return m.CreatePartitionsRequest((m.CreatePartitionsTopic(name, count, rows),), 10_000)

    talk.ask("grow to 3", grow("made", 3))
    talk.ask("grow to 3 again", grow("made", 3))
    talk.ask("grow to 2", grow("made", 2))
    talk.ask("grow to 0", grow("made", 0))
    talk.ask("grow an unknown topic", grow("nowhere", 3))
    talk.ask("grow with too many replicas", grow("made", 4, (1, 2, 3), (1, 2, 3)))
    talk.ask("grow on broker 9", grow("made", 4, (9, 1, 2)))
    talk.ask("grow with another factor", grow("made", 4, (1, 2)))
    talk.ask("delete an unknown topic", m.DeleteTopicsRequest((("nowhere", ""),)))
    talk.ask("delete an unknown id", m.DeleteTopicsRequest((("", NOBODY),)))
    talk.ask("delete", m.DeleteTopicsRequest((("a.b", ""),)))
    talk.side.settle(1)
    talk.ask("delete again", m.DeleteTopicsRequest((("a.b", ""),)))
    talk.ask("metadata of an unknown topic", m.MetadataRequest(("nowhere",), False))
    talk.ask("metadata of a bad name", m.MetadataRequest(("a b",), False))


def configs(talk: Talk) -> None:
    talk.create("configured")

    def alter(name: str, key: str, value: str | None, kind: str = "topic") -> Any:
        resource = m.AlterableConfig(kind, name, ((key, value),))
        return m.IncrementalAlterConfigsRequest((resource,))

    talk.ask("set", alter("configured", "retention.ms", "1000"))
    talk.ask("unset", alter("configured", "retention.ms", None))
    talk.ask("unset what is not set", alter("configured", "retention.ms", None))
    talk.ask("an unknown key", alter("configured", "no.such.key", "1"))
    talk.ask("no number", alter("configured", "retention.ms", "soon"))
    talk.ask("a number out of range", alter("configured", "min.insync.replicas", "0"))
    talk.ask("an unknown topic", alter("nowhere", "retention.ms", "1000"))
    talk.ask("a topic without a name", alter("", "retention.ms", "1000"))
    talk.ask("a broker", alter("1", "min.insync.replicas", "1", "broker"))
    talk.ask("a broker back", alter("1", "min.insync.replicas", None, "broker"))
    talk.ask("the cluster default", alter("", "unclean.leader.election.enable", "false", "broker"))
    talk.ask("another broker", alter("2", "min.insync.replicas", "1", "broker"))
    talk.ask("a broker that is none", alter("9", "min.insync.replicas", "1", "broker"))
    talk.ask("a broker by name", alter("one", "min.insync.replicas", "1", "broker"))
    talk.ask("an unknown broker key", alter("1", "no.such.key", "1", "broker"))
    talk.ask("a default min ISR of 0", alter("", "min.insync.replicas", "0", "broker"))
    one = m.AlterableConfig("topic", "configured", (("retention.ms", "1"), ("retention.ms", "2")))
    talk.ask("one key twice", m.IncrementalAlterConfigsRequest((one,)))


def moving(talk: Talk) -> None:
    tp = talk.create("moved", (1, 2))
    away = TopicPartition("moved", 9)
    unknown = TopicPartition("nowhere", 0)

    def move(*replicas: int, to: TopicPartition = tp, cancel: bool = False) -> Any:
        wanted = m.ReassignablePartition(to, None if cancel else replicas)
        return m.AlterPartitionReassignmentsRequest((wanted,), 10_000)

    def elect(kind: int, *at: TopicPartition) -> m.ElectLeadersRequest:
        return m.ElectLeadersRequest(kind, at or None, 10_000)

    talk.ask("cancel what does not move", move(cancel=True))
    talk.ask("move to brokers 1, 1", move(1, 1))
    talk.ask("move to broker 9", move(9))
    talk.ask("move to nobody", move())
    talk.ask("move an unknown partition", move(1, 2, to=away))
    talk.ask("move an unknown topic", move(1, 2, to=unknown))
    talk.ask("move to where it is", move(1, 2))
    talk.ask("elect preferred, already so", elect(0, tp))
    talk.ask("elect preferred, unknown partition", elect(0, away))
    talk.ask("elect preferred, unknown topic", elect(0, unknown))
    talk.ask("elect unclean with a leader", elect(1, tp))
    talk.ask("move to brokers 2, 3", move(2, 3))
    talk.side.settle(5)
    talk.ask("metadata after the move", m.MetadataRequest(("moved",), False))
    talk.ask("elect preferred after the move", elect(0, tp), node=2)
    talk.ask("unregister a broker that is none", m.UnregisterBrokerRequest(9))


def deleting_records(talk: Talk) -> None:
    tp = talk.create("trimmed")
    talk.side.ask(1, produce(tp, batch(1, 2, 3)))
    away = TopicPartition("trimmed", 9)

    def delete(offset: int, to: TopicPartition = tp) -> m.DeleteRecordsRequest:
        return m.DeleteRecordsRequest(((to, offset),), 5000)

    talk.ask("to 2", delete(2))
    talk.ask("to 1, below the start", delete(1))
    talk.ask("to 9, above the high watermark", delete(9))
    talk.ask("to -2", delete(-2))
    talk.ask("at a follower", delete(2), node=2)
    talk.ask("of an unknown partition", delete(2, away))
    talk.ask("of an unknown topic", delete(2, TopicPartition("nowhere", 0)))
    talk.ask("to the high watermark", delete(-1))
    wanted = (m.ListOffsetsPartition(tp, -1, -2),)
    talk.ask("earliest afterwards", m.ListOffsetsRequest(-1, 0, wanted))


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "producing": producing,
    "idempotence": idempotence,
    "fetching": fetching,
    "offsets and epochs": offsets_and_epochs,
    "groups": groups,
    "static members": static_members,
    "topics": topics,
    "configs": configs,
    "moving": moving,
    "deleting records": deleting_records,
}


def all_answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    lines: list[str] = []
    for name, conversation in CONVERSATIONS.items():
        talk = Talk(side, name)
        conversation(talk)
        lines += talk.lines
    return lines
