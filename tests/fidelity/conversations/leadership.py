"""Requests for a leader that a follower or a broker without a replica gets, in every leader epoch.

The partition was led by broker 1 and is led by broker 2 now; broker 3 has no replica of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import Talk, batch, produce

BROKERS = {2: "the leader", 1: "a follower", 3: "a broker without a replica"}


def _led_by_two(talk: Talk, topic: str) -> tuple[TopicPartition, int]:
    """Create a topic that broker 1 led and broker 2 leads; return its partition and epoch."""
    tp = talk.create(topic, (1, 2))
    talk.side.ask(1, produce(tp, batch(1, 2)))
    moved = (m.ReassignablePartition(tp, (2, 1)),)
    talk.side.ask(1, m.AlterPartitionReassignmentsRequest(moved, 10_000))
    talk.side.settle(1)
    talk.side.ask(1, m.ElectLeadersRequest(0, (tp,), 10_000))
    for _ in range(60):
        talk.side.settle(0.5)
        known = [talk.side.ask(node, m.MetadataRequest((topic,), False)) for node in (1, 2, 3)]
        seen = [answer.topics[0].partitions[0] for answer in known]
        if all(each.leader == 2 and sorted(each.isr) == [1, 2] for each in seen):
            return tp, int(seen[0].leader_epoch)
    raise AssertionError(f"broker 2 does not lead {tp}")


def _everywhere(epoch: int) -> Iterator[tuple[int, str, int]]:
    """Yield every broker with every leader epoch that a request may name, and what that is."""
    epochs = {"no epoch": -1, "the epoch before": epoch - 1, "the epoch": epoch,
              "a coming epoch": epoch + 1}  # fmt: skip
    for node, name in BROKERS.items():
        for what, asked in epochs.items():
            yield node, f"{name}, {what}", asked


def reading_from_others(talk: Talk) -> None:
    tp, epoch = _led_by_two(talk, "led")
    topic_id = talk.ids["led"]
    talk.ask("a record of the new epoch", produce(tp, batch(3)), 2)
    talk.side.settle(1)

    def fetch(
        current: int, offset: int = 0, last: int = -1, replica: int = -1, to: TopicPartition = tp
    ) -> m.FetchRequest:
        wanted = m.FetchPartition(to, topic_id, offset, -1, current, last, 1 << 20)
        return m.FetchRequest(replica, -1, 0, 1, 1 << 20, 0, (wanted,))

    def latest(current: int, replica: int = -1, to: TopicPartition = tp) -> m.ListOffsetsRequest:
        return m.ListOffsetsRequest(replica, 0, (m.ListOffsetsPartition(to, current, -1),))

    def ends(current: int, replica: int = -1, to: TopicPartition = tp) -> Any:
        asked = m.OffsetForLeaderEpochPartition(to, current, 0)
        return m.OffsetsForLeaderEpochRequest(replica, (asked,))

    away = TopicPartition("led", 9)
    for node, what, asked in _everywhere(epoch):
        talk.ask(f"fetch / {what}", fetch(asked), node)
        talk.ask(f"fetch as replica 1 / {what}", fetch(asked, 3, replica=1), node)
        talk.ask(f"fetch as replica 3 / {what}", fetch(asked, 3, replica=3), node)
        talk.ask(f"fetch after epoch 9 / {what}", fetch(asked, 3, 9), node)
        talk.ask(f"fetch of no partition / {what}", fetch(asked, to=away), node)
        talk.ask(f"latest offset / {what}", latest(asked), node)
        talk.ask(f"latest offset as replica 1 / {what}", latest(asked, 1), node)
        talk.ask(f"latest offset, debugging / {what}", latest(asked, -2), node)
        talk.ask(f"latest offset of no partition / {what}", latest(asked, to=away), node)
        talk.ask(f"end of epoch 0 / {what}", ends(asked), node)
        talk.ask(f"end of epoch 0 as replica 1 / {what}", ends(asked, 1), node)
        talk.ask(f"end of epoch 0, debugging / {what}", ends(asked, -2), node)
        talk.ask(f"end of epoch 0 of no partition / {what}", ends(asked, to=away), node)
    talk.ask("fetch beyond epoch 0's end", fetch(epoch, 3, 0), 2)
    talk.ask("fetch of an epoch between", fetch(epoch, 9, epoch), 2)


def writing_to_others(talk: Talk) -> None:
    tp, _ = _led_by_two(talk, "written")
    away = TopicPartition("written", 9)
    made = batch(5, producer_id=9_000_001, producer_epoch=0, base_sequence=0)
    for node, name in BROKERS.items():
        for acks in (1, -1):
            talk.ask(f"acks={acks} / {name}", produce(tp, batch(4), acks), node)
        talk.ask(f"a batch with a sequence / {name}", produce(tp, made), node)
        talk.ask(f"a batch for no partition / {name}", produce(away, batch(4)), node)
        for what, at, to in (("", tp, 1), (" of no partition", away, 1), (" to 99", tp, 99)):
            request = m.DeleteRecordsRequest(((at, to),), 5000)
            talk.ask(f"delete records{what} / {name}", request, node)
        talk.ask(f"producers / {name}", m.DescribeProducersRequest((tp,)), node)
        talk.ask(f"producers of no partition / {name}", m.DescribeProducersRequest((away,)), node)
    talk.names.producers[9_000_002] = "stranger"
    marker = m.WritableTxnMarker(9_000_002, 0, True, (tp,), 0)
    for node in (3, 1, 2):
        talk.ask(f"a marker / {BROKERS[node]}", m.WriteTxnMarkersRequest((marker,)), node)
    talk.side.ask(1, m.DeleteTopicsRequest((("written", ""),)))
    for node in (2, 3):
        for _ in range(60):
            told = talk.side.ask(node, m.MetadataRequest(("written",), False))
            if told.topics[0].error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                break
            talk.side.settle(0.5)
        talk.side.settle(1)
        request = m.DeleteRecordsRequest(((tp, 1),), 5000)
        talk.ask(f"after it is deleted / {BROKERS[node]}", produce(tp, batch(4)), node)
        talk.ask(f"delete records after that / {BROKERS[node]}", request, node)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "reading from others": reading_from_others,
    "writing to others": writing_to_others,
}
