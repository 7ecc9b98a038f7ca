"""The quorum of the metadata log: who describes it, and changes of its voters that are refused.

The cluster has one voter, node 100, which has no standby: what can be asked of it beyond that is
played as a schedule (``voter-changes-refused``, ``voter-replaced``, ``leader-removed``).
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from tests.fidelity.conversations.talk import NOBODY, Talk
from tests.fidelity.real_kafka import CONTROLLER, DIRECTORY_ID

NOWHERE = "127.0.0.1:9"
"""An address at which nothing listens."""


def describing(talk: Talk) -> None:
    talk.side.settle(2)
    talk.ask("through a broker", m.DescribeQuorumRequest())
    talk.ask("of the controller", m.DescribeQuorumRequest(), CONTROLLER)


def adding(talk: Talk) -> None:
    def add(voter: int, directory_id: str = NOBODY) -> m.AddRaftVoterRequest:
        return m.AddRaftVoterRequest(voter, directory_id, NOWHERE)

    talk.ask("a node that nobody knows", add(101))
    talk.ask("a node that nobody knows, of the controller", add(101), CONTROLLER)
    talk.ask("a voter again", add(CONTROLLER, DIRECTORY_ID))
    talk.ask("a voter with another directory", add(CONTROLLER))
    talk.ask("a voter without a directory", add(CONTROLLER, ""))
    talk.ask("a node without a directory", add(101, ""))
    talk.ask("a negative id", add(-1))
    talk.ask("a broker", add(1))


def removing(talk: Talk) -> None:
    def remove(voter: int, directory_id: str = NOBODY) -> m.RemoveRaftVoterRequest:
        return m.RemoveRaftVoterRequest(voter, directory_id)

    talk.ask("a node that is no voter", remove(101))
    talk.ask("a node that is no voter, of the controller", remove(101), CONTROLLER)
    talk.ask("the only voter", remove(CONTROLLER, DIRECTORY_ID))
    talk.ask("the only voter with another directory", remove(CONTROLLER))
    talk.ask("the only voter without a directory", remove(CONTROLLER, ""))
    talk.ask("a negative id", remove(-1))
    talk.ask("a broker", remove(1))


def update(talk: Talk, what: str, voter: int, directory_id: str = NOBODY, behind: int = 0) -> None:
    """Ask the controller, which alone serves it: voters send it to their leader."""
    epoch = talk.side.ask(CONTROLLER, m.DescribeQuorumRequest()).leader_epoch
    request = m.UpdateRaftVoterRequest(voter, directory_id, NOWHERE, epoch - behind)
    talk.ask(what, request, CONTROLLER)


def updating(talk: Talk) -> None:
    update(talk, "a node that is no voter", 101)
    update(talk, "a voter in an old epoch", CONTROLLER, DIRECTORY_ID, 1)
    update(talk, "a voter in a coming epoch", CONTROLLER, DIRECTORY_ID, -1)
    update(talk, "a node that is no voter in an old epoch", 101, NOBODY, 1)
    update(talk, "a voter without a directory", CONTROLLER, "")
    update(talk, "a negative id", -1)
    update(talk, "a negative id in an old epoch", -1, NOBODY, 1)


def updating_another_directory(talk: Talk) -> None:
    """Ask only where voters may change: else it ends the process of a leader of 4.1 that it names.

    Kafka's voters never ask it of themselves.
    """
    update(talk, "a voter with another directory", CONTROLLER)


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "describing the quorum": describing,
    "adding a voter": adding,
    "removing a voter": removing,
    "updating a voter": updating,
}

IF_CHANGEABLE = {**CONVERSATIONS, "updating a directory": updating_another_directory}
"""The conversations with a quorum whose voters may change."""
