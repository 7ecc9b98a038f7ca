"""What a ZooKeeper controller asks brokers, and brokers ask it: forged, and most of it refused.

Broker 1 is the controller, with controller epoch 1. What is forged with a broker epoch that the
requests carry since KIP-380 is meant for broker 3, and about partitions that no znode has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkasim.model import messages as m
from kafkasim.model.messages.servers.control import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
)
from kafkasim.model.records import TopicPartition
from tests.fidelity.conversations.talk import NOBODY, Talk, batch, produce

UNKNOWN = -1
"""The broker epoch of a controller that does not know it: never stale."""

FORGED = "BgAAAAAAAAAAAAAAAAAAAQ"
"""The id of the topic that only forged requests know."""

TP = TopicPartition("forged", 0)
STATE = m.ControlPartition(TP, FORGED, 1, 3, 4, (3,), 0, (3, 1), is_new=True)
ADDRESSES = tuple((broker, f"127.0.0.1:{broker}") for broker in (1, 2, 3))


def leader_and_isr(
    *states: m.ControlPartition, epoch: int = 1, broker_epoch: int = UNKNOWN
) -> m.LeaderAndIsrRequest:
    return m.LeaderAndIsrRequest(1, epoch, broker_epoch, states, ADDRESSES)


def stop(
    tp: TopicPartition,
    leader_epoch: int,
    delete: bool = False,
    *,
    epoch: int = 1,
    broker_epoch: int = UNKNOWN,
) -> m.StopReplicaRequest:
    asked = m.StopReplicaPartition(tp, leader_epoch, delete)
    return m.StopReplicaRequest(1, epoch, broker_epoch, (asked,))


def update(
    *states: m.ControlPartition, epoch: int = 1, broker_epoch: int = UNKNOWN
) -> m.UpdateMetadataRequest:
    alive = tuple(m.UpdateMetadataBroker(broker, address, None) for broker, address in ADDRESSES)
    return m.UpdateMetadataRequest(1, epoch, broker_epoch, states, alive)


def roles(talk: Talk) -> None:
    own = talk.side.broker_epoch(3)
    real = talk.create("controlled", (1, 2, 3))
    known = m.ControlPartition(real, talk.ids[real.topic], 1, 1, 0, (1, 2, 3), 0, (1, 2, 3))

    def tell(what: str, message: m.Message) -> None:
        talk.ask(what, message, 3)

    tell("an old broker epoch", leader_and_isr(known, broker_epoch=own - 1))
    tell("an old controller epoch", leader_and_isr(known, epoch=0))
    tell("both old", leader_and_isr(known, epoch=0, broker_epoch=own - 1))
    tell("the leader epoch that it has", leader_and_isr(known))
    tell("in its broker epoch", leader_and_isr(known, broker_epoch=own))
    tell("a coming broker epoch", leader_and_isr(known, broker_epoch=own + 1000))
    tell("an old leader epoch", leader_and_isr(replace(known, leader_epoch=-1)))
    tell("another topic id", leader_and_isr(replace(known, topic_id=NOBODY, leader_epoch=1)))
    elsewhere = replace(STATE, replicas=(1, 2))
    tell("no replica of it", leader_and_isr(elsewhere))
    tell("nothing", leader_and_isr())
    tell("new leader", leader_and_isr(STATE))
    tell("new leader again", leader_and_isr(STATE))
    tell("with a record", produce(TP, batch(7), acks=1))
    fetch = m.OffsetsForLeaderEpochRequest(-1, (m.OffsetForLeaderEpochPartition(TP, 4, 4),))
    tell("its end", fetch)
    moved = replace(STATE, leader=1, leader_epoch=5, isr=(1,), is_new=False)
    tell("follower, and one that is old", leader_and_isr(moved, known))
    tell("its end as a follower", fetch)
    tell("leader with an older epoch", leader_and_isr(STATE))
    two = replace(STATE, leader_epoch=6, is_new=False)
    tell("leader again", leader_and_isr(two))
    tell("its end in epoch 6", m.OffsetsForLeaderEpochRequest(
        -1, (m.OffsetForLeaderEpochPartition(TP, 6, 4),)
    ))  # fmt: skip

    tell("stop: an old broker epoch", stop(TP, 6, broker_epoch=own - 1))
    tell("stop: an old controller epoch", stop(TP, 6, epoch=0))
    tell("stop: both old", stop(TP, 6, epoch=0, broker_epoch=own - 1))
    tell("stop: an old leader epoch", stop(TP, 5))
    tell("stop: an old leader epoch and delete", stop(TP, 5, delete=True))
    tell("stop: unknown partition", stop(TopicPartition("forged", 9), 5))
    tell("stop: unknown partition and delete", stop(TopicPartition("nowhere", 0), 5, True))
    tell("stop: its leader epoch", stop(TP, 6))
    tell("its end after that", fetch)
    tell("stop: it is stopped", stop(TP, 0))
    tell("leader after the stop", leader_and_isr(replace(two, leader_epoch=7)))
    tell("stop: no leader epoch", stop(TP, NO_EPOCH))
    tell("leader after that stop", leader_and_isr(replace(two, leader_epoch=1)))
    tell("stop: its topic is deleted", stop(TP, EPOCH_DURING_DELETE, delete=True))
    tell("follower of a new one", leader_and_isr(replace(STATE, leader=1, leader_epoch=0)))
    tell("stop: a coming leader epoch", stop(TP, 9, delete=True))


def metadata(talk: Talk) -> None:
    own = talk.side.broker_epoch(3)

    def tell(what: str, message: m.Message) -> None:
        talk.ask(what, message, 3)

    def look(what: str) -> None:
        tell(what, m.MetadataRequest((TP.topic,), False))

    tell("an old broker epoch", update(STATE, broker_epoch=own - 1))
    tell("an old controller epoch", update(STATE, epoch=0))
    tell("both old", update(STATE, epoch=0, broker_epoch=own - 1))
    look("it is not there")
    tell("a topic", update(STATE))
    look("it is there")
    tell("an older leader epoch", update(replace(STATE, leader=2, leader_epoch=1, isr=(2, 3))))
    look("it is as told last")
    tell("no leader", update(replace(STATE, leader=-1, leader_epoch=9)))
    look("it has no leader")
    tell("another topic id", update(replace(STATE, topic_id=NOBODY)))
    look("it has another id")
    tell("it is deleted", update(replace(STATE, leader=LEADER_DURING_DELETE)))
    look("it is gone")


def asking(talk: Talk) -> None:
    epochs = {broker: talk.side.broker_epoch(broker) for broker in (1, 2, 3)}
    allocate = m.AllocateProducerIdsRequest
    talk.ask("ids of no controller", allocate(2, epochs[2]), 2)
    talk.ask("ids for nobody", allocate(77, 1))
    talk.ask("ids with an old epoch", allocate(2, epochs[2] - 1))
    talk.ask("ids with a coming epoch", allocate(2, epochs[2] + 1000))
    talk.ask("ids without an epoch", allocate(2, UNKNOWN))
    talk.ask("ids", allocate(2, epochs[2]))
    tp = talk.create("twos", (2, 3))
    topic = talk.ids[tp.topic]

    def alter(
        what: str,
        isr: tuple[tuple[int, int], ...] = ((2, -1), (3, -1)),
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        recovery: int = 0,
        *,
        id_: str = topic,
        number: int = 0,
        of: int = epochs[2],
        broker: int = 2,
        node: int = 1,
    ) -> None:
        data = m.AlterPartitionData(id_, number, leader_epoch, isr, partition_epoch, recovery)
        talk.ask(what, m.AlterPartitionRequest(broker, of, (data,)), node)

    alter("an ISR of no controller", node=3)
    alter("with an old broker epoch", of=epochs[2] - 1)
    alter("without a broker epoch", of=UNKNOWN)
    alter("of nobody", broker=77)
    alter("of a broker with another's epoch", broker=3)
    alter("an unknown topic id", id_=NOBODY)
    alter("an unknown partition", number=5)
    alter("an old leader epoch", leader_epoch=-1)
    alter("a coming leader epoch", leader_epoch=1)
    alter("an old partition epoch", ((2, -1),), partition_epoch=-1)
    alter("a coming partition epoch", ((2, -1),), partition_epoch=1)
    alter("recovering with two in the ISR", recovery=1)
    alter("recovering again", ((2, -1),), recovery=1)
    alter("an unknown recovery state", recovery=7)
    alter("an ISR with a broker that is none", ((2, -1), (77, -1)))
    alter("a member with an old epoch", ((2, epochs[2]), (3, epochs[3] - 1)))
    alter("the ISR as it is")
    alter("the ISR as it is, of an old partition epoch", partition_epoch=-1)
    alter("a smaller ISR", ((2, epochs[2]),))
    alter("a smaller ISR again", ((2, epochs[2]),))
    alter("of a follower", ((2, -1), (3, -1)), 0, 1, of=epochs[3], broker=3)
    alter("a larger ISR in its epoch", ((2, epochs[2]), (3, epochs[3])), 0, 2)


def leaving(talk: Talk) -> None:
    epochs = {broker: talk.side.broker_epoch(broker) for broker in (1, 2, 3)}
    talk.create("threes", (3,))
    talk.create("shared", (3, 2))
    leave = m.ControlledShutdownRequest
    talk.ask("asks no controller", leave(3, epochs[3]), 2)
    talk.ask("nobody", leave(77, UNKNOWN))
    talk.ask("an old broker epoch", leave(3, epochs[3] - 1))
    talk.ask("broker 3", leave(3, epochs[3]))
    talk.ask("broker 3 again", leave(3, epochs[3]))
    talk.ask("broker 3 without an epoch", leave(3, UNKNOWN))


def deposing(talk: Talk) -> None:
    """Controller epoch 2 is nobody's; broker 3 obeys it all the same, and then no other one."""
    talk.ask("a new controller epoch", update(epoch=2), 3)
    talk.ask("update of the old controller", update(STATE), 3)
    talk.ask("roles of the old controller", leader_and_isr(STATE), 3)
    talk.ask("stop of the old controller", stop(TP, 9), 3)
    talk.ask("roles of the new controller", leader_and_isr(STATE, epoch=2), 3)
    talk.ask("stop of the new controller", stop(TP, 4, delete=True, epoch=2), 3)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "roles": roles,
    "metadata": metadata,
    "asking the controller": asking,
    "leaving": leaving,
    "deposing": deposing,
}
"""In this order: what comes last leaves the brokers disturbed."""
