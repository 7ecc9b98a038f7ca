"""What brokers ask the controller in KRaft mode: registrations, heartbeats, changes of ISRs.

They are asked for a broker 9 that no process is, and that leads a partition all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from tests.fidelity.conversations.talk import NOBODY, Talk
from tests.fidelity.real_kafka import CONTROLLER

NINE = 9
INCARNATION, OTHER = "CQAAAAAAAAAAAAAAAAAAAQ", "CQAAAAAAAAAAAAAAAAAAAg"
DIRECTORY, ANOTHER = "DAAAAAAAAAAAAAAAAAAAAQ", "DAAAAAAAAAAAAAAAAAAAAg"
EVERYTHING = (
    ("eligible.leader.replicas.version", 0, 9),
    ("group.version", 0, 9),
    ("kraft.version", 0, 9),
    ("metadata.version", 1, 200),
    ("transaction.version", 0, 9),
)
"""Every level of the features that a cluster of 4.0 or 4.1 has finalized."""

FAR = 1 << 40
"""A metadata offset that is not written yet."""


def registration(
    incarnation: str = INCARNATION,
    features: tuple[tuple[str, int, int], ...] = EVERYTHING,
    directories: tuple[str, ...] = (DIRECTORY,),
) -> m.BrokerRegistrationRequest:
    """Return a registration of broker 9."""
    return m.BrokerRegistrationRequest(
        NINE, incarnation, "broker-9", None, -1, features, directories
    )


def registering(talk: Talk) -> None:
    def beat(epoch: int, broker: int = NINE, *, fence: bool = False, stop: bool = False) -> None:
        request = m.BrokerHeartbeatRequest(broker, epoch, FAR, fence, stop)
        what = {(False, False): "goes on", (True, False): "wants to be fenced"}
        talk.ask(f"broker {broker} {what.get((fence, stop), 'stops')}", request, CONTROLLER)

    talk.ask("heartbeat of nobody", m.BrokerHeartbeatRequest(77, 1, 0, False, False), CONTROLLER)
    heartbeat = m.BrokerHeartbeatRequest(1, 1, 0, False, False)
    talk.ask("heartbeat with an old epoch", heartbeat, CONTROLLER)
    old = (
        ("metadata.version", 1, 2),
        *(each for each in EVERYTHING if each[0] != "metadata.version"),
    )
    talk.ask("an old broker", registration(features=old), CONTROLLER)
    talk.ask("a directory twice", registration(directories=(DIRECTORY, DIRECTORY)), CONTROLLER)
    reserved = registration(directories=("AAAAAAAAAAAAAAAAAAAAAA",))
    talk.ask("a reserved directory", reserved, CONTROLLER)
    answer = talk.ask("broker 9", registration(), CONTROLLER)
    again = talk.ask("broker 9 again", registration(), CONTROLLER)
    talk.lines.append(
        f"{talk.name} / its epoch is the same: {again.broker_epoch == answer.broker_epoch}"
    )
    epoch = again.broker_epoch
    talk.ask("another process of it", registration(OTHER), CONTROLLER)
    talk.ask("ids with an old epoch", m.AllocateProducerIdsRequest(1, 1), CONTROLLER)
    talk.ask("ids for nobody", m.AllocateProducerIdsRequest(77, 1), CONTROLLER)
    talk.ask("ids", m.AllocateProducerIdsRequest(NINE, epoch), CONTROLLER)
    beat(epoch, fence=True)
    beat(epoch)


def altering(talk: Talk) -> None:
    epoch = talk.side.ask(CONTROLLER, registration()).broker_epoch
    talk.side.ask(CONTROLLER, m.BrokerHeartbeatRequest(NINE, epoch, FAR, False, False))
    tp = talk.create("nines", (NINE, 1))
    topic = talk.ids[tp.topic]

    def alter(
        what: str,
        isr: tuple[tuple[int, int], ...] = ((NINE, -1), (1, -1)),
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        recovery: int = 0,
        *,
        id_: str = topic,
        number: int = 0,
        of: int = epoch,
        broker: int = NINE,
    ) -> None:
        data = m.AlterPartitionData(id_, number, leader_epoch, isr, partition_epoch, recovery)
        talk.ask(what, m.AlterPartitionRequest(broker, of, (data,)), CONTROLLER)

    alter("with an old broker epoch", of=epoch - 1)
    alter("of nobody", broker=77)
    alter("of a broker with another's epoch", broker=1)
    alter("an unknown topic id", id_=NOBODY)
    alter("an unknown partition", number=5)
    alter("an old leader epoch", leader_epoch=-1)
    alter("a coming leader epoch", leader_epoch=1)
    alter("an old partition epoch", partition_epoch=-1)
    alter("a coming partition epoch", partition_epoch=1)
    alter("a coming partition epoch and an old leader epoch", leader_epoch=-1, partition_epoch=1)
    alter("an ISR without the leader", ((1, -1),))
    alter("an ISR with a broker twice", ((NINE, -1), (NINE, -1)))
    alter("an ISR with no replica", ((NINE, -1), (2, -1)))
    alter("an empty ISR", ())
    alter("recovering with two in the ISR", recovery=1)
    alter("recovering again", ((NINE, -1),), recovery=1)
    alter("a member with another epoch", ((NINE, epoch), (1, 1)))
    alter("the ISR as it is")
    alter("a smaller ISR", ((NINE, epoch),))
    alter("a smaller ISR again", ((NINE, epoch),))
    alter("a smaller ISR in its epoch", ((NINE, epoch),), 0, 1)
    assign = m.AssignReplicasToDirsRequest
    wanted = ((DIRECTORY, topic, 0),)
    talk.ask("directories with an old epoch", assign(NINE, epoch - 1, wanted), CONTROLLER)
    talk.ask("directories", assign(NINE, epoch, wanted), CONTROLLER)
    unknown = ((DIRECTORY, NOBODY, 0), (DIRECTORY, topic, 7))
    talk.ask("directories of unknown ones", assign(NINE, epoch, unknown), CONTROLLER)
    stop = m.BrokerHeartbeatRequest(NINE, epoch, FAR, False, True)
    talk.ask("broker 9 wants to stop", stop, CONTROLLER)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "registering": registering,
    "altering": altering,
}
