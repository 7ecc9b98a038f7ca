"""Transactional ids that nobody uses for so long that their coordinator forgets them.

Kafka forgets an id after a week (transactional.id.expiration.ms), and looks for such ids every
hour. In some seeds both times are a second or two, and producers are idle for longer: they send a
record now and then, or are paused. They continue while the tombstone is written, or afterwards,
when their producer id is unknown. In some seeds the coordinator cannot write the tombstone at
first.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.draw_transactions import timeout_of
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.12
"""The share of seeds with transactions in which this happens."""

UNWRITABLE = 0.4
"""The share of these in which the coordinator cannot write for a while."""

SLOW = 0.6
"""The share of their producers that send less often than ids expire; others are stopped a while."""

SCAN = "transaction.remove.expired.transaction.cleanup.interval.ms"


def idle_ids(rng: random.Random, data: dict[str, Any]) -> None:
    """Let transactional ids expire in some seeds while their producers still live."""
    writers = [each for each in data["workload"] if timeout_of(each)]
    if not writers or rng.random() >= SHARE or is_about_its_faults(data):
        return
    config = data["cluster"]["config"]
    expires = _least(data) + rng.choice((500, 1000, 2000))
    config["transactional.id.expiration.ms"] = expires
    scan = config[SCAN] = rng.choice((100, 500, 1000))
    for each in writers:
        own = each.get("producer-config", each["config"])
        own["transaction.timeout.ms"] = min(timeout_of(each), rng.choice((600, 2000)))
        if each["kind"] == "producer" and rng.random() < SLOW:
            idle = (expires + scan) * rng.uniform(0.8, 2.0)
            each["rate"] = f"{max(6, round(60_000 / idle))}/m"
            each["transaction-records"] = rng.choice((1, 1, 2))
            each["transaction-time"] = "100ms"
    ends = max(duration_us(data["duration"]) / 1000, 12_000, 3.2 * (expires + scan))
    data["duration"] = ms(ends)
    for _ in range(rng.choice((1, 2))):
        _away(rng, data, (expires + scan) * rng.uniform(0.8, 2.5))
    if rng.random() < UNWRITABLE and not has_second_process(data):
        _unwritable(rng, data, rng.choice(writers))


def _least(data: dict[str, Any]) -> int:
    """Return how many ms an id must be kept for a processor to get on.

    A processor that has its producer id joins its group before it begins a transaction. The group
    may wait for the session of a member that is gone, and for its initial delay, which each further
    member prolongs by as much (GroupCoordinator.InitialDelayedJoin). With an id that expires
    meanwhile the processor would fail and join anew for ever.
    """
    delay = int(data["cluster"]["config"].get("group.initial.rebalance.delay.ms", 3000))
    return max(
        (
            int(each["config"].get("session.timeout.ms", 45_000)) + delay * each.get("count", 1)
            for each in data["workload"]
            if each["kind"] == "processor"
        ),
        default=0,
    )


def _away(rng: random.Random, data: dict[str, Any], lasts: float) -> None:
    """Let a producer be away between two transactions, or within one."""
    when: dict[str, Any] = {"response": "EndTxn", "count": rng.randrange(1, 5)}
    if rng.random() < 0.3:
        when = {"fact": "TransactionBegun", "count": rng.randrange(1, 6)}
    kind = rng.choice(("gc-pause", "gc-pause", "isolate", "crash"))
    data["faults"].append({"kind": kind, "node": "@node", "when": when,
                           "at": rng.choice(("1ms", "5ms", "30ms")), "for": ms(lasts)})  # fmt: skip


def _unwritable(rng: random.Random, data: dict[str, Any], writer: dict[str, Any]) -> None:
    """Take a replica of the coordinator's log away, of which all must be in sync."""
    data["cluster"]["config"]["transaction.state.log.min.isr"] = 3
    known = writer.get("transactional-id", f"{writer.get('group')}-1")
    if writer.get("count", 1) > 1 and "transactional-id" in writer:
        known = f"{known}-1"
    broker = f"broker-{1 + rng.randrange(data['cluster']['brokers'])}"
    data["faults"].append({
        "kind": rng.choice(("crash", "isolate", "gc-pause")),
        "node": rng.choice((broker, broker, f"transaction-coordinator:{known}")),
        "at": ms(rng.randrange(1500, 6000)), "for": ms(rng.randrange(1000, 5000)), "guarded": True,
    })  # fmt: skip
