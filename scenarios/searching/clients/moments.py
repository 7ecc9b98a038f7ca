"""When a strike begins: mostly at a fact of a transaction, of a group, of a send."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast

SEEN = 0.7
"""The share of moments that wait for a fact: drawn times hardly ever meet what lasts milliseconds.
"""

Kind = tuple[dict[str, Any], int]
"""A fact, and how many of its kind there are at most before the one that counts."""

OF_TRANSACTIONS: tuple[Kind, ...] = (
    ({"fact": "TransactionBegun"}, 20),
    ({"fact": "TransactionSent"}, 60),
    ({"fact": "TransactionSent"}, 60),
    ({"fact": "TransactionEnding"}, 20),
    ({"fact": "TransactionState", "fields": {"state": "Ongoing"}}, 20),
    ({"fact": "TransactionState", "fields": {"state": "PrepareCommit"}}, 20),
    ({"fact": "TransactionState", "fields": {"state": "PrepareAbort"}}, 3),
    ({"fact": "TransactionState", "fields": {"state": "CompleteCommit"}}, 20),
    ({"fact": "TransactionState", "fields": {"reason": "timeout"}}, 1),
    ({"fact": "MarkerWritten"}, 30),
)

OF_PROCESSORS: tuple[Kind, ...] = (({"fact": "TransactionOffsets"}, 20),)

OF_GROUPS: tuple[Kind, ...] = (
    ({"fact": "GroupState", "at-least": {"generation": 1}}, 6),
    ({"fact": "GroupState", "fields": {"state": "PreparingRebalance"}}, 3),
    ({"fact": "GroupState", "fields": {"state": "CompletingRebalance"}}, 3),
    ({"fact": "GroupState", "fields": {"state": "Reconciling"}}, 3),
    ({"fact": "MemberRequest", "fields": {"api": "JoinGroup"}}, 6),
    ({"fact": "MemberRequest", "fields": {"api": "SyncGroup"}}, 6),
    ({"fact": "MemberRequest", "fields": {"api": "LeaveGroup"}}, 1),
    ({"fact": "OffsetCommitted"}, 30),
    ({"fact": "ConsumerAssigned"}, 4),
    ({"fact": "ConsumerRevoked"}, 3),
    ({"fact": "CoordinatorLoaded", "fields": {"loaded": True}}, 3),
)

OF_ALL: tuple[Kind, ...] = (
    ({"fact": "SendFailed"}, 5),
    ({"fact": "BecameLeader", "at-least": {"leader_epoch": 1}}, 3),
    ({"fact": "HostStarted", "at-least": {"incarnation": 1}}, 2),
    ({"fact": "FaultStarted"}, 3),
    ({"fact": "FaultEnded"}, 3),
)
"""Facts of sends, of elections, of starts and of other faults: what happens then overlaps them."""


def moment(rng: random.Random, cast: Cast) -> Anchor:
    """Draw a moment: shortly after a fact, or any time."""
    if rng.random() >= SEEN:
        return Anchor(float(rng.randrange(300, 6000)))
    pools = [OF_ALL]
    if cast.groups:
        pools += [OF_GROUPS] * 2
    if cast.writers:
        pools += [OF_TRANSACTIONS] * 3
    if cast.processors:
        pools.append(OF_PROCESSORS)
    fact, most = rng.choice(rng.choice(pools))
    when = {**fact, "count": rng.randrange(1, most + 1)}
    return Anchor(rng.choice((0.1, 5.0, 30.0, cast.near())), when)
