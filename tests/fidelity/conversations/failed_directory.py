"""What a broker answers of a partition in a log directory that failed, and of one in another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk, batch, produce
from tests.fidelity.sides import SETTINGS as COMMON

SETTINGS = {**COMMON, "log.dirs": "/d1,/d2", "metadata.log.dir": "/meta"}
"""Two directories for logs: a broker none of whose directories is left ends."""


def _fail(talk: Talk, tp: TopicPartition) -> int:
    """Let the directory of the leader's replica fail; return the epoch of the next leader."""
    talk.side.settle(3)  # the brokers tell the controller where their replicas lie
    talk.side.fail_directory(1, tp)
    for _ in range(60):
        talk.side.settle(0.5)
        known = [talk.side.ask(node, m.MetadataRequest((tp.topic,), False)) for node in (1, 2, 3)]
        seen = [answer.topics[0].partitions[0] for answer in known]
        if all(each.leader == 2 and sorted(each.isr) == [2, 3] for each in seen):
            talk.side.settle(1)
            return int(seen[0].leader_epoch)
    raise AssertionError(f"broker 2 does not lead {tp}")


def failed_directory(talk: Talk) -> None:
    tp, kept = talk.create("wrecked"), talk.create("afloat")
    away = TopicPartition("wrecked", 9)
    for each in (tp, kept):
        talk.ask(f"a record for {each.topic}", produce(each, batch(1, 2)))
    epoch = _fail(talk, tp)
    epochs = {"no epoch": -1, "the epoch before": epoch - 1, "the epoch": epoch,
              "a coming epoch": epoch + 1}  # fmt: skip
    for name, asked in epochs.items():
        _reading(talk, tp, name, asked)
    for acks in (-1, 1, 0):
        talk.ask(f"acks={acks}", produce(tp, batch(3), acks))
    numbered = batch(3, producer_id=9_000_001, producer_epoch=0, base_sequence=0)
    talk.ask("a batch with a sequence", produce(tp, numbered))
    talk.ask("a batch for no partition", produce(away, batch(3)))
    both = (m.ProducePartition(tp, batch(3)), m.ProducePartition(kept, batch(3)))
    talk.ask("batches for both directories", m.ProduceRequest(-1, 5000, both))
    for to in (1, 99, -1):
        talk.ask(f"delete records to {to}", m.DeleteRecordsRequest(((tp, to),), 5000))
    talk.ask("producers", m.DescribeProducersRequest((tp, kept)))
    talk.names.producers[9_000_002] = "stranger"
    marker = m.WritableTxnMarker(9_000_002, 0, True, (tp,), 0)
    talk.ask("a marker", m.WriteTxnMarkersRequest((marker,)))
    talk.ask("its partition", m.MetadataRequest(("wrecked",), False))
    talk.ask("a batch for the next leader", produce(tp, batch(4)), 2)
    talk.ask("elect the preferred leader", m.ElectLeadersRequest(0, (tp,), 10_000))
    after = talk.create("launched")
    talk.ask("a batch for a new partition", produce(after, batch(5)))
    _moving(talk, tp)
    talk.side.ask(1, m.DeleteTopicsRequest((("wrecked", ""),)))
    for _ in range(60):
        told = talk.side.ask(1, m.MetadataRequest(("wrecked",), False))
        if told.topics[0].error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
            break
        talk.side.settle(0.5)
    talk.side.settle(1)
    talk.ask("a batch after it is deleted", produce(tp, batch(6)))
    _reading(talk, tp, "after it is deleted", -1)
    talk.ask("delete records after that", m.DeleteRecordsRequest(((tp, 1),), 5000))
    talk.ask("producers after that", m.DescribeProducersRequest((tp,)))
    if not talk.side.zookeeper:  # its controller deletes no topic with a replica that is offline
        again = talk.create("wrecked")
        talk.ask("a batch for a new topic of its name", produce(again, batch(7)))
        _reading(talk, again, "a new topic of its name", 0)


def _moving(talk: Talk, tp: TopicPartition) -> None:
    """Move the partition away from broker 1, and back to where it cannot be written."""

    def move(*to: int) -> m.AlterPartitionReassignmentsRequest:
        wanted = m.ReassignablePartition(tp, to or None)
        return m.AlterPartitionReassignmentsRequest((wanted,), 10_000)

    talk.ask("move it off the broker", move(2, 3))
    talk.side.settle(2)
    talk.ask("its partition then", m.MetadataRequest((tp.topic,), False), 2)
    talk.ask("a batch when it has moved", produce(tp, batch(5)))
    talk.ask("move it back", move(1, 2, 3))
    talk.side.settle(2)
    talk.ask("what moves", m.ListPartitionReassignmentsRequest(None))
    talk.ask("a batch while it moves", produce(tp, batch(5)))
    grown = (m.CreatePartitionsTopic(tp.topic, 2, ((2, 3, 1),)),)
    talk.ask("grow it while it moves", m.CreatePartitionsRequest(grown, 10_000))
    talk.ask("cancel the move", move())
    talk.side.settle(2)
    talk.ask("what moves after that", m.ListPartitionReassignmentsRequest(None))


def _reading(talk: Talk, tp: TopicPartition, name: str, epoch: int) -> None:
    """Ask broker 1 for what it would read, in a leader epoch."""

    def fetch(replica: int = -1) -> m.FetchRequest:
        wanted = m.FetchPartition(tp, talk.ids[tp.topic], 0, -1, epoch, -1, 1 << 20)
        return m.FetchRequest(replica, -1, 0, 1, 1 << 20, 0, (wanted,))

    def latest(replica: int = -1) -> m.ListOffsetsRequest:
        return m.ListOffsetsRequest(replica, 0, (m.ListOffsetsPartition(tp, epoch, -1),))

    def ends(replica: int = -1) -> Any:
        asked = m.OffsetForLeaderEpochPartition(tp, epoch, 0)
        return m.OffsetsForLeaderEpochRequest(replica, (asked,))

    talk.ask(f"fetch / {name}", fetch())
    talk.ask(f"fetch as replica 2 / {name}", fetch(2))
    talk.ask(f"latest offset / {name}", latest())
    talk.ask(f"latest offset, debugging / {name}", latest(-2))
    talk.ask(f"end of epoch 0 / {name}", ends())
    talk.ask(f"end of epoch 0 as replica 2 / {name}", ends(2))


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {"failed directory": failed_directory}
