"""Whom a broker takes for the active controller (NodeToControllerRequestThread)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.common.controller_link import (
    LOOKUP_US,
    RETRY_US,
    ControllerLink,
    RaftControllerNodes,
)
from kafkasim.model.effects import Open, Opened, Process, Response, Send
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    DescribeQuorumResponse,
    RaftVoterResponse,
)
from kafkasim.model.storage.files import MemoryFiles

REQUEST = AlterPartitionRequest(1, 7, ())


class Asker:
    """A process with a link, and the answers it got."""

    def __init__(self) -> None:
        self.process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
        self.raft = SimpleNamespace(leader_id=1)
        self.voters = {1: "controller-1", 2: "controller-2"}
        nodes = RaftControllerNodes(self.raft, self.voters)
        self.link = ControllerLink(self.process, nodes, "alter-partition", 1000)
        self.answers: list[Any] = []

    def ask(self, now: int) -> list[Any]:
        self.link.send(REQUEST, now, lambda answer, _: self.answers.append(answer))
        return self.effects()

    def answer(self, connection: int, correlation: int, error: Errors, now: int) -> None:
        self.give(connection, correlation, AlterPartitionResponse(error, ()), now)

    def give(self, connection: int, correlation: int, answer: Any, now: int) -> None:
        self.process.handle(Response(connection, correlation, answer), now)

    def fire(self, now: int) -> None:
        while (due := self.process.timers.pop_due(now)) is not None:
            self.process.timers.fire(due[0], due[1], now)

    def effects(self) -> list[Any]:
        effects = list(self.process.out)
        self.process.out.clear()
        return effects


def test_the_controller_asked_before_is_asked_again_until_it_says_that_it_is_none() -> None:
    """KAFKA-14154 began so: the leader had a new epoch from the next controller already."""
    asker = Asker()
    asker.ask(0)
    asker.process.handle(Opened(1), 5)
    asker.effects()
    asker.answer(1, 1, Errors.NONE, 9)
    asker.raft.leader_id = 2
    assert asker.ask(20) == [Send(1, 2, REQUEST)]
    asker.answer(1, 2, Errors.NOT_CONTROLLER, 25)
    asker.fire(25 + RETRY_US)
    opened = [effect for effect in asker.effects() if isinstance(effect, Open)]
    assert [effect.address for effect in opened] == ["controller-2"]
    assert len(asker.answers) == 1


@pytest.mark.parametrize(("response", "moves"), [(DescribeQuorumResponse, True),
                                                 (RaftVoterResponse, False)])  # fmt: skip
def test_of_what_the_raft_client_says_only_describe_quorum_names_another_controller(
    response: type, moves: bool
) -> None:
    """RequestChannel.shouldReturnNotController; Kafka 4.0.0 in the schedule leader-removed."""
    asker = Asker()
    asker.ask(0)
    asker.process.handle(Opened(1), 5)
    asker.effects()
    asker.raft.leader_id = 2
    refused = response(Errors.NOT_LEADER_OR_FOLLOWER)
    asker.give(1, 1, refused, 9)
    asker.fire(9 + RETRY_US)
    opened = [effect.address for effect in asker.effects() if isinstance(effect, Open)]
    assert (opened, asker.answers) == (["controller-2"], []) if moves else ([], [refused])


def test_the_next_controller_is_asked_when_the_connection_to_the_first_is_lost() -> None:
    asker = Asker()
    asker.ask(0)
    asker.process.handle(Opened(1), 5)
    asker.effects()
    asker.raft.leader_id = 2
    asker.fire(1_000_000)  # the request's timeout
    asker.fire(1_000_000 + RETRY_US)
    opened = [effect for effect in asker.effects() if isinstance(effect, Open)]
    assert [effect.address for effect in opened] == ["controller-2"]


def test_a_link_knows_its_controller_before_it_has_anything_to_send() -> None:
    """So it finds a leader that has left the voters since (NodeToControllerRequestThread)."""
    asker = Asker()
    asker.raft.leader_id = -1
    asker.link.start(0)
    asker.raft.leader_id = 1
    asker.fire(LOOKUP_US)
    assert not asker.effects()
    del asker.voters[1]
    (opened,) = [effect for effect in asker.ask(LOOKUP_US + 1) if isinstance(effect, Open)]
    assert opened.address == "controller-1"


def test_a_link_that_started_too_late_does_not_find_a_leader_without_a_vote() -> None:
    asker = Asker()
    del asker.voters[1]
    asker.link.start(0)
    asker.ask(1)
    asker.fire(10 * LOOKUP_US)
    assert not [effect for effect in asker.effects() if isinstance(effect, Open)]


def test_a_leader_without_a_vote_is_not_found_again() -> None:
    asker = Asker()
    asker.ask(0)
    asker.process.handle(Opened(1), 5)
    asker.effects()
    del asker.voters[1]
    asker.fire(1_000_000)  # the request's timeout
    asker.fire(1_000_000 + RETRY_US)
    assert not [effect for effect in asker.effects() if isinstance(effect, Open)]
