"""Holes: the known defects and limits of Kafka that explain a finding, as one table.

The model announces a hole where Kafka enters it, by a fact: ``HoleEntered``, or one that says
what happened anyway (``MarkerSkipped``). A row of :data:`HOLES` says which findings may follow. A
finding is covered by a hole that was entered before, at the same place. A place is what the
announcing fact names: a partition, a group, a transactional id, a producer. Two places agree if
they share a name and no name differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkasim.analysis.judging.finding import NO_PROGRESS
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of


@dataclass(frozen=True, slots=True)
class Hole:
    """A known defect or limit of Kafka."""

    name: str  # what a finding is expected by
    issue: str  # JIRA, KIP or section of KAFKA.md, and what goes wrong, in one sentence
    findings: tuple[str, ...]  # that it may cause
    fact: type = facts.HoleEntered  # that announces it; HoleEntered names the hole
    when: tuple[tuple[str, object], ...] = ()  # values of the fact's fields that are required
    ends: tuple[type, ...] = ()  # facts that end it, at the same place
    ends_when: tuple[tuple[str, object], ...] = ()  # values of their fields that are required
    closed_by: str = ""  # the method of a rules class that closes it; "": no release has one


_NEW_ISR = (facts.IsrChanged, facts.BecameLeader)
_NEW_GENERATION = (("state", "CompletingRebalance"),)
_STALLS = (NO_PROGRESS,)

HOLES: tuple[Hole, ...] = (
    Hole(
        "skipped-marker",
        "KAFKA.md, 4.4: a coordinator that knows no leader of a partition takes it for deleted",
        (NO_PROGRESS, "hanging-transaction"),
        facts.MarkerSkipped,
    ),
    Hole(
        "epochs-exhausted",
        "KAFKA.md, 4.4: the producer id has no epoch left to end its transaction with",
        (NO_PROGRESS, "hanging-transaction"),
        facts.EpochsExhausted,
    ),
    Hole(
        "given-back-sequence",
        "KAFKA.md, 4.4 (4): the next transaction's batch is taken for a duplicate of one that"
        " failed late",
        ("lost-write", "torn-transaction"),
    ),
    Hole(
        "unverified-batch",
        "KAFKA-14402, KIP-890 part 1: a leader before 3.6 takes a batch behind its marker",
        _STALLS,
        facts.VerificationSkipped,
        ends=(facts.MarkerWritten,),
    ),
    Hole(
        "late-end",
        "KIP-890 part 2: an EndTxn that was sent twice ends the next transaction, too",
        ("aborted-read", "precommitted-read", "torn-transaction"),
    ),
    Hole(
        "carried-offsets",
        "KAFKA.md, 4.4 (3): offsets that a failed transaction left over are committed with the"
        " next one's",
        ("lost-output",),
    ),
    Hole(
        "unlisted-id",
        "KAFKA.md, 4.4, KIP-664: the tool aborts transactions that no broker lists while nobody"
        " coordinates their id",
        ("torn-transaction",),
    ),
    Hole(
        "late-initialization",
        "KAFKA.md, 3.6: a share partition is initialized again, and its state is reset",
        ("accepted-again", "share-skipped"),
    ),
    Hole(
        "lost-zookeeper-answer",
        "KAFKA.md, 2.1: the controller takes NODEEXISTS of its own write for an error",
        _STALLS,
        facts.StateChangeFailed,
        (("error", "NODEEXISTS"),),
    ),
    Hole(
        "lost-zookeeper-answer-to-an-isr",
        "KAFKA.md, 1.6: the controller's own write was the newer version, and the leader waits",
        _STALLS,
        facts.IsrUpdateFailed,
        (("error", "INVALID_UPDATE_VERSION"),),
        ends=_NEW_ISR,
    ),
    Hole(
        "topic-unknown-to-a-deposed-controller",
        "KAFKA.md, 1.6: a deposed ZooKeeper controller refuses a proposal, and the leader waits",
        _STALLS,
        facts.IsrUpdateFailed,
        (("error", "UNKNOWN_TOPIC_OR_PARTITION"),),
        ends=_NEW_ISR,
    ),
    Hole(
        "topic-id-unknown-to-a-deposed-controller",
        "KAFKA.md, 1.6: the same, where the proposal names the topic by its id",
        _STALLS,
        facts.IsrUpdateFailed,
        (("error", "UNKNOWN_TOPIC_ID"),),
        ends=_NEW_ISR,
    ),
    Hole(
        "cleared-elr",
        "KIP-966: a new min.insync.replicas clears the ELR of a partition that nobody leads",
        _STALLS,
        closed_by="ControllerRules.clears_elr",
    ),
    Hole(
        "last-leader-unknown",
        "KIP-966: the leader that a partition lost before ELR was turned on is noted nowhere",
        _STALLS,
    ),
    Hole(
        "unlisted-leader",
        "KIP-853: brokers look for the active controller among the voters, and it is none any more",
        _STALLS,
    ),
    Hole(
        "late-registration",
        "KIP-631: a broker that its dead predecessor has registered does not register again",
        _STALLS,
        ends=(facts.BrokerRegistration,),
    ),
    Hole(
        "append-below-the-log-end",
        "KAFKA.md, 1.4: a batch that spans the follower's log end fails the follower",
        _STALLS,
        ends=(facts.BecameFollower,),
    ),
    Hole(
        "high-watermark-not-taken",
        "KAFKA-18991: a fetch session does not send a high watermark again that was not taken",
        _STALLS,
        ends=(facts.HighWatermark,),
    ),
    Hole(
        "static-member-returned",
        "KIP-345, KIP-814: a static member that comes back is told the old assignment, for good",
        _STALLS,
        ends=(facts.GroupState,),
        ends_when=_NEW_GENERATION,
    ),
    Hole(
        "downgrade-forgotten",
        "KIP-848: that a converted group has to rebalance is in no record (convertToClassicGroup)",
        _STALLS,
        facts.GroupConverted,
        (("protocol", "classic"),),
        ends=(facts.GroupState,),
        ends_when=_NEW_GENERATION,
    ),
    Hole(
        "member-without-session",
        "KIP-848: a classic member's session begins only once its records are committed",
        _STALLS,
    ),
    Hole(
        "epoch-of-a-deleted-topic",
        "KIP-320: a committed leader epoch above that of metadata makes the leader unknown",
        _STALLS,
        ends=(facts.Polled,),
    ),
    Hole(
        "unreadable-coordinator-log",
        "KAFKA.md, 3.4: a coordinator that cannot load its partition serves nobody",
        _STALLS,
        facts.CoordinatorLoadFailed,
    ),
    Hole(
        "fetches-below-log-start",
        "KAFKA.md, 3.6: a share fetch begins below the log start again and again",
        _STALLS,
    ),
    Hole(
        "read-gap-was-removed",
        "KAFKA.md, 3.6: of a read gap that was cleaned a share partition acquires nothing",
        _STALLS,
    ),
)
"""All holes. A row more is cheaper than a branch in a judge."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding is, or which places a hole covers; "" and −1 stand for no name."""

    topic_id: str = ""
    partition: int = -1
    group: str = ""
    transactional_id: str = ""
    producer_id: int = -1
    broker: int = -1

    def agrees(self, other: Place) -> bool:
        """Return whether two places share a name, and no name differs."""
        pairs = [(a, b) for a, b in zip(self._names(), other._names()) if a and b]
        return bool(pairs) and all(a == b for a, b in pairs)

    def _names(self) -> tuple[object, ...]:
        partition = (self.topic_id, self.partition) if self.topic_id else None
        producer_id = (self.producer_id,) if self.producer_id >= 0 else None
        broker = (self.broker,) if self.broker >= 0 else None
        return partition, self.group, self.transactional_id, producer_id, broker


@dataclass(frozen=True, slots=True)
class Entered:
    """A hole that the run has entered."""

    hole: Hole
    place: Place
    seq: int  # the row of the announcing fact
    t_us: int


class EnteredHoles:
    """Follows the facts that announce holes."""

    def __init__(self, trace: FactSource) -> None:
        self.entered: list[Entered] = []
        self._ending: dict[type, int] = {}  # how many of them a kind of fact may end
        self._topic_ids: dict[str, str] = {}  # by name, of the latest topic
        self._by_fact: dict[type, list[Hole]] = {}
        for hole in HOLES:
            self._by_fact.setdefault(hole.fact, []).append(hole)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        for fact in self._by_fact:
            trace.subscribe(fact, self._on_announced)
        for fact in dict.fromkeys([fact for hole in HOLES for fact in hole.ends]):
            trace.subscribe(fact, self._on_end)

    def covering(self, finding: str, place: Place, seq: int = -1, since: int = -1) -> str:
        """Return the name of the first hole that covers a finding at a place, or "".

        ``seq`` is the row of the finding, −1 for one that shows at the end of the run. A hole that
        was entered before the row ``since``, in which the promise was made, covers nothing.
        """
        entered = (each for each in self._before(seq) if each.seq > since)
        return next((each.hole.name for each in entered if _covers(each, finding, place)), "")

    def _before(self, seq: int) -> Iterator[Entered]:
        return (each for each in self.entered if seq < 0 or each.seq <= seq)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topic_ids[fact.topic] = fact.topic_id

    def _on_announced(self, seq: int, t: int, node: str, fact: object) -> None:
        for hole in self._by_fact[type(fact)]:
            named = hole.name == getattr(fact, "hole", hole.name)
            if named and all(getattr(fact, name) == value for name, value in hole.when):
                place = self._place_of(fact)
                if place == Place():
                    place = Place(broker=broker_of(node))
                self.entered.append(Entered(hole, place, seq, t))
                for end in hole.ends:
                    self._ending[end] = self._ending.get(end, 0) + 1

    def _on_end(self, _seq: int, _t: int, _node: str, fact: object) -> None:
        if not self._ending.get(type(fact)):
            return
        place = self._place_of(fact)
        for each in [each for each in self.entered if _ends(each, fact, place)]:
            self.entered.remove(each)
            for end in each.hole.ends:
                self._ending[end] -= 1

    def _place_of(self, fact: object) -> Place:
        topic = self._topic_ids.get(getattr(fact, "topic", ""), "")
        return Place(
            getattr(fact, "topic_id", topic),
            getattr(fact, "partition", -1),
            getattr(fact, "group", ""),
            getattr(fact, "transactional_id", ""),
            getattr(fact, "producer_id", -1),
            getattr(fact, "broker", -1),
        )


def _ends(entered: Entered, fact: object, place: Place) -> bool:
    hole = entered.hole
    of_kind = type(fact) in hole.ends and entered.place.agrees(place)
    return of_kind and all(getattr(fact, name) == value for name, value in hole.ends_when)


def _covers(entered: Entered, finding: str, place: Place) -> bool:
    return finding in entered.hole.findings and entered.place.agrees(place)
