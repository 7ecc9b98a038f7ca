"""The strikes: a host is away, or a message that a host waits for is late or lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.shapes.focus import ms

Strike = Callable[[Cast, Anchor, float], None]
"""Adds faults that begin some ms after the moment."""

OF_APPLICATIONS = (
    "ConsumerAssigned", "ConsumerRevoked", "TransactionBegun", "TransactionSent",
    "TransactionEnding", "TransactionOffsets",
)  # fmt: skip
"""Facts whose host is a client, whatever else happens."""

OF_CLIENTS = (*OF_APPLICATIONS, "HostStarted", "SendFailed")
"""Facts whose host is a client, or may be one."""

OF_BROKERS = (
    "BecameLeader", "CoordinatorLoaded", "GroupState", "MarkerWritten", "MemberRequest",
    "OffsetCommitted", "TransactionState",
)  # fmt: skip
"""Facts whose host is a broker: the coordinator, or the leader of a partition."""

OF_GROUPS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "LeaveGroup")
OF_CONSUMER_GROUPS = ("ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch")
OF_PRODUCERS = ("Produce", "Produce", "InitProducerId", "Metadata")
OF_TRANSACTIONS = (
    "Produce", "Produce", "AddPartitionsToTxn", "EndTxn", "InitProducerId", "FindCoordinator",
)  # fmt: skip
OF_PROCESSORS = ("AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce")
AMONG_BROKERS = ("WriteTxnMarkers", "AddPartitionsToTxn")
"""What coordinators and leaders ask each other about transactions."""

CLIENT_AWAY = ("crash", "stop", "gc-pause", "gc-pause", "isolate", "restart")
BROKER_AWAY = ("crash", "crash", "gc-pause", "isolate", "stop", "power-loss")


def _add(cast: Cast, kind: str, anchor: Anchor, delay: float, **keys: Any) -> None:
    cast.data["faults"].append({"kind": kind, **anchor.at(delay), **keys})


def _whom(anchor: Anchor, facts: tuple[str, ...], otherwise: str) -> str:
    """Return the host of the fact that is waited for, if it is such a host."""
    return "@node" if anchor.when and anchor.when.get("fact") in facts else otherwise


def client_away(cast: Cast, anchor: Anchor, delay: float) -> None:
    """A client that is in the middle of something stops, dies, pauses or is cut off."""
    node = _whom(anchor, OF_CLIENTS, cast.client())
    kind = cast.rng.choice(CLIENT_AWAY)
    lasts = {} if kind == "restart" else {"for": ms(cast.away())}
    _add(cast, kind, anchor, delay, node=node, **lasts)


def coordinator_away(cast: Cast, anchor: Anchor, delay: float) -> None:
    """The coordinator of somebody, or the leader of a partition, goes away."""
    node = _whom(anchor, OF_BROKERS, cast.coordinator())
    if cast.rng.random() < 0.25:
        node = f"leader:{cast.data['topics'][0]['name']}-0"
    kind = cast.rng.choice(BROKER_AWAY)
    _add(cast, kind, anchor, delay, node=node, guarded=True, **{"for": ms(cast.away())})


def late(cast: Cast, anchor: Anchor, delay: float) -> None:
    """Requests of one client, or their answers, wait; often they are lost in the end."""
    rng = cast.rng
    client = cast.client()
    apis: tuple[str, ...] = OF_TRANSACTIONS if cast.writers else OF_PRODUCERS
    if client == "any-processor":
        apis = OF_PROCESSORS
    elif client == "any-consumer":
        apis = OF_CONSUMER_GROUPS if _modern(cast) else OF_GROUPS
    node = _whom(anchor, OF_APPLICATIONS, client)
    lasts = cast.away()
    peers = rng.sample(cast.brokers, 1) if rng.random() < 0.4 else list(cast.brokers)
    where: dict[str, Any] = {"node": node, "peers": peers}
    how = {"api": rng.choice(apis), "direction": rng.choice(("request", "response"))}
    _add(cast, "hold", anchor, delay, **where, **how, **{"for": ms(lasts)})
    if node == "@node" and rng.random() < 0.3:
        _add(cast, "reset", anchor, delay + lasts * rng.uniform(0.3, 1.0), **where)


def late_among_brokers(cast: Cast, anchor: Anchor, delay: float) -> None:
    """What a transaction's coordinator and the leaders ask each other is late, or lost."""
    rng = cast.rng
    if not cast.writers:
        late(cast, anchor, delay)
        return
    lasts = cast.away()
    node = rng.choice((f"transaction-coordinator:{cast.transactional_id()}", *cast.brokers))
    how = {"api": rng.choice(AMONG_BROKERS), "direction": rng.choice(("request", "response"))}
    where: dict[str, Any] = {"node": node, "peers": list(cast.brokers)}
    _add(cast, "hold", anchor, delay, **where, **how, **{"for": ms(lasts)})
    if rng.random() < 0.3:
        _add(cast, "reset", anchor, delay + lasts * rng.uniform(0.5, 1.0), **where)


def cut_off(cast: Cast, anchor: Anchor, delay: float) -> None:
    """A client does not reach one of the brokers; it reaches the others."""
    rng = cast.rng
    node = _whom(anchor, OF_CLIENTS, cast.client())
    kind = rng.choice(("partition", "partition-oneway", "half-open", "reset"))
    lasts = {"for": ms(cast.away())} if kind.startswith("partition") else {}
    _add(cast, kind, anchor, delay, node=node, peers=rng.sample(cast.brokers, 1), **lasts)


def answers_lost(cast: Cast, anchor: Anchor, delay: float) -> None:
    """A client's connections to a coordinator or to all brokers break, and answers are lost.

    The one who was asked has done it, so that it is asked a second time.
    """
    rng = cast.rng
    node = _whom(anchor, OF_APPLICATIONS, cast.client())
    peers = rng.choice(([cast.coordinator()], list(cast.brokers)))
    _add(cast, "reset", anchor, delay * rng.choice((0, 0, 1)), node=node, peers=peers)


def _modern(cast: Cast) -> bool:
    """Return whether the group that is drawn from the scenario has the consumer protocol."""
    config = cast.rng.choice(cast.consumers)["config"]
    return bool(config.get("group.protocol") == "consumer")


STRIKES: tuple[Strike, ...] = (
    client_away, client_away, coordinator_away, coordinator_away, late, late, late_among_brokers,
    cut_off, answers_lost,
)  # fmt: skip
"""All strikes; a seed draws a few and plays these alone."""
