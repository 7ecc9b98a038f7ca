"""What Kafka's assignors assign to drawn groups, as its own classes say (java/Assignments.java).

A drawn group lives for some rounds. In each one members come and go, subscribe to other topics,
miss the round, or claim what is not theirs, and topics grow. What they own at its begin is what
Kafka assigned to them in the round before, so the cases of a round follow from the seed and from
the committed answers to the rounds before it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkasim.model.group.assignors.sticky.assignor import StickyAssignor
from kafkasim.model.messages import JoinGroupMember, StickyUserData, Subscription
from kafkasim.model.records import TopicPartition
from tests.fidelity.real_kafka import jars, run_java

HERE = Path(__file__).parent
ASSIGNMENTS = HERE / "assignments"

VERSIONS = ("4.0.0", "4.1.0")
GROUPS = 1500
ROUNDS = 3
RACKS = ("r1", "r2", "r3")
NAMES = ("cooperative-sticky", "sticky", "cooperative-sticky", "range", "roundrobin")


@dataclass
class Member:
    """A member of a drawn group."""

    member_id: str
    instance: str
    rack: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1

    def joins(self, assignor: str) -> JoinGroupMember:
        """Return the member as the leader of its group sees it."""
        data: StickyUserData | None = None
        owned = self.owned
        if assignor == "sticky":
            own = StickyAssignor()
            if self.generation >= 0:
                own.on_assignment(owned, self.generation)
            data, owned = own.user_data(self.topics), ()
        subscription = Subscription(self.topics, owned, self.generation, self.rack or None, data)
        return JoinGroupMember(self.member_id, self.instance or None, subscription)


class Group:
    """A drawn group and its topics, in its present round."""

    def __init__(self, seed: int) -> None:
        self.assignor = NAMES[seed % len(NAMES)]
        self._rng = rng = random.Random(seed)
        self._racks = rng.random() < 0.4
        self._equal = rng.random() < 0.5
        self.topics: dict[str, list[tuple[str, ...]]] = {}  # the racks of replicas, by partition
        for topic in "abcd"[: rng.randint(1, 4)]:
            self.topics[topic] = []
            self._grow(topic, rng.randint(1, 7))
        self.members: list[Member] = []
        self._generation = 0
        for _ in range(rng.choice((1, 2, 3, 4, 5, 6, 14))):
            self._join()

    def line(self) -> str:
        """Return the case as the Java program reads it."""
        topics = [
            f"{topic}={'/'.join([' '.join(racks) for racks in partitions])}"
            for topic, partitions in self.topics.items()
        ]
        members = [
            f"{m.member_id}:{m.instance}:{m.rack}:{m.generation}:{' '.join(m.topics)}:"
            + " ".join([f"{tp.topic}{tp.partition}" for tp in m.owned])
            for m in self.members
        ]
        return ";".join([self.assignor, ",".join(topics), ",".join(members)])

    def next_round(self, answer: str) -> None:
        """Take what Kafka assigned, then let things happen."""
        rng = self._rng
        self._generation += 1
        assigned = read(answer)
        for member in self.members:
            if rng.random() < 0.9:  # else it missed the round
                member.owned = assigned.get(member.member_id, member.owned)
                member.generation = self._generation
            if rng.random() < 0.05:
                member.owned, member.generation = (), -1
        happens: list[Callable[[], None]] = [self._join, self._leave, self._claim, self._extend]
        if not self._equal:
            happens.append(self._subscribe)
        for _ in range(rng.randint(1, 3)):
            rng.choice(happens)()

    def _join(self) -> None:
        rng = self._rng
        instance = f"i{rng.randrange(1000)}-{len(self.members)}" if rng.random() < 0.2 else ""
        rack = rng.choice(RACKS) if self._racks and rng.random() < 0.9 else ""
        name = f"c-{rng.getrandbits(40):x}"
        self.members.append(Member(name, instance, rack, self._some_topics()))

    def _leave(self) -> None:
        if len(self.members) > 1:
            del self.members[self._rng.randrange(len(self.members))]

    def _claim(self) -> None:
        """Have a member claim a partition, whoever owns it."""
        topic = self._rng.choice(list(self.topics))
        tp = TopicPartition(topic, self._rng.randrange(len(self.topics[topic])))
        member = self._rng.choice(self.members)
        if tp not in member.owned and self._rng.random() < 0.3:
            member.owned = (*member.owned, tp)

    def _extend(self) -> None:
        self._grow(self._rng.choice(list(self.topics)), 1)

    def _subscribe(self) -> None:
        self._rng.choice(self.members).topics = self._some_topics()

    def _grow(self, topic: str, partitions: int) -> None:
        for _ in range(partitions):
            racks = self._rng.sample(RACKS, self._rng.randint(1, 3)) if self._racks else []
            self.topics[topic].append(tuple(racks))

    def _some_topics(self) -> tuple[str, ...]:
        topics = list(self.topics)
        return tuple(
            topics if self._equal else self._rng.sample(topics, self._rng.randint(1, len(topics)))
        )


def read(answer: str) -> dict[str, tuple[TopicPartition, ...]]:
    """Return the assignment that a line says; an exception is none."""
    if answer.startswith("exception"):
        return {}
    pairs = [part.partition("=") for part in answer.split(",")]
    return {
        member_id: tuple([TopicPartition(word[0], int(word[1:])) for word in words.split()])
        for member_id, _, words in pairs
    }


def play(ask: Callable[[list[Group]], list[str]]) -> list[str]:
    """Play all groups; ``ask`` answers to all groups of a round. Return the answers, by round."""
    groups = [Group(seed) for seed in range(GROUPS)]
    answers: list[str] = []
    for number in range(ROUNDS):
        if number:
            for group, answer in zip(groups, answers[-GROUPS:], strict=True):
                group.next_round(answer)
        answers += ask(groups)
    return answers


def ask(version: str) -> list[str]:
    """Return what the assignors of a version of Kafka answer."""

    def answers(groups: list[Group]) -> list[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join([group.line() for group in groups]) + "\n")
            file.flush()
            return run_java(jars(version), HERE / "java" / "Assignments.java", file.name)

    return play(answers)
