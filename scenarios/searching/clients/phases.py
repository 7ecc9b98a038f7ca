"""Stretch phases of clients: hold the one message that would end the phase, and strike meanwhile.

Many states of clients and coordinators wait for one message: a rebalance for a JoinGroup, a decided
transaction for the responses to its markers, a batch for its verification. Such a state lasts
milliseconds, so hardly any fault happens within it. Here it lasts for a part, or a small multiple,
of the timers of the hosts that wait, and one or two strikes begin in that time. Often the message
is lost in the end, because its connection breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.members import flapping_member, late_member
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.shapes.focus import ms

BOTH = ("request", "response")


@dataclass(frozen=True)
class Phase:
    """The fact that begins a phase, and the message that ends it.

    ``most`` is how many such facts there are at most before the one that counts. The message is one
    of ``apis`` on the links of ``who``: a member of a group, a producer, all brokers, or the fact's
    host (``@node``).
    """

    fact: dict[str, Any]
    most: int
    who: str
    apis: tuple[str, ...]
    directions: tuple[str, ...] = BOTH


OF_CLASSIC_GROUPS = (
    Phase({"fact": "GroupState", "fields": {"state": "PreparingRebalance"}}, 3, "member",
          ("JoinGroup", "OffsetCommit", "OffsetCommit")),
    Phase({"fact": "MemberRequest", "fields": {"api": "JoinGroup"}}, 6, "member", ("JoinGroup",),
          ("response",)),
    Phase({"fact": "GroupState", "fields": {"state": "CompletingRebalance"}}, 3, "member",
          ("SyncGroup",)),
    Phase({"fact": "ConsumerAssigned"}, 4, "member", ("OffsetFetch", "OffsetCommit", "Heartbeat")),
)  # fmt: skip

OF_CONSUMER_GROUPS = (
    Phase({"fact": "GroupState", "fields": {"state": "Reconciling"}}, 4, "member",
          ("ConsumerGroupHeartbeat", "OffsetCommit")),
    Phase({"fact": "ConsumerAssigned"}, 4, "member", ("ConsumerGroupHeartbeat", "OffsetFetch")),
)  # fmt: skip

OF_TRANSACTIONS = (
    Phase({"fact": "TransactionSent"}, 60, "brokers", ("AddPartitionsToTxn",)),
    Phase({"fact": "TransactionSent"}, 60, "@node", ("AddPartitionsToTxn", "Produce")),
    Phase({"fact": "TransactionEnding"}, 20, "@node", ("EndTxn",)),
    Phase({"fact": "TransactionState", "fields": {"state": "PrepareCommit"}}, 20, "@node",
          ("WriteTxnMarkers",)),
    Phase({"fact": "TransactionState", "fields": {"state": "PrepareAbort"}}, 3, "@node",
          ("WriteTxnMarkers",)),
)  # fmt: skip

OF_PROCESSORS = (
    Phase({"fact": "TransactionOffsets"}, 20, "@node", ("AddOffsetsToTxn", "TxnOffsetCommit")),
)

OF_PRODUCERS = (
    Phase({"fact": "BecameLeader", "at-least": {"leader_epoch": 1}}, 3, "producer", ("Produce",)),
    Phase({"fact": "SendFailed"}, 5, "producer", ("Produce", "InitProducerId")),
)


def stretched_once(cast: Cast) -> None:
    """Stretch a phase of a scenario whose groups hardly ever rebalance: another member comes."""
    rng = cast.rng
    phase = rng.choice(rng.choice(_pools(cast)))
    if phase.who == "member" and rng.random() < 0.6:
        rng.choice((late_member, late_member, flapping_member))(cast)
    _stretch(cast, phase)


def stretched(cast: Cast) -> None:
    """Stretch a phase."""
    _stretch(cast, cast.rng.choice(cast.rng.choice(_pools(cast))))


def _stretch(cast: Cast, phase: Phase) -> None:
    """Hold the message that ends a phase, and let one or two strikes fall into it."""
    rng = cast.rng
    when = {**phase.fact, "count": rng.randrange(1, phase.most + 1)}
    lasts = max(300.0, cast.away())
    begins = Anchor(0.1, when)
    peers = rng.sample(cast.brokers, 1) if rng.random() < 0.3 else list(cast.brokers)
    where: dict[str, Any] = {"node": _node(cast, phase.who), "peers": peers}
    if phase.who == "brokers":
        where = {"nodes": list(cast.brokers), "peers": list(cast.brokers)}
    how = {"api": rng.choice(phase.apis), "direction": rng.choice(phase.directions)}
    faults = cast.data["faults"]
    faults.append({"kind": "hold", **begins.at(), **where, **how, "for": ms(lasts)})
    if rng.random() < 0.4:
        faults.append({"kind": "reset", **begins.at(lasts * rng.uniform(0.9, 1.0)), **where})
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(STRIKES)(cast, begins, lasts * rng.uniform(0.05, 1.05))


def _pools(cast: Cast) -> list[tuple[Phase, ...]]:
    protocols = [
        each["config"].get("group.protocol", "classic") == "classic" for each in cast.groups
    ]
    pools: list[tuple[Phase, ...]] = [OF_PRODUCERS]
    if any(protocols):
        pools += [OF_CLASSIC_GROUPS] * 2
    if not all(protocols):
        pools += [OF_CONSUMER_GROUPS] * 3
    if cast.writers:
        pools += [OF_TRANSACTIONS] * 3
    if cast.processors:
        pools.append(OF_PROCESSORS)
    return pools


def _node(cast: Cast, who: str) -> str:
    if who == "member":
        groups = [each for each in cast.groups if each["kind"] == "consumer-group"]
        return cast.rng.choice(cast.hosts(cast.rng.choice(groups))) if groups else cast.client()
    return "any-producer" if who == "producer" else who
