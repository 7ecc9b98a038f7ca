"""Transactional ids that have used almost all epochs of their producer id.

In a new cluster an id begins at epoch 0, and no run of seconds uses 32 767 epochs.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.transaction.metadata import MAX_EPOCH
from kafkasim.scenarios.searching.draw_transactions import timeout_of
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

SHARE = 0.2
"""The share of seeds with transactions whose ids have a history."""

UNWRITABLE = 0.5
"""The share of these in which a coordinator cannot write while a transaction times out."""

LEFT = (0, 1, 2, 5, 10, 30)
"""How many epochs a producer may get after its first one."""

LEFT_TO_FENCES = (40, 60)
"""The same where fences fail: Kafka tries none again that failed under the last epoch."""


def histories(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the transactional ids of some seeds stand near the end of their epochs.

    In half of these seeds transactions time out meanwhile, and their coordinator cannot write.
    """
    writers = [each for each in data["workload"] if timeout_of(each)]
    if not writers or rng.random() >= SHARE or is_about_its_faults(data):
        return
    unwritable = rng.random() < UNWRITABLE
    left = rng.choice(LEFT_TO_FENCES if unwritable else LEFT)
    for writer in writers:
        writer["epochs-used"] = MAX_EPOCH - 1 - left  # one for all: workloads may share an id
    if unwritable:
        _hold_back(rng, data, rng.choice(writers))


def _hold_back(rng: random.Random, data: dict[str, Any], writer: dict[str, Any]) -> None:
    """Stop a producer and a replica of its coordinator's log, of which all must be in sync.

    The coordinator tries to abort the transaction at each scan, many times before the replica
    is back.
    """
    config = data["cluster"]["config"]
    config["transaction.state.log.min.isr"] = 3
    config["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = rng.choice((20, 100))
    own = writer.get("producer-config", writer["config"])
    own["transaction.timeout.ms"] = min(2000, timeout_of(writer))
    fact = rng.choice(("TransactionBegun", "TransactionSent"))
    when = {"fact": fact, "count": 1 + rng.randrange(60)}
    lasts = rng.randrange(4000, 9000)
    known = writer.get("transactional-id", f"{writer.get('group')}-1")
    broker = f"broker-{1 + rng.randrange(data['cluster']['brokers'])}"
    replica = rng.choice((broker, f"transaction-coordinator:{known}"))
    data["faults"] += [
        {"kind": "gc-pause", "node": "@node", "when": when, "at": "20ms", "for": f"{lasts}ms"},
        {"kind": rng.choice(("crash", "crash", "isolate")), "node": replica, "when": dict(when),
         "at": "50ms", "for": f"{lasts - rng.randrange(2000)}ms", "guarded": True},
    ]  # fmt: skip
