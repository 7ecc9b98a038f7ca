"""Delays that are about as long as a producer waits, so that it may give up a batch.

A record needs several messages: the request, the request to the transaction's coordinator, the
replication, the response; a transaction also needs its markers. Other faults mostly end before the
producer gives up. Here one of these messages is delayed by a part or a small multiple of
delivery.timeout.ms, or of the time after which a coordinator is replaced. So a batch that the
producer has given up arrives later, or never. Meanwhile the producer raises its epoch, aborts, or
sends the next batch, and older requests of its are still on their way. A second message is delayed,
too: at about that time, or from the moment at which the producer gives up, so that it decides
without the responses of the other brokers. Often the delay is at the producer's start, when no
broker knows it.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.limits import forgotten_producers
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

PATIENCE = 0.45
"""The share of seeds in which a hop of a producer's requests is late for that long."""

AT_ITS_BEGINNING = 0.5
"""The share of these seeds whose producer starts while the hop is late, or shortly before."""

WHEN_GIVEN_UP = 0.4
"""The share of second hops that are late from the moment at which the sender gives a batch up."""

LONGEST_MS = 30_000
"""delivery.timeout.ms of a producer that outlasts most faults.

With Kafka's two minutes a batch that is refused until it expires costs two minutes of idle time."""

OF_PRODUCERS = (("Produce", "request"), ("Produce", "response"))
"""Hops at the producer; it waits longest for them."""


def patience(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Make one or two hops late for one of the producers whose records must not be lost."""
    producers = [
        each
        for each in data["workload"]
        if each["kind"] == "producer" and each["config"].get("acks", "all") == "all"
    ]
    if rng.random() >= PATIENCE or not producers or is_about_its_faults(data):
        return
    cast = Cast(rng, data, mode)
    producer = rng.choice(producers)
    waits = _hurry(rng, producer)
    anchor = _begins(rng, producer)
    transactional = "transactional-id" in producer
    if transactional and rng.random() < 0.25:
        _deposed_coordinator(cast, anchor)
        return
    one, *others = rng.sample(cast.brokers, len(cast.brokers))
    node = rng.choice(cast.hosts(producer))
    lasts = waits * rng.uniform(0.5, 3.0)
    if transactional and rng.random() < 0.7:
        hop: dict[str, Any] = {"nodes": list(cast.brokers), "peers": list(cast.brokers)}
        hop |= {"api": "AddPartitionsToTxn", "direction": rng.choice(("request", "response"))}
    else:
        hop = _hop(rng, node, one)
    _late(cast, anchor, 0.0, lasts, hop)
    if rng.random() < WHEN_GIVEN_UP:
        given_up = Anchor(0.1, {"fact": "SendFailed", "count": rng.randrange(1, 7)})
        _late(cast, given_up, 0.0, max(300.0, waits * rng.uniform(0.3, 1.5)),
              _hop(rng, node, *others))  # fmt: skip
    elif rng.random() < 0.6:
        begins = waits * rng.uniform(0.3, 1.1)
        _late(cast, anchor, begins, max(300.0, cast.near()), _hop(rng, node, others[0]))


def _hurry(rng: random.Random, producer: dict[str, Any]) -> float:
    """Let a producer give a batch up after a second or two; return after how many ms it does.

    In some seeds it waits for longer than most faults last, so that only a request times out.
    """
    config = producer["config"]
    request, linger = rng.choice((400, 1000)), config.get("linger.ms", 5)
    config["request.timeout.ms"] = request
    gap = request + linger + rng.choice((200, 1000, 2000))
    config["delivery.timeout.ms"] = gap if rng.random() < 0.6 else LONGEST_MS
    if "transaction.timeout.ms" in config and rng.random() < 0.5:
        config["transaction.timeout.ms"] = 10_000  # so that it is not the coordinator that gives up
    return float(gap)


def _begins(rng: random.Random, producer: dict[str, Any]) -> Anchor:
    """Draw when the hop begins to be late: mostly within the first batches, or at any time."""
    if rng.random() >= AT_ITS_BEGINNING:
        return Anchor(float(rng.randrange(300, 4000)))
    start = rng.randrange(500, 3000)
    producer["start"] = ms(start)
    return Anchor(max(1.0, start + rng.choice((-100.0, 5.0, 20.0, 100.0, 300.0))))


def _hop(rng: random.Random, node: str, *brokers: str) -> dict[str, Any]:
    """Draw a hop between a producer and brokers, or the first of these and its followers."""
    if rng.random() < 0.2:
        return {"node": brokers[0], "api": "FetchFollower", "direction": "request"}
    api, direction = rng.choice(OF_PRODUCERS)
    return {"node": node, "peers": list(brokers), "api": api, "direction": direction}


def _late(cast: Cast, anchor: Anchor, delay: float, lasts: float, hop: dict[str, Any]) -> None:
    """Hold the messages of a hop; often they are lost in the end.

    Fewer answers among brokers are: only one that comes can tell what is out of date by then.
    """
    faults = cast.data["faults"]
    faults.append({"kind": "hold", **anchor.at(delay), **hop, "for": ms(lasts)})
    told = "nodes" in hop and hop["direction"] == "response"
    if cast.rng.random() < (0.2 if told else 0.6):
        where: dict[str, Any] = {key: hop[key] for key in ("node", "nodes", "peers") if key in hop}
        end = anchor.at(delay + lasts * cast.rng.uniform(0.9, 1.0))
        faults.append({**where, **end, "kind": "reset"})


def _deposed_coordinator(cast: Cast, anchor: Anchor) -> None:
    """A coordinator's markers are under way while it is away for long enough to be replaced.

    What they meet is up to what the log knows of the producer by then, so logs often forget soon.
    """
    rng, config = cast.rng, cast.data["cluster"]["config"]
    if rng.random() < 0.5:
        forgotten_producers(rng, cast.data)
    session = config.get("broker.session.timeout.ms", 9000)
    if cast.mode == "zookeeper":
        session = config.get("zookeeper.session.timeout.ms", 18_000)
    node = f"transaction-coordinator:{cast.transactional_id()}"
    state = rng.choice(("PrepareCommit", "PrepareCommit", "PrepareAbort"))
    fact: dict[str, Any] = {"fact": "TransactionState", "fields": {"state": state}}
    fact["count"] = rng.randrange(1, 6)
    decided = Anchor(rng.choice((0.1, 1.0, 10.0)), fact)
    lasts = session * rng.uniform(0.8, 1.6)
    faults = cast.data["faults"]
    direction = rng.choice(("request", "request", "response"))
    markers: dict[str, Any] = {"node": node, "api": "WriteTxnMarkers", "direction": direction}
    markers |= {"peers": list(cast.brokers), "for": ms(min(1000 + lasts, 9000.0))}
    away = rng.choice(("gc-pause", "gc-pause", "isolate", "crash"))
    gone = {"kind": away, "node": "@node", "for": ms(lasts), "guarded": True}
    faults += [{"kind": "hold", **anchor.at(), **markers}, {**decided.at(), **gone}]
