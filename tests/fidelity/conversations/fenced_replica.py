"""Partitions with a replica on broker 9, which registers and sends heartbeats but never fetches.

Broker 9 is no process: the conversation speaks for it to the controller. So it is fenced when its
heartbeats stop, and a leader waits in vain for it while it is in the ISR.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.brokers import FAR, NINE, OTHER, registration
from tests.fidelity.conversations.talk import Talk, batch, produce
from tests.fidelity.real_kafka import CONTROLLER


class Nine:
    """A process of broker 9: fenced when it is made."""

    def __init__(self, talk: Talk, last: str) -> None:
        self.side = talk.side
        incarnation = f"CQAAAAAAAAAAAAAAAAAA{last}g"
        for _ in range(60):  # the process before it may have a session still
            registered = self.side.ask(CONTROLLER, registration(incarnation))
            if registered.error is Errors.NONE:
                break
            self.side.settle(0.5)
        self.epoch = registered.broker_epoch
        self.beat(fence=True)

    def beat(self, *, fence: bool = False) -> None:
        """Send a heartbeat, which unfences the broker if it does not want to be fenced."""
        request = m.BrokerHeartbeatRequest(NINE, self.epoch, FAR, fence, False)
        self.side.ask(CONTROLLER, request)

    def heard(self, topic: str, *leaders: int) -> None:
        """Send heartbeats until the brokers know that the topic has these leaders."""
        for _ in range(60):
            self.beat()
            if _leaders(self.side.ask(1, m.MetadataRequest((topic,), False))) == leaders:
                return
            self.side.settle(0.3)
        raise AssertionError(f"{topic} is not led by {leaders}")


def _leaders(answer: m.MetadataResponse) -> tuple[int, ...]:
    return tuple(each.leader for each in answer.topics[0].partitions)


def too_few_replicas(talk: Talk) -> None:
    """A write with acks=all while broker 9 is fenced, while it lags, and when it is fenced."""
    nine = Nine(talk, "B")
    pair = talk.create("pair", (1, NINE))
    request = produce(pair, batch(1))
    talk.ask("the partition of a fenced replica", m.MetadataRequest(("pair",), False))
    talk.ask("acks=all below min ISR", request)
    talk.ask("acks=1 below min ISR", produce(pair, batch(2), 1))
    talk.ask("acks=0 below min ISR", produce(pair, batch(3), 0))
    talk.ask("latest offset below min ISR", _latest(pair))
    nine.beat()
    lagging = talk.create("lagging", (1, NINE))
    nine.beat()
    hasty = m.ProduceRequest(-1, 500, (m.ProducePartition(lagging, batch(1)),))
    talk.ask("acks=all while a replica lags", hasty)
    talk.ask("delete records while a replica lags", m.DeleteRecordsRequest(((lagging, 1),), 500))
    nine.beat()
    patient = m.ProduceRequest(-1, 18_000, (m.ProducePartition(lagging, batch(2)),))
    talk.ask("acks=all until the replica is fenced", patient)
    talk.ask("acks=all after that", m.ProduceRequest(-1, 500, patient.partitions))
    talk.ask("latest offset after that", _latest(lagging))


def _latest(tp: TopicPartition, timestamp: int = -1) -> m.ListOffsetsRequest:
    return m.ListOffsetsRequest(-1, 0, (m.ListOffsetsPartition(tp, -1, timestamp),))


def a_leader_that_knows_less(talk: Talk) -> None:
    """Broker 1 leads again before its high watermark reaches what it had when it was elected."""
    nine = Nine(talk, "C")
    nine.beat()
    tp = talk.create("returned", (1, NINE))
    nine.beat()
    talk.ask("a record", produce(tp, batch(1, 2), 1))

    def elect(*replicas: int) -> None:
        nine.beat()
        moved = (m.ReassignablePartition(tp, replicas),)
        talk.side.ask(1, m.AlterPartitionReassignmentsRequest(moved, 10_000))
        nine.beat()
        talk.side.ask(1, m.ElectLeadersRequest(0, (tp,), 10_000))
        nine.heard("returned", replicas[0])

    elect(NINE, 1)
    elect(1, NINE)
    nine.beat()
    talk.side.settle(1)
    nine.beat()
    for timestamp in (-1, -2, -3, 0):
        talk.ask(f"offset by time {timestamp}", _latest(tp, timestamp))
    committed = m.ListOffsetsRequest(-1, 1, (m.ListOffsetsPartition(tp, -1, -1),))
    talk.ask("latest stable offset", committed)
    replica = m.ListOffsetsRequest(-2, 0, (m.ListOffsetsPartition(tp, -1, -1),))
    talk.ask("latest offset, debugging", replica)


def electing(talk: Talk) -> None:
    """Elections while the replica that shall lead is fenced, and the moves that it completes."""
    Nine(talk, "D")
    talk.ask("another process while it is fenced", registration(OTHER), CONTROLLER)
    nine = Nine(talk, "E")
    nine.beat()
    talk.ask("another process while it is not", registration(OTHER), CONTROLLER)
    nine.beat()
    moving = talk.create("handed-on", (NINE, 1))
    nine.beat()
    moved = (m.ReassignablePartition(moving, (1, 2)),)
    talk.ask("hand it on", m.AlterPartitionReassignmentsRequest(moved, 10_000))
    listed = m.ListPartitionReassignmentsRequest((moving,), 10_000)
    talk.ask("what moves", listed)
    grown = (m.CreatePartitionsTopic("handed-on", 2),)
    talk.ask("grow it meanwhile", m.CreatePartitionsRequest(grown, 10_000))
    told = talk.side.ask(1, m.MetadataRequest(("handed-on",), False))
    epoch = told.topics[0].partitions[0].leader_epoch
    isr = ((NINE, nine.epoch), (1, -1), (2, -1))
    for partition_epoch in (0, 1):
        data = m.AlterPartitionData(talk.ids["handed-on"], 0, epoch, isr, partition_epoch, 0)
        request = m.AlterPartitionRequest(NINE, nine.epoch, (data,))
        talk.ask(f"its ISR in partition epoch {partition_epoch}", request, CONTROLLER)
    nine.beat()
    talk.ask("what moves after that", listed)
    alone, second = talk.create("alone", (NINE,)), talk.create("preferred", (NINE, 1))
    nine.beat(fence=True)
    for _ in range(60):
        answer = talk.side.ask(1, m.MetadataRequest(("alone",), False))
        if _leaders(answer) == (-1,):
            break
        talk.side.settle(0.3)
    talk.ask("no replica is left", m.MetadataRequest(("alone",), False))
    for kind, name in ((0, "preferred"), (1, "unclean")):
        talk.ask(f"elect {name}", m.ElectLeadersRequest(kind, (alone, second), 10_000))
    talk.ask("produce without a leader", produce(alone, batch(1)))
    for node, name in ((1, "its follower"), (2, "a broker without a replica")):
        talk.ask(f"latest offset without a leader, of {name}", _latest(alone), node)
    fetch = m.FetchPartition(alone, talk.ids["alone"], 0, -1, -1, -1, 1 << 20)
    talk.ask("fetch without a leader", m.FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (fetch,)))
    talk.ask("create on fenced brokers alone", _create("nowhere", (NINE,)))
    talk.ask("create on a fenced broker, too", _create("half", (NINE, 1)))
    talk.ask("move to a fenced broker", m.AlterPartitionReassignmentsRequest(
        (m.ReassignablePartition(second, (1, NINE)),), 10_000))  # fmt: skip


def _create(topic: str, replicas: tuple[int, ...]) -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest((m.CreatableTopic(topic, -1, -1, (replicas,), ()),), 10_000)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "too few replicas": too_few_replicas,
    "a leader that knows less": a_leader_that_knows_less,
    "electing": electing,
}
